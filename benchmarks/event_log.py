"""The event log: appending, reading, opening, bytes on disk; beside the same table in SQLite and beside Kafka's client.

    python -m benchmarks.event_log                 # 10 million events
    python -m benchmarks.event_log --small

Events have ids of 32 random letters and payloads of about 130 bytes. Appended in batches of 100, each acknowledged when
it is on disk. SQLite: one row an event, ids unique, WAL, synchronous=FULL, one transaction a batch. Kafka: the client's
own broker in this process, in memory. Rates are events a CPU second of the process; `wall` is by the clock, and depends
on the disk and on what else the machine does.
"""

import argparse
import json
import os
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
import numpy as np

from broadmatch.io import EmbeddedEventLog, Event, EventBatch, KafkaEventLog
from broadmatch.io.event_log.kept_ids import KeptIds
from broadmatch.io.event_log.log import EventLog

COLUMNS = ("id", "time", "query", "ad", "country", "place", "price", "device", "user", "clicked")
PAYLOAD = (
    b'{"query":"cheap red shoes %d","ad":"ad-%d","country":"at","place":%d,"price":0.35,"device":"mobile",'
    b'"user":"u%d","clicked":0}'
)
BATCH = 100


def make(n: int, first: int = 0) -> list[Event]:
    """Impressions as they are served."""
    return [
        Event(os.urandom(16).hex(), 1_700_000_000_000_000 + i, "impressions", PAYLOAD % (i % 997, i % 9973, i % 4, i))
        for i in range(first, first + n)
    ]


def timed(work: Callable[[], Any], n: int) -> dict[str, int]:
    """How many of n things are done in a second of CPU, and by the clock."""
    cpu, wall = time.process_time(), time.perf_counter()
    work()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return {"per_cpu_second": round(n / cpu), "per_wall_second": round(n / wall)}


def append_all(log: EventLog, events: list[Event], threads: int) -> None:
    """Append batches from several threads, each of which waits for the answer."""

    def work(k: int) -> None:
        for i in range(k * BATCH, len(events), threads * BATCH):
            log.append(events[i : i + BATCH])

    workers = [threading.Thread(target=work, args=(k,)) for k in range(threads)]
    for one in workers:
        one.start()
    for one in workers:
        one.join()


def memory(place: str) -> dict[str, float]:
    """Megabytes of this process that are no file's, and those of files in a folder."""
    mapped, anonymous, name = 0, 0, ""
    for line in Path("/proc/self/smaps").read_text().splitlines():
        first, *rest = line.split()
        if not first.endswith(":"):
            name = rest[4] if len(rest) > 4 else ""
        elif first == "Rss:" and name.startswith(place):
            mapped += int(rest[0])
        elif first == "Anonymous:":
            anonymous += int(rest[0])
    return {"anonymous_mb": round(anonymous / 1024, 1), "mapped_mb": round(mapped / 1024, 1)}


def read_all(log: EventLog, look: Callable[[EventBatch], Any], limit: int = 1 << 16) -> None:
    """Read a log from its begin to its end."""
    position = log.begin
    while True:
        batch, position = log.read(position, limit)
        if not len(batch):
            return
        look(batch)


def say(log: str, what: str, events: int, **found: Any) -> None:
    """One line."""
    print(json.dumps({"benchmark": "event_log", "log": log, "what": what, "events": events, **found}), flush=True)


def measure_embedded(place: Path, n: int, appended: int) -> None:
    """The log in a folder, with n events in the end."""
    with EmbeddedEventLog(place, write=True) as log:
        log.append(make(200))
        say("embedded", "memory before", 200, **memory(f"{place}/"))
        read_all(log, lambda batch: batch.to_arrow(COLUMNS))
        for threads in (1, 8):
            events = make(appended)
            say("embedded", f"append, {threads} threads", appended,
                **timed(lambda e=events, t=threads: append_all(log, e, t), appended))  # fmt: skip
        measure_latency(log)
        while (there := log.end.offsets[0]) < n:
            log.append(make(min(10_000, n - there), there))
        events.clear()
        say("embedded", f"memory, {n:,} ids kept", n, **memory(f"{place}/"))
        events = make(appended)
        say("embedded", f"append, 8 threads, {n:,} ids kept", appended,
            **timed(lambda: append_all(log, events, 8), appended))  # fmt: skip
        say("embedded", "read", n, **timed(lambda: read_all(log, len), log.end.offsets[0]))
        few = min(n, 1_000_000)
        say("embedded", "read to record batches", few, **timed(lambda: _decode(log, few), few))
        there = log.end.offsets[0]
    size = {suffix: sum(f.stat().st_size for f in place.glob(f"*{suffix}")) for suffix in (".events", ".ids")}
    payload = sum(len(event.payload) + len(event.id) for event in events) / len(events)
    say("embedded", "bytes an event", there, payload_and_id=round(payload, 1),
        **{f"in{name.replace('.', '_')}": round(bytes_ / there, 1) for name, bytes_ in size.items()})  # fmt: skip
    for write in (True, False):
        cpu, wall = time.process_time(), time.perf_counter()
        EmbeddedEventLog(place, write=write).close()
        cpu, wall = round(time.process_time() - cpu, 3), round(time.perf_counter() - wall, 3)
        say("embedded", "open to write" if write else "open to read", there, cpu_seconds=cpu, wall_seconds=wall)


