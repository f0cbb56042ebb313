"""How KEX learns: two passes over the pages, one to count and one for features; then logistic regressions."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.harvest import normalise_query
from broadmatch.labels.calibration import Calibration, fit_calibration
from broadmatch.labels.kex._features import MOST, Known, write_features
from broadmatch.labels.kex._logistic import scores_of, solve_logistic
from broadmatch.labels.kex.reading import ReadPages, of_page
from broadmatch.labels.kex.tables import keys_of
from broadmatch.parallel import map_threads

_FOLDS = 3
_ROUNDS, _TOLERANCE = 30, 0.1
_LEAST = 1e-6  # of a cut's gain in F1: what is less is rounding


class Chosen(NamedTuple):
    """The phrases of the training pages that a candidate can be: key with page, ascending, key, and clicks.

    `counts` says how many different phrases each page has, also those that cannot be found on it.
    """

    marks: NDArray[np.uint64]
    keys: NDArray[np.uint64]
    clicks: NDArray[np.float64]
    counts: NDArray[np.int64]

    @classmethod
    def of(cls, phrases: Iterable[Any]) -> "Chosen":
        """Lists of phrases, or phrases with their clicks, a page each."""
        names: list[str] = []
        clicks: list[float] = []
        counts: list[int] = []
        for number, given in enumerate(phrases):
            own = _clicks_by_phrase(number, given)
            names += own
            clicks += own.values()
            counts.append(len(own))
        page = np.repeat(np.arange(len(counts)), counts)
        keys = keys_of(names)
        marks, first, code = np.unique(of_page(keys, page), return_index=True, return_inverse=True)
        total = np.bincount(code, clicks, len(marks))
        found = keys[first] != 0
        return cls(marks[found], keys[first][found], total[found], np.array(counts, np.int64))

    def clicks_of(self, block: ReadPages, first: int) -> NDArray[np.float64]:
        """The clicks of each candidate of a block whose first page has this number, 0 if it was not chosen."""
        marks = of_page(block.key, block.page_of + first)
        at = np.minimum(np.searchsorted(self.marks, marks), len(self.marks) - 1)
        return np.where(self.marks[at] == marks, self.clicks[at], 0.0)


def _clicks_by_phrase(page: int, given: Any) -> dict[str, float]:
    """The phrases of a page, normalised, with their clicks, 1 if there are none given."""
    if isinstance(given, str | bytes) or not isinstance(given, Iterable):
        raise BadInput(f"The phrases of page {page} are {given!r:.60}; give a list of phrases for each page.")
    found: dict[str, float] = {}
    for phrase in given:
        if not isinstance(phrase, str):
            raise BadInput(f"A phrase of page {page} is {phrase!r:.60}; a phrase is a string.")
        clicks = float(given[phrase]) if isinstance(given, Mapping) else 1.0
        if not (clicks >= 0 and math.isfinite(clicks)):
            raise BadInput(f"{phrase!r:.60} has {clicks} clicks on page {page}; clicks are at least 0.")
        name = normalise_query(phrase)
        if name and clicks > 0:
            found[name] = found.get(name, 0.0) + clicks
    return found


class Rows(NamedTuple):
    """Candidates to learn from, behind each other: their features, their page, whether they were chosen, and how many
    each stands for."""

    ptr: NDArray[np.int64]
    code: NDArray[np.int32]
    page: NDArray[np.int64]
    positive: NDArray[np.bool_]
    weight: NDArray[np.float64]

    @classmethod
    def of(
        cls, block: ReadPages, first: int, positive: NDArray[np.bool_], known: Known, room: int, shape: bool,
        share: float, seed: int,
    ) -> "Rows":  # fmt: skip
        """The candidates of a block whose first page has this number: the positive, and a share of the others."""
        wanted = positive | (np.random.default_rng((seed, first)).random(len(positive)) < share)
        ptr = np.zeros(len(positive) + 1, np.int64)
        code, group = (np.empty(MOST * (int(wanted.sum()) + 1), np.int32) for _ in range(2))
        write_features(*block.arrays(), known, room, shape, wanted, ptr, code, group)
        weight = np.where(positive, 1.0, 1.0 / share)[wanted]
        page = (block.page_of + first)[wanted]
        return cls(offsets(np.diff(ptr)[wanted]), code[: ptr[-1]].copy(), page, positive[wanted], weight)

    @classmethod
    def joined(cls, parts: "list[Rows]") -> "Rows":
        """Rows of several blocks as one."""
        lengths = np.concatenate([np.diff(part.ptr) for part in parts])
        return cls(offsets(lengths), *(np.concatenate(column) for column in list(zip(*parts, strict=True))[1:]))


class Learned(NamedTuple):
    """Weights with the bias last, the map to probabilities, and the score from which on a phrase is in a set."""

    weights: NDArray[np.float32]
    calibration: Calibration
    cut: float


def learn(rows: Rows, counts: NDArray[np.int64], room: int, c: float, seed: int, n_jobs: int | None) -> Learned:
    """Weights from all pages; the map and the cut from scores of pages that were not learned from."""
    fold = np.random.default_rng(seed).permutation(len(counts)) % _FOLDS

    def solve(left_out: int) -> NDArray[np.float64]:
        cost = np.where(fold[rows.page] == left_out, 0.0, c * rows.weight)
        weights = np.zeros(room + 1)
        solve_logistic(rows.ptr, rows.code, rows.positive, cost, _ROUNDS, _TOLERANCE, seed, weights)
        return weights

    *parts, weights = map_threads(solve, [*range(_FOLDS), -1], n_jobs)
    scores, some = np.empty(len(rows.page), np.float32), np.empty(len(rows.page), np.float32)
    for number, part in enumerate(parts):
        scores_of(rows.ptr, rows.code, part, some)
        scores = np.where(fold[rows.page] == number, some, scores)
    often = np.rint(rows.weight).astype(np.int64)  # candidates that stand for several count as often
    calibration = fit_calibration(np.repeat(scores, often), np.repeat(rows.positive, often))
    return Learned(weights.astype(np.float32), calibration, best_cut(scores, rows, counts))


def best_cut(scores: NDArray[np.float32], rows: Rows, counts: NDArray[np.int64]) -> float:
    """The score s for which the sets of candidates with at least s have the largest mean F1.

    F1 of a page is 2·right / (given + chosen); a page for which nothing was chosen does not count.
    """
    order = np.argsort(-scores, kind="stable")
    page, right, weight = rows.page[order].tolist(), rows.positive[order].tolist(), rows.weight[order].tolist()
    given, hits, f1 = [0.0] * len(counts), [0] * len(counts), [0.0] * len(counts)
    wanted = counts.tolist()
    total, best, last = 0.0, 0.0, 0
    for k, p in enumerate(page):
        given[p] += weight[k]
        hits[p] += right[k]
        if wanted[p]:
            now = 2.0 * hits[p] / (given[p] + wanted[p])
            total, f1[p] = total + now - f1[p], now
            if right[k] and total > best + _LEAST:
                best, last = total, k
    below = min(last + 1, len(order) - 1)  # halfway to the next, as far from both as can be
    return float(scores[order[last]] + scores[order[below]]) / 2.0
