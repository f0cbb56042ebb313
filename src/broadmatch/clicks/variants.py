"""Variants of a click model that are trained together, and what the two ways to do so share."""

from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import Annotated, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks import _record
from broadmatch.clicks._learners import weights_and_rates
from broadmatch.clicks._record import COUNTS, Settings
from broadmatch.clicks._table import Table
from broadmatch.clicks._variants import Variants, learn_variants, score_variants
from broadmatch.clicks.learner import TableLearner
from broadmatch.clicks.serving import sigmoids
from broadmatch.clicks.table import ENCODINGS, FeatureTable
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
        # Columns of the table are sorted by learner, so that one loop does all that have the same formula.
        given = list(self.named.values())
        places = np.argsort([LEARNERS[v.learner] for v in given], kind="stable").astype(np.int64)
        columns = [given[place] for place in places]
        learners = np.array([LEARNERS[v.learner] for v in columns], np.int64)
        masks = _masks([v.fields for v in columns])
        self.levels_ = np.zeros(2 + len(columns))
        self._variants = Variants(
            learners=learners,
            ftrls=int((learners == _record.FTRL).sum()),
            duals=int((learners <= _record.RDA).sum()),
            alphas=np.array([v.alpha for v in columns], float),
            betas=np.array([v.beta for v in columns], float),
            l1s=np.array([v.l1 for v in columns], float),
            l2s=np.array([v.l2 for v in columns], float),
            places=places,
            masks=masks,
            halves=0 if len(masks) == 1 else (len(columns) + 31) // 32,
            levels=self.levels_,
            intercepts=False,
        )
        size = np.dtype(ENCODINGS[self.encoding]).itemsize
        self._bits = -(-4 * self._variants.halves // size)
        super()._start()

    def _empty_table(self) -> FeatureTable:
        return FeatureTable(self.encoding, self._bits + 2 + (1 if self.single else len(self.names)))

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
        impressions.check(labelled=True, encoded=encoded)
        used = self._used(impressions)
        return self._learn(used, np.empty((used.n_rows, len(self.names))))

    def predict_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """The click probability of each impression, a column for each variant; nothing changes."""
        self._ready()
        impressions.check()
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
        table = self._table()
        at = table.first + 2 + (0 if self.single else column)
        numbers = np.ascontiguousarray(table.cells[slots][:, [at, table.first, table.first + 1]])
        weights, rates = np.empty(len(keys)), np.empty(len(keys))
        settings = self._settings(column)
        weights_and_rates(table._replace(cells=numbers, first=0), np.arange(len(keys)), settings, weights, rates)
        return keys, weights, rates

    def _learn_from(self, impressions: Impressions, row: int, out: NDArray[np.float64]) -> int:
        given = self._table(), impressions, row, out, self._variants
        return int(learn_variants(*given, True if self.single else None, self._admission(), self.streams_[:1]))

    def _numbers(self, slots: NDArray[np.int64]) -> NDArray[Any]:
        return self.table_.words.take(slots, axis=0)[:, 2:]  # as whole numbers: bit fields are not floats

    def _table(self) -> Table:
        table = self.table_
        return Table(table.words, table.cells, table.first + self._bits, table.room, table.state)

    def _settings(self, column: int) -> Settings:
        numbers = (float(getattr(self._variants, name)[column]) for name in ("alphas", "betas", "l1s", "l2s"))
        return Settings(int(self._variants.learners[column]), COUNTS, 0.0, *numbers)

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


def _masks(fields: list[Iterable[int] | None]) -> NDArray[np.uint64]:
    """Of each field the bits of the columns that use it; the last is that of all fields beyond."""
    highest = max((max(some) + 1 for some in fields if some is not None), default=0)
    masks = np.zeros(highest + 1, np.uint64)
    for column, some in enumerate(fields):
        masks[slice(None) if some is None else list(some)] |= np.uint64(1 << column)
    return masks
