"""Predictions that were streamed out, read back piece by piece: a folder of a `PredictionLog`, a file, or a table."""

import json
import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, MissingFile
from broadmatch.evaluate.prediction_log import FIXED, ID, MODEL, PART, UNFINISHED
from broadmatch.io.values import numpy_of, with_gaps

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("broadmatch")

_ROWS_OF_A_PIECE = 1 << 20


class Predictions:
    """Columns `time`, `clicked`, `weight`, a `p_<model>` for each model, and a column for each slicing.

    `time` and `weight` may be missing; the weight is 1 then. A file that `clicks predict` made of rows with labels has
    one model, "predicted". Predictions of a run that failed are refused; of one that has not finished, what there is so
    far is read, with a warning.
    """

    def __init__(self, source: Any) -> None:
        import pyarrow as pa

        self._table: pa.Table | None = source if isinstance(source, pa.Table) else None
        self._files = [] if self._table is not None else _files_of(source)
        self.name = "the table" if self._table is not None else str(source)
        self.finished = self._table is not None or _is_finished(Path(source))
        schemas = [self._table.schema] if self._table is not None else [_open(f).schema_arrow for f in self._files]
        there: list[str] = schemas[0].names
        for file, schema in zip(self._files, schemas, strict=False):
            if schema.names != there:
                raise BadInput(f"{file} has other columns than {self._files[0]}; evaluate one run at a time.")
        if len(set(there)) < len(there):
            raise BadInput(f"{self.name} names a column twice: {', '.join(there)}.")
        self._stored = _called(there)
        self.columns = list(self._stored)
        self.models = [c.removeprefix(MODEL) for c in self.columns if c.startswith(MODEL)]
        self.slicings = [c for c in self.columns if c not in (*FIXED, ID) and not c.startswith(MODEL)]
        if "clicked" not in self.columns or not self.models:
            lacking = "column clicked" if self.models else f"column {MODEL}<model>"
            raise BadInput(
                f"{self.name} has no {lacking}, but {', '.join(there) or 'no column at all'}; it must be written by "
                "a PredictionLog, or by `clicks predict` from files with labels, or have the columns of these."
            )
        self.n_rows: int = (
            self._table.num_rows if self._table is not None else sum(_open(f).metadata.num_rows for f in self._files)
        )

    def check_slicing(self, name: str) -> None:
        """Refuse what is no slicing of these predictions."""
        if name not in self.slicings:
            raise BadInput(
                f"{self.name} has no slicing {name!r}; it has {', '.join(self.slicings) or 'none'}: slices come of the "
                f'description, so write slices = ["{name}"] into it and train again.'
            )

    def pieces(self, columns: Sequence[str]) -> "Iterator[pa.Table]":
        """The given columns, about a million rows at a time."""
        stored = [self._stored[name] for name in columns]
        if self._table is not None:
            chosen = self._table.select(stored).rename_columns(list(columns))
            for start in range(0, self.n_rows, _ROWS_OF_A_PIECE):
                yield chosen.slice(start, _ROWS_OF_A_PIECE)
            return
        import pyarrow as pa

        for file in self._files:
            try:
                for batch in _open(file).iter_batches(_ROWS_OF_A_PIECE, columns=stored, use_threads=False):
                    # iter_batches gives the columns in the order of the file
                    yield pa.Table.from_batches([batch]).select(stored).rename_columns(list(columns))
            except (pa.ArrowException, OSError) as error:
                raise BadInput(f"{file} is damaged: {error}; write or copy it again.") from error


def _called(there: Sequence[str]) -> dict[str, str]:
    """The columns of predictions, each with the one that holds it: of a file of `clicks predict` they are called so."""
    if "probability" not in there or any(name.startswith(MODEL) for name in there):
        return {name: name for name in there}
    known = {f"{MODEL}predicted" if name == "probability" else name: name for name in there}
    return {name: column for name, column in known.items() if name not in ("row", "uncertainty")}


def joined_by_id(sources: Sequence[Any]) -> Predictions:
    """The predictions of several runs over exactly the same rows, side by side; all of them are held in memory.

    Models are called by the name of their run, and by their own where a run has several.
    """
    import pyarrow as pa

    runs = [Predictions(source) for source in sources]
    names = [run.name for run in runs]
    if not 1 < len(set(names)) == len(names):
        raise BadInput("Name two or more different folders of predictions to compare.")
    short = [Path(name).name for name in names]
    first, table = None, pa.table({})
    for run, called in zip(runs, short if len(set(short)) == len(short) else names, strict=True):
        if not run.n_rows or ID not in run.columns:
            raise BadInput(f"{run.name} has no ids to join rows by: name `id` in the description, and train again.")
        rows = pa.concat_tables(run.pieces(run.columns)).unify_dictionaries().combine_chunks()
        several = {MODEL + m: MODEL + (called if len(run.models) == 1 else f"{called}/{m}") for m in run.models}
        if first is None:
            first, table = rows, rows.rename_columns([several.get(column, column) for column in rows.column_names])
            continue
        rows = rows.take(_matching(first, rows, names[0], run.name))
        for column, own in several.items():
            table = table.append_column(own, rows[column])
    found = Predictions(table)
    found.finished = all(run.finished for run in runs)
    return found


