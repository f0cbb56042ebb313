"""What an event is, singly and as columns, and how many of them go together."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import joined_ptr, offsets
from broadmatch.errors import BadInput
from broadmatch.io.event_log.kinds import KINDS, Kind

if TYPE_CHECKING:
    import pyarrow as pa

    from broadmatch.io.rejects import Rejects

MOST_EVENTS = 10_000
"""Events of a batch that is appended."""
LARGEST_EVENT, LARGEST_BATCH, LONGEST_ID = 1 << 20, 1 << 26, 200
"""Bytes of a payload, of all payloads of a batch, and of an id."""
_CODES = {kind: code for code, kind in enumerate(KINDS)}
_FARTHEST = 1 << 60
Bytes = NDArray[np.uint8]


class Event(NamedTuple):
    """One thing that happened: its id, its time in microseconds since 1970 UTC, its kind, and one line of JSON.

    >>> Event("7f3a", 1_700_000_000_000_000, "clicks", b'{"ad":"shoes-1"}').kind
    'clicks'
    """

    id: str
    time: int
    kind: Kind
    payload: bytes


@dataclass(frozen=True)
class EventBatch:
    """Events as columns: `time` in microseconds, `kind` as numbers into `KINDS`, and texts one after the other.

    The id of event i is `ids[id_ptr[i]:id_ptr[i + 1]]`, in UTF-8; its payload, with a line end, is
    `payloads[payload_ptr[i]:payload_ptr[i + 1]]`: all payloads together are JSON lines.

    >>> two = EventBatch.of([Event("a", 5, "clicks", b"{}"), Event("b", 7, "bounces", b'{"ad":1}')])
    >>> len(two), two.time.tolist(), [event.id for event in two.only("bounces")]
    (2, [5, 7], ['b'])
    """

    time: NDArray[np.int64]
    kind: Bytes
    ids: Bytes
    id_ptr: NDArray[np.int64]
    payloads: Bytes
    payload_ptr: NDArray[np.int64]

    @classmethod
    def of(cls, events: Iterable[Event]) -> "EventBatch":
        """The columns of single events, each of which is checked."""
        rows = list(events)
        ids = [checked_id(event) for event in rows]
        return cls(
            np.array([event.time for event in rows], np.int64),
            np.array([_CODES[event.kind] for event in rows], np.uint8),
            _bytes_of(b"".join(ids)),
            offsets([len(one) for one in ids]),
            _bytes_of(b"".join([part for event in rows for part in (event.payload, b"\n")])),
            offsets([len(event.payload) + 1 for event in rows]),
        )

    @classmethod
    def concatenate(cls, parts: "Sequence[EventBatch]") -> "EventBatch":
        """All events of `parts`, in order."""
        if len(parts) == 1:
            return parts[0]
        if not parts:
            return cls.of([])
        return cls(
            np.concatenate([part.time for part in parts]),
            np.concatenate([part.kind for part in parts]),
            np.concatenate([part.ids for part in parts]),
            joined_ptr([part.id_ptr for part in parts]),
            np.concatenate([part.payloads for part in parts]),
            joined_ptr([part.payload_ptr for part in parts]),
        )

    def __len__(self) -> int:
        return len(self.time)

    def __iter__(self) -> Iterator[Event]:
        ids, payloads = self.ids.tobytes(), self.payloads.tobytes()
        id_ptr, payload_ptr = self.id_ptr.tolist(), self.payload_ptr.tolist()
        for i, (time, kind) in enumerate(zip(self.time.tolist(), self.kind.tolist(), strict=True)):
            name = ids[id_ptr[i] : id_ptr[i + 1]].decode("utf-8", "replace")
            yield Event(name, time, KINDS[kind], payloads[payload_ptr[i] : payload_ptr[i + 1] - 1])

    def take(self, rows: NDArray[np.int64]) -> "EventBatch":
        """Some of the events, in the order of `rows`."""
        ids, id_ptr = _take(self.ids, self.id_ptr, rows)
        payloads, payload_ptr = _take(self.payloads, self.payload_ptr, rows)
        return EventBatch(self.time[rows], self.kind[rows], ids, id_ptr, payloads, payload_ptr)

    def only(self, kind: Kind) -> "EventBatch":
        """The events of one kind."""
        if kind not in KINDS:
            raise BadInput(f"There are no events of kind {kind!r}; kinds are {', '.join(KINDS)}.")
        right = self.kind == _CODES[kind]
        return self if right.all() else self.take(np.flatnonzero(right))

    def to_arrow(
        self, columns: Sequence[str], rejects: "Rejects | None" = None, source: str = "events"
    ) -> "pa.RecordBatch":
        """Columns of the events: `id`, `time`, `kind`, and keys of the payloads, read as JSON lines are in files.

        A key that is absent is null, texts come as dictionaries. A payload that is no JSON, or has an object or a list
        where a value is wanted, goes to `rejects`; without, it is an error.

        >>> one = EventBatch.of([Event("a", 0, "clicks", b'{"ad":"shoes","price":0.5}')])
        >>> one.to_arrow(["id", "price", "place"]).to_pydict()
        {'id': ['a'], 'price': [0.5], 'place': [None]}
        """
        from broadmatch.io.event_log.columns import to_arrow  # here, since Arrow takes long to import

        return to_arrow(self, columns, rejects, source)


def batch_of(events: "Event | Sequence[Event] | EventBatch") -> EventBatch:
    """What is to be appended as columns, checked: its kinds, ids, payloads, and how much it is."""
    n = 1 if isinstance(events, Event) else len(events)
    if n > MOST_EVENTS:
        raise BadInput(f"{n:,} events are too many at once; append at most {MOST_EVENTS:,} together.")
    if isinstance(events, EventBatch):
        _check_columns(events)
        batch = events
    else:
        batch = EventBatch.of([events] if isinstance(events, Event) else events)
    if (size := len(batch.payloads)) > LARGEST_BATCH:
        raise BadInput(f"{size:,} bytes of payloads are too many at once; append at most {LARGEST_BATCH:,} together.")
    return batch


def checked_id(event: Event) -> bytes:
    """The id of an event in UTF-8; whatever is wrong with the event is an error that names it."""
    if not isinstance(event, Event):
        raise BadInput(f"What is appended must be an Event, or several, but there is {str(event)[:100]!r}.")
    name, time, kind, payload = event
    try:
        text = name.encode()
    except (AttributeError, UnicodeEncodeError) as error:
        raise BadInput(f"The id of an event must be a text, but one is {name!r}.") from error
    if not 0 < len(text) <= LONGEST_ID:
        raise BadInput(f"The id of an event has 1 to {LONGEST_ID} bytes, but {name[:50]!r} has {len(text):,}.")
    if kind not in _CODES:
        raise BadInput(f"Event {name!r} is of kind {kind!r}; kinds are {', '.join(KINDS)}.")
    if type(time) is not int or not -_FARTHEST < time < _FARTHEST:
        raise BadInput(f"The time of event {name!r} must be whole microseconds since 1970, but it is {time!r}.")
    if not isinstance(payload, bytes) or payload[:1] != b"{" or payload[-1:] != b"}":
        raise BadInput(f"The payload of event {name!r} must be the bytes of a JSON object, without blanks around it.")
    if b"\n" in payload or b"\r" in payload:
        raise BadInput(f"The payload of event {name!r} must be JSON in one line; write it without indents.")
    if len(payload) > LARGEST_EVENT:
        raise BadInput(f"Event {name!r} has {len(payload):,} bytes; an event has at most {LARGEST_EVENT:,}.")
    return text


def _check_columns(batch: EventBatch) -> None:
    """Refuse columns that no log could have given."""
    from broadmatch.io.event_log import _frames as kernels  # here, since numba takes long to import

    found = kernels.check_columns(
        batch.time, batch.kind, len(KINDS), batch.ids, batch.id_ptr, batch.payloads, batch.payload_ptr, LONGEST_ID,
        LARGEST_EVENT + 1,
    )  # fmt: skip
    if found == kernels.UNFIT:
        raise BadInput("The columns of these events do not fit together; make them with EventBatch.of.")
    if found == kernels.LARGE:
        largest = np.diff(batch.payload_ptr).max()
        raise BadInput(f"An event has {largest:,} bytes; an event has at most {LARGEST_EVENT:,}.")
    if found == kernels.LINE:
        raise BadInput("The payloads of these events must be JSON, each in one line; make them with EventBatch.of.")


def _bytes_of(text: bytes) -> Bytes:
    """The bytes as an array of the kind that kernels take."""
    return np.frombuffer(bytearray(text), np.uint8)


def _take(data: Bytes, ptr: NDArray[np.int64], rows: NDArray[np.int64]) -> tuple[Bytes, NDArray[np.int64]]:
    from broadmatch.io.event_log._frames import take_texts  # here, since numba takes long to import

    out_ptr = offsets(np.diff(ptr)[rows])
    out = np.empty(int(out_ptr[-1]), np.uint8)
    take_texts(data, ptr, rows, out, out_ptr)
    return out, out_ptr
