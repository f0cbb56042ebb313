"""Variants of a click model that are trained together, and what the two ways to do so share."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks import _record
from broadmatch.clicks._learners import weights_and_rates
from broadmatch.clicks._record import COUNTS, GRADIENTS, LEAST, RecordColumns, Settings
from broadmatch.clicks._table import Table
from broadmatch.clicks.learner import TableLearner
from broadmatch.clicks.serving import sigmoids
from broadmatch.clicks.table import ENCODINGS, FeatureTable
from broadmatch.clicks.variants._learn import learn_variants, score_variants
from broadmatch.clicks.variants._variants import Variants
from broadmatch.data import Impressions
from broadmatch.errors import BadInput, BadParameter
from broadmatch.params import Number, OneOf, Rule, Whole, learned

LEARNERS = {"ftrl": _record.FTRL, "rda": _record.RDA, "fobos": _record.FOBOS, "ogd": _record.OGD}
MOST = 64
"""As many variants as a bit field has bits."""
_RULES = {
    "learner": OneOf(tuple(LEARNERS)),
    "alpha": Number(0, above=True),
    "beta": Number(0),
    "l1": Number(0),
    "l2": Number(0),
    "rates": OneOf(("gradients", "counts")),
    "power": Number(0, 1, above=True),
}


@dataclass(frozen=True, kw_only=True)
class Variant:
    """A learner with its parameters, and the signals that it uses: their numbers, as in `Impressions.fields`, or all.

    >>> Variant(alpha=0.3, fields=[2, 0]).fields
    (0, 2)
    """

    learner: str = "ftrl"
    alpha: float = 0.1
    beta: float = 1.0
    l1: float = 0.0
    l2: float = 0.0
    rates: str = "counts"
    power: float = 0.5
    fields: Iterable[int] | None = None

    def __post_init__(self) -> None:
        for name, rule in _RULES.items():
            rule.check(name, getattr(self, name))
        if self.learner == "ogd" and self.l1:
            raise BadParameter("l1 is not a parameter of OGD: gradient steps do not end at 0; use FTRL or FOBOS.")
        if self.fields is None:
            return
        fields = tuple(self.fields)
        if not fields:
            raise BadParameter("A variant without fields predicts nothing; name at least one, or None for all.")
        for number in fields:
            Whole(0, 2**15 - 1).check("A field of a variant", number)
        object.__setattr__(self, "fields", tuple(sorted({int(number) for number in fields})))


class VariantsRule(Rule):
    """Variants by name, or pairs of a name and a variant."""

    def holds(self, value: object) -> bool:
        return isinstance(value, Iterable)

    def text(self) -> str:
        return "variants by name, such as {'slow': Variant(alpha=0.01)}"

    def check(self, name: str, value: Any) -> None:
        super().check(name, value)
        pairs = _pairs(value)
        if not 1 <= len(pairs) <= MOST:
            raise BadParameter(
                f"There must be 1 to {MOST} variants, but there are {len(pairs)}; train the others apart."
            )
        for pair in pairs:
            if not (isinstance(pair, tuple | list) and len(pair) == 2):
                raise BadParameter(f"Variants must be names with a Variant(...) each, but one is {pair!r}.")
            if not isinstance(pair[0], str) or not isinstance(pair[1], Variant):
                raise BadParameter(
                    f"Variants must be names with a Variant(...) each, but one is {pair[0]!r}: {pair[1]!r}."
                )
        names = [pair[0] for pair in pairs]
        if twice := [name for i, name in enumerate(names) if name in names[:i]]:
            raise BadParameter(f"Two variants have the name {twice[0]!r}; give each its own.")

    def to_plain(self, value: Any) -> Any:
        return [[name, asdict(variant)] for name, variant in _pairs(value)]

    def from_plain(self, plain: Any) -> Any:
        return {name: Variant(**settings) for name, settings in plain}


class VariantModels(TableLearner):
    """Base of `ManyModels` and `SingleValue`: a table of keys, bit fields and counts, and its coefficients.

    The bit field of a feature says which variants include it. It is written when the feature is first learned, from
    the signal that it comes from; where all variants use all signals there is none.
    """

    single: ClassVar[bool]
    """Whether the variants share the coefficient of a feature."""

    variants: Annotated[
        Mapping[str, Variant] | Iterable[tuple[str, Variant]], VariantsRule(), "the variants by name, at most 64"
    ] = field(kw_only=False)

    levels_: NDArray[np.float64] = learned()

    def _start(self) -> None:
        self._variants = columns_of(list(self.named.values()))
        self.levels_ = self._variants.levels
        size = np.dtype(ENCODINGS[self.encoding]).itemsize
        self._bits = -(-4 * self._variants.halves // size)
        super()._start()

    def _empty_table(self) -> FeatureTable:
        return FeatureTable(self.encoding, self._bits + (3 if self.single else width_of(self._variants)))

    @property
    def named(self) -> dict[str, Variant]:
        """The variants by name, in the order of the columns of predictions."""
        return dict(_pairs(self.variants))

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the variants, in the order of the columns of predictions."""
        return tuple(self.named)

    def learn_many(self, impressions: Impressions, *, encoded: bool = False) -> NDArray[np.float64]:
        """Learn from each impression in turn; the probability of each variant before that is in its column.

        Rows are checked first; with `encoded` their features come from an encoder or a reader of broadmatch.
        """
        self._ready()
        Impressions.of(impressions).check(labelled=True, encoded=encoded)
        used = self._used(impressions)
        return self._learn(used, np.empty((used.n_rows, len(self.names))))

    def predict_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """The click probability of each impression, a column for each variant; nothing changes."""
        self._ready()
        Impressions.of(impressions).check()
        scores = np.empty((impressions.n_rows, len(self.names)))
        score_variants(self._table(), impressions, self._variants, self.single, scores)
        return sigmoids(scores.reshape(-1)).reshape(scores.shape)

    def coefficients(self, name: str) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
        """The key of every feature that a variant includes, ascending, with its coefficient and its learning rate."""
        self._ready()
        if name not in self.names:
            raise BadParameter(f"There is no variant {name!r}; there are {', '.join(map(repr, self.names))}.")
        column = int(np.flatnonzero(self._variants.places == self.names.index(name))[0])
        keys, slots = self.table_.sorted()
        if self._variants.halves:
            half = self.table_.words[slots, 2 + column // 32]
            included = (half >> np.uint32(column % 32)) & np.uint32(1) == 1
            keys, slots = keys[included], slots[included]
        table, variants = self._table(), self._variants
        at = table.first + 2
        places = RecordColumns(at, at - 2, at - 1) if self.single else places_of(variants, column, table.first)
        weights, rates = np.empty(len(keys)), np.empty(len(keys))
        weights_and_rates(table, places, slots, column_settings(variants, column), weights, rates)
        return keys, weights, rates

    def _learn_from(self, impressions: Impressions, row: int, out: NDArray[np.float64]) -> int:
        given = self._table(), impressions, row, out, self._variants
        return int(learn_variants(*given, True if self.single else None, self._admission(), self.streams_[:1]))

    def _numbers(self, slots: NDArray[np.int64]) -> NDArray[Any]:
        return self.table_.words.take(slots, axis=0)[:, 2:]  # as whole numbers: bit fields are not floats

    def _table(self) -> Table:
        table = self.table_
        return Table(table.words, table.cells, table.first + self._bits, table.room, table.state)

    def _used(self, impressions: Impressions) -> Impressions:
        """The impressions without the features that no variant uses."""
        if not self._variants.halves:
            return impressions
        masks = self._variants.masks
        indptr, keys, values, fields = impressions[:4]
        if len(fields) != len(keys):
            raise BadInput(
                f"Variants that use some signals only need the signal of each feature, but there are {len(keys)} keys "
                f"and {len(fields)} fields; let an encoder of broadmatch.signals make the impressions."
            )
        if len(fields) and fields.min() < 0:
            raise BadInput("The fields of the impressions must be numbers of signals, from 0 on.")
        if masks.all():
            return impressions
        used = masks[np.minimum(fields, len(masks) - 1)] != 0
        return impressions._replace(
            indptr=np.concatenate([np.zeros(1, np.int64), np.cumsum(used)])[indptr],
            keys=keys[used],
            values=values[used] if len(values) else values,
            fields=fields[used],
        )


def _pairs(variants: Any) -> list[tuple[str, Variant]]:
    return list(variants.items() if isinstance(variants, Mapping) else variants)


def columns_of(given: Sequence[Variant]) -> Variants:
    """The variants as columns of a table, those with gradients of their own first."""
    places = np.argsort([v.rates != "gradients" for v in given], kind="stable").astype(np.int64)
    columns = [given[place] for place in places]
    learners = np.array([LEARNERS[v.learner] for v in columns], np.int64)
    masks = _masks([v.fields for v in columns])
    numbers = np.array([(v.alpha, v.beta, v.l1, v.l2, v.power) for v in columns], float)
    alphas, betas, l1s, l2s, powers = numbers.reshape(-1, 5).T.copy()
    gradients = sum(v.rates == "gradients" for v in columns)
    return Variants(
        learners=learners,
        primal=np.flatnonzero(learners > _record.RDA),
        others=np.flatnonzero(learners != _record.FTRL),
        odd=np.flatnonzero(powers != 0.5),
        gradients=gradients,
        alphas=alphas,
        betas=betas,
        l1s=l1s,
        l2s=l2s,
        powers=powers,
        floors=np.where(np.arange(len(columns)) < gradients, 0.0, LEAST - betas),
        places=places,
        masks=masks,
        halves=0 if len(masks) == 1 else (len(columns) + 31) // 32,
        levels=np.zeros(2 + len(columns)),
        intercepts=False,
    )


def width_of(variants: Variants) -> int:
    """How many numbers a feature has: N and P, the coefficient of each variant, and Σ g² of some."""
    return 2 + len(variants.alphas) + variants.gradients


def column_settings(variants: Variants, column: int) -> Settings:
    """The settings of one column, as a learner of it alone has them."""
    numbers = (float(some[column]) for some in variants[5:10])
    rates = GRADIENTS if column < variants.gradients else COUNTS
    return Settings(int(variants.learners[column]), rates, 0.0, *numbers)


def places_of(variants: Variants, column: int, first: int) -> RecordColumns:
    """Where a variant has its numbers in a record, whose numbers begin at `first`."""
    own = first + 2 + len(variants.alphas) + column
    return RecordColumns(first + 2 + column, own if column < variants.gradients else first, first + 1)


def _masks(fields: list[Iterable[int] | None]) -> NDArray[np.uint64]:
    """Of each field the bits of the columns that use it; the last is that of all fields beyond."""
    highest = max((max(some) + 1 for some in fields if some is not None), default=0)
    masks = np.zeros(highest + 1, np.uint64)
    for column, some in enumerate(fields):
        masks[slice(None) if some is None else list(some)] |= np.uint64(1 << column)
    return masks
