"""A server for many minutes at half load: does its memory grow, does it leak descriptors?

    python -m benchmarks.serve_soak                    # 20 minutes at 2,500 `match` a second, two workers
    python -m benchmarks.serve_soak --small            # 2 minutes at 500

Memory and open descriptors of the supervisor and its workers are read from /proc every few seconds, while requests come
at fixed times and are all logged on disk. Memory is what a process has written and has alone (Private_Dirty of
smaps_rollup); beside it stand the pages of files that only one process maps (Private_Clean), such as filters of the ids
in the log, which grow with it and which the system takes back when it needs room. The first quarter is left out: caches
fill, and the first pieces of the log are written. Flat: the mean of the last quarter within 5 % of that of the second.
"""

import argparse
import asyncio
import tempfile
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import uvloop

from benchmarks.common import tell
from benchmarks.serve_load import make_engine, paced, processes, serving

_FLAT = 0.05


def memory(process: int, kind: str = "Private") -> int:
    """Bytes that only this process has, all or of a kind: Private_Dirty or Private_Clean."""
    lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
    return 1024 * sum(int(line.split()[1]) for line in lines if line.startswith(kind))


def descriptors(process: int) -> int:
    """Files, sockets and pipes that a process has open."""
    return len(list(Path(f"/proc/{process}/fd").iterdir()))


class Sampler(threading.Thread):
    """Looks at a server every few seconds, until it is ended."""

    def __init__(self, first: int, every: float) -> None:
        super().__init__(daemon=True)
        self._first, self._every, self._ended = first, every, threading.Event()
        self.seen: list[tuple[float, tuple[int, ...], int, int, int]] = []
        """Seconds, the processes, bytes of their own, of files they map, and descriptors of all."""

    def run(self) -> None:
        """Look until the end."""
        began = time.monotonic()
        while not self._ended.wait(self._every):
            there = tuple(processes(self._first))
            own, mapped = (sum(memory(one, kind) for one in there) for kind in ("Private_Dirty", "Private_Clean"))
            self.seen.append((time.monotonic() - began, there, own, mapped, sum(map(descriptors, there))))

    def end(self) -> None:
        """Look no more."""
        self._ended.set()
        self.join()


def change(values: Sequence[int]) -> tuple[float, float, float]:
    """The means of the second and of the last quarter, and the change from one to the other."""
    quarter = len(values) // 4
    before, after = float(np.mean(values[quarter : 2 * quarter])), float(np.mean(values[-quarter:]))
    return before, after, after / before - 1


def main() -> None:
    """Print the memory and descriptors on the way, and whether they were flat."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="2 minutes at 500 a second")
    parser.add_argument("--minutes", type=float)
    parser.add_argument("--rate", type=float)
    given = parser.parse_args()
    minutes = given.minutes or (2.0 if given.small else 20.0)
    rate = given.rate or (500.0 if given.small else 2500.0)
    with tempfile.TemporaryDirectory() as folder:
        bodies = make_engine(Path(folder) / "engine", 100_000)
        with serving(Path(folder) / "engine") as (process, address):
            sampler = Sampler(process, min(5.0, minutes * 60 / 40))
            sampler.start()
            with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                times = runner.run(paced(address, bodies, rate, minutes * 60))
            sampler.end()
    seen = sampler.seen
    for seconds, there, own, mapped, n_open in seen[:: max(1, len(seen) // 20)]:
        tell(benchmark="serve_soak.sample", seconds=seconds, processes=len(there), mb=own / 2**20,
             mapped_mb=mapped / 2**20, descriptors=n_open)  # fmt: skip
    before, after, grown = change([own for _, _, own, _, _ in seen])
    _, _, more_open = change([n_open for *_, n_open in seen])
    tell(
        benchmark="serve_soak",
        minutes=minutes,
        requests=int(rate * minutes * 60),
        mb_before=before / 2**20,
        mb_after=after / 2**20,
        memory_change=grown,
        memory_flat=abs(grown) <= _FLAT,
        descriptors_change=more_open,
        same_processes=len({there for _, there, *_ in seen}) == 1,
        **times,
    )


if __name__ == "__main__":
    main()
