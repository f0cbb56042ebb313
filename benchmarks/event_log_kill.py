"""A writer of the event log that is killed at random moments: what it acknowledged is there, once, and nothing half.

    python -m benchmarks.event_log_kill               # 1,000 kills
    python -m benchmarks.event_log_kill --kills 20

Three threads append batches of 1 to 40 events, some of megabytes, send one in five of them twice, and with it one of
those who were killed before them, and say what was acknowledged; segments are small, so that kills fall into the
closing of one and into the merging of ids too, which `unfinished_ids` counts. SIGKILL comes at random, to one in
four from the opening of the log on, to the others after their first batch. A reader goes on from where it was, after
each kill and while the next writer opens: every event that was acknowledged must be there once, with its payload, and
of every batch all events or none.
"""

import argparse
import json
import os
import random
import select
import signal
import tempfile
import threading
import time
from collections import Counter
from pathlib import Path
from typing import Any

from broadmatch.io import EmbeddedEventLog, Event
from broadmatch.io.event_log import writer

THREADS, LARGEST = 3, 40
MOST_SECONDS = 0.2


def batch_of(run: int, thread: int, number: int) -> list[Event]:
    """The events of one call: the same whenever it is repeated."""
    draw = random.Random(f"{run}.{thread}.{number}")
    n, more = draw.randint(1, LARGEST), b"x" * (50_000 if draw.random() < 0.2 else 10)
    names = [f"{run}.{thread}.{number}.{i}" for i in range(n)]
    return [Event(name, number, "clicks", b'{"of":"%s","more":"%s"}' % (name.encode(), more)) for name in names]


def write(path: Path, run: int, out: int) -> None:
    """Append until killed; each batch is said when it is acknowledged."""
    log = EmbeddedEventLog(path, write=True)

    def work(thread: int) -> None:
        draw = random.Random(f"{run}.{thread}")
        for number in range(1_000_000):
            log.append(batch_of(run, thread, number))
            os.write(out, b"%d %d\n" % (thread, number))
            if draw.random() < 0.2:
                log.append(batch_of(run, thread, draw.randint(0, number)))
                log.append(batch_of(draw.randint(0, run), thread, draw.randint(0, 3)))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(THREADS)]
    for one in threads:
        one.start()
    threads[0].join()


def start(path: Path, run: int) -> tuple[int, int]:
    """A writer in a process of its own: its number, and where it says what was acknowledged."""
    said, out = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            os.close(said)
            write(path, run, out)
        finally:
            os._exit(1)
    os.close(out)
    return process, said


def acknowledged(said: int) -> list[tuple[int, int]]:
    """What a writer that has ended said."""
    with os.fdopen(said) as lines:
        return [(int(thread), int(number)) for thread, number in (line.split() for line in lines)]


def is_torn(path: Path) -> bool:
    """Whether something other than zeros stands behind the whole frames of a segment."""
    file = os.open(path, os.O_RDONLY)
    try:
        end = writer.scan_file(file, int(path.stem))[2]
        return any(os.pread(file, path.stat().st_size, end))
    finally:
        os.close(file)


class KillReader:
    """Goes on from where it was, and counts what it sees."""

    def __init__(self, path: Path) -> None:
        self.log, self.seen, self.wrong = EmbeddedEventLog(path), Counter[str](), 0
        self.position = self.log.begin

    def go_on(self) -> None:
        """Read what is new."""
        while True:
            batch, self.position = self.log.read(self.position)
            if not len(batch):
                return
            for event in batch:
                self.seen[event.id] += 1
                self.wrong += json.loads(event.payload)["of"] != event.id

    def missing(self, run: int, thread: int, number: int) -> int:
        """How many events of a batch are not there."""
        return sum(self.seen[event.id] == 0 for event in batch_of(run, thread, number))


def measure(path: Path, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill writers, and look after each what the log holds."""
    writer.SEGMENT_EVENTS = 200
    draw = random.Random(seed)
    with EmbeddedEventLog(path, write=True) as log:
        log.append(Event("first", 0, "clicks", b'{"of":"first"}'))
    reader, batches = KillReader(path), set[tuple[int, int, int]]()
    lost = acks = torn = unfinished = 0
    for run in range(kills):
        process, said = start(path, run)
        if run % 4:  # else it may still be opening the log
            select.select([said], [], [], 60)
        time.sleep(draw.random() * MOST_SECONDS)
        reader.go_on()
        os.kill(process, signal.SIGKILL)
        _, status = os.waitpid(process, 0)
        assert os.WIFSIGNALED(status), "the writer ended by itself"
        done = acknowledged(said)
        acks += len(done)
        reader.go_on()
        lost += sum(reader.missing(run, *one) for one in done)
        batches |= {(run, *one) for one in done}
        last = max(path.glob("*.events"))
        torn += is_torn(last)
        unfinished += any(path.glob(".*.ids.*.tmp"))
    EmbeddedEventLog(path, write=True).close()
    reader.go_on()
    lost += sum(reader.missing(*one) > 0 for one in batches)
    found = {(int(a), int(b), int(c)) for a, b, c, _ in (name.split(".") for name in reader.seen if "." in name)}
    half = sum(reader.missing(*one) > 0 for one in found)
    twice = sum(n - 1 for n in reader.seen.values())
    return {
        "kills": kills,
        "acknowledged_batches": acks,
        "events": sum(reader.seen.values()),
        "batches_there_but_not_acknowledged": len(found - batches),
        "torn_ends": torn,
        "unfinished_ids": unfinished,
        "lost": lost,
        "twice": twice,
        "half_batches": half,
        "wrong_payloads": reader.wrong,
    }


def main() -> None:
    """Measure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=1000)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder) / "log", 20 if asked.small else asked.kills, asked.seed)))


if __name__ == "__main__":
    main()
