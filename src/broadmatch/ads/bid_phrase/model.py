"""The query → bid phrase click model, and the extended matches of an inventory by it."""

import logging
from collections.abc import Iterable
from typing import Annotated, Any, ClassVar, Self

import numpy as np

from broadmatch.ads.bid_phrase._trees import BoostedTrees
from broadmatch.ads.bid_phrase.reading import NO_BIDS, ClickGraph, ones, read_click_graph
from broadmatch.ads.bid_phrase.texts import LogFacts, encode, log_facts
from broadmatch.ads.bid_phrase.training import Bags, Learner, features_of, learn, learn_judged, scores_of
from broadmatch.ads.index.building import Extended, select_extended
from broadmatch.ads.inventory import Inventory
from broadmatch.data import CSR, Names
from broadmatch.data.csr import gathered
from broadmatch.errors import BadInput
from broadmatch.harvest import normalise_query
from broadmatch.io import ClickLog
from broadmatch.io.artifacts import Artifact
from broadmatch.io.files import Source
from broadmatch.kernels import F32, F64, I32, I64
from broadmatch.kernels.isotonic import calibrate_rows
from broadmatch.labels.calibration import Calibration
from broadmatch.params import Jobs, Number, Seed, Whole, derived, learned
from broadmatch.state import Saved

log = logging.getLogger("broadmatch")
_PAIRS = 200_000
"""Pairs of query and phrase that are scored at a time."""


