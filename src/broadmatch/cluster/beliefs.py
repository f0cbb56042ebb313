"""Sparse beliefs over shards of pages and ranges of labels: the stages of `harvest.belief_stages`, sent around.

In each iteration a shard of pages sends the beliefs of a page to every range that has one of its labels, a range sends
the rows of G that a shard has labels of, and TopL takes three rounds of counts. Nothing of the size of all pages stands
in one place, but a row of numbers for all labels.
"""

from collections.abc import Sequence
from itertools import pairwise
from typing import Annotated, Any, NamedTuple

import numpy as np

from broadmatch.cluster.engine import Engine, Ref
from broadmatch.cluster.shards import stacked
from broadmatch.data import CSR, as_labels
from broadmatch.data.csr import offsets
from broadmatch.harvest import belief_stages as stages
from broadmatch.harvest._beliefs import Entries, LabelSums
from broadmatch.harvest.belief_stages import ByLabel, Cut, WantedSums
from broadmatch.harvest.beliefs import check_settings
from broadmatch.io.artifacts import opening
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.io.files import PathLike
from broadmatch.kernels import F32, F64, I32, I64
from broadmatch.layout import Axes, Index, Offsets, Within, require


class BeliefSettings(NamedTuple):
    """What an iteration depends on beside the labels."""

    beta: float
    limit: int
    similarity: str
    n_jobs: int


class BeliefRows(NamedTuple):
    """The beliefs of a shard of pages, as they are kept between iterations."""

    indptr: Annotated[I64, Offsets(".rows", ".entries")]
    indices: Annotated[I32, Axes(".entries"), Index("labels")]
    data: Annotated[F32, Axes(".entries"), Within(0.0)]

    def _check_whole(self) -> None:
        CSR(*self, 0)._check_whole()


class Turned(NamedTuple):
    """A range of labels with their pages, and which of the labels each shard of pages has."""

    columns: ByLabel
    wanted: list[I64]


def shard_bounds(indptr: I64, n_shards: int) -> list[int]:
    """Where shards of rows with about equally many entries begin, and where the last ends.

    >>> shard_bounds(np.array([0, 10, 11, 12, 20]), 2)
    [0, 1, 4]
    """
    wanted = np.linspace(0, indptr[-1], n_shards + 1)[1:-1]
    return [0, *np.searchsorted(indptr, wanted).clip(0, len(indptr) - 1).tolist(), len(indptr) - 1]


def beliefs_in_shards(
    engine: Engine,
    Y: CSR,
    *,
    beta: float = 0.6,
    budget: float = 2.0,
    iterations: int = 15,
    similarity: str = "clicks",
    n_shards: int = 2,
    folder: PathLike | None = None,
    n_jobs: int = 1,
) -> CSR:
    """`harvest.sparse_beliefs` over `n_shards` shards of pages and as many ranges of labels: the same bits.

    Each iteration is kept in `folder`, which all hosts see, and a run with the same labels and settings goes on after
    the last that was finished. `n_jobs` are the threads of one task.

    >>> from broadmatch.cluster import ThreadEngine
    >>> Y = CSR.from_rows([[0, 1], [0, 1], [0], [2]], n_cols=3)
    >>> beliefs_in_shards(ThreadEngine(), Y, budget=1.2, n_shards=3).to_scipy().toarray().round(2)[2]
    array([0.9 , 0.35, 0.  ], dtype=float32)
    """
    check_settings(beta, budget, iterations, similarity)
    labels, _ = as_labels(Y)
    settings = BeliefSettings(float(beta), int(budget * labels.nnz), similarity, n_jobs)
    if not settings.limit:
        return labels
    shaping = settings._asdict() | {"n_shards": n_shards, "n_cols": labels.n_cols}
    kept = Checkpoints.of_parts(folder, shaping, labels[:3])
    job = _BeliefJob(engine, labels, settings, n_shards)
    beliefs, done = job.taken(kept, iterations)
    for number in range(done, iterations):
        beliefs = job.step(beliefs, kept, number + 1)
        title = f"Inferring beliefs, iteration {number + 1} of {iterations}"
        engine.progress(beliefs, title=title, unit="shards")
        job.forget(kept, number)
    parts = engine.get(beliefs)
    if folder is not None:
        kept.clear()
    return stacked(parts)


