"""KSP: expansion of phrases by what people search one after the other, click for both, and bid on together.

R. Agrawal et al., "Multi-label learning with millions of labels" (MLRF), WWW 2013, §5.2, names the engine and its
signals. An arm a says P_a(q' | q) for a few queries q' of each query q. Phrases of a list with scores s score

    v(q') = w_0 s(q') + Σ_q s(q) Σ_a w_a P_a(q' | q),

with weights w ≥ 0 learned from lists whose true phrases are known. The arms are rewrites (`rewrites.py`), the two-step
walk over clicks and over bids (`walks.py`) and Simrank++ (`simrank.py`).
"""

import itertools
import logging
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.ads.expansion._expand import expand_lists
from broadmatch.ads.expansion.arm_weights import ArmCandidates, learn_weights, lists_matrix
from broadmatch.ads.expansion.bids import BidTable
from broadmatch.ads.expansion.log_graphs import read_graphs
from broadmatch.ads.expansion.phrases import NearDuplicates, Negatives, variant_key
from broadmatch.ads.expansion.rewrites import rewrite_arm, stochastic
from broadmatch.ads.expansion.seeds import Seed, SeedLists, number_seeds
from broadmatch.ads.expansion.simrank import click_shares, simrank
from broadmatch.ads.expansion.walks import walk_arm
from broadmatch.data import CSR, Names, Ranking
from broadmatch.errors import BadInput, BadParameter
from broadmatch.harvest import normalise_query
from broadmatch.io import ClickLog
from broadmatch.io.artifacts import Artifact
from broadmatch.io.files import Source
from broadmatch.kernels import F64
from broadmatch.labels.recommender import Recommendation, recommendations
from broadmatch.layout import Axes, Within, require
from broadmatch.parallel import each_block
from broadmatch.params import Jobs, Number, Whole, learned, unknown_name
from broadmatch.state import Saved

log = logging.getLogger("broadmatch")
ARMS = ("rewrites", "walk", "simrank", "co_bid")
WEIGHTS = ("seeds", *ARMS)
_BLOCK = 256
_BATCH = 1024
"""Pages that are expanded at a time."""
_GROUPED = 4
"""How many times the phrases that are asked for are ranked before near-duplicates are grouped, at first."""


class PhraseSource(NamedTuple):
    """Where a phrase came from: the seed, the arm ("seeds" for the seed itself), and the share of the score."""

    seed: str
    arm: str
    share: float


class Expanded(NamedTuple):
    """A phrase of an expansion: its score, its sources, largest first, and the near-duplicates that it stands for."""

    phrase: str
    score: float
    sources: list[PhraseSource]
    variants: list[str]


