"""Label coverings (Amit, Dekel and Singer, AISTATS 2007, §2): which label sets count as one decision, and how many
decisions a prediction gets wrong.

A covering cuts the labelling of a point into sets of labels. Failing on one label of a set costs as much as failing
on all of them: one. A covering is the name of one of the five of the paper, groups of labels, or a function:

- "ZO", zero-one: all labels in one set. The error is 0 if everything is right and 1 otherwise.
- "HM", Hamming: each label in a set of its own. The error is the number of wrong labels.
- "TS", two sets: the labels that the point has, and those that it has not.
- "WP", weighted positive: the labels that the point has in one set that counts 6 times, each other in its own.
- "WN", weighted negative: the labels that the point has not in one set that counts 4 times, each other in its own.
- "WP:3", "WN:10": the same with another weight.
- groups: a list of lists of label names or numbers that together hold every label, the same for all points.
- a function of a labelling (a boolean array, one flag a label) that gives such a list for it.
"""

import logging
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from numbers import Integral
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.data.csr import offsets
from broadmatch.errors import BadInput
from broadmatch.evaluate.bootstrap import Bootstrap
from broadmatch.evaluate.ranking import PerPoint, RankedTruth
from broadmatch.evaluate.report import Report
from broadmatch.kernels import coverings as kernels
from broadmatch.kernels.coverings import Closed, Sets
from broadmatch.params import Rule

log = logging.getLogger("broadmatch")

Group = Sequence[int | str]
Covering = str | Sequence[Group] | Callable[[NDArray[np.bool_]], Iterable[Iterable[int | str]]]

COVERINGS = {
    "ZO": Closed(1, 1, 1),
    "HM": Closed(0, 0, 1),
    "TS": Closed(1, 2, 1),
    "WP": Closed(1, 0, 6),
    "WN": Closed(0, 1, 4),
}
"""The coverings of the paper, by name."""

LISTED = Closed(0, 0, 0)
"""Stands where the sets are listed."""

NO_SETS = Sets(np.zeros(0, np.int64), np.zeros(1, np.int64), np.zeros(0), np.zeros(1, np.int64), np.zeros(0, np.int32))


class CoveringRule(Rule):
    """The rule of a `covering` parameter."""

    def holds(self, value: object) -> bool:
        """Say whether `value` can be a covering; whether its groups fit the labels is seen when there are labels."""
        if isinstance(value, str):
            return named_covering(value) is not None
        if callable(value):
            return True
        return isinstance(value, list | tuple) and bool(value) and all(_is_group(group) for group in value)

    def text(self) -> str:
        """Name the rule."""
        names = ", ".join(map(repr, COVERINGS))
        return f"one of {names}, 'WP:3' with a weight, or a list of groups of labels, or a function of a labelling"

    def to_plain(self, value: Any) -> Any:
        """A name or lists of labels; a function cannot be saved, and becomes None."""
        if callable(value):
            log.warning("The covering is a function, which cannot be saved: a loaded model predicts, but cannot refit.")
            return None
        if isinstance(value, str | None):
            return value
        return [sorted(group) if isinstance(group, set | frozenset) else list(group) for group in value]


def covering_error(
    y_true: Any,
    y_pred: Any,
    *,
    covering: Covering = "HM",
    label_names: Iterable[str] | None = None,
    sample_weight: Any = None,
) -> float:
    """How many label sets of the covering are predicted wrongly, averaged over points; 0 is best.

    `y_pred` are sets: a stored entry is a label that was chosen, whatever its score. Groups may name labels by
    `label_names`; without them, by number.

    >>> from broadmatch.data import CSR
    >>> truth, chosen = CSR.from_rows([[0, 1], [2]], n_cols=4), CSR.from_rows([[0], [1, 2, 3]], n_cols=4)
    >>> [covering_error(truth, chosen, covering=name) for name in ("ZO", "HM", "TS", "WP", "WN")]
    [1.0, 1.5, 1.0, 4.0, 2.5]
    >>> covering_error(truth, chosen, covering=[[0, 1], [2, 3]])
    1.5
    """
    return RankedTruth.of_sets(y_true, y_pred, sample_weight).value(_contribution, covering, label_names)


def covering_report(
    y_true: Any,
    y_pred: Any,
    *,
    coverings: Mapping[str, Covering] | None = None,
    label_names: Iterable[str] | None = None,
    sample_weight: Any = None,
    n_bootstrap: int = 1000,
    seed: int = 0,
    level: float = 0.95,
) -> Report:
    """The errors of several coverings with bootstrap intervals over points; without `coverings`, of all five.

    The error of covering A is called "covering error@A". Two reports about the same points can be compared by
    `paired_difference`.

    >>> from broadmatch.data import CSR
    >>> truth, chosen = CSR.from_rows([[0, 1], [2]], n_cols=4), CSR.from_rows([[0], [2]], n_cols=4)
    >>> print(covering_report(truth, chosen)["covering error@WP"])
    3.0000 [0.0000, 6.0000]
    """
    bootstrap = Bootstrap(n_bootstrap, seed, level)
    wanted: Mapping[str, Covering] = {name: name for name in COVERINGS} if coverings is None else coverings
    if not wanted:
        raise BadInput("There is no covering to report: coverings is empty.")
    ranked = RankedTruth.of_sets(y_true, y_pred, sample_weight)
    names = None if label_names is None else Names.of(label_names)
    found = {f"covering error@{name}": _contribution(ranked, c, names) for name, c in wanted.items()}
    return Report.of(ranked.points, ranked.weighted(found), bootstrap)