class _BeliefJob:
    """The shards of one label matrix, and their iteration."""

    def __init__(self, engine: Engine, Y: CSR, settings: BeliefSettings, n_shards: int) -> None:
        self.engine, self.settings, self.n_rows, self.n_labels, self.n_shards = (
            engine, settings, Y.n_rows, Y.n_cols, n_shards,
        )  # fmt: skip
        self.bounds = shard_bounds(Y.indptr, n_shards)
        self.ranges = np.linspace(0, Y.n_cols, n_shards + 1).astype(np.int64).tolist()
        # A task holds its own entries a few times, and for each thread a row of sums for all labels.
        self.memory = 128 * (Y.nnz // n_shards) + (16 + 20 * settings.n_jobs) * Y.n_cols
        how: dict[str, Any] = {"memory": self.memory, "title": "Turning labels around"}
        self.labels = engine.map(_own, [(Y.between(*span),) for span in pairwise(self.bounds)], **how)
        *dealt, self.rows = engine.shuffle(_deal, [(shard, self.ranges) for shard in self.labels], n_shards + 1, **how)
        turned, found = engine.shuffle(_turn, map(tuple, dealt), 2, **how)
        sums = np.concatenate(engine.get(found))
        given = [(*shard, sums, settings.similarity) for shard in zip(self.labels, self.rows, strict=True)]
        *scales, self.scales = engine.shuffle(_scale, given, n_shards + 1, **how)
        share = stages.shares(sums, settings.similarity)
        shares = [share[first:stop] for first, stop in pairwise(self.ranges)]
        weighed = [(one, part, *scale) for one, part, scale in zip(turned, shares, scales, strict=True)]
        self.turned = engine.map(_weigh, weighed, **how)

    def taken(self, kept: Checkpoints, iterations: int) -> tuple[list[Ref], int]:
        """The beliefs of the last iteration that is kept whole, and its number; the labels if there is none."""
        for number in range(iterations, 0, -1):
            given = [kept.take(self._number(number, s), BeliefRows, labels=self.n_labels) for s in range(self.n_shards)]
            parts = [part for part in given if part is not None]
            if len(parts) == self.n_shards:
                with opening(kept.folder):
                    lengths = [len(part.indptr) - 1 for part in parts]
                    require(lengths == np.diff(self.bounds).tolist(), "its shards have other rows")
                rows = [(CSR(*part, self.n_labels),) for part in parts]
                return self.engine.map(_own, rows, memory=self.memory, title="Taking beliefs up"), number
        return self.labels, 0

    def forget(self, kept: Checkpoints, number: int) -> None:
        """Remove what is kept of an iteration, since the next is whole."""
        kept.drop(self._number(number, shard) for shard in range(self.n_shards))

    def step(self, F: list[Ref], kept: Checkpoints, number: int) -> list[Ref]:
        """One iteration, as `harvest.beliefs` does it for one shard."""
        limit, scaled = self.settings.limit, self._scaled(F)
        step = -(-self.n_rows // stages.SAMPLE_ROWS)
        for margin in stages.MARGINS if step > 1 else (0.0,):
            floor = self._floor(scaled, margin) if margin else 0.0
            items = [(*shard, self.settings, limit, floor) for shard in scaled]
            found, counted = self.engine.shuffle(_best, items, 2, memory=self.memory, title="Inferring beliefs")
            counts = sum(self.engine.get(counted))
            # Fewer than the limit at or above the guess: the guess was too high, and something is missing.
            if counts.sum() >= limit or not floor:
                break
        cuts = self._cuts(found, counts)
        cut = [
            (one, part, self.n_labels, kept, self._number(number, shard))
            for shard, (one, part) in enumerate(zip(found, cuts, strict=True))
        ]
        return self.engine.map(_cut, cut, memory=self.memory, title="Keeping beliefs")

    def _scaled(self, F: list[Ref]) -> list[tuple[Ref, Ref, Ref]]:
        """What each shard makes beliefs of: its labels, their scales, and the sums of these labels."""
        how: dict[str, Any] = {"memory": self.memory, "title": "Adding beliefs up by label"}
        spread = self.engine.shuffle(_spread, zip(F, self.rows, strict=True), self.n_shards, **how)
        given = [
            (turned, first, self.settings.n_jobs, *pieces)
            for turned, first, pieces in zip(self.turned, self.ranges[:-1], spread, strict=True)
        ]
        sums = self.engine.shuffle(_gather, given, self.n_shards, **how)
        joined = self.engine.map(_join, [(self.n_labels, *pieces) for pieces in sums], **how)
        return list(zip(self.labels, self.scales, joined, strict=True))

    def _floor(self, scaled: list[tuple[Ref, Ref, Ref]], margin: float) -> float:
        """A guess at what the least belief will be."""
        wanted = stages.sample_wants(self.settings.limit, self.n_rows, margin)
        items = [
            (*shard, self.settings, wanted, stages.sample_of(*span, self.n_rows))
            for shard, span in zip(scaled, pairwise(self.bounds), strict=True)
        ]
        sampled = self.engine.map(_sample, items, memory=self.memory, title="Guessing the least belief")
        return stages.floor_of(np.concatenate(self.engine.get(sampled)), wanted)

    def _cuts(self, found: list[Ref], counts: I64) -> list[Cut]:
        """What TopL keeps of each shard."""
        if counts.sum() <= self.settings.limit:
            return [Cut(0.0, 0)] * self.n_shards
        upper, within = stages.half_of(counts, self.settings.limit)
        refs = self.engine.map(_lower, [(one, upper) for one in found], memory=self.memory, title="Counting beliefs")
        lower_counts = self.engine.get(refs)
        lower, ties = stages.half_of(sum(lower_counts), within)
        equal = offsets([int(counts[lower]) for counts in lower_counts])
        # Of equal beliefs those in earlier rows stay, so the first shards have their ties first.
        return [
            Cut(stages.value_of(upper, lower), int(np.clip(ties - before, 0, after - before)))
            for before, after in pairwise(equal.tolist())
        ]

    def _number(self, iteration: int, shard: int) -> int:
        return iteration * self.n_shards + shard


def _own(value: Any) -> Any:
    """Copies, which kernels may be given: what comes from another task is read-only."""
    return type(value)(*(np.array(one) if isinstance(one, np.ndarray) else one for one in value))


# Tasks: what a shard of pages or a range of labels does at each step.


def _deal(Y: CSR, ranges: Sequence[int]) -> list[Any]:
    """For each range of labels the parts of the rows that have them; at last, which rows these are."""
    dealt = stages.dealt_rows(Y, ranges)
    return [*(part for _, part in dealt), [rows for rows, _ in dealt]]


def _turn(*pieces: CSR) -> tuple[Turned, F64]:
    """The rows of a range of labels turned around, and the sums of its labels."""
    Y = stacked(list(pieces))
    wanted = [np.unique(piece.indices).astype(np.int64) for piece in pieces]
    return Turned(stages.by_label(Y), wanted), stages.label_sums(Y)


def _scale(Y: CSR, rows: list[I64], sums: F64, similarity: str) -> list[F64]:
    """The scales of the rows that each range has, and of all rows of the shard."""
    scale = stages.row_scales(Y, sums, similarity)
    return [*(scale[some] for some in rows), scale]


def _weigh(turned: Turned, share: F64, *scales: F64) -> Turned:
    return turned._replace(columns=stages.weighted(turned.columns, np.concatenate(scales), share))


def _spread(F: CSR, rows: list[I64]) -> list[CSR]:
    """The beliefs of the pages that each range has."""
    return [F.take(some) for some in rows]


def _gather(turned: Turned, first: int, n_jobs: int, *pieces: CSR) -> list[WantedSums]:
    """The rows of G of a range of labels, for each shard those of its own labels."""
    G = stages.ordered_sums(stages.gathered(_own(turned.columns), stacked(list(pieces)), n_jobs), n_jobs)
    return [stages.wanted_sums(G, labels, first) for labels in turned.wanted]


def _join(n_labels: int, *pieces: WantedSums) -> LabelSums:
    return stages.joined_sums(pieces, n_labels)


def _sample(Y: CSR, scale: F64, G: LabelSums, settings: BeliefSettings, wanted: int, rows: I64) -> F32:
    """The greatest values in the sampled rows of a shard."""
    how: dict[str, Any] = {"beta": settings.beta, "n_jobs": settings.n_jobs}
    found = stages.best_rows(_own(Y), np.array(scale), _own(G), rows, limit=wanted, floor=0.0, **how)
    return found.values


def _best(Y: CSR, scale: F64, G: LabelSums, settings: BeliefSettings, limit: int, floor: float) -> tuple[Entries, I64]:
    """The beliefs of a shard at or above the floor, and how many there are by the upper half of their bits."""
    how: dict[str, Any] = {"beta": settings.beta, "n_jobs": settings.n_jobs}
    every = np.arange(Y.n_rows, dtype=np.int64)
    found = stages.best_rows(_own(Y), np.array(scale), _own(G), every, limit=limit, floor=floor, **how)
    return found, stages.upper_counts(found.values)


def _lower(found: Entries, upper: int) -> I64:
    return stages.lower_counts(np.array(found.values), upper)


def _cut(found: Entries, cut: Cut, n_labels: int, kept: Checkpoints, number: int) -> CSR:
    """The beliefs of a shard that TopL keeps, on disk too if they are to be."""
    rows = CSR.of_blocks([stages.kept(found, cut)], n_labels)
    kept.keep(number, BeliefRows(*rows[:3]))
    return rows