class BidPhraseModel(Artifact, Saved):
    """P(click | query, bid phrase): which of its bid phrases an ad's query goes with (SwiftXML §5).

    Boosted trees on what query and phrase have in common: words, spelling, order, and meaning by embeddings that are
    learned from the log (`broadmatch.features.ClickEmbeddings`). Learning needs the extra `ads`, asking does not.
    Y. Prabhu et al.,
    "Extreme multi-label learning with label features for warm-start tagging, ranking & recommendation", WSDM 2018.

    >>> queries = ["cheap pizza", "pizza near me", "airport taxi", "taxi to airport"]
    >>> clicks = CSR.from_rows([[0], [0], [1], [1]], n_cols=2)
    >>> model = BidPhraseModel(n_trees=5).fit_graph(queries, clicks, ["pizza", "taxi"], CSR.from_rows([[0], [1]], 2))
    >>> model.predict(["pizzas", "pizzas"], ["pizza", "taxi"]).shape
    (2,)
    """

    kind: ClassVar[str] = "bid_phrase"

    n_trees: Annotated[int, Whole(1, 10_000), "trees"] = 60
    n_leaves: Annotated[int, Whole(2, 1024), "leaves of a tree, at most"] = 16
    learning_rate: Annotated[float, Number(0, 1, above=True), "how far each tree goes"] = 0.1
    size: Annotated[int, Whole(1, 1024), "numbers of an embedding, at most"] = 128
    max_pairs: Annotated[int, Whole(1), "pairs of query and phrase to learn from, about"] = 250_000
    seed: Seed = 0
    n_jobs: Jobs = None

    trees_: BoostedTrees = learned()
    calibration_: Calibration = learned()
    facts_: LogFacts = learned()

    _trees: BoostedTrees = derived()

    def fit(
        self,
        log: ClickLog | Source,
        bids: Inventory | ClickLog | Source,
        *,
        without: Iterable[str] = (),
        memory_limit: str = "2GB",
    ) -> Self:
        """Learn from a log of clicks or impressions, and the phrases of ads: an inventory, or a table (`BidTable`).

        The log names ads by page or by name. Those `without` do not count: ads that the model will be judged by.
        """
        self.check_params()
        graph = read_click_graph(log, bids, without=without, memory_limit=memory_limit, n_jobs=self.n_jobs)
        return self._keep(graph, *learn(graph, self._learner()))

    def fit_graph(
        self, queries: Iterable[str], clicks: CSR, phrases: Iterable[str], bids: CSR, *, shown: CSR | None = None
    ) -> Self:
        """Learn from matrices: clicks of queries × ads, bids of ads × phrases, and impressions of queries × ads."""
        self.check_params()
        graph = ClickGraph(
            Names.of([normalise_query(query) for query in queries]), clicks, shown, Names.of(phrases), bids
        )
        n_queries, n_phrases = len(graph.queries), len(graph.phrases)
        if clicks.n_rows != n_queries or bids.shape != (clicks.n_cols, n_phrases):
            raise BadInput(
                f"There are {n_queries:,} queries and {n_phrases:,} phrases, but clicks are {clicks.shape} and bids "
                f"{bids.shape}; they must be queries × ads and ads × phrases."
            )
        if shown is not None and shown.shape != clicks.shape:
            raise BadInput(f"Clicks are {clicks.shape}, but impressions are {shown.shape}; both are queries × ads.")
        return self._keep(graph, *learn(graph, self._learner()))

    def fit_judgements(self, queries: Iterable[str], texts: Iterable[str], grades: Any, *, least: float = 2.0) -> Self:
        """Learn from judged pairs instead: P(grade ≥ least) of a query and an ad's title or text, or a page's title.

        That is a model of the quality of ads (QOA in table 4 of the paper), where nobody knows the truth.
        """
        self.check_params()
        asked, query = _numbered(map(normalise_query, queries))
        shown, text = _numbered(texts)
        good = np.asarray(grades, np.float64) >= least
        if not len(query) == len(text) == len(good):
            raise BadInput(f"There are {len(query):,} queries, {len(text):,} texts, {len(good):,} grades; give rows.")
        if not good.any() or good.all():
            raise BadInput(f"All or none of the grades are at least {least}; there is nothing to tell apart.")
        graph = ClickGraph(
            Names.of(asked), ones(query[good], text[good], (len(asked), len(shown))), None, Names.of(shown), NO_BIDS
        )
        made = learn_judged(graph, query.astype(np.int32), text.astype(np.int32), good, self._learner())
        return self._keep(graph, *made)

    def predict(self, queries: Iterable[str], phrases: Iterable[str]) -> F64:
        """P(click | query, phrase) of the pairs of two lists of the same length."""
        return self._probabilities(self.decision_function(queries, phrases))

    def decision_function(self, queries: Iterable[str], phrases: Iterable[str]) -> F64:
        """The log-odds of pairs before they are calibrated: pairs of the same probability may still differ."""
        asked, bid = list(queries), list(phrases)
        if len(asked) != len(bid):
            raise BadInput(f"There are {len(asked):,} queries and {len(bid):,} phrases; give pairs.")
        number: dict[str, int] = {}
        pairs: I32 = np.array([number.setdefault(text, len(number)) for text in (*asked, *bid)], np.int32)
        query, phrase = np.split(pairs, 2)
        return self._scores(list(number), query, phrase)

    def best(self, queries: Names, ad: I64, inventory: Inventory) -> tuple[I64, F64]:
        """For each query and ad (rows of the inventory's ads) the ad's phrase that it goes with, and its probability.

        An ad without phrases has the phrase −1, at 0.
        """
        self._check_fitted()
        order = np.argsort(inventory.phrase_group, kind="stable")
        ptr: I64 = np.searchsorted(inventory.phrase_group[order], np.arange(len(inventory.groups) + 1))
        found: I64 = np.full(len(ad), -1, np.int64)
        scores: F64 = np.zeros(len(ad))
        group = inventory.ad_group[ad]
        some = np.flatnonzero(np.diff(ptr)[group] > 0)
        some = some[np.argsort(group[some], kind="stable")]  # phrases of a group are read once
        ends = np.cumsum(np.diff(ptr)[group[some]])
        for first, last in _pieces(ends):
            rows = some[first:last]
            starts, where = gathered(ptr, group[rows])
            phrases, phrase = np.unique(order[where], return_inverse=True)
            asked, query = _numbered(queries.take(rows))
            texts = asked + list(inventory.phrases.take(phrases))
            of_pair = np.repeat(query, np.diff(starts)).astype(np.int32)
            bags = Bags(starts, of_pair, (phrase + len(asked)).astype(np.int32))
            value = self._scores(texts, bags.query, bags.phrase)
            best = bags.best(value)
            found[rows], scores[rows] = order[where][best], self._probabilities(value[best])
        return found, scores

    def _learner(self) -> Learner:
        names = ("n_trees", "n_leaves", "learning_rate", "size", "max_pairs", "seed", "n_jobs")
        return Learner(**{name: getattr(self, name) for name in names})

    def _keep(self, graph: ClickGraph, trees: BoostedTrees, calibration: Calibration) -> Self:
        some = np.flatnonzero(np.diff(graph.clicks.indptr))
        facts = log_facts(graph.queries.take(some), graph.clicks.take(some), self.size, self.seed)
        self.trees_, self.calibration_, self.facts_ = trees, calibration, facts
        self._derive()
        return self

    def _scores(self, texts: list[str], query: I32, phrase: I32) -> F64:
        self._check_fitted()
        return scores_of(self._trees, features_of(encode(texts, self.facts_), query, phrase, self.n_jobs), self.n_jobs)

    def _probabilities(self, scores: F64) -> F64:
        chances: F32 = scores.astype(np.float32).reshape(-1, 1)
        calibrate_rows(chances, np.ones(len(scores), np.int64), *map(np.array, self.calibration_))
        return chances.ravel().astype(np.float64)

    def _derive(self) -> None:
        # Copies: arrays of mapped files are read-only, which is another type to a kernel.
        self._trees = BoostedTrees(*map(np.array, self.trees_))


