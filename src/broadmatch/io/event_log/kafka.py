"""An event log in a topic of Kafka: the same interface, for where one machine is not enough."""

import struct
import threading
import time
from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from typing import Any, Self, cast

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, BadParameter, CannotWrite, MissingExtra, PositionLost
from broadmatch.io.event_log.events import LARGEST_EVENT, Event, EventBatch, batch_of, checked_id
from broadmatch.io.event_log.ids import IdTable, keys_of, known_in
from broadmatch.io.event_log.kinds import Kind
from broadmatch.io.event_log.log import Appended, EventPosition
from broadmatch.params import Flag, Whole

_TIMEOUT = 30.0
"""Seconds that brokers have to answer, and to take an event."""
_IDS_TABLE, _MOST_TABLES = 1 << 20, 8
_POLLS = (0.005, 0.05)
_TIME = struct.Struct("<q")
_QUIET = {"log_level": 2}


class _Pending:
    """Events of one call on their way: when the last has arrived, or is lost, the caller hears of it."""

    def __init__(self, batch: EventBatch, done: "Future[Appended]") -> None:
        self.batch, self.done = batch, done
        self.arrived = np.zeros(len(batch), np.bool_)
        self.left, self.repeated, self.error = 0, 0, ""
        self.names: list[bytes] = []


