"""The steps of sparse beliefs (MLRF §4) as functions of arrays, which one machine and shards on many both call.

Pages stand in shards of rows, labels in ranges. With S = D^{-1/2} Y, C the shares of labels and F the beliefs so far:

1. `dealt_rows` gives each range of labels the pages that have one of them, `by_label` turns these around, and the
   sums of labels (`label_sums`) give `shares`, then the `row_scales` D^{-1/2} of each shard and the `weighted` SC;
2. in each iteration, `spread` gives each range the beliefs of its pages, `gathered` adds them up to its rows of
   G = C Sᵀ F, and `wanted_sums` gives each shard those of its own labels, which it puts together with `joined_sums`;
3. `sampled_values` of all shards tell the `floor` below which hardly a belief will stay, `best_rows` are those of a
   shard at or above it, and TopL is found by counting (`upper_counts`, `cut_of`): each shard keeps its part of it.

The sums run by rising row and by rising label whatever the shards are, so all of this is the same bits for any of them.
"""

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR
from broadmatch.data.csr import offsets
from broadmatch.harvest._beliefs import Entries, LabelSums, belief_rows, falling_order, weighted_sums
from broadmatch.harvest._top_values import N_COUNTS, count_values
from broadmatch.kernels import F32, F64, I32, I64, Flags
from broadmatch.parallel import blocks, map_threads

SAMPLE_ROWS = 2048
MARGINS = (1.3, 4.0, 0.0)
"""How many times the expected number of entries a guessed threshold should let through; 0 lets everything through."""
_BLOCK_ROWS = 16384
_SMALL_BLOCK = 128
_BLOCK_LABELS = 4096


class ByLabel(NamedTuple):
    """The pages of each label of a range: rows[starts[k]:starts[k + 1]], rising, and their entries of SC (or of Y).

    Rows are numbered among the pages that have a label of the range.
    """

    starts: I64
    rows: I32
    weights: F64


class Cut(NamedTuple):
    """What TopL keeps: all values above `least`, and of those equal to it the first `ties`."""

    least: float
    ties: int


def dealt_rows(Y: CSR, bounds: Sequence[int]) -> list[tuple[I64, CSR]]:
    """For each range bounds[p] to bounds[p + 1] of labels: the rows that have one of them, and these parts of them.

    >>> dealt_rows(CSR.from_rows([[0, 2], [2], [1]], n_cols=3), [0, 2, 3])[1][0]
    array([0, 1])
    """
    rows = Y.rows
    part = np.searchsorted(np.asarray(bounds[1:]), Y.indices, side="right")
    order = np.argsort(part, kind="stable")
    ends = offsets(np.bincount(part, minlength=len(bounds) - 1))
    dealt = []
    for p, (first, stop) in enumerate(pairwise(bounds)):
        at = order[ends[p] : ends[p + 1]]
        having, lengths = np.unique(rows[at], return_counts=True)
        columns = (Y.indices[at] - first).astype(np.int32)
        dealt.append((having, CSR(offsets(lengths), columns, Y.data[at], stop - first)))
    return dealt


def by_label(Y: CSR) -> ByLabel:
    """The columns of Y, each by rising row."""
    columns = Y.to_scipy().tocsc()
    return ByLabel(columns.indptr.astype(np.int64), columns.indices.astype(np.int32), columns.data.astype(np.float64))


def label_sums(Y: CSR) -> F64:
    """Yᵀ 1, the sum of each label."""
    return np.bincount(Y.indices, Y.data, Y.n_cols).astype(np.float64, copy=False)


def shares(sums: F64, similarity: str) -> F64:
    """C: what a shared label counts, 1 in the paper, one over the label's sum for the walk."""
    share = np.ones(len(sums))
    if similarity == "walk":
        np.divide(1.0, sums, out=share, where=sums > 0)
    return share


def row_scales(Y: CSR, sums: F64, similarity: str) -> F64:
    """D^{-1/2} of each row, D = diag(Y C Yᵀ 1); 0 for a page without labels, whose row of S stays empty."""
    degree = Y.to_scipy() @ (shares(sums, similarity) * sums)
    scale = np.zeros(Y.n_rows)
    np.divide(1.0, np.sqrt(degree), out=scale, where=degree > 0)
    return scale


def weighted(columns: ByLabel, scale: F64, share: F64) -> ByLabel:
    """The columns of Y as those of SC: y_ik · scale_i · share_k."""
    return columns._replace(weights=columns.weights * scale[columns.rows] * np.repeat(share, np.diff(columns.starts)))


def gathered(columns: ByLabel, F: CSR, n_jobs: int | None) -> Iterator[Entries]:
    """The rows of G = C Sᵀ F for a range of labels, a block of labels at a time; F has the rows of `columns`."""

    def block(span: tuple[int, int]) -> Entries:
        return weighted_sums(*span, columns.starts, columns.rows, columns.weights, F)

    return map_threads(block, blocks(len(columns.starts) - 1, _BLOCK_LABELS), n_jobs)


def ordered_sums(pieces: Iterator[Entries], n_jobs: int | None) -> LabelSums:
    """Blocks of rows of G behind each other, with the order of each row's entries."""
    lengths, columns, values = (np.concatenate(part) for part in zip(_NOTHING, *pieces, strict=True))
    G = LabelSums(offsets(lengths), columns, values, np.empty(len(columns), np.int32))

    def block(span: tuple[int, int]) -> None:
        falling_order(*span, G)

    for _ in map_threads(block, blocks(len(lengths), _BLOCK_LABELS), n_jobs):
        pass
    return G


_NOTHING = Entries(np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0, np.float64))


class WantedSums(NamedTuple):
    """The rows of G of some labels, which rise, with the order of each row's entries."""

    labels: I64
    lengths: I64
    columns: I32
    values: F64
    order: I32


