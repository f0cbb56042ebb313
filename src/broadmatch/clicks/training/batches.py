"""Impressions from files of any format: columns by a description, or lines that are features already."""

import threading
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks.training.outcomes import Outcome, OutcomeColumns
from broadmatch.data import Batch
from broadmatch.data.impressions import CONSTANT
from broadmatch.errors import BadParameter
from broadmatch.io import Position, RecordStream, Rejects
from broadmatch.io.streams import Chunk, Records
from broadmatch.io.values import arrow_of
from broadmatch.signals import Cross, Description, Encoder
from broadmatch.signals.tables import TableStream, in_memory

if TYPE_CHECKING:
    import pyarrow as pa

    from broadmatch.io.vw import VWChunk
    from broadmatch.signals import FeatureNames
    from broadmatch.signals.tables import SourceOrTable


_BATCH_ROWS = 1 << 14
"""Rows encoded at a time: enough that what Python does for a batch does not count, few enough to take little room."""


class Numbered(NamedTuple):
    """A batch, the number of each of its rows (from 0, in all files, bad rows counted), and ids and labels, if any."""

    batch: Batch
    row: NDArray[np.int64]
    id: Any
    outcome: Outcome | None


class BatchStream:
    """The impressions of `source`, files or a table in memory, in batches, each with the position after it.

    `description` says what the columns are; "vw" instead of it reads Vowpal Wabbit text. `start` is a position to
    go on from, as its `to_json` gave it. Without `labelled`, the rows need no label, for they are only predicted, and
    columns that are absent are missing in every row; with `joins` clicks come from elsewhere, and a row without an id
    is bad. `measured` describes labels, weights and slices that `numbered` gives beside rows that are predicted.
    """

    def __init__(
        self,
        source: "SourceOrTable",
        description: Description | str,
        *,
        rejects: Rejects | None = None,
        start: Mapping[str, Any] | None = None,
        follow: bool = False,
        labelled: bool = True,
        joins: bool = False,
        names: "FeatureNames | None" = None,
        fields: bool = True,
        measured: Description | None = None,
    ) -> None:
        self._measured: Description | None = measured
        self._outcomes: OutcomeColumns | None = None
        self.rejects = Rejects() if rejects is None else rejects
        self.description = description
        self._labelled, self._joins, self._fields = labelled and not joins, joins, fields
        self._predicts = not labelled
        self._n_rows, self._n_missing, self._counting = 0, Counter[str](), threading.Lock()
        if isinstance(description, str):
            self._open_lines(source, description, start, follow)
        else:
            self._open_columns(source, description, start, follow, names)

    def _open_lines(self, source: "SourceOrTable", format: str, start: Mapping[str, Any] | None, follow: bool) -> None:
        if format != "vw":
            raise BadParameter(f"description must be a Description or 'vw', but it is {format!r}.")
        if follow:
            raise BadParameter("follow must be False for vw text, but it is True.")
        if in_memory(source):
            raise BadParameter("description must be a Description for a table: 'vw' is text in files.")
        from broadmatch.io.vw import VWStream

        position: Any = None if start is None else checked_position(format, start)
        self._namespaces: tuple[str, ...] = () if position is None else position.signals
        self._lines = VWStream(source, labelled=self._labelled, rejects=self.rejects, start=position)

    def _open_columns(
        self,
        source: "SourceOrTable",
        description: Description,
        start: Mapping[str, Any] | None,
        follow: bool,
        names: "FeatureNames | None",
    ) -> None:
        def needed(files: Mapping[str, tuple[str, ...]]) -> list[str]:
            name, there = next(iter(files.items()))
            usable = description
            if self._joins or self._predicts:
                left_out = ("label", "weight") if self._predicts else ("label",)
                usable = Description.from_dict({k: v for k, v in usable.to_dict().items() if k not in left_out})
            more: list[str] = []
            if self._measured is not None:
                self._outcomes = outcomes = OutcomeColumns(self._measured, files)
                more, sliced = outcomes.columns, list(dict.fromkeys([*usable.slices, *outcomes.slices]))
                usable = Description.from_dict(usable.to_dict() | {"slices": sliced})
            self.description = resolved = usable.resolve(there, partial=self._predicts)
            self.encoder = Encoder(resolved, names=names, joins=self._joins, fields=self._fields)
            self.encoder.check_columns(there, name, labelled=not self._predicts)
            return list(dict.fromkeys([*resolved.columns_needed, *more]))

        position = None if start is None else checked_position(description, start)
        self._records: RecordStream | TableStream
        if in_memory(source):
            if follow:
                raise BadParameter("follow must be False for a table, which does not grow, but it is True.")
            self._records = TableStream(source, columns=needed, start=position, batch_rows=_BATCH_ROWS)
            return
        self._records = RecordStream(
            source,
            format=description.format,
            columns=needed,
            rejects=self.rejects,
            start=position,
            batch_rows=_BATCH_ROWS,
            follow=follow,
            partial=self._predicts,
        )

    def chunks(self) -> "Iterator[Chunk | VWChunk]":
        """What any thread may read by itself, in order; one thread at a time takes the next."""
        return self._lines.chunks() if isinstance(self.description, str) else self._records.chunks()

    def batches(self, chunk: "Chunk | VWChunk") -> Iterator[tuple[Batch, Position]]:
        """The impressions of a chunk, each batch with the position after it."""
        for rows in chunk.read():
            if isinstance(rows, Records):
                yield self._encode(rows), rows.end
            else:
                self._namespaces = rows.end.signals
                yield rows.batch, rows.end

    def __iter__(self) -> Iterator[tuple[Batch, Position]]:
        for chunk in self.chunks():
            yield from self.batches(chunk)

    def numbered(self, rejected: Sequence[tuple[str, int]]) -> Iterator[Numbered]:
        """The batches as rows that are only predicted.

        `rejected` grows with the file and line of each bad row, as the rejects of this stream grow.
        """
        if isinstance(self.description, str):
            yield from self._numbered_lines(rejected)
            return
        good: dict[str, int] = {}
        for chunk in self._records.chunks():
            for rows in chunk.read():
                lines = np.arange(rows.first, rows.first + len(rows)) + 1 if rows.lines is None else rows.lines
                bad = np.array(sorted(line for file, line in rejected if file == rows.file), np.int64)
                # What the encoder rejects was read well: it must not be counted among `bad` here and in `good`.
                known = len(rejected)
                batch = self._encode(rows)
                kept = ~np.isin(lines, [line for _, line in rejected[known:]])
                before = sum(mark.rows for mark in rows.before.values())
                number = before + good.get(rows.file, 0) + np.arange(len(rows)) + np.searchsorted(bad, lines)
                good[rows.file] = good.get(rows.file, 0) + int(kept.sum())
                outcome = None if self._outcomes is None else self._outcomes.read(rows.table, batch, kept)
                yield Numbered(batch, number[kept], self._ids(rows.table, kept), outcome)

    def coverage(self) -> dict[str, float | None]:
        """The signals that are read, with the share of the rows so far whose column is not null; None of vw text."""
        if isinstance(self.description, str):
            return dict.fromkeys(name for name in self._namespaces if name != CONSTANT)
        found: dict[str, float | None] = {}
        for signal in self.description.signals:
            if isinstance(signal, Cross) or not self._n_rows:
                found[signal.name] = None
            else:
                found[signal.name] = 1 - self._n_missing[signal.column] / self._n_rows
        return {name: share for name, share in found.items() if not {"*", "?"} & set(name)}

    def stop(self) -> None:
        """End a stream that follows a growing folder."""
        if not isinstance(self.description, str):
            self._records.stop()

    def _encode(self, rows: Records) -> Batch:
        nulls = {name: rows.table.column(name).null_count for name in rows.table.schema.names}
        with self._counting:
            self._n_rows += len(rows)
            self._n_missing.update(nulls)
        return self.encoder.encode(
            rows.table, file=rows.file, line=rows.line, rejects=self.rejects, labelled=self._labelled
        )

    def _ids(self, table: "pa.RecordBatch", kept: NDArray[np.bool_]) -> Any:
        """The ids as they stand in the log; None if there are none."""
        description = self.encoder.description
        if description.id is None or description.id not in table.schema.names:
            return None
        return table.column(description.id).filter(arrow_of(kept))

    def _numbered_lines(self, rejected: Sequence[tuple[str, int]]) -> Iterator[Numbered]:
        """Like `numbered`, for lines that are features already; empty lines do not count.

        The first lines tell whether there are labels.
        """
        done, labelled = 0, None
        for chunk in self._lines.chunks():
            filled = chunk.filled()
            known = len(rejected)
            for examples in chunk.read():
                bad = [line for _, line in rejected[known:]]
                batch = examples.batch
                clicked, weight = batch.impressions.clicked, batch.impressions.weight
                labelled = not np.isnan(clicked).all() if labelled is None else labelled
                outcome = Outcome(clicked, weight, None, {}) if labelled else None
                yield Numbered(batch, done + np.flatnonzero(~np.isin(filled, bad)), None, outcome)
            done += len(filled)


def checked_position(description: Description | str, plain: Mapping[str, Any]) -> Position:
    """The position in a stream that its `to_json` wrote."""
    if isinstance(description, str):
        from broadmatch.io.vw import VWPosition

        return VWPosition.from_json(plain)
    return Position.from_json(plain)
