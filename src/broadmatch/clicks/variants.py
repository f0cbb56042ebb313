"""Variants of a click model that are trained together, and what the two ways to do so share."""

import os
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks import _learners as click_learners
from broadmatch.clicks._learners import COUNTS, weights_and_rates
from broadmatch.clicks._table import STEP, USED
from broadmatch.clicks._variants import score_variants
from broadmatch.clicks.inclusion import (
    Bloom,
    Inclusion,
    Poisson,
    empty_filters,
    facts_of,
    inclusion_from,
    kind_and_chance,
)
from broadmatch.clicks.learner import _most_features
from broadmatch.clicks.serving import sigmoids
from broadmatch.clicks.table import ENCODINGS, FeatureTable
from broadmatch.clicks.validation import check_impressions
from broadmatch.data import Impressions
from broadmatch.errors import BadArtifact, BadInput, BadParameter
from broadmatch.io.artifacts import save
from broadmatch.params import Number, OneOf, Parameters, Rule, Whole
from broadmatch.state import State

LEARNERS = {
    "ftrl": click_learners.FTRL,
    "rda": click_learners.RDA,
    "fobos": click_learners.FOBOS,
    "ogd": click_learners.OGD,
}
MOST = 64
"""As many variants as a bit field has bits."""


@dataclass(frozen=True, kw_only=True)
class Variant(Parameters):
    """A learner with its parameters, and the signals that it uses: their numbers, as in `Impressions.fields`, or all.

    >>> Variant(alpha=0.3, fields=[2, 0]).fields
    (0, 2)
    """

    rules: ClassVar[Mapping[str, Rule]] = {
        "learner": OneOf(tuple(LEARNERS)),
        "alpha": Number(0, above=True),
        "beta": Number(0),
        "l1": Number(0),
        "l2": Number(0),
    }

    learner: str = "ftrl"
    alpha: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    fields: Iterable[int] | None = None

    def __post_init__(self) -> None:
        self.check_params()
        if self.learner == "ogd" and self.l1:
            raise BadParameter("l1 is not a parameter of OGD: gradient steps do not end at 0; use FTRL or FOBOS.")
        if self.fields is None:
            return
        fields = tuple(self.fields)
        if not fields:
            raise BadParameter("A variant without fields predicts nothing; name at least one, or None for all.")
        for field in fields:
            Whole(0, 2**15 - 1).check("A field of a variant", field)
        object.__setattr__(self, "fields", tuple(sorted({int(field) for field in fields})))


