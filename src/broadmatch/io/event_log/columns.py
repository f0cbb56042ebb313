"""Events as Arrow columns: their own id, time and kind, and the keys of their payloads; and whole logs as Parquet."""

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from broadmatch.errors import BadInput
from broadmatch.io import decode
from broadmatch.io.event_log.embedded import EmbeddedEventLog
from broadmatch.io.event_log.events import EventBatch
from broadmatch.io.event_log.kinds import KINDS, Kind
from broadmatch.io.event_log.log import EventPosition
from broadmatch.io.event_log.payloads import plain_columns
from broadmatch.io.files import PathLike, json_line, replacing_file
from broadmatch.io.rejects import Rejects
from broadmatch.io.streams import Mark
from broadmatch.progress import task

if TYPE_CHECKING:
    import pyarrow as pa

OWN = ("id", "time", "kind")
"""Columns that every event has; keys of these names in a payload are passed over."""
_ROWS = 1 << 16


def to_arrow(
    batch: EventBatch, columns: Sequence[str], rejects: Rejects | None = None, source: str = "events"
) -> "pa.RecordBatch":
    """The wanted columns of events; see `EventBatch.to_arrow`."""
    import pyarrow as pa

    text, n = batch.payloads.tobytes(), len(batch)
    found = decode.TextRecords(
        text, batch.payload_ptr[:-1], np.arange(n), np.zeros(n, np.int64), 0, Mark(n, len(text), n)
    )
    wanted = {name: name for name in dict.fromkeys(columns) if name not in OWN}
    decode.mark_bad_text(found)
    table = plain_columns(batch, list(wanted)) if wanted and not found.codes.any() else None
    if wanted and table is None:
        table = decode.json_lines(found, wanted)
    bad = np.flatnonzero(found.codes)
    for row in bad.tolist():
        reason, (event,) = decode.reason_of(int(found.codes[row]), wanted), batch.take(np.array([row]))
        if rejects is None:
            raise BadInput(f"Event {event.id!r} of {source}: {reason}; pass rejects to have such events put aside.")
        rejects.add(source, None, reason, event.payload.decode("utf-8", "replace"))
    good = batch.take(np.flatnonzero(found.codes == 0)) if len(bad) else batch
    arrays = [_own(good, name) if name in OWN else table.column(name) for name in columns]  # type: ignore[union-attr]
    return decode.with_dictionaries(pa.record_batch(arrays, names=list(columns)))


def keys_of_payloads(batch: EventBatch) -> list[str]:
    """All keys that the payloads of events have, in the order in which they come."""
    keys: dict[str, None] = {}
    for event in batch:
        try:
            row = json_line(event.payload)
            "".join(row).encode()
        except (ValueError, RecursionError):  # counted where it is read
            continue
        keys.update(dict.fromkeys(row))
    return [key for key in keys if key not in OWN]


class _Part(NamedTuple):
    """A part of a log: what stood in it when it was looked at, of a kind, and of times from `since` to `until`."""

    log: EmbeddedEventLog
    begin: EventPosition
    end: EventPosition
    since: int | None
    until: int | None
    kind: Kind | None

    def batches(self) -> Iterator[EventBatch]:
        """The events in order."""
        position, (stop,) = self.begin, self.end.offsets
        while position < self.end:
            batch, position = self.log.read(position, min(_ROWS, stop - position.offsets[0]))
            yield self._chosen(batch)

    def _chosen(self, batch: EventBatch) -> EventBatch:
        batch = batch if self.kind is None else batch.only(self.kind)
        right = np.ones(len(batch), np.bool_)
        if self.since is not None:
            right &= batch.time >= self.since
        if self.until is not None:
            right &= batch.time < self.until
        return batch if right.all() else batch.take(np.flatnonzero(right))


def export_events(
    log: EmbeddedEventLog,
    path: PathLike,
    *,
    since: int | None = None,
    until: int | None = None,
    kind: Kind | None = None,
    rejects: Rejects | None = None,
) -> int:
    """Write the events of a log to a Parquet file: id, time, kind, and a column for each key of the payloads.

    `since` and `until`, which is left out itself, are times of events in microseconds. A key whose values are of
    different types becomes a column of texts. Gives how many events were written.
    """
    import pyarrow.parquet as pq

    rejects, part = Rejects() if rejects is None else rejects, _Part(log, log.begin, log.end, since, until, kind)
    schema, written = _schema_of(part), 0
    with replacing_file(path) as out, pq.ParquetWriter(out, schema) as file, task("Writing", unit="events") as working:
        for batch in part.batches():
            table = to_arrow(batch, schema.names, rejects, str(log.path))
            file.write_table(_cast(table, schema))
            written += len(table)
            working.advance(len(batch))
        rejects.finish(written)
    return written


def _schema_of(part: _Part) -> Any:
    """The columns of all events, each of a type that all its values have."""
    import pyarrow as pa

    kinds: dict[str, Any] = {"id": pa.utf8(), "time": pa.timestamp("us", "UTC"), "kind": pa.utf8()}
    passed_over = Rejects(max_bad_rows=1 << 62)  # they are counted when they are written
    for batch in part.batches():
        keys = keys_of_payloads(batch)
        for field in to_arrow(batch, keys, passed_over).schema if keys else ():
            plain = field.type.value_type if pa.types.is_dictionary(field.type) else field.type
            kinds[field.name] = _common(kinds.get(field.name, plain), plain)
    return pa.schema([(name, pa.utf8() if pa.types.is_null(kind) else kind) for name, kind in kinds.items()])


def _common(one: Any, two: Any) -> Any:
    """The type of a column whose parts have two types."""
    import pyarrow as pa

    if one == two or pa.types.is_null(two):
        return one
    if pa.types.is_null(one):
        return two
    numbers = all(pa.types.is_integer(kind) or pa.types.is_floating(kind) for kind in (one, two))
    return pa.float64() if numbers else pa.utf8()


def _cast(table: Any, schema: Any) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    columns = [pc.cast(column, kind) for column, kind in zip(table.columns, schema.types, strict=True)]
    return pa.Table.from_arrays(columns, schema=schema)


def _own(batch: EventBatch, name: str) -> Any:
    """A column that every event has."""
    import pyarrow as pa

    if name == "time":
        return pa.array(batch.time).view(pa.timestamp("us", "UTC"))
    if name == "kind":
        return pa.DictionaryArray.from_arrays(pa.array(batch.kind.astype(np.int32)), pa.array(KINDS))
    offsets = pa.py_buffer(batch.id_ptr.astype(np.int32).data)
    texts = pa.StringArray.from_buffers(len(batch), offsets, pa.py_buffer(batch.ids.data))
    try:
        texts.validate(full=True)
    except pa.ArrowInvalid:  # not UTF-8, which no log of ours has
        return pa.array([event.id for event in batch], pa.utf8())
    return texts