@dataclass(frozen=True)
class Expansions(Sequence[list[Expanded]]):
    """The expansions of many lists: as a `ranking`, or one by one with the sources of each phrase."""

    model: "KSP"
    ranked: Ranking
    """All that was ranked, near-duplicates too, in the model's numbers."""
    kept: NDArray[np.bool_]
    seeds: SeedLists
    weights: F64

    @cached_property
    def ranking(self) -> Ranking:
        """The phrases of each list, best first; `label_names` are those that occur, by name."""
        kept = self.ranked.where(self.kept)
        used, labels = np.unique(kept.labels[kept.found], return_inverse=True)
        names = Names.of([self._phrase(label) for label in used.tolist()])
        return Ranking.of(kept.lengths, labels.astype(np.int32), kept.scores[kept.found], names)

    def __len__(self) -> int:
        return len(self.ranked)

    def __getitem__(self, i: Any) -> Any:
        if isinstance(i, slice):
            return [self[j] for j in range(*i.indices(len(self)))]
        if not -len(self) <= i < len(self):
            raise IndexError(f"There are {len(self)} expansions; {i} is none of them.")
        i %= len(self)
        labels, scores = self.ranked[i]
        kept = self.kept[i, : len(labels)]
        sources, variants = self._sources(i, labels[kept]), self._variants(labels, kept)
        return [
            Expanded(self._phrase(label), score, sources[label], variants.get(label, []))
            for label, score in zip(labels[kept].tolist(), scores[kept].tolist(), strict=True)
        ]

    def _phrase(self, number: int) -> str:
        known = len(self.model.queries_)
        return self.model.queries_[number] if number < known else self.seeds.unknown[number - known]

    def _sources(self, i: int, labels: NDArray[np.int32]) -> dict[int, list[PhraseSource]]:
        """The sources of some phrases of list i, by number."""
        of_list = slice(self.seeds.lists[i], self.seeds.lists[i + 1])
        found: dict[int, list[PhraseSource]] = {label: [] for label in labels.tolist()}
        for seed, row, score in zip(*(part[of_list].tolist() for part in self.seeds[1:4]), strict=True):
            if seed in found and self.weights[0] * score > 0:
                found[seed].append(PhraseSource(self._phrase(seed), "seeds", float(self.weights[0] * score)))
            for name, arm, weight in zip(ARMS, self.model.arms, self.weights[1:].tolist(), strict=True):
                if row < 0 or weight * score == 0:
                    continue
                columns, values = arm.row(row)
                there = np.isin(columns, labels)
                for label, value in zip(columns[there].tolist(), values[there].tolist(), strict=True):
                    found[label].append(PhraseSource(self._phrase(seed), name, float(weight * score * value)))
        for label, sources in found.items():
            total = sum(source.share for source in sources)
            shares = [source._replace(share=source.share / total) for source in sources]
            found[label] = sorted(shares, key=lambda source: -source.share)
        return found

    def _variants(self, labels: NDArray[np.int32], kept: NDArray[np.bool_]) -> dict[int, list[str]]:
        """The near-duplicates of each phrase that is kept, where these are grouped."""
        found: dict[int, list[str]] = {}
        if not kept.all():
            groups, leader = self.model._groups(labels, self.seeds), dict[int, int]()
            for label, group, stays in zip(labels.tolist(), groups.tolist(), kept.tolist(), strict=True):
                if stays:
                    leader[group] = label
                elif group in leader:
                    found.setdefault(leader[group], []).append(self._phrase(label))
        return found


