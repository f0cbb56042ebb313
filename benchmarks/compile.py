"""What a first use compiles, and how long it waits: the README's library example in processes without and with a cache.

    python -m benchmarks.compile [--most 40] [--code FILE]

Lists each compilation with the seconds of its own (without those of the kernels and numpy functions that it calls),
longest first. The second process finds everything in the cache. `--code` measures another script.
"""

import argparse
import os
import re
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from benchmarks.common import tell

README = Path(__file__).parents[1] / "README.md"


def example() -> str:
    """The library example of the README."""
    text = README.read_text("utf-8")
    block = next(b for b in re.findall(r"```python\n(.*?)```", text, re.DOTALL) if "Recommender(" in b)
    return "\n".join(line[4:] for line in block.splitlines() if line.startswith((">>> ", "... ")))


def record(code: str, most: int) -> None:
    """Run the code in this process and tell of each compilation."""
    from numba.core import event

    started: list[list[float]] = []
    found: list[tuple[float, str]] = []

    class Listener(event.Listener):
        def on_start(self, happened: Any) -> None:
            started.append([time.process_time(), 0.0])

        def on_end(self, happened: Any) -> None:
            begin, within = started.pop()
            took = time.process_time() - begin
            if started:
                started[-1][1] += took
            kernel = happened.data["dispatcher"].py_func
            arguments = ", ".join(map(str, happened.data["args"]))
            found.append((took - within, f"{kernel.__module__}.{kernel.__qualname__}({arguments[:160]})"))

    events: Any = event
    events.register("numba:compile", Listener())
    exec(compile(code, "example", "exec"), {"__name__": "__main__"})  # noqa: S102 (the README of this repository)
    for seconds, what in sorted(found, reverse=True)[:most]:
        tell(compiled=what, own_seconds=seconds)
    tell(compilations=len(found), seconds=sum(seconds for seconds, _ in found))


def main() -> None:
    """Measure both processes."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--most", type=int, default=0, help="how many compilations to list")
    parser.add_argument("--code", type=Path, help="a script instead of the README's example")
    parser.add_argument("--small", action="store_true", help="the same")
    parser.add_argument("--record", action="store_true", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    code = asked.code.read_text("utf-8") if asked.code else example()
    if asked.record:
        record(code, asked.most)
        return
    given = [*(["--code", str(asked.code)] if asked.code else []), "--most", str(asked.most)]
    with tempfile.TemporaryDirectory() as cache:
        for process in ("first", "second"):
            started, before = time.perf_counter(), resource.getrusage(resource.RUSAGE_CHILDREN)
            command = [sys.executable, "-m", "benchmarks.compile", "--record", *given]
            subprocess.run(command, check=True, env=os.environ | {"NUMBA_CACHE_DIR": cache})
            after = resource.getrusage(resource.RUSAGE_CHILDREN)
            cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
            tell(process=process, seconds=time.perf_counter() - started, cpu_seconds=cpu)


if __name__ == "__main__":
    main()