def measure_ids(place: Path, n: int, segment: int = 1 << 20) -> None:
    """The ids of many more events, without the events: what is new is looked for among all, in batches of 1,000."""
    place.mkdir()
    kept, draw, cpu = KeptIds(place), np.random.default_rng(0), 0.0
    for first in range(0, n, segment):
        words = draw.integers(1, 1 << 63, 2 * segment, np.uint64) << np.uint64(1) | np.uint64(1)
        words[1::2] &= ~np.uint64(0xFFFF)
        began = time.thread_time()
        for i in range(0, len(words), 2_000):
            kept.add(words[i : i + 2_000])
        cpu = time.thread_time() - began
        kept.wait_for_room()
        kept.seal(first, first + segment)
    kept.wait()
    known, began = 0, time.thread_time()
    for i in range(0, len(words), 2_000):
        known += int(kept.add(words[i : i + 2_000])[0].sum())
    again = time.thread_time() - began
    say("ids", f"{n:,} kept", n, runs=len(kept._runs), new_nanoseconds=round(1e9 * cpu / segment),
        repeated_nanoseconds=round(1e9 * again / segment), known=known / segment, **memory(f"{place}/"))  # fmt: skip
    kept.close()


def measure_latency(log: EventLog, n: int = 500) -> None:
    """How long one caller alone waits for one event, by the clock."""
    waits = []
    for event in make(n):
        began = time.perf_counter()
        log.append(event)
        waits.append(time.perf_counter() - began)
    waits.sort()
    say("embedded", "one event, one caller", n, milliseconds_median=round(waits[n // 2] * 1e3, 2),
        milliseconds_99=round(waits[n * 99 // 100] * 1e3, 2))  # fmt: skip


def _decode(log: EventLog, n: int) -> None:
    position, done = log.begin, 0
    while done < n:
        batch, position = log.read(position, min(1 << 16, n - done))
        done += len(batch.only("impressions").to_arrow(COLUMNS))


def measure_sqlite(place: Path, n: int, appended: int) -> None:
    """The same in SQLite, with n events before the last are appended."""
    db = sqlite3.connect(place, isolation_level=None)
    for pragma in ("journal_mode=wal", "synchronous=full", "cache_size=-200000"):
        db.execute(f"pragma {pragma}")
    db.execute("create table events (n integer primary key, id text unique, time int, kind text, payload blob)")

    def insert(events: list[Event]) -> None:
        db.execute("begin")
        db.executemany("insert or ignore into events (id, time, kind, payload) values (?, ?, ?, ?)", events)
        db.execute("commit")

    def work(events: list[Event]) -> None:
        for i in range(0, len(events), BATCH):
            insert(events[i : i + BATCH])

    events = make(appended)
    say("sqlite", "append, 1 thread", appended, **timed(lambda: work(events), appended))
    for first in range(appended, n, 10_000):
        insert(make(10_000, first))
    events = make(appended)
    say("sqlite", f"append, 1 thread, {n:,} ids kept", appended, **timed(lambda: work(events), appended))

    def read() -> None:
        at = 0
        while rows := db.execute("select * from events where n > ? order by n limit 65536", (at,)).fetchall():
            at = rows[-1][0]

    say("sqlite", "read", n + appended, **timed(read, n + appended))
    db.execute("pragma wal_checkpoint(truncate)")
    say("sqlite", "bytes an event", n + appended, events_and_ids=round(place.stat().st_size / (n + appended), 1))
    db.close()


def measure_kafka(appended: int) -> None:
    """Kafka's client and its own broker, which keeps a few megabytes."""
    broker = kafka.Producer({"test.mock.num.brokers": 1, "bootstrap.servers": "none", "log_level": 2})
    servers = ",".join(f"{one.host}:{one.port}" for one in broker.list_topics(timeout=10).brokers.values())
    with KafkaEventLog("events", servers, write=True) as log:
        log.append(make(200))
        for threads in (1, 8):
            events = make(appended)
            say("kafka", f"append, {threads} threads", appended,
                **timed(lambda e=events, t=threads: append_all(log, e, t), appended))  # fmt: skip
        n = sum(log.end.offsets) - sum(log.begin.offsets)
        say("kafka", "read", n, **timed(lambda: read_all(log, len), n))
    broker.flush(1)


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    small = parser.parse_args().small
    n, appended = (100_000, 20_000) if small else (10_000_000, 200_000)
    with tempfile.TemporaryDirectory() as folder:
        measure_embedded(Path(folder) / "log", n, appended)
    for kept in (n // 10, 10 * n):
        with tempfile.TemporaryDirectory() as folder:
            measure_ids(Path(folder) / "ids", kept, min(kept, 1 << 20))
    with tempfile.TemporaryDirectory() as folder:
        measure_sqlite(Path(folder) / "events.db", min(n, 1_000_000), appended // 4)
    measure_kafka(appended // 4)


if __name__ == "__main__":
    main()