def wanted_sums(G: LabelSums, labels: I64, first: int) -> WantedSums:
    """The rows of some labels of a range, which begins with label `first`."""
    lengths = np.diff(G.indptr)[labels]
    starts = offsets(lengths)
    at = np.arange(starts[-1]) + np.repeat(G.indptr[:-1][labels] - starts[:-1], lengths)
    return WantedSums(labels + first, lengths, G.indices[at], G.data[at], G.order[at])


def joined_sums(pieces: Sequence[WantedSums], n_labels: int) -> LabelSums:
    """The rows of G that a shard wants, from all ranges in their order; those of other labels are empty."""
    labels, lengths, columns, values, order = (np.concatenate(part) for part in zip(*pieces, strict=True))
    every = np.zeros(n_labels, np.int64)
    every[labels] = lengths
    return LabelSums(offsets(every), columns, values, order)


def sample_of(first: int, stop: int, n_rows: int) -> I64:
    """The rows that are sampled of all `n_rows`, in the shard from `first` to `stop`, numbered within it."""
    step = -(-n_rows // SAMPLE_ROWS)
    return np.arange(-(-first // step) * step, stop, step, dtype=np.int64) - first


def sample_wants(limit: int, n_rows: int, margin: float) -> int:
    """Of how many of the greatest values in the sampled rows the least is the floor."""
    step = -(-n_rows // SAMPLE_ROWS)
    return int(margin * limit * -(-n_rows // step) / n_rows) + _SMALL_BLOCK


def floor_of(values: F32, wanted: int) -> float:
    """A value that so many of the values reach; 0 where there are not so many."""
    return float(np.partition(values, len(values) - wanted)[len(values) - wanted]) if len(values) >= wanted else 0.0


def best_rows(
    Y: CSR, scale: F64, G: LabelSums, rows: I64, *, beta: float, limit: int, floor: float, n_jobs: int | None
) -> Entries:
    """The `limit` greatest entries at or above `floor` of (S G + βY) / (1+β) in the given rows; the floor rises.

    At most about three times `limit` entries are held: then all but the best `limit` go, and the least of these
    is the new floor. Later entries of that very value would lose the tie, so they may be dropped too.
    """
    # A block costs memory the size of a row, so many columns ask for many rows; without a floor rows may be full.
    size = min(_BLOCK_ROWS, max(_SMALL_BLOCK, Y.n_cols // 64)) if floor else _SMALL_BLOCK
    held: list[Entries] = [_NOTHING._replace(values=np.empty(0, np.float32))]
    n_held = 0

    def spans() -> Iterator[tuple[I64, float]]:
        for start, stop in blocks(len(rows), size):
            yield rows[start:stop], floor

    def block(item: tuple[I64, float]) -> Entries:
        return belief_rows(item[0], Y, scale, G, beta, item[1])

    for piece in map_threads(block, spans(), n_jobs):
        held.append(piece)
        n_held += len(piece.values)
        if n_held > 3 * limit:
            held = [_best(held, limit)]
            n_held = limit
            floor = max(floor, float(held[0].values.min()))
    return _best(held, limit)


def upper_counts(values: F32) -> I64:
    """How many of the values, none below 0, have each upper half of their bits, which rise with them."""
    counts = np.zeros(N_COUNTS, np.int64)
    count_values(values.view(np.uint32), -1, counts)
    return counts


def lower_counts(values: F32, upper: int) -> I64:
    """How many of the values with this upper half have each lower half."""
    counts = np.zeros(N_COUNTS, np.int64)
    count_values(values.view(np.uint32), upper, counts)
    return counts


def half_of(counts: I64, limit: int) -> tuple[int, int]:
    """The half of bits where the `limit` greatest values end, and how many of those with it are among them.

    >>> half_of(np.array([5, 2, 3, 1]), 5)
    (1, 1)
    """
    above = np.cumsum(counts[::-1])[::-1]
    half = int(np.searchsorted(-above, -limit, side="right")) - 1
    return half, limit - int(above[half] - counts[half])


def value_of(upper: int, lower: int) -> float:
    """The value with these halves."""
    return float(np.array([upper << 16 | lower], np.uint32).view(np.float32)[0])


def kept_mask(values: F32, cut: Cut) -> Flags:
    """Which of the values stay."""
    mask: Flags = values > cut.least
    mask[np.flatnonzero(values == np.float32(cut.least))[: cut.ties]] = True
    return mask


def kept(found: Entries, cut: Cut) -> Entries:
    """The entries that stay, in their order."""
    mask = kept_mask(found.values, cut)
    return Entries(np.diff(offsets(mask)[offsets(found.lengths)]), found.columns[mask], found.values[mask])


def top_mask(values: F32, limit: int) -> NDArray[np.bool_]:
    """Mark the `limit` greatest of the `values`, none below 0; of equal ones, the earlier.

    >>> top_mask(np.array([0.5, 2.0, 0.5, 1.0], np.float32), 3)
    array([ True,  True, False,  True])
    """
    if not 0 < limit < len(values):
        return np.full(len(values), limit > 0)
    return kept_mask(values, _cut(values, limit))


def _cut(values: F32, limit: int) -> Cut:
    upper, within = half_of(upper_counts(values), limit)
    lower, ties = half_of(lower_counts(values, upper), within)
    return Cut(value_of(upper, lower), ties)


def _best(held: list[Entries], limit: int) -> Entries:
    """Exactly the `limit` greatest of the held entries, in their order."""
    found = Entries(*(np.concatenate(part) for part in zip(*held, strict=True)))
    return found if len(found.values) <= limit else kept(found, _cut(found.values, limit))