def named_covering(name: str) -> Closed | None:
    """The covering of that name, None if there is none.

    >>> named_covering("WP"), named_covering("WP:3").weight
    (Closed(relevant=1, irrelevant=0, weight=6), 3)
    """
    kind, _, weight = name.partition(":")
    if not weight:
        return COVERINGS.get(name)
    if kind not in ("WP", "WN") or not weight.isdecimal() or int(weight) < 1:
        return None
    return COVERINGS[kind]._replace(weight=int(weight))


def cover(covering: Covering, truth: CSR, names: Names | None) -> tuple[Closed, Sets]:
    """The covering of each point as kernels take it: a closed one, or `LISTED` and the sets."""
    if isinstance(covering, str):
        named = named_covering(covering)
        if named is None:
            raise BadInput(f"There is no covering {covering!r}; there are {', '.join(COVERINGS)}.")
        return named, NO_SETS
    n_labels = truth.n_cols
    if not callable(covering):
        return LISTED, _listed(np.zeros(truth.n_rows, np.int64), [_checked(covering, n_labels, names, "The covering")])
    known: dict[bytes, int] = {}
    covers: list[list[NDArray[np.int32]]] = []
    of_point = np.empty(truth.n_rows, np.int64)
    for i in range(truth.n_rows):
        labels = truth.row(i)[0]
        number = known.setdefault(labels.tobytes(), len(known))
        if number == len(covers):
            flags = np.zeros(n_labels, np.bool_)
            flags[labels] = True
            covers.append(_checked(covering(flags), n_labels, names, f"The covering of row {i}", empty=True))
        of_point[i] = number
    return LISTED, _listed(of_point, covers)


def errors_per_point(
    y_true: Any, y_pred: Any, *, covering: Covering, label_names: Iterable[str] | None = None
) -> NDArray[np.float64]:
    """The covering error of each point, for tests that compare two models point by point.

    >>> from broadmatch.data import CSR
    >>> errors_per_point(CSR.from_rows([[0, 1], [1]], n_cols=2), CSR.from_rows([[0], [1]], n_cols=2), covering="WP")
    array([6., 0.])
    """
    return _contribution(RankedTruth.of_sets(y_true, y_pred), covering, label_names).numerator[:, 0]


def _contribution(ranked: RankedTruth, covering: Covering, label_names: Iterable[str] | None) -> PerPoint:
    names = None if label_names is None else Names.of(label_names)
    if names is not None and len(names) != ranked.n_labels:
        raise BadInput(f"There are {len(names):,} label names for {ranked.n_labels:,} labels.")
    truth = ranked.truth
    closed, sets = cover(covering, truth, names)
    errors = kernels.covering_errors(
        ranked.indptr, ranked.labels, truth.indptr, truth.indices, ranked.n_labels, closed, sets
    )
    return PerPoint(errors[:, None])


def _checked(given: Any, n_labels: int, names: Names | None, what: str, empty: bool = False) -> list[NDArray[np.int32]]:
    """The sets of one covering by label numbers; only those of a function may be empty: they are never wrong."""
    if isinstance(given, str) or not isinstance(given, Iterable):
        raise BadInput(f"{what} is {given!r}, but it must be a list of groups of labels.")
    sets = []
    for group in given:
        if isinstance(group, str) or not isinstance(group, Iterable):
            raise BadInput(f"{what} holds {group!r}, but each of its groups must be a list of labels: [{group!r}].")
        numbers = np.array(sorted({_number(label, n_labels, names, what) for label in group}), np.int32)
        if not len(numbers) and not empty:
            raise BadInput(f"{what} has an empty group; leave it out.")
        sets.append(numbers)
    if not sets:
        raise BadInput(f"{what} is empty; its groups must hold every label.")
    missing = np.setdiff1d(np.arange(n_labels), np.concatenate(sets))
    if len(missing):
        first = int(missing[0])
        which = f"label {first}" if names is None else f"{names[first]!r}"
        more = f" and {len(missing) - 1:,} more" if len(missing) > 1 else ""
        raise BadInput(f"{what} misses {which}{more}; every label must be in a group, if only in one of its own.")
    return sets


def _number(label: Any, n_labels: int, names: Names | None, what: str) -> int:
    if isinstance(label, str):
        if names is None or label not in names:
            raise BadInput(f"{what} names {label!r}, which is not one of the {n_labels:,} labels.")
        return names.index(label)
    if isinstance(label, bool) or not isinstance(label, Integral) or not 0 <= int(label) < n_labels:
        raise BadInput(f"{what} names {label!r}, but the labels are 0 to {n_labels - 1}.")
    return int(label)


def _listed(of_point: NDArray[np.int64], covers: list[list[NDArray[np.int32]]]) -> Sets:
    """Several coverings behind each other; a set that stands in one several times is kept once, with a weight."""
    cover_ptr, weights, lengths = [0], [], []
    labels: list[NDArray[np.int32]] = [np.empty(0, np.int32)]
    for sets in covers:
        for key, weight in Counter(numbers.tobytes() for numbers in sets if len(numbers)).items():
            numbers = np.frombuffer(key, np.int32)
            labels.append(numbers)
            lengths.append(len(numbers))
            weights.append(weight)
        cover_ptr.append(len(weights))
    arrays = np.array(cover_ptr, np.int64), np.array(weights, np.float64), offsets(lengths)
    return Sets(of_point, *arrays, np.concatenate(labels))


def _is_group(value: object) -> bool:
    """Whether `value` is a list of names and numbers."""
    if not isinstance(value, list | tuple | set | frozenset):
        return False
    return all(isinstance(v, str) or (isinstance(v, Integral) and not isinstance(v, bool)) for v in value)