def extended_matches(
    model: BidPhraseModel,
    queries: Names,
    ad: Any,
    score: Any,
    inventory: Inventory,
    *,
    threshold: float = 0.7,
    at_least: int = 2,
) -> Extended:
    """What an ad index takes beside the ads' own phrases: the queries recommended for ads, each with a bid phrase.

    Row i recommends queries[i] for the ad ad[i] (a row of the inventory's ads) with score[i]. Of each ad those that
    score at least the threshold stay, and the best `at_least` in any case; each goes with the phrase of the ad that
    has the highest P(click | query, phrase). Ads without phrases have no extended match.
    """
    ads, scores = np.asarray(ad, np.int64), np.asarray(score, np.float64)
    if not len(queries) == len(ads) == len(scores):
        raise BadInput(f"There are {len(queries):,} queries, {len(ads):,} ads and {len(scores):,} scores; give rows.")
    if len(ads) and not 0 <= ads.min() <= ads.max() < len(inventory.ads):
        raise BadInput(
            f"Ads are numbered from 0 to {len(inventory.ads) - 1:,}, but {ads.min()} to {ads.max()} are given."
        )
    rows = Extended(queries, ads, np.zeros(len(ads), np.int64), scores)
    kept = select_extended(rows, threshold=threshold, at_least=at_least)
    phrase, _ = model.best(kept.query, kept.ad, inventory)
    there = np.flatnonzero(phrase >= 0)
    if len(there) < len(phrase):
        log.warning("Queries of ads without a bid phrase, which were left out: %d.", len(phrase) - len(there))
    return Extended(kept.query.take(there), kept.ad[there], phrase[there], kept.score[there])


def _pieces(ends: I64) -> Iterable[tuple[int, int]]:
    """Rows in pieces of about `_PAIRS` pairs; `ends` are where the pairs of each row end."""
    first = 0
    while first < len(ends):
        before = int(ends[first - 1]) if first else 0
        last = max(first + 1, int(np.searchsorted(ends, before + _PAIRS, side="right")))
        yield first, last
        first = last


def _numbered(names: Iterable[str]) -> tuple[list[str], I64]:
    """The distinct names, and the number of each."""
    number: dict[str, int] = {}
    rows = np.array([number.setdefault(name, len(number)) for name in names], np.int64)
    return list(number), rows
