"""KEX: phrases that stand on the page, ranked by a logistic regression."""

import itertools
from collections.abc import Callable, Iterable, Iterator
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.errors import BadInput
from broadmatch.features.stop_words import ENGLISH, StopWords, as_stop_words
from broadmatch.harvest import QueryTable
from broadmatch.io.artifacts import Artifact
from broadmatch.kernels.isotonic import calibrate_rows
from broadmatch.kernels.vocabulary import hash_words
from broadmatch.labels.calibration import Calibration
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.kex._best import best_of_pages
from broadmatch.labels.kex._features import BINS, N_BINNED, Known, score_candidates
from broadmatch.labels.kex.reading import ReadPages, page_blocks, read_pages
from broadmatch.labels.kex.tables import KeyCounts, Lookup, QueryFacts
from broadmatch.labels.kex.training import MOST_ROWS, Chosen, counted, is_chosen, joined, learn, rows_of
from broadmatch.labels.recommender import AnyPage, Phrase, Recommendation, _one_by_one
from broadmatch.layout import Axes, Within, require
from broadmatch.parallel import map_threads
from broadmatch.params import Flag, Jobs, Number, Seed, Whole, derived, learned
from broadmatch.state import Saved

_LETTERS = "aidmst"
"""Single letters that are articles, pronouns, or what contractions leave."""


