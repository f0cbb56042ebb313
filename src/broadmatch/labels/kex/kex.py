"""KEX: bid phrases that stand on the page itself, ranked by a logistic regression."""

import logging
from collections.abc import Iterable, Iterator
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.features.html_scan._tokens import JOINTS
from broadmatch.features.stop_words import StopWords
from broadmatch.harvest import QueryTable
from broadmatch.io.artifacts import Artifact
from broadmatch.kernels.isotonic import calibrate_rows
from broadmatch.labels.calibration import Calibration
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.kex import prior
from broadmatch.labels.kex._best import best_of_pages, write_phrases
from broadmatch.labels.kex._candidates import SHOWN
from broadmatch.labels.kex._features import Known, score_candidates
from broadmatch.labels.kex.explain import explain
from broadmatch.labels.kex.reading import Block, ReadPages, page_blocks, read_pages, stop_word_table
from broadmatch.labels.kex.tables import NO_KEYS, KeyCounter, KeyCounts, Lookup, QueryFacts
from broadmatch.labels.kex.training import Chosen, Rows, learn
from broadmatch.labels.recommender import AnyPage, Phrase, Recommendation, one_by_one
from broadmatch.layout import Axes, Within, require
from broadmatch.parallel import map_threads
from broadmatch.params import Flag, Jobs, Number, Seed, Whole, derived, learned
from broadmatch.progress import task
from broadmatch.state import Saved

log = logging.getLogger("broadmatch")
_MOST_ROWS = 2_000_000  # candidates that are learned from
_SEEN = 2  # pages: a phrase on fewer is as good as new
_JOINTS = np.frombuffer(JOINTS.encode().ljust(16), np.uint8).copy()