class VariantModels(Parameters):
    """Base of `ManyModels` and `SingleValue`: a table of keys, bit fields and counts, and its coefficients.

    The bit field of a feature says which variants include it. It is written when the feature is first learned, from
    the signal that it comes from; where all variants use all signals there is none.
    """

    kind: ClassVar[str]
    single: ClassVar[bool]
    """Whether the variants share the coefficient of a feature."""
    learning: ClassVar[Callable[..., np.int64]]
    """The kernel that learns."""
    rules: ClassVar[Mapping[str, Rule]] = {"encoding": OneOf(tuple(ENCODINGS)), "seed": Whole(0, 2**63 - 1)}

    def __init__(
        self,
        variants: Mapping[str, Variant] | Iterable[tuple[str, Variant]],
        *,
        encoding: str = "float64",
        inclusion: Inclusion = None,
        seed: int = 0,
    ) -> None:
        self.variants = _named(variants)
        self.encoding = encoding
        self.inclusion = inclusion
        self.seed = seed
        self.check_params()
        if not (inclusion is None or isinstance(inclusion, Poisson | Bloom)):
            raise BadParameter(f"inclusion must be None, Poisson(p) or Bloom(n), but it is {inclusion!r}.")
        # Columns of the table are sorted by learner, so that one loop does all that have the same formula.
        given = list(self.variants.values())
        self._places = np.argsort([LEARNERS[v.learner] for v in given], kind="stable").astype(np.int64)
        columns = [given[place] for place in self._places]
        self._learners = np.array([LEARNERS[v.learner] for v in columns], np.int64)
        self._settings = np.array(
            [[getattr(v, name) for v in columns] for name in ("alpha", "beta", "l1", "l2")], float
        )
        self._masks = _masks([v.fields for v in columns])
        self._halves = 0 if len(self._masks) == 1 else (len(columns) + 31) // 32
        size = np.dtype(ENCODINGS[encoding]).itemsize
        bits = -(-4 * self._halves // size)
        self.table = FeatureTable(encoding, bits + 2 + (1 if self.single else len(columns)))
        self._first = self.table.first + bits
        self._levels = np.zeros(2 + len(columns))  # N, P and an intercept for each variant, if they have one
        self._filters, self._rolling = empty_filters(inclusion)
        self._streams = np.array([int(seed), int(seed) + (1 << 63)], np.uint64)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variants, in the order of the columns of predictions."""
        return tuple(self.variants)

    @property
    def n_features(self) -> int:
        """How many features the models hold, those with coefficients of 0 too."""
        return len(self.table)

    @property
    def n_learned(self) -> int:
        """How many impressions were learned."""
        return int(self.table.state[STEP])

    @property
    def nbytes(self) -> int:
        """Bytes that the table and the filters take in memory."""
        return self.table.nbytes + (self._filters.nbytes if isinstance(self.inclusion, Bloom) else 0)

    def learn_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """Learn from each impression in turn; the probability of each variant before that is in its column."""
        check_impressions(impressions, labelled=True)
        wanted = self._wanted(impressions)
        out = np.empty((wanted.n_rows, len(self.variants)))
        row = 0
        while True:
            row = self._learn_from(wanted, row, out)
            if row == wanted.n_rows:
                return out
            table = self.table
            table.reserve(max(table.room + 1, len(table) + _most_features(wanted.indptr, row)))

    def predict_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """The click probability of each impression, a column for each variant; nothing changes."""
        check_impressions(impressions)
        scores = np.empty((impressions.n_rows, len(self.variants)))
        score_variants(
            self.table.words,
            self.table.cells,
            self._first,
            self._halves,
            impressions.indptr,
            impressions.keys,
            impressions.values,
            self._learners,
            self._settings,
            self._places,
            self.single,
            self._levels,
            scores,
        )
        return sigmoids(scores.reshape(-1)).reshape(scores.shape)

    def weights(self, name: str) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
        """The key of every feature that a variant includes, ascending, with its coefficient and its learning rate."""
        if name not in self.variants:
            raise BadParameter(f"There is no variant {name!r}; there are {', '.join(map(repr, self.names))}.")
        column = int(np.flatnonzero(self._places == self.names.index(name))[0])
        keys, slots = self.table.sorted()
        if self._halves:
            half = self.table.words[slots, 2 + column // 32]
            included = (half >> np.uint32(column % 32)) & np.uint32(1) == 1
            keys, slots = keys[included], slots[included]
        at = self._first + 2 + (0 if self.single else column)
        numbers = np.ascontiguousarray(self.table.cells[slots][:, [at, self._first, self._first + 1]])
        weights, rates = np.empty(len(keys)), np.empty(len(keys))
        learner, (alpha, beta, l1, l2) = int(self._learners[column]), self._settings[:, column].tolist()
        rows = np.arange(len(keys))
        weights_and_rates(numbers, 0, rows, learner, COUNTS, alpha, beta, l1, l2, 0.0, weights, rates)
        return keys, weights, rates

    def to_state(self) -> State:
        """Everything that is known; the same whatever batches it came in."""
        keys, slots = self.table.sorted()
        arrays: dict[str, NDArray[Any]] = {
            "keys": keys,
            "records": self.table.words[slots, 2:],  # as whole numbers, for bit fields are no floats
            "levels": self._levels.copy(),
            "state": self.table.state.copy(),
            "streams": self._streams.copy(),
            "filters": self._filters.copy(),
            "rolling": self._rolling.copy(),
        }
        variants = [[name, asdict(variant)] for name, variant in self.variants.items()]
        facts = {"variants": variants, "inclusion": facts_of(self.inclusion)}
        return State(self.kind, {name: getattr(self, name) for name in self.rules}, arrays, facts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Restore the models; they go on as if they had never stopped."""
        variants = [(name, Variant(**settings)) for name, settings in state.facts["variants"]]
        models = cls(variants, **state.params, inclusion=inclusion_from(state.facts["inclusion"]))
        keys, records, table = state.arrays["keys"], state.arrays["records"], models.table
        fresh = models.to_state().arrays
        fits = (
            all(state.arrays[name].dtype == fresh[name].dtype for name in fresh)
            and all(state.arrays[name].shape == fresh[name].shape for name in fresh if name not in ("keys", "records"))
            and records.shape == (len(keys), fresh["records"].shape[1])
            and bool(np.all(keys[:-1] < keys[1:]))
            and not (len(keys) and keys[0] == 0)
            and int(state.arrays["state"][USED]) == len(keys)
        )
        if not fits:
            raise BadArtifact(f"The saved {cls.kind} is damaged: its keys and records do not fit; train it again.")
        table.fill(keys, np.ascontiguousarray(records).view(table.cells.dtype))
        table.state[:] = state.arrays["state"]
        models._levels[:] = state.arrays["levels"]
        models._streams[:] = state.arrays["streams"]
        models._filters[:] = state.arrays["filters"]
        models._rolling[:] = state.arrays["rolling"]
        return models

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the models to a folder, from which `broadmatch.load` restores them to go on learning."""
        save(self, path)

    def _update(self) -> tuple[Any, ...]:
        """What the kernel takes of learners and their parameters."""
        raise NotImplementedError

    def _learn_from(self, impressions: Impressions, row: int, out: NDArray[np.float64]) -> int:
        """Learn from `row` on until the table has to grow; gives the row where to go on."""
        table = self.table
        indptr, keys, values, fields, clicked, weight = impressions
        arguments = (
            *(table.words, table.cells, self._first, self._halves, table.room),
            *(indptr, keys, values, fields, clicked, weight, row, out, self._masks),
            *self._update(),
            *(*kind_and_chance(self.inclusion), self._filters, self._rolling, table.state, self._streams),
        )
        return int(self.learning(*arguments))

    def _wanted(self, impressions: Impressions) -> Impressions:
        """The impressions without the features that no variant uses."""
        if not self._halves:
            return impressions
        indptr, keys, values, fields, _, _ = impressions
        if len(fields) != len(keys):
            raise BadInput(
                f"Variants that use some signals only need the signal of each feature, but there are {len(keys)} keys "
                f"and {len(fields)} fields; let an encoder of broadmatch.signals make the impressions."
            )
        if len(fields) and fields.min() < 0:
            raise BadInput("The fields of the impressions must be numbers of signals, from 0 on.")
        if self._masks.all():
            return impressions
        used = self._masks[np.minimum(fields, len(self._masks) - 1)] != 0
        return impressions._replace(
            indptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(used)])[indptr],
            keys=keys[used],
            values=values[used] if len(values) else values,
            fields=fields[used],
        )


def _named(variants: Mapping[str, Variant] | Iterable[tuple[str, Variant]]) -> dict[str, Variant]:
    """The variants by name, checked."""
    pairs = list(variants.items() if isinstance(variants, Mapping) else variants)
    if not 1 <= len(pairs) <= MOST:
        raise BadParameter(f"There must be 1 to {MOST} variants, but there are {len(pairs)}; train the others apart.")
    named: dict[str, Variant] = {}
    for name, variant in pairs:
        if not isinstance(name, str) or not isinstance(variant, Variant):
            raise BadParameter(f"Variants must be names with a Variant(...) each, but one is {name!r}: {variant!r}.")
        if name in named:
            raise BadParameter(f"Two variants have the name {name!r}; give each its own.")
        named[name] = variant
    return named


def _masks(fields: list[Iterable[int] | None]) -> NDArray[np.uint64]:
    """Of each field the bits of the columns that use it; the last is that of all fields beyond."""
    highest = max((max(some) + 1 for some in fields if some is not None), default=0)
    masks = np.zeros(highest + 1, np.uint64)
    for column, some in enumerate(fields):
        masks[slice(None) if some is None else list(some)] |= np.uint64(1 << column)
    return masks
