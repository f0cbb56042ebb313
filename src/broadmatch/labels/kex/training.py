"""How KEX learns: two passes over the pages, one to count and one for features; then logistic regressions."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.labels.calibration import Calibration, fit_calibration
from broadmatch.labels.kex._features import MOST, write_features
from broadmatch.labels.kex._logistic import scores_of, solve_logistic
from broadmatch.labels.kex.reading import ReadPages, of_page
from broadmatch.labels.kex.tables import KeyCounts, keys_of
from broadmatch.parallel import map_threads

FOLDS = 3
_ROUNDS, _TOLERANCE = 30, 0.1
MOST_ROWS = 2_000_000
"""Candidates that are learned from; of more, those that were not chosen are drawn, and weigh as many as they stand for."""


class Chosen(NamedTuple):
    """The phrases of the training pages: page and key of each that a candidate can be, clicks, and all by page."""

    page: NDArray[np.int64]
    key: NDArray[np.uint64]
    clicks: NDArray[np.float64]
    counts: NDArray[np.int64]
    """How many different phrases a page has, also those that cannot be found on it."""

    @classmethod
    def of(cls, phrases: Iterable[Any]) -> "Chosen":
        """Lists of phrases, or phrases with their clicks, a page each."""
        page, names, clicks, counts = [], [], [], []
        for number, given in enumerate(phrases):
            if isinstance(given, str) or not isinstance(given, Iterable):
                raise BadInput(f"The phrases of page {number} are {given!r}; give a list of phrases for each page.")
            pairs = list(given.items() if isinstance(given, Mapping) else ((phrase, 1.0) for phrase in given))
            if wrong := [name for name, _ in pairs if not isinstance(name, str)]:
                raise BadInput(f"A phrase of page {number} is {wrong[0]!r}; a phrase is a string.")
            page += [number] * len(pairs)
            names += [name for name, _ in pairs]
            clicks += [float(weight) for _, weight in pairs]
            counts.append(len(pairs))
        pages, keys = np.array(page, np.int64), keys_of(names)
        once = np.unique(np.stack([pages.astype(np.uint64), keys]), axis=1, return_index=True)[1] if names else []
        double = np.bincount(pages, minlength=len(counts)) - np.bincount(pages[once], minlength=len(counts))
        absent = np.bincount(pages[keys == 0], minlength=len(counts))
        kept = np.array([i for i in once if keys[i] != 0], np.int64)
        # Those without a key are all counted: they differ, though their keys do not.
        total = np.array(counts, np.int64) - double + np.maximum(absent - 1, 0)
        return cls(pages[kept], keys[kept], np.array(clicks, np.float64)[kept], total)


class Rows(NamedTuple):
    """Candidates to learn from, behind each other: their features, page, key, and whether they were chosen."""

    ptr: NDArray[np.int64]
    code: NDArray[np.int32]
    page: NDArray[np.int64]
    positive: NDArray[np.bool_]
    weight: NDArray[np.float64]


@dataclass(frozen=True)
class Learned:
    """What comes out: weights with the bias last, the map to probabilities, the score from which on a set has all."""

    weights: NDArray[np.float32]
    calibration: Calibration
    cut: float


def counted(blocks: Iterable[ReadPages]) -> tuple[int, KeyCounts, KeyCounts]:
    """How many pages there are, and on how many each phrase and each stem is; on one page only is as on none."""
    n_pages, keys, stems = 0, [], []
    for block in blocks:
        n_pages += len(block.names)
        keys.append(block.key.copy())
        stems.append(block.stems_of_pages())
    return n_pages, KeyCounts.of(keys).at_least(2), KeyCounts.of(stems).at_least(2)


def rows_of(block: ReadPages, first: int, chosen: Chosen, known: Any, room: int, shape: bool, share: float, seed: int) -> Rows:
    """The candidates of a block whose first page has this number, with their features."""
    page = block.page_of + first
    positive = is_chosen(block, first, chosen)
    wanted = positive.copy()
    rng = np.random.default_rng((seed, first))
    wanted |= rng.random(len(wanted)) < share
    ptr = np.zeros(len(page) + 1, np.int64)
    code, group = (np.empty(MOST * (int(wanted.sum()) + 1), np.int32) for _ in range(2))
    write_features(*block.arrays(), known, room, shape, wanted.astype(np.int32), ptr, code, group)
    weight = np.where(positive, 1.0, 1.0 / share)[wanted]
    return Rows(offsets(np.diff(ptr)[wanted]), code[: ptr[-1]].copy(), page[wanted], positive[wanted], weight)


def is_chosen(block: ReadPages, first: int, chosen: Chosen) -> NDArray[np.bool_]:
    """Whether each candidate of a block was chosen for its page."""
    return np.isin(of_page(block.key, block.page_of + first), of_page(chosen.key, chosen.page))


def joined(parts: list[Rows]) -> Rows:
    """Rows of several blocks as one."""
    lengths = np.concatenate([np.diff(part.ptr) for part in parts])
    return Rows(offsets(lengths), *(np.concatenate(column) for column in list(zip(*parts, strict=True))[1:]))


def learn(rows: Rows, chosen: Chosen, room: int, c: float, seed: int, n_jobs: int | None) -> Learned:
    """Weights from all pages; the map and the cut from scores of pages that were not learned from."""
    n_pages = len(chosen.counts)
    fold = np.random.default_rng(seed).permutation(n_pages) % FOLDS

    def solve(left_out: int) -> NDArray[np.float64]:
        cost = np.where(fold[rows.page] == left_out, 0.0, c * rows.weight)
        weights = np.zeros(room + 1)
        solve_logistic(rows.ptr, rows.code, rows.positive, cost, _ROUNDS, _TOLERANCE, seed, weights)
        return weights

    *parts, weights = map_threads(solve, [*range(FOLDS), -1], n_jobs)
    scores = np.empty(len(rows.page), np.float32)
    for number, part in enumerate(parts):
        some = np.flatnonzero(fold[rows.page] == number)
        given = np.empty(len(rows.page), np.float32)
        scores_of(rows.ptr, rows.code, part, given)
        scores[some] = given[some]
    return Learned(weights.astype(np.float32), _calibrated(scores, rows), best_cut(scores, rows, chosen.counts))


def _calibrated(scores: NDArray[np.float32], rows: Rows) -> Calibration:
    """The map from scores to probabilities; candidates that stand for several count as often."""
    often = np.maximum(1, np.rint(rows.weight)).astype(np.int64)
    return fit_calibration(np.repeat(scores, often), np.repeat(rows.positive, often))


def best_cut(scores: NDArray[np.float32], rows: Rows, counts: NDArray[np.int64]) -> float:
    """The score s with the largest mean F1 of the pages' sets of candidates with at least s.

    F1 of a page is 2·right / (given + chosen); a page where nothing was chosen does not count.
    """
    order = np.argsort(-scores, kind="stable")
    page, right, weight = rows.page[order], rows.positive[order], rows.weight[order]
    given, hits, f1 = np.zeros(len(counts)), np.zeros(len(counts)), np.zeros(len(counts))
    total, best, cut = 0.0, -1.0, float(scores.max(initial=0.0))
    for k, (p, hit, w) in enumerate(zip(page.tolist(), right.tolist(), weight.tolist(), strict=True)):
        given[p] += w
        hits[p] += hit
        now = 2.0 * hits[p] / (given[p] + counts[p])
        total += now - f1[p] if counts[p] else 0.0
        f1[p] = now
        if hit and total > best:
            best, cut = total, float(scores[order[k]])
    return cut


Solve = Callable[[int], NDArray[np.float64]]
