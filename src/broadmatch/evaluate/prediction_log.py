"""Where training streams its predictions to: a folder of Parquet parts, whole or absent, each row once."""

import contextlib
import json
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from broadmatch.errors import BadInput, BadParameter, CannotWrite, MissingFile
from broadmatch.evaluate.checks import refuse
from broadmatch.io.artifacts import sync_folder
from broadmatch.io.files import replacing_file
from broadmatch.io.values import arrow_of
from broadmatch.params import Whole

if TYPE_CHECKING:
    import pyarrow as pa

FIXED = ("time", "clicked", "weight")
"""Columns that every prediction log has; a column `p_<model>` belongs to a model, any other but `id` is a slicing."""
ID = "id"
MODEL = "p_"
PART = re.compile(r"part-(\d{6,})\.parquet")
UNFINISHED = "unfinished.json"
"""A file in the folder of a run that has not ended well: `error` says why, null if it runs or was interrupted."""
_ROWS_OF_A_PART = 1 << 20
_NO_TIME = np.iinfo(np.int64).min


class PredictionLog:
    """Predictions of one or more models, as training made them before it learned from each impression.

    A part is written under a temporary name, synced, then renamed. `flush` closes the part at hand and gives the
    number that a checkpoint keeps; a log made with `resume_after` that number removes all that came later, so that
    a run that starts again from the checkpoint has each prediction exactly once. Until `finish`, a file in the folder
    says that the run has not ended, and whoever reads the predictions says so too.

    Columns: `time` (UTC, in microseconds), `clicked` (0, 1, NaN if unknown), `weight`, with `ids` the 64-bit hash `id`
    of the impression, each slicing as dictionary strings, and a float32 `p_<model>` for each model (NaN where the model
    made no prediction).

    >>> import tempfile, pyarrow as pa, pyarrow.parquet as pq
    >>> folder = tempfile.mkdtemp()
    >>> with PredictionLog(folder, models=["ftrl"], slices=["country"]) as log:
    ...     log.append([0, 1], None, [0, 1_000_000], {"country": pa.array(["nz", "au"])}, [[0.1], [0.3]])
    >>> log.n_parts, log.n_rows
    (1, 2)
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        models: Sequence[str],
        slices: Sequence[str] = (),
        ids: bool = False,
        resume_after: int | None = None,
    ) -> None:
        self.folder, self._ids = Path(folder), ids
        self.models, self.slices = _names(models, "models"), _names(slices, "slices")
        if not self.models:
            raise BadParameter("models must name at least one model, but it is empty.")
        for name in self.slices:
            if name in (*FIXED, ID) or name.startswith(MODEL) or name == "all":
                raise BadParameter(f"slices must not name a slicing {name!r}: the log or its report uses that name.")
        Whole(0, none=True).check("resume_after", resume_after)
        self.n_parts = resume_after or 0
        self.n_rows = 0
        """Rows appended by this object, those still in memory too."""
        self._made = not self.folder.exists()
        self._open_folder(resume_after)
        self.mark_unfinished()
        self._held: list[pa.Table] = []
        self._written = 0

    def append(
        self,
        clicked: Any,
        weight: Any,
        time: Any,
        slices: "Mapping[str, pa.Array]",
        probabilities: Any,
        id: Any = (),
    ) -> None:
        """Add rows; `weight` None is 1, `time` (microseconds since 1970 UTC) None or empty is unknown.

        `probabilities` is rows × models; one column may come flat. A part that is full is written at once.
        """
        y = np.asarray(clicked)
        n = len(y)
        p = np.asarray(probabilities)
        p = p.reshape(n, 1) if p.ndim == 1 and len(self.models) == 1 and len(p) == n else p
        if p.shape != (n, len(self.models)):
            raise BadInput(f"probabilities must be {n:,} rows × {len(self.models)} models, but they are {p.shape}.")
        w = np.ones(n, np.float32) if weight is None else np.asarray(weight)
        t = np.asarray(time if time is not None and len(time) else np.full(n, _NO_TIME), np.int64)
        if self._ids and len(id) != n:
            raise BadInput(f"clicked has {n:,} rows and id {len(id):,}; this log was made with an id for each.")
        if len(w) != n or len(t) != n:
            raise BadInput(f"clicked has {n:,} rows, weight {len(w):,} and time {len(t):,}; all must have the same.")
        refuse(~((y == 0) | (y == 1) | (y != y)), y, "clicked", "0, 1 or NaN", self.n_rows)
        refuse(~((w >= 0) & (w < np.inf)), w, "weight", "a number of at least 0", self.n_rows)
        for model, column in zip(self.models, p.T, strict=True):
            refuse((column < 0) | (column > 1), column, f"probability of {model}", "from 0 to 1", self.n_rows)
        import pyarrow as pa

        when = arrow_of(np.array(t), t == _NO_TIME).cast(pa.timestamp("us", tz="UTC"))
        numbers = [arrow_of(np.array(column, np.float32)) for column in (y, w, *p.T)]
        ids = [arrow_of(np.array(id, np.uint64))] if self._ids else []
        columns = [when, *numbers[:2], *ids, *(_strings(slices, name, n) for name in self.slices), *numbers[2:]]
        table = pa.table(columns, self._columns())
        while len(table):
            room = _ROWS_OF_A_PART - (self.n_rows - self._written)
            self._held.append(table.slice(0, room))
            self.n_rows += len(self._held[-1])
            table = table.slice(room)
            if len(self._held[-1]) == room:
                self._write_part()

    def flush(self) -> int:
        """Write what is held in memory; the number that comes back is for `resume_after`."""
        if self._held:
            self._write_part()
        return self.n_parts

    def finish(self) -> None:
        """Write what is held in memory, and say that these are all predictions of the run."""
        self.flush()
        (self.folder / UNFINISHED).unlink(missing_ok=True)
        sync_folder(self.folder)

    def mark_unfinished(self, error: str | None = None) -> None:
        """Leave word in the folder that the run has not ended, or with which error it did."""
        with replacing_file(self.folder / UNFINISHED) as out:
            out.write(json.dumps({"error": error}).encode())

    def remove(self) -> None:
        """Remove all predictions, and the folder if it was made for them."""
        self._held = []
        for name in (UNFINISHED, *(entry.name for entry in self.folder.iterdir() if PART.fullmatch(entry.name))):
            (self.folder / name).unlink(missing_ok=True)
        if self._made:
            with contextlib.suppress(OSError):  # something else is in it
                self.folder.rmdir()

    def __enter__(self) -> "PredictionLog":
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is None:
            self.finish()
        elif not self.n_parts:
            self.remove()

    def _open_folder(self, resume_after: int | None) -> None:
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            names = sorted(entry.name for entry in self.folder.iterdir())
        except OSError as error:
            raise CannotWrite(f"Cannot write predictions to {self.folder}: {error.strerror}.") from error
        parts = {int(found[1]): name for name in names if (found := PART.fullmatch(name))}
        if parts and resume_after is None:
            raise CannotWrite(
                f"{self.folder} holds predictions already; choose another folder, or pass resume_after=0 to start over."
            )
        missing = sorted(set(range(self.n_parts)) - set(parts))
        if missing:
            raise MissingFile(
                f"{self.folder} lacks part {missing[0]} of the {self.n_parts} that stood at the checkpoint; "
                "bring it back, or start the run over."
            )
        if self.n_parts:
            self._check_columns(self.folder / parts[0])
        try:
            for name in names:
                later = (found := PART.fullmatch(name)) and int(found[1]) >= self.n_parts
                if later or (name.startswith(".part-") and name.endswith(".tmp")):
                    (self.folder / name).unlink()
            sync_folder(self.folder)
        except OSError as error:
            raise CannotWrite(f"Cannot remove later predictions from {self.folder}: {error.strerror}.") from error

    def _check_columns(self, part: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        try:
            there = pq.read_schema(part).names
        except (pa.ArrowException, OSError) as error:
            raise BadInput(f"{part} is damaged: {error}; start the run over.") from error
        if there != self._columns():
            raise BadInput(
                f"{part} has the columns {', '.join(there)}, but this run writes {', '.join(self._columns())}; "
                "resume with the same models and slices."
            )

    def _columns(self) -> list[str]:
        return [*FIXED, *([ID] if self._ids else []), *self.slices, *(MODEL + m for m in self.models)]

    def _write_part(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        table = pa.concat_tables(self._held).unify_dictionaries().combine_chunks()
        part = self.folder / f"part-{self.n_parts:06d}.parquet"
        # Probabilities hardly repeat: a dictionary of them costs time and saves nothing.
        repeated = ["clicked", "weight", *self.slices]
        with replacing_file(part) as out:
            pq.write_table(table, out, compression="lz4", use_dictionary=repeated, write_page_checksum=True)
        sync_folder(self.folder)
        self.n_parts += 1
        self._held, self._written = [], self.n_rows


def _names(names: Sequence[str], what: str) -> tuple[str, ...]:
    listed = tuple(names) if not isinstance(names, str) else ()
    if isinstance(names, str) or not all(isinstance(n, str) and n for n in listed) or len(set(listed)) < len(listed):
        raise BadParameter(f"{what} must be a list of different names, but it is {names!r}.")
    return listed


def _strings(slices: "Mapping[str, pa.Array]", name: str, n: int) -> "pa.Array":
    """The column `name` as dictionary strings."""
    import pyarrow as pa

    if name not in slices:
        raise BadInput(f"slices lack {name!r}, which this log was made with.")
    column = slices[name]
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if len(column) != n:
        raise BadInput(f"slices: {name!r} has {len(column):,} rows, but there are {n:,} impressions.")
    if pa.types.is_dictionary(column.type) and column.dictionary.null_count:  # Parquet has no null among the values
        column = column.dictionary_decode()
    coded = column if pa.types.is_dictionary(column.type) else column.cast(pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices.cast(pa.int32()), coded.dictionary.cast(pa.string()))