class KafkaEventLog:
    """An event log in the topic `topic` of the brokers `servers` ("host:port,host:port"); the extra `kafka` brings it.

    An event is acknowledged when all replicas that are in sync have it; how many have to be, and how long events are
    kept, are settings of the topic. Repeated ids are known of the last eight million events, and of those that are in
    the topic when it is opened with `write`; of several processes that append, each knows its own. The events of a call
    that failed may be there in part: append them again, and those that are there are not kept twice. Positions have an
    offset for each partition. `settings` are those of librdkafka.
    """

    def __init__(
        self, topic: str, servers: str, *, write: bool = False, settings: Mapping[str, Any] | None = None
    ) -> None:
        Flag().check("write", write)
        self._kafka = _confluent_kafka()
        self.topic, self.repeated, self.rejected = topic, 0, 0
        given = {**_QUIET, "bootstrap.servers": servers, **(settings or {})}
        self._producer: Any = None
        if write:
            self._producer = self._kafka.Producer(
                {
                    "enable.idempotence": True,
                    "acks": "all",
                    "linger.ms": 2,
                    "message.timeout.ms": round(_TIMEOUT * 1000),
                    "message.max.bytes": 2 * LARGEST_EVENT,
                    **given,
                }
            )
            try:
                self._producer.list_topics(topic, timeout=_TIMEOUT)  # brokers that make topics make it now
            except self._kafka.KafkaException as error:
                raise CannotWrite(f"The brokers of {topic} cannot be reached ({_text(error.args[0])}).") from error
        self._consumer = self._kafka.Consumer(
            {
                "group.id": "broadmatch",  # it must have one; offsets are the reader's, nothing is committed
                "enable.auto.commit": False,
                "auto.offset.reset": "error",
                "enable.partition.eof": True,
                "fetch.wait.max.ms": 50,  # brokers hold an answer back for so long, and a new position waits for it
                **given,
            }
        )
        self._reading, self._sending = threading.RLock(), threading.RLock()
        self._assigned: EventPosition | None = None
        self._tables, self._pending = [IdTable()], dict[bytes, list[tuple[_Pending, int]]]()
        self._closed = False
        self._partitions = self._find_partitions()
        self._thread = threading.Thread(target=self._poll, name=f"events {topic}", daemon=True)
        if write:
            self._remember_all()
            self._thread.start()

    @property
    def begin(self) -> EventPosition:
        """The place before the oldest events that are kept."""
        return self._marks()[0]

    @property
    def end(self) -> EventPosition:
        """The place after the newest events that are acknowledged."""
        return self._marks()[1]

    def since(self, time: int) -> EventPosition:
        """A place before all events of a time, in microseconds, or later."""
        wanted = [self._kafka.TopicPartition(self.topic, p, max(time // 1000, 0)) for p in self._partitions]
        try:
            found = self._consumer.offsets_for_times(wanted, timeout=_TIMEOUT)
        except self._kafka.KafkaException as error:
            raise BadInput(f"The brokers of {self.topic} cannot be reached ({_text(error.args[0])}).") from error
        at = {place.partition: place.offset for place in found}
        ends = self._marks()[1].offsets
        offsets = [at[p] if at[p] >= 0 else end for p, end in zip(self._partitions, ends, strict=True)]
        return EventPosition(self.topic, tuple(offsets))

    def append(self, events: Event | Sequence[Event] | EventBatch) -> Appended:
        """Append events, and come back when the brokers have them; `CannotWrite` if they have not."""
        return self.submit(events).result()

    def submit(self, events: Event | Sequence[Event] | EventBatch) -> "Future[Appended]":
        """Append events without waiting: the result comes when the brokers have them."""
        batch, done = batch_of(events), Future[Appended]()
        if self._producer is None:
            raise BadParameter("write must be True for a log to be appended to, but it is False.")
        done.set_running_or_notify_cancel()
        with self._sending:
            if self._closed:
                raise CannotWrite(f"The log of {self.topic} was closed; open it again to append to it.")
            known, pending = known_in(self._tables, keys_of(batch)), _Pending(batch, done)
            pending.left = 1  # until all are sent
            for row, (event, there) in enumerate(zip(batch, known.tolist(), strict=True)):
                name = event.id.encode()
                if there:
                    pending.repeated += 1
                    continue
                waiting = self._pending.get(name)
                if waiting is not None:
                    pending.repeated += 1
                    if waiting:  # on its way: acknowledged when it has arrived
                        pending.left += 1
                        waiting.append((pending, -1))
                    continue
                pending.left += 1
                self._pending[name] = [(pending, row)]
                self._send(name, event)
            self._settle(pending)
        return done

    def read(self, position: EventPosition, limit: int = 10_000) -> tuple[EventBatch, EventPosition]:
        """Up to `limit` events from a position on, and the position after them; none only at the end.

        `PositionLost` if some of them are no longer kept.
        """
        Whole(1).check("limit", limit)
        with self._reading:
            oldest, newest = self._marks()
            at = self._checked(position, oldest, newest)
            until = time.monotonic() + _TIMEOUT
            while left := sum(newest.offsets) - sum(at.offsets):
                if self._assigned != at:
                    places = zip(self._partitions, at.offsets, strict=True)
                    self._consumer.assign([self._kafka.TopicPartition(self.topic, p, o) for p, o in places])
                messages = self._consumer.consume(min(limit, left), timeout=0.2)
                events, at = self._decoded(messages, at)
                self._assigned = at
                if events:
                    return EventBatch.of(events), at
                if time.monotonic() > until:
                    raise BadInput(
                        f"{self.topic} gave no events in {_TIMEOUT:.0f} seconds; check that its brokers run."
                    )
            return EventBatch.of([]), at

    def wait(self, position: EventPosition, timeout: float) -> bool:
        """Whether there are events after the position, waiting for them for up to `timeout` seconds."""
        until, (pause, most) = time.monotonic() + timeout, _POLLS
        while True:
            oldest, newest = self._marks()
            at = self._checked(position, oldest, newest)
            if at.offsets != newest.offsets:
                return True
            left = until - time.monotonic()
            if left <= 0:
                return False
            time.sleep(min(pause, left))
            pause = min(2 * pause, most)

    def close(self) -> None:
        """End it, when the brokers have all that was submitted, or cannot be reached."""
        if self._producer is not None and self._producer.flush(_TIMEOUT):
            self._producer.purge()
            self._producer.flush(1.0)
        self._closed = True
        if self._thread.is_alive():
            self._thread.join()
        with self._reading:
            self._consumer.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def _find_partitions(self) -> list[int]:
        try:
            found = self._consumer.list_topics(self.topic, timeout=_TIMEOUT).topics[self.topic]
        except self._kafka.KafkaException as error:
            raise BadInput(f"The brokers of {self.topic} cannot be reached ({_text(error.args[0])}).") from error
        if found.error is not None or not found.partitions:
            what = "it has no partitions" if found.error is None else _text(found.error)
            raise BadInput(f"There is no topic {self.topic} ({what}); make it, or open the log with write=True.")
        return sorted(found.partitions)

    def _marks(self) -> tuple[EventPosition, EventPosition]:
        """The places before the oldest and after the newest event of each partition."""
        places = [self._kafka.TopicPartition(self.topic, partition) for partition in self._partitions]
        try:
            marks = [self._consumer.get_watermark_offsets(place, timeout=_TIMEOUT) for place in places]
        except self._kafka.KafkaException as error:
            raise BadInput(f"The brokers of {self.topic} cannot be reached ({_text(error.args[0])}).") from error
        lows, highs = ([int(mark[i]) for mark in marks] for i in (0, 1))
        return EventPosition(self.topic, tuple(lows)), EventPosition(self.topic, tuple(highs))

    def _checked(self, position: EventPosition, oldest: EventPosition, newest: EventPosition) -> EventPosition:
        """The position, with places in partitions that have been added since."""
        at = EventPosition(position.log, position.offsets + oldest.offsets[len(position.offsets) :])
        at.check(f"the topic {self.topic}", oldest, newest)
        return at

    def _decoded(self, messages: Sequence[Any], at: EventPosition) -> tuple[list[Event], EventPosition]:
        """The events of messages, and the place after them."""
        offsets, events = list(at.offsets), []
        for message in messages:
            error = message.error()
            if error is None:
                event = _event_of(message)
                self.rejected += event is None
                events += [] if event is None else [event]
                offsets[self._partitions.index(message.partition())] = message.offset() + 1
            elif error.code() == self._kafka.KafkaError._PARTITION_EOF:
                offsets[self._partitions.index(message.partition())] = message.offset()
            elif error.code() in (
                self._kafka.KafkaError._AUTO_OFFSET_RESET,
                self._kafka.KafkaError.OFFSET_OUT_OF_RANGE,
            ):
                self._assigned = None
                raise PositionLost(
                    f"Events of the topic {self.topic} from this position on are no longer kept; go on from the log's "
                    "begin without them, and keep events for longer than readers stay away."
                )
        return events, EventPosition(self.topic, tuple(offsets))

    def _remember_all(self) -> None:
        """Learn the ids that are in the topic."""
        at, end = self._marks()
        while at.offsets != end.offsets:
            batch, at = self.read(at, 1 << 16)
            if not len(batch):
                break
            self._remember(keys_of(batch))

    def _remember(self, keys: NDArray[np.uint64]) -> None:
        if self._tables[-1].count >= _IDS_TABLE:
            self._tables = [*self._tables[1 - _MOST_TABLES :], IdTable()]
        self._tables[-1].add(keys, known_in(self._tables[:-1], keys))

    def _send(self, name: bytes, event: Event) -> None:
        def arrived(error: Any, message: Any) -> None:
            with self._sending:
                waiting = self._pending.pop(name)
                if error is None:
                    self._pending[name] = []  # there, but not among the ids that are known before its call is done
                for pending, row in waiting:
                    if error is not None:
                        pending.error = _text(error)
                    elif row >= 0:
                        pending.arrived[row] = True
                        pending.names.append(name)
                    self._settle(pending)

        headers = [("kind", event.kind.encode()), ("time", _TIME.pack(event.time))]
        until = time.monotonic() + _TIMEOUT
        while True:
            try:
                self._producer.produce(
                    self.topic, event.payload, name, headers=headers, timestamp=max(event.time // 1000, 0),
                    on_delivery=arrived,
                )  # fmt: skip
                return
            except BufferError as error:  # too much on its way
                self._producer.poll(0.01)
                if time.monotonic() > until:
                    arrived(error, None)
                    return
            except self._kafka.KafkaException as error:
                arrived(error.args[0], None)
                return

    def _settle(self, pending: _Pending) -> None:
        """One of the events of a call has arrived, or is lost."""
        pending.left -= 1
        if pending.left:
            return
        rows = np.flatnonzero(pending.arrived)
        self._remember(keys_of(pending.batch.take(rows)))
        for name in pending.names:
            del self._pending[name]
        self.repeated += pending.repeated
        if pending.error:
            pending.done.set_exception(
                CannotWrite(
                    f"Cannot write the topic {self.topic}: {pending.error}; {len(rows):,} of {len(pending.batch):,} "
                    "events were kept: append them again, and none is kept twice."
                )
            )
        else:
            pending.done.set_result(Appended(len(rows), pending.repeated))

    def _poll(self) -> None:
        while not self._closed:
            self._producer.poll(0.05)


def _event_of(message: Any) -> Event | None:
    """The event that a message is; None if it is none of ours."""
    headers = dict(message.headers() or ())
    try:
        (moment,), kind = _TIME.unpack(headers.get("time") or b""), cast(Kind, (headers.get("kind") or b"").decode())
        event = Event((message.key() or b"").decode(), moment, kind, message.value() or b"")
        checked_id(event)
    except (struct.error, UnicodeDecodeError, BadInput):
        return None
    return event


def _text(error: Any) -> str:
    return str(error.str() if hasattr(error, "str") else error)


def _confluent_kafka() -> Any:
    try:
        import confluent_kafka
    except ImportError as error:
        raise MissingExtra("Logs in Kafka need confluent-kafka; pip install 'broadmatch[kafka]' brings it.") from error
    return confluent_kafka