class KEX(Artifact, Saved):
    """Bid phrases that stand on the page itself: pages in, phrases with their probabilities out.

    Candidates are the runs of up to five words without punctuation that neither begin nor end with a stop word. What is
    known of each (how often and where it stands, in which zones of the page, how common it is, what a query log says of
    it, and the shape of a noun phrase) are features of a logistic regression. W. Yih, J. Goodman and V. R. Carvalho,
    "Finding advertising keywords on web pages", WWW 2006; the baseline of the MLRF paper (§2).

    >>> pages = ["<h1>Thai food</h1> Fresh Thai food near you", "<h1>Airport taxi</h1> An airport taxi at any hour"]
    >>> model = KEX().fit(pages, [["thai food"], ["airport taxi"]])
    >>> [name for name, _ in next(model.recommend("<h1>City tours</h1> Book city tours by bus", k=1)).phrases]
    ['city tours']
    """

    kind: ClassVar[str] = "kex"

    c: Annotated[float, Number(0, above=True), "what an error costs; less keeps the weights smaller"] = 0.2
    shape: Annotated[bool, Flag(), "learn the shape of noun phrases from words and endings, within and around"] = True
    stop_words: Annotated[Any, StopWords(), "words that no phrase begins or ends with"] = "english"
    bits: Annotated[int, Whole(12, 24), "there are two to this power weights"] = 17
    seed: Seed = 0
    n_jobs: Jobs = None

    weights_: Annotated[NDArray[np.float32], Axes("features+1"), Within()] = learned()
    """The weight of each feature, and the bias."""
    calibration_: Calibration = learned()
    cut_: float = learned()
    """The score from which on a phrase is in the set of its page."""
    n_pages_: Annotated[int, Axes("pages")] = learned()
    """How many pages it was fitted on."""
    pages_: KeyCounts = learned()
    """On how many of them a phrase is,"""
    word_pages_: KeyCounts = learned()
    """and a word;"""
    chosen_: KeyCounts = learned()
    """and for how many a phrase was chosen."""
    queries_: QueryFacts = learned()
    """What the query log says of phrases."""

    _tables: dict[str, Lookup] = derived()
    _weights: NDArray[np.float32] = derived()
    _knots: tuple[NDArray[np.float64], NDArray[np.float64]] = derived()

    def fit(self, pages: Iterable[AnyPage], phrases: Iterable[Any], *, queries: QueryTable | None = None) -> Self:
        """Learn from pages and the phrases of each: clicked queries, or phrases that somebody gave it.

        `phrases` has for each page a list of phrases, or a mapping from phrases to clicks. `queries` is what a log says
        of queries; the clicks of a page itself are left out of it.
        """
        self.check_params()
        blocks, chosen = list(page_blocks(one_by_one(pages))), Chosen.of(phrases)
        n_pages = sum(map(len, blocks))
        if n_pages != len(chosen.counts):
            raise BadInput(
                f"There are {n_pages:,} pages and {len(chosen.counts):,} lists of phrases; give one for each."
            )
        if not len(chosen.keys):
            raise BadInput("No page has a phrase of one to five words; there is nothing to learn.")
        total = self._count(blocks)
        self.n_pages_ = n_pages
        self.chosen_ = NO_KEYS.plus([chosen.keys])
        self.queries_ = QueryFacts.of(queries)
        self._look_up()
        self._learn(blocks, chosen, min(1.0, _MOST_ROWS / max(total, 1)))
        return self

    @classmethod
    def untrained(cls, **parameters: Any) -> Self:
        """A model for a first try, without training pages: weights are set by hand (`prior.py`).

        >>> html = "<title>Thai food</title><p>Order Thai food and cold drinks"
        >>> [name for name, _ in next(KEX.untrained().recommend(html, k=1)).phrases]
        ['thai food']
        """
        made = cls(**{"bits": prior.BITS, "shape": False, **parameters})
        made.check_params()
        made.weights_, made.calibration_, made.cut_ = prior.prior_weights(), prior.prior_calibration(), prior.CUT
        made.n_pages_, made.pages_, made.word_pages_, made.chosen_ = 0, NO_KEYS, NO_KEYS, NO_KEYS
        made.queries_ = QueryFacts.of(None)
        made._derive()
        return made

    def _count(self, blocks: list[Block]) -> int:
        """Count the pages that phrases and words are on; gives how many candidates there are in all."""
        phrases, words, total = KeyCounter(), KeyCounter(), 0
        stop_words = stop_word_table(self.stop_words)
        with task("Counting phrases", unit="pages") as bar:
            for block in map_threads(lambda block: read_pages(block, stop_words), blocks, self.n_jobs):
                phrases.add(block.key.copy())
                words.add(block.stems_of_pages())
                total += len(block.key)
                bar.advance(len(block.names))
        self.pages_, self.word_pages_ = phrases.total().at_least(_SEEN), words.total().at_least(_SEEN)
        return total

    def _learn(self, blocks: list[Block], chosen: Chosen, share: float) -> None:
        """Learn from all candidates that were chosen and a share of the others."""
        starts, room = np.cumsum([0, *map(len, blocks)]).tolist(), 1 << self.bits

        def rows(number: int) -> Rows:
            block, first = read_pages(blocks[number], self._tables["stop words"]), starts[number]
            clicks = chosen.clicks_of(block, first)
            return Rows.of(block, first, clicks > 0, self._known(block, clicks), room, self.shape, share, self.seed)

        every = Rows.joined(list(map_threads(rows, range(len(blocks)), self.n_jobs)))
        if not every.positive.any():
            raise BadInput(
                "None of the phrases stands on its page; there is nothing to learn. Are these the right pages?"
            )
        found = learn(every, chosen.counts, room, float(self.c), self.seed, self.n_jobs)
        self.weights_, self.calibration_, self.cut_ = found
        self._derive()

    def recommend(self, pages: Iterable[AnyPage] | bytes | str, k: int | None = 10) -> Iterator[Recommendation]:
        """The `k` phrases of each page that are likeliest to be chosen, or with None those of its set, best first.

        Scores are probabilities. Pages are read in blocks, so any number may come; one text is one page, a mapping is
        pages by name, and of a table the columns are taken that `broadmatch.io.PageSource` takes. The words of a name
        that is an address count as well.
        """
        self._check_fitted()
        if k is not None:
            Whole(1).check("k", k)
        return self._answers(page_blocks(one_by_one(pages)), k)

    def _answers(self, blocks: Iterator[Block], k: int | None) -> Iterator[Recommendation]:
        empty = 0
        for answers, without in map_threads(lambda block: self._best(block, k), blocks, self.n_jobs):
            empty += without
            yield from answers
        if empty:
            log.warning("Pages without any phrase: %d.", empty)

    def _best(self, pages: Block, k: int | None) -> tuple[list[Recommendation], int]:
        """The best phrases of a block of pages, and how many pages have none."""
        read = read_pages(pages, self._tables["stop words"])
        found, sizes = read.candidates, np.diff(read.candidates.starts)
        width = int(sizes.max(initial=0)) if k is None else min(k, int(sizes.max(initial=0)))
        best, chances = np.zeros((len(pages), width), np.int32), np.zeros((len(pages), width), np.float32)
        lengths = np.zeros(len(pages), np.int64)
        cut = -np.inf if k is not None else self.cut_
        best_of_pages(found.starts, self._scores(read), cut, best, chances, lengths)
        calibrate_rows(chances, lengths, *self._knots)
        texts = iter(self._texts(read, best[np.arange(width) < lengths[:, None]]))
        answers = []
        for name, scores, n in zip(read.names, chances.tolist(), lengths.tolist(), strict=True):
            answers.append(Recommendation(name, [Phrase(next(texts), score) for score in scores[:n]]))
        return answers, int((sizes == 0).sum())

    def _texts(self, read: ReadPages, candidates: NDArray[np.int32]) -> list[str]:
        """PhraseCandidates as they first stand on their page, in small letters."""
        first, length = read.candidates.shown[SHOWN * candidates], read.candidates.length[candidates]
        given = first, length, read.tokens.word, read.tokens.bits, read.tokens.words, _JOINTS
        ends = np.zeros(len(candidates), np.int64)
        text = np.empty(32 * len(candidates), np.uint8)
        size = write_phrases(*given, text, ends)
        if size > len(text):
            text = np.empty(size, np.uint8)
            write_phrases(*given, text, ends)
        blob, stops = text.tobytes(), ends.tolist()
        return [blob[i:j].decode() for i, j in zip([0, *stops], stops, strict=False)]

    def _scores(self, read: ReadPages) -> NDArray[np.float32]:
        scores = np.empty(len(read.key), np.float32)
        score_candidates(*read.arrays(), self._known(read), self._weights, self.shape, scores)
        return scores

    def _known(self, read: ReadPages, clicks: NDArray[np.float64] | None = None) -> Known:
        """What the tables say of the candidates of a block; with their `clicks`, without what their own page adds."""
        keys, tables, own = read.key, self._tables, 0 if clicks is None else 1
        pages = tables["pages"].counts(keys, self.pages_) - own
        words = tables["words"].counts(read.stems, self.word_pages_) - own
        pages[pages < _SEEN], words[words < _SEEN] = 0, 0
        chosen = tables["chosen"].counts(keys, self.chosen_)
        facts, places = np.full((len(keys), 4), -1.0), tables["queries"].places(keys)
        there = places >= 0
        for column, values in enumerate(self.queries_[1:]):
            facts[there, column] = values[places[there]]
        if clicks is not None:
            chosen -= (clicks > 0).astype(np.int32)
            _leave_out(facts, clicks)
        return Known(self.n_pages_ - own, pages, chosen, facts.ravel(), len(self.queries_.keys) > 0, words)

    def explain(self, page: AnyPage, phrase: str) -> Explanation:
        """Why `phrase` is recommended for `page`, or is not: what each group of features adds to its score.

        `factors` has its probability, how often it stands on the page, its first word, and how often it is in a zone.
        """
        self._check_fitted()
        (block,) = page_blocks([page])
        read = read_pages(block, self._tables["stop words"])
        return explain(read, phrase, self._known(read), self._weights, self._knots, self.shape)

    def _look_up(self) -> None:
        self._tables = {
            "stop words": stop_word_table(self.stop_words),
            "pages": Lookup(self.pages_.keys),
            "words": Lookup(self.word_pages_.keys),
            "chosen": Lookup(self.chosen_.keys),
            "queries": Lookup(self.queries_.keys),
        }

    def _derive(self) -> None:
        self._look_up()
        # Copies: arrays of mapped files are read-only, which is another type to a kernel.
        self._weights = np.array(self.weights_)
        self._knots = np.array(self.calibration_.scores), np.array(self.calibration_.probabilities)

    def _restored(self) -> None:
        require(len(self.weights_) == (1 << self.bits) + 1, "its weights are not as many as its parameters say")
        require(bool(np.isfinite(self.cut_)), "its cut is no number")


def _leave_out(facts: NDArray[np.float64], clicks: NDArray[np.float64]) -> None:
    """Take clicks on the page itself out of what the log says: a query that has no others was never one."""
    searches, clicked, contained, revenue = facts.T
    with np.errstate(invalid="ignore", divide="ignore"):
        share = np.where(clicked > 0, np.maximum(clicked - clicks, 0.0) / clicked, 1.0)
    revenue *= np.where(revenue > 0, share, 1.0)
    for column in (searches, clicked):
        column[:] = np.where(column >= 0, np.maximum(column - clicks, 0.0), column)
    gone = (clicks > 0) & (searches <= 0) & (clicked <= 0)
    contained -= gone & (contained > 0)
    searches[gone], clicked[gone], revenue[gone] = -1.0, -1.0, -1.0
