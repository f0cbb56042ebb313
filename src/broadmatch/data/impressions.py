"""Impressions as click models take them: rows of 64-bit feature keys, a label and a weight each."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, NoReturn, get_type_hints

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import gathered, joined_ptr, offsets
from broadmatch.errors import BadInput
from broadmatch.kernels.hash_table import first_wrong_row
from broadmatch.layout import Axes, require
from broadmatch.state import State, unpack

if TYPE_CHECKING:
    import pyarrow as pa

_DTYPES = {
    "indptr": np.int64,
    "keys": np.uint64,
    "values": np.float32,
    "clicked": np.float32,
    "weight": np.float32,
    "offset": np.float32,
}
_NO_OFFSET: NDArray[np.float32] = np.empty(0, np.float32)
CONSTANT = "constant"
"""The signal that every row has: its coefficient is the intercept."""


class Impressions(NamedTuple):
    """Rows of features. Row i has the keys `keys[indptr[i]:indptr[i+1]]`, distinct and never 0.

    `values` are the values of the features; an empty array means that all are 1, which is the usual case and the
    fast one. `fields` says which signal each feature comes from (its number in the description); it may be empty where
    nobody asks. `clicked` is 0 or 1, NaN where it is not known (rows that are only predicted). `weight` is the
    importance weight, 1 unless given. `offset` is added to the log-odds of each row and not learned: what a fixed model
    says already; an empty array means that all are 0.

    >>> from broadmatch.data import Impressions
    >>> two = Impressions.from_rows([[7, 8], [8]], clicked=[1, 0])
    >>> two.n_rows, two.row(1).keys.tolist()
    (2, [8])
    """

    indptr: NDArray[np.int64]
    keys: NDArray[np.uint64]
    values: NDArray[np.float32]
    fields: NDArray[np.int16]
    clicked: NDArray[np.float32]
    weight: NDArray[np.float32]
    offset: NDArray[np.float32] = _NO_OFFSET

    @property
    def n_rows(self) -> int:
        """How many impressions there are."""
        return len(self.indptr) - 1

    @classmethod
    def from_rows(
        cls,
        keys: Sequence[Sequence[int]],
        *,
        values: Sequence[Sequence[float]] | None = None,
        fields: Sequence[Sequence[int]] | None = None,
        clicked: Sequence[float] | None = None,
        weight: Sequence[float] | None = None,
        offset: Sequence[float] | None = None,
    ) -> "Impressions":
        """Make impressions of lists: small data, tests and examples."""
        n = len(keys)
        return cls(
            offsets([len(row) for row in keys]),
            np.array([k for row in keys for k in row], np.uint64),
            np.array([v for row in values for v in row] if values is not None else [], np.float32),
            np.array([f for row in fields for f in row] if fields is not None else [], np.int16),
            np.full(n, np.nan, np.float32) if clicked is None else np.asarray(clicked, np.float32),
            np.ones(n, np.float32) if weight is None else np.asarray(weight, np.float32),
            _NO_OFFSET if offset is None else np.asarray(offset, np.float32),
        )

    def check(self, *, labelled: bool = False, encoded: bool = False) -> None:
        """Refuse what the kernels cannot take; with `labelled`, also what cannot be learned from.

        With `encoded` the features come from an encoder or a reader of broadmatch and are not looked at again.
        """
        if not encoded:
            self._check_features()
        if labelled:
            self._check_labels()

    @staticmethod
    def of(given: object) -> "Impressions":
        """What was given, if it is impressions; rows of anything else have to be encoded first."""
        if isinstance(given, Impressions):
            return given
        raise BadInput(
            f"Impressions are wanted, but this is a {type(given).__name__}: an Encoder makes a batch of a table, whose "
            "`impressions` they are, and ClickTraining learns from tables and files."
        )

    def _check_features(self) -> None:
        for name, dtype in _DTYPES.items():
            if (found := getattr(self, name).dtype) != dtype:
                wanted = np.dtype(dtype)
                raise BadInput(f"The {name} of the impressions must be {wanted}, not {found}; convert the array.")
        indptr, keys = self.indptr, self.keys
        if not len(indptr) or indptr[0] != 0 or indptr[-1] != len(keys) or (indptr[1:] < indptr[:-1]).any():
            raise BadInput("The indptr of the impressions must rise from 0 to the number of keys.")
        if len(self.values) not in (0, len(keys)):
            raise BadInput(f"There are {len(keys)} keys but {len(self.values)} values; give one each, or none.")
        if not np.isfinite(self.values).all():
            raise BadInput("The value of a feature is not a finite number; leave such features out.")
        if len(self.offset) not in (0, self.n_rows) or not np.isfinite(self.offset).all():
            raise BadInput(f"{self.n_rows} impressions need as many offsets, each a finite number, or none.")
        if (row := first_wrong_row(indptr, keys)) >= 0:
            self._refuse_row(row)

    def _refuse_row(self, row: int) -> NoReturn:
        keys, times = np.unique(self.row(row).keys, return_counts=True)
        if not keys.all():
            raise BadInput("0 cannot be the key of a feature; make keys with broadmatch.signals.")
        key, n = keys[times.argmax()], times.max()
        raise BadInput(f"Row {row} has the key {key} {n} times; give each key once, with the sum of its values.")

    def _check_labels(self) -> None:
        n, clicked, weight = self.n_rows, self.clicked, self.weight
        if len(clicked) != n or len(weight) != n:
            raise BadInput(f"{n} impressions need as many labels and weights, not {len(clicked)} and {len(weight)}.")
        if not ((clicked == 0) | (clicked == 1)).all():
            raise BadInput("An impression to learn from must be clicked (1) or not (0); others can only be predicted.")
        if not ((weight >= 0) & np.isfinite(weight)).all():
            raise BadInput("The weight of an impression must be a finite number of at least 0.")

    def row(self, i: int) -> "Impressions":
        """Impression i alone, as a view."""
        return self.between(i, i + 1)

    def between(self, start: int, stop: int) -> "Impressions":
        """Rows start to stop − 1, as views of the same arrays."""
        a, b = int(self.indptr[start]), int(self.indptr[stop])
        return Impressions(
            self.indptr[start : stop + 1] - a,
            self.keys[a:b],
            self.values[a:b],
            self.fields[a:b],
            self.clicked[start:stop],
            self.weight[start:stop],
            self.offset[start:stop],
        )

    def take(self, rows: NDArray[np.int64]) -> "Impressions":
        """The given rows, in that order."""
        indptr, at = gathered(self.indptr, rows)
        values, fields = (_part(array, at) for array in (self.values, self.fields))
        labels = self.clicked[rows], self.weight[rows]
        return Impressions(indptr, self.keys[at], values, fields, *labels, _part(self.offset, rows))

    @staticmethod
    def concatenate(parts: "Sequence[Impressions]") -> "Impressions":
        """All rows of `parts`, in order; values and offsets are written out where only some parts have them."""
        if len(parts) < 2:
            return parts[0] if parts else Impressions.from_rows([])
        plain = all(len(p.values) == 0 for p in parts)
        named = all(len(p.fields) == len(p.keys) for p in parts)
        ones = [p.values if len(p.values) or not len(p.keys) else np.ones(len(p.keys), np.float32) for p in parts]
        alone = all(len(p.offset) == 0 for p in parts)
        zeros = [p.offset if len(p.offset) else np.zeros(p.n_rows, np.float32) for p in parts]
        return Impressions(
            joined_ptr([p.indptr for p in parts]),
            np.concatenate([p.keys for p in parts]),
            np.empty(0, np.float32) if plain else np.concatenate(ones),
            np.concatenate([p.fields for p in parts]) if named else np.empty(0, np.int16),
            np.concatenate([p.clicked for p in parts]),
            np.concatenate([p.weight for p in parts]),
            _NO_OFFSET if alone else np.concatenate(zeros),
        )


@dataclass
class Batch:
    """Impressions with what else is known of each row; an empty array where the description does not say.

    `time` is in microseconds since 1970 UTC, `query` and `id` are 64-bit hashes of the query and of the impression,
    `slices` are columns of the log, by name, along which figures are broken down.
    """

    impressions: Impressions
    time: NDArray[np.int64] = field(default_factory=lambda: np.empty(0, np.int64))
    query: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    id: NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, np.uint64))
    slices: "Mapping[str, pa.Array]" = field(default_factory=dict)

    def __len__(self) -> int:
        return self.impressions.n_rows

    def between(self, start: int, stop: int) -> "Batch":
        """Rows start to stop − 1, as views of the same arrays."""
        slices = {name: column.slice(start, stop - start) for name, column in self.slices.items()}
        time, query, ids = (_part(array, slice(start, stop)) for array in (self.time, self.query, self.id))
        return Batch(self.impressions.between(start, stop), time, query, ids, slices)

    def take(self, rows: NDArray[np.int64]) -> "Batch":
        """The given rows, in that order.

        >>> from broadmatch.data import Batch, Impressions
        >>> batch = Batch(Impressions.from_rows([[7, 8], [8], []]), time=np.array([10, 20, 30]))
        >>> batch.take(np.array([2, 0])).time.tolist()
        [30, 10]
        """
        slices = {name: column.take(rows) for name, column in self.slices.items()}
        time, query, ids = (_part(array, rows) for array in (self.time, self.query, self.id))
        return Batch(self.impressions.take(rows), time, query, ids, slices)

    @staticmethod
    def concatenate(parts: "Sequence[Batch]") -> "Batch":
        """All rows of `parts`, in order; what only some of the parts with rows know is left out."""
        full = [part for part in parts if len(part)] or list(parts[:1])
        if len(full) < 2:
            return full[0] if full else Batch(Impressions.from_rows([]))
        import pyarrow as pa

        names = [name for name in full[0].slices if all(name in part.slices for part in full)]
        slices = {name: pa.concat_arrays([part.slices[name] for part in full]) for name in names}
        time, query, ids = (_joined([getattr(part, name) for part in full]) for name in ("time", "query", "id"))
        return Batch(Impressions.concatenate([part.impressions for part in full]), time, query, ids, slices)

    def to_state(self) -> State:
        """Give all that is known of the rows to `broadmatch.io.artifacts.save`; the slices as an Arrow stream."""
        arrays = {**self.impressions._asdict(), "time": self.time, "query": self.query, "id": self.id}
        if self.slices:
            import pyarrow as pa

            table = pa.table(dict(self.slices))
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, table.schema) as out:
                out.write_table(table)
            arrays["slices"] = np.frombuffer(sink.getvalue(), np.uint8)
        return State("batch", {}, arrays)

    @classmethod
    def from_state(cls, state: State) -> "Batch":
        """The batch that was saved."""
        import pyarrow as pa

        arrays = unpack({name: Annotated[hint, Axes(f".{name}")] for name, hint in _SAVED.items()}, state)
        impressions = Impressions(*(arrays.pop(name) for name in Impressions._fields))
        impressions.check()
        n, keys = impressions.n_rows, len(impressions.keys)
        slices: dict[str, pa.Array] = {}
        if "slices" in state.arrays:
            stream = unpack({"slices": Annotated[NDArray[np.uint8], Axes("bytes")]}, state)["slices"]
            with pa.ipc.open_stream(pa.py_buffer(stream)) as source:
                table = source.read_all().combine_chunks()
            table.validate(full=True)
            require(len(table) == n, "its slices have other rows")
            slices = {
                name: column.chunk(0) if column.num_chunks else pa.array([], column.type)
                for name, column in zip(table.column_names, table.columns, strict=True)
            }
        lengths = [*((len(array), n) for array in arrays.values()), (len(impressions.fields), keys)]
        whole = len(impressions.clicked) == len(impressions.weight) == n
        require(whole and all(length in (0, known) for length, known in lengths), "its columns differ in length")
        return cls(impressions, **arrays, slices=slices)


def _part(array: NDArray[np.generic], rows: Any) -> Any:
    """Some of an array, or an empty one as it is."""
    return array[rows] if len(array) else array


_SAVED = {
    **get_type_hints(Impressions),
    "time": NDArray[np.int64],
    "query": NDArray[np.uint64],
    "id": NDArray[np.uint64],
}


def _joined(parts: list[NDArray[np.generic]]) -> Any:
    """One array of all parts, or an empty one if some part does not have it."""
    return np.concatenate(parts) if all(len(part) for part in parts) else parts[0][:0]