class KSP(Artifact, Saved):
    """Expansion of phrases: what is searched in one session, clicked for both, or bid on together with given phrases.

    `fit` learns the arms from a log and a table of bids, `fit_weights` how much each of them counts.

    >>> clicks = CSR.from_rows([[0], [0, 1], [1], [2]], n_cols=3)
    >>> ksp = KSP().fit_graphs(["pizza", "pizza delivery", "delivery", "taxi"], clicks=clicks)
    >>> [(one.phrase, round(one.score, 2)) for one in ksp.expand(["Pizza", ("taxi", 0.5)])]
    [('pizza delivery', 2.0), ('pizza', 1.0), ('taxi', 0.5)]
    >>> ksp.expand(["pizza"], k=1)[0].sources
    [PhraseSource(seed='pizza', arm='walk', share=0.5), PhraseSource(seed='pizza', arm='simrank', share=0.5)]
    """

    kind: ClassVar[str] = "ksp"

    keep: Annotated[int, Whole(1, 1000), "queries that each arm keeps of each query, the best"] = 50
    min_clicks: Annotated[int, Whole(1), "clicks that a query needs for the arms of clicks"] = 1
    max_gap: Annotated[float, Number(0, above=True), "seconds between a query and its rewrite, at most"] = 300.0
    max_session: Annotated[
        int, Whole(2), "searches of a session, at most; longer ones are left out of the rewrites"
    ] = 100
    min_llr: Annotated[
        float, Number(0), "log-likelihood ratio of a rewrite, at least; 10.83 is one by chance in 1000"
    ] = 10.83
    decay: Annotated[float, Number(0, 1, above=True), "C of Simrank++"] = 0.8
    iterations: Annotated[int, Whole(1, 100), "rounds of Simrank++"] = 7
    n_jobs: Jobs = None

    queries_: Annotated[Names, Axes("queries")] = learned()
    clicks_: Annotated[NDArray[np.float64], Axes("queries"), Within(0)] = learned()
    """The clicks of each query."""
    rewrites_: Annotated[CSR | None, Axes("queries", "queries")] = learned()
    walk_: Annotated[CSR | None, Axes("queries", "queries")] = learned()
    simrank_: Annotated[CSR | None, Axes("queries", "queries")] = learned()
    co_bid_: Annotated[CSR | None, Axes("queries", "queries")] = learned()
    weights_: Annotated[NDArray[np.float64], Axes(len(WEIGHTS)), Within(0)] = learned()
    """Weights of the seeds and of the arms, in the order of `WEIGHTS`."""

    def fit(
        self,
        searches: ClickLog | Source,
        *,
        bids: ClickLog | Source | None = None,
        without: Iterable[str] = (),
        memory_limit: str = "2GB",
        temp_directory: str | os.PathLike[str] | None = None,
    ) -> Self:
        """Learn the arms from a log of clicks or impressions, and a table of bids (`BidTable`).

        Rewrites need the session and the time of each row. Clicks and bids of the pages `without` do not count: those
        that the expansion will be judged by.
        """
        self.check_params()
        searches = searches if isinstance(searches, ClickLog) else ClickLog(searches)
        bids = bids if bids is None or isinstance(bids, ClickLog) else BidTable(bids)
        graphs = read_graphs(
            searches,
            bids,
            without=without,
            min_clicks=self.min_clicks,
            max_gap=self.max_gap,
            max_session=self.max_session,
            memory_limit=memory_limit,
            temp_directory=temp_directory,
            n_jobs=self.n_jobs,
        )
        return self.fit_graphs(graphs.queries, clicks=graphs.clicks, rewrites=graphs.rewrites, bids=graphs.bids)

    def fit_graphs(
        self,
        queries: Iterable[str],
        *,
        clicks: CSR | None = None,
        rewrites: CSR | None = None,
        bids: CSR | None = None,
    ) -> Self:
        """Learn the arms from matrices: clicks of queries × pages, counts of rewrites, and bids of queries × ads."""
        self.check_params()
        names = Names.of(queries)
        for what, matrix in (("clicks", clicks), ("rewrites", rewrites), ("bids", bids)):
            if matrix is not None and matrix.n_rows != len(names):
                raise BadInput(f"There are {len(names):,} queries, but {what} has {matrix.n_rows:,} rows.")
        if clicks is None and rewrites is None and bids is None:
            raise BadInput("There is nothing to learn from; give clicks, rewrites or bids.")
        some: dict[str, Any] = {"keep": self.keep, "n_jobs": self.n_jobs}
        self.queries_, self.clicks_ = names, np.zeros(len(names))
        self.rewrites_ = self.walk_ = self.simrank_ = self.co_bid_ = None
        if rewrites is not None:
            self.rewrites_ = rewrite_arm(rewrites, min_llr=self.min_llr, keep=self.keep)
        if clicks is not None:
            self.clicks_ = np.asarray(np.bincount(clicks.rows, clicks.data, clicks.n_rows), np.float64)
            self.walk_ = walk_arm(clicks, **some)
            shares = click_shares(clicks)
            self.simrank_ = stochastic(simrank(shares, decay=self.decay, iterations=self.iterations, **some))
        if bids is not None:
            self.co_bid_ = walk_arm(bids, **some)
        self.weights_ = self._usable.astype(np.float64)
        self._derive()
        return self

    def fit_weights(self, seeds: Any, truth: Iterable[Iterable[str]], *, k: int = 10) -> Self:
        """Learn the weights from lists of seeds, as `expand_many` takes them, and the true phrases of each list.

        They bring the most true phrases among the `k` best. Take pages that neither the arms nor what made the seeds
        was trained on.
        """
        self._check_fitted()
        Whole(1).check("k", k)
        lists, true = self._number(seeds), [list(map(normalise_query, phrases)) for phrases in truth]
        n_lists, n = len(lists.lists) - 1, len(self.queries_) + len(lists.unknown)
        if len(true) != n_lists:
            raise BadInput(f"There are {n_lists:,} lists of seeds and {len(true):,} of true phrases.")
        number = {phrase: len(self.queries_) + i for i, phrase in enumerate(lists.unknown)}
        row = np.repeat(np.arange(n_lists), [len(phrases) for phrases in true])
        flat = [phrase for phrases in true for phrase in phrases]
        label = np.array([number.get(p, self.queries_.index(p) if p in self.queries_ else -1) for p in flat], np.int64)
        if not (label >= 0).any():
            raise BadInput("None of the true phrases is known, nor among the seeds: there are no weights to learn.")
        candidates = ArmCandidates(
            lists_matrix(lists.lists, lists.seeds, lists.scores, n),
            lists_matrix(lists.lists, lists.known, lists.scores, n),
            self.arms,
            (row[label >= 0], label[label >= 0]),
        )
        self.weights_ = learn_weights(candidates, self._usable, k)
        return self

    def expand(
        self,
        seeds: Iterable[Seed],
        k: int = 100,
        *,
        negatives: Iterable[str] = (),
        group: bool = False,
        weights: Mapping[str, float] | None = None,
    ) -> list[Expanded]:
        """The `k` best phrases for a list of seeds, seeds among them; see `expand_many`."""
        found: list[Expanded] = self.expand_many([seeds], k, negatives=negatives, group=group, weights=weights)[0]
        return found

    def expand_many(
        self,
        lists: Any,
        k: int = 100,
        *,
        negatives: Iterable[str] = (),
        group: bool = False,
        weights: Mapping[str, float] | None = None,
    ) -> Expansions:
        """The `k` best phrases for each of many lists of seeds.

        A list has phrases, or pairs of a phrase and its score; or it is what a recommender answered for a page; or all
        of them are a `Ranking`. An unknown phrase is expanded as its most clicked near-duplicate, if there is one,
        and stays a candidate itself. `negatives` are never recommended, and no seeds (`Negatives` has the notation).
        With `group`, near-duplicates are one phrase, the best of them. `weights` are other ones than the learned:
        "seeds" and the arms by name, the rest is 0.
        """
        self._check_fitted()
        Whole(1).check("k", k)
        ruled, numbers = Negatives(negatives), self._number(lists)
        barred = np.concatenate([ruled.among(self.queries_), [ruled.rule_out(p) for p in numbers.unknown]]).astype(bool)
        numbers = numbers._replace(scores=np.where(barred[numbers.seeds], 0.0, numbers.scores))
        used = self._weights(weights)
        wide = min(_GROUPED * k if group else k, len(barred))
        while True:
            ranked = self._ranked(numbers, used, barred, wide)
            kept = self._kept(ranked, numbers, k) if group else ranked.found
            # As long as a list has too few groups, and more phrases than were ranked.
            if not group or not ((kept.sum(axis=1) < k) & (ranked.lengths == wide)).any() or wide == len(barred):
                return Expansions(self, ranked, kept, numbers, used)
            wide = min(2 * wide, len(barred))

    def expand_answers(
        self, answers: Iterable[Recommendation], k: int = 10, *, negatives: Iterable[str] = (), group: bool = False
    ) -> Iterator[Recommendation]:
        """What a recommender answered for pages, expanded; pages are taken in batches, so any number may come."""
        given, ruled_out = iter(answers), list(negatives)
        while batch := list(itertools.islice(given, _BATCH)):
            ranking = self.expand_many(
                [list(one.phrases) for one in batch], k, negatives=ruled_out, group=group
            ).ranking
            yield from recommendations([one.name for one in batch], ranking)

    @property
    def arms(self) -> tuple[CSR, CSR, CSR, CSR]:
        """P(q' | q) of each of `ARMS`; without entries where the data had nothing for it."""
        found = (self.rewrites_, self.walk_, self.simrank_, self.co_bid_)
        first, second, third, fourth = (self._no_arm if arm is None else arm for arm in found)
        return first, second, third, fourth

    def _derive(self) -> None:
        n = len(self.queries_)
        self._no_arm = CSR(np.zeros(n + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), n)
        self._near: NearDuplicates | None = None

    def _restored(self) -> None:
        for name in ARMS:
            arm = getattr(self, f"{name}_")
            fits = arm is None or not arm.nnz or bool(arm.data.min() >= 0 and arm.data.max() <= 1.001)
            require(fits, f"{name} holds a number that is no probability")

    @property
    def _usable(self) -> NDArray[np.bool_]:
        return np.array([True, *(getattr(self, f"{name}_") is not None for name in ARMS)])

    def _variants(self) -> NearDuplicates:
        if self._near is None:
            self._near = NearDuplicates(self.queries_, self.clicks_)
        return self._near

    def _stand_in(self, phrase: str) -> int:
        """The most clicked near-duplicate of an unknown phrase, −1 if there is none."""
        group = self._variants().of(phrase)
        return -1 if group < 0 else int(self._variants().leader[group])

    def _number(self, lists: Any) -> SeedLists:
        found = number_seeds(lists, self.queries_, self._stand_in)
        if found.n_empty:
            log.warning("Lists with seeds that have no letter or number, which were left out: %d.", found.n_empty)
        if found.n_replaced or found.n_lost:
            log.info(
                "Seeds that no arm knows: %d are expanded as near-duplicates, %d only stand for themselves.",
                found.n_replaced,
                found.n_lost,
            )
        return found

    def _weights(self, given: Mapping[str, float] | None) -> F64:
        if given is None:
            return self.weights_
        for name, weight in given.items():
            if name not in WEIGHTS:
                raise BadParameter(unknown_name(name, WEIGHTS, "an arm"))
            Number(0).check(f"the weight of {name}", weight)
        return np.array([float(given.get(name, 0.0)) for name in WEIGHTS])

    def _ranked(self, seeds: SeedLists, weights: F64, barred: NDArray[np.bool_], k: int) -> Ranking:
        n = len(seeds.lists) - 1
        labels, scores, lengths = np.zeros((n, k), np.int32), np.zeros((n, k), np.float32), np.zeros(n, np.int64)

        def block(start: int, stop: int) -> None:
            given = seeds.lists, seeds.seeds, seeds.known, seeds.scores
            expand_lists(start, stop, *given, self.arms, weights, barred, labels, scores, lengths)

        each_block(block, n, _BLOCK, self.n_jobs)
        return Ranking(labels, scores, lengths, self.queries_)

    def _groups(self, labels: NDArray[np.int32], seeds: SeedLists) -> NDArray[np.int64]:
        """The group of near-duplicates of each phrase."""
        near, numbers = self._variants(), dict[str, int]()
        unknown = [near.of(phrase) for phrase in seeds.unknown]
        for i, phrase in enumerate(seeds.unknown):
            if unknown[i] < 0:
                unknown[i] = len(near) + numbers.setdefault(variant_key(phrase), len(numbers))
        return np.concatenate([near.group, np.array(unknown, np.int64)])[labels]

    def _kept(self, ranked: Ranking, seeds: SeedLists, k: int) -> NDArray[np.bool_]:
        """The best phrase of each group of near-duplicates of each list, of the first k groups."""
        found = ranked.found
        groups = self._groups(ranked.labels[found], seeds)
        _, first = np.unique(ranked.rows * (int(groups.max(initial=0)) + 1) + groups, return_index=True)
        flat = np.zeros(len(groups), np.bool_)
        flat[first] = True
        kept = np.zeros(found.shape, np.bool_)
        kept[found] = flat
        return kept & (np.cumsum(kept, axis=1) <= k)