class KEX(Artifact, Saved):
    """Bid phrases that stand on the page itself, ranked by how likely each is to be chosen.

    W. Yih, J. Goodman and V. R. Carvalho, "Finding advertising keywords on web pages", WWW 2006; the baseline of the
    MLRF paper (§2).
    """

    kind: ClassVar[str] = "kex"

    c: Annotated[float, Number(0, above=True), "what an error costs; less keeps weights smaller"] = 0.2
    shape: Annotated[bool, Flag(), "learn what a noun phrase looks like, from words and endings"] = True
    stop_words: Annotated[Any, StopWords(), "words that no phrase begins or ends with"] = "english"
    bits: Annotated[int, Whole(12, 24), "2 to this power is the number of weights"] = 17
    seed: Seed = 0
    n_jobs: Jobs = None

    weights_: Annotated[NDArray[np.float32], Axes("features+1"), Within()] = learned()
    """The weight of each feature, and the bias."""
    calibration_: Calibration = learned()
    cut_: float = learned()
    """The score from which on a phrase is in the set of its page."""
    n_pages_: int = learned()
    pages_: KeyCounts = learned()
    """On how many of the pages fitted on a phrase is, by its key."""
    word_pages_: KeyCounts = learned()
    chosen_: KeyCounts = learned()
    """For how many pages a phrase was chosen."""
    queries_: QueryFacts = learned()

    _lookups: dict[str, Lookup] = derived()

    def fit(self, pages: Iterable[AnyPage], phrases: Iterable[Any], *, queries: QueryTable | None = None) -> Self:
        """Learn from pages and the phrases of each: clicked queries, or those that somebody gave it.

        `phrases` has for each page a list of phrases, or a mapping from phrase to clicks. `queries` is what a log says
        of queries; what the page itself adds to it is left out.
        """
        self.check_params()
        blocks = list(page_blocks(_one_by_one(pages)))
        chosen = Chosen.of(phrases)
        n_pages = sum(map(len, blocks))
        if n_pages != len(chosen.counts):
            raise BadInput(f"There are {n_pages:,} pages and {len(chosen.counts):,} lists of phrases; give one for each.")
        if not len(chosen.key):
            raise BadInput("No page has a phrase of up to five words; there is nothing to learn.")
        stop_words = self._stop_words()
        self.n_pages_, self.pages_, self.word_pages_ = counted(
            map_threads(lambda block: read_pages(block, stop_words), blocks, self.n_jobs)
        )
        self.chosen_ = KeyCounts.of([chosen.key])
        self.queries_ = QueryFacts.of(QueryTable(_NO_NAMES) if queries is None else queries)
        self._derive()
        self._learn(blocks, chosen)
        return self

    def _learn(self, blocks: list[Any], chosen: Chosen) -> None:
        starts = np.cumsum([0, *map(len, blocks)]).tolist()
        room = 1 << self.bits
        total = 5 * sum(len(html) for block in blocks for _, html in block) // 6
        share = min(1.0, MOST_ROWS / max(total, 1))

        def rows(number: int) -> Any:
            block = read_pages(blocks[number], self._lookups["stop"])
            known = self._known(block, (starts[number], chosen))
            return rows_of(block, starts[number], chosen, known, room, self.shape, share, self.seed)

        parts = list(map_threads(rows, range(len(blocks)), self.n_jobs))
        found = learn(joined(parts), chosen, room, float(self.c), self.seed, self.n_jobs)
        self.weights_, self.calibration_, self.cut_ = found.weights, found.calibration, found.cut

    def recommend(self, pages: Iterable[AnyPage] | bytes | str, k: int | None = 10) -> Iterator[Recommendation]:
        """The `k` phrases of each page that are likeliest to be chosen, best first; with None those of its set.

        Scores are probabilities.
        """
        self._check_fitted()
        if k is not None:
            Whole(1).check("k", k)
        return self._answers(page_blocks(_one_by_one(pages)), k)

    def _answers(self, blocks: Iterator[Any], k: int | None) -> Iterator[Recommendation]:
        for answers in map_threads(lambda block: self._best(block, k), blocks, self.n_jobs):
            yield from answers

    def _best(self, block: list[Any], k: int | None) -> list[Recommendation]:
        read = read_pages(block, self._lookups["stop"])
        starts = read.candidates.starts
        width = int(np.diff(starts).max(initial=0)) if k is None else min(k, int(np.diff(starts).max(initial=0)))
        best, scores = np.empty((len(block), width), np.int32), np.empty((len(block), width), np.float32)
        found = np.zeros(len(block), np.int64)
        best_of_pages(starts, self._scores(read), self.cut_ if k is None else -np.inf, best, scores, found)
        calibrate_rows(scores, found, np.array(self.calibration_.scores), np.array(self.calibration_.probabilities))
        answers = []
        for name, row, chances, n in zip(read.names, best, scores.tolist(), found.tolist(), strict=True):
            texts = [self._text(read, c) for c in row[:n].tolist()]
            answers.append(Recommendation(name, [Phrase(*pair) for pair in zip(texts, chances[:n], strict=True)]))
        return answers

    def _text(self, read: ReadPages, c: int) -> str:
        return read.tokens.phrase(int(read.candidates.shown[3 * c]), int(read.candidates.length[c]))

    def _scores(self, read: ReadPages) -> NDArray[np.float32]:
        scores = np.empty(len(read.key), np.float32)
        score_candidates(*read.arrays(), self._known(read), np.array(self.weights_), self.shape, scores)
        return scores

    def _known(self, read: ReadPages, training: tuple[int, Chosen] | None = None) -> Known:
        """What the tables say of the candidates of a block; of training pages, without what each adds itself."""
        key, lookup = read.key, self._lookups
        pages = lookup["pages"].values(key, self.pages_.counts)
        word_pages = lookup["words"].values(read.stems, self.word_pages_.counts)
        times = lookup["chosen"].values(key, self.chosen_.counts)
        own, first = 0, 0
        queries = np.full((len(key), 4), -1.0)
        places = lookup["queries"].places(key)
        there = places >= 0
        for column, values in enumerate(self.queries_[1:]):
            queries[there, column] = values[places[there]]
        if training is not None:
            first, chosen = training
            own = 1
            positive = is_chosen(read, first, chosen)
            times = times - positive.astype(np.int32)
        pages, word_pages = pages - own, word_pages - own
        pages[pages < 2], word_pages[word_pages < 2] = 0, 0
        return Known(self.n_pages_ - own, pages, times, queries.ravel(), len(self.queries_.keys) > 0, word_pages)

    def explain(self, page: AnyPage, phrase: str) -> Explanation:
        raise NotImplementedError

    def _stop_words(self) -> Lookup:
        words = as_stop_words(self.stop_words)
        return Lookup(_word_hashes(words | set(_LETTERS) if words is ENGLISH else words))

    def _derive(self) -> None:
        self._lookups = {
            "stop": self._stop_words(),
            "pages": Lookup(self.pages_.keys),
            "words": Lookup(self.word_pages_.keys),
            "chosen": Lookup(self.chosen_.keys),
            "queries": Lookup(self.queries_.keys),
        }


_NO_NAMES = Names.of([])


def _word_hashes(words: Iterable[str]) -> NDArray[np.uint64]:
    names = Names.of(sorted(words))
    hashes = np.empty(len(names), np.uint64)
    hash_words(names.text.copy(), names.offsets, hashes)
    return hashes