def _matching(first: "pa.Table", other: "pa.Table", *sources: str) -> NDArray[np.int64]:
    """Of each row of `first` the place of the same in `other`; refuses rows that are in one only, or not the same."""
    ids = _numbers_of_ids(first, other)
    orders = [np.argsort(one, kind="stable") for one in ids]
    ordered = [one[order] for one, order in zip(ids, orders, strict=True)]
    for source, one in zip(sources, ordered, strict=True):
        if twice := int(np.count_nonzero(one[1:] == one[:-1])):
            raise BadInput(f"{source} has {twice:,} rows whose id another row has too: rows cannot be joined by it.")
    if not np.array_equal(ordered[0], ordered[1]):
        lost = [int((~np.isin(a, b)).sum()) for a, b in (ordered, ordered[::-1])]
        raise BadInput(
            f"{sources[0]} has {lost[0]:,} rows that are not in {sources[1]}, and {lost[1]:,} of that are not in it; "
            "models are compared on exactly the same rows, so train both on the same log."
        )
    place = np.empty(len(ids[0]), np.int64)
    place[orders[0]] = orders[1]
    for column in ("clicked", "weight"):
        a, b = numbers(first, column, np.float64), numbers(other, column, np.float64)[place]
        if differ := int(((a != b) & ~(np.isnan(a) & np.isnan(b))).sum()):
            raise BadInput(f"{differ:,} rows have another `{column}` in {sources[1]} than in {sources[0]}.")
    return place


def _numbers_of_ids(first: "pa.Table", other: "pa.Table") -> list[NDArray[Any]]:
    """The ids of two runs as numbers: hashes as they are, ids as they stand in a log by their distinct values."""
    import pyarrow as pa

    ids = [joined_chunks(rows[ID]) for rows in (first, other)]
    if all(pa.types.is_uint64(one.type) for one in ids):
        return [numpy_of(one) for one in ids]
    codes = pa.concat_arrays([one.cast(pa.large_string()) for one in ids]).dictionary_encode().indices
    found = with_gaps(codes, -1)
    return [found[: len(ids[0])], found[len(ids[0]) :]]


def numbers(piece: "pa.Table", column: str, kind: type[np.floating[Any]]) -> NDArray[Any]:
    """A column of numbers as an array; NaN where there is none."""
    import pyarrow as pa

    values = piece.column(column)
    if not (pa.types.is_integer(values.type) or pa.types.is_floating(values.type) or pa.types.is_boolean(values.type)):
        raise BadInput(f"The column {column} holds {values.type}; it must hold numbers.")
    wide = values.cast(pa.float64() if kind is np.float64 else pa.float32(), safe=False)
    return with_gaps(joined_chunks(wide), np.nan)


def joined_chunks(column: "pa.ChunkedArray") -> "pa.Array":
    """A column of a table in one piece."""
    import pyarrow as pa

    found = column.combine_chunks()
    if isinstance(found, pa.ChunkedArray):  # an empty one, and more than one chunk in old versions
        found = pa.concat_arrays(found.chunks) if found.num_chunks else pa.array([], found.type)
    return found


def _files_of(source: Any) -> list[Path]:
    if not isinstance(source, str | os.PathLike):
        raise BadInput(
            f"predictions must be a folder of a PredictionLog, a Parquet file or an Arrow table, "
            f"but it is a {type(source).__name__}."
        )
    path = Path(source)
    if path.is_file():
        return [path]
    if not path.is_dir():
        raise MissingFile(f"There is no folder or file of predictions at {path}.")
    parts = sorted((f for f in path.iterdir() if PART.fullmatch(f.name)), key=lambda f: int(f.stem.split("-")[1]))
    if not parts:
        raise MissingFile(f"The folder {path} holds no predictions: there is no part-000000.parquet.")
    if parts[-1].stem != f"part-{len(parts) - 1:06d}":
        raise MissingFile(f"The folder {path} lacks a part: {parts[-1].name} is there, but only {len(parts)} parts.")
    return parts


def _is_finished(folder: Path) -> bool:
    try:
        error = json.loads((folder / UNFINISHED).read_text(encoding="utf-8"))["error"]
    except (FileNotFoundError, NotADirectoryError):
        return True
    except (OSError, ValueError, TypeError, KeyError):
        error = None
    if error is not None:
        raise BadInput(f"{folder} is of a run that failed, so go on with that run or start it anew; it said: {error}")
    log.warning("%s is of a run that has not finished: this is how it did so far.", folder)
    return False


def _open(file: Path) -> Any:
    import pyarrow as pa
    import pyarrow.parquet as pq

    try:
        return pq.ParquetFile(file, page_checksum_verification=True)
    except (pa.ArrowException, OSError) as error:
        raise BadInput(f"{file} is not a whole Parquet file: {error}; write or copy it again.") from error
