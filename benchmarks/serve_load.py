"""`match` over HTTP: how many a second two workers answer, and how long one takes at half of that.

    python -m benchmarks.serve_load                    # an index of 1 million phrases
    python -m benchmarks.serve_load --small            # of 100,000

The engine is that of `benchmarks.ads_engine`; queries are those with 20 candidates, each with a city and an hour. Most
a second: wrk with 64 connections beside the server, in the same run raw uvicorn with two workers, which reads the body
and answers as many bytes. Paced: a client of our own sends requests at fixed times, whether answers come or not, over
64 connections, and counts from the time at which a request was due; raw uvicorn at the same rate. CPU time is that of
the server's processes, from the system. Every answer is logged on disk first. What the host of a virtual machine took
from it meanwhile (`stolen_percent`) keeps everybody waiting: compare percentiles of runs in which it took little.
"""

import argparse
import asyncio
import contextlib
import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import uvloop

from benchmarks.ads_engine import CITIES, DESCRIPTION, described, learn
from benchmarks.ads_index import queries
from benchmarks.common import tell
from broadmatch.ads import AdEngine, Auction
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.data import Names
from broadmatch.harvest import normalise_query

CANDIDATES, CONNECTIONS, WORKERS, BODIES = 20, 64, 2, 4000
SCRIPT = """
local bodies, i = {{}}, 0
for line in io.lines("{bodies}") do bodies[#bodies + 1] = line end
wrk.method = "POST"
wrk.headers["Content-Type"] = "application/json"
request = function() i = i % #bodies + 1; return wrk.format(nil, nil, nil, bodies[i]) end
"""
TICK = os.sysconf("SC_CLK_TCK")
_REPLY = b"x" * 1200


async def raw(scope: Any, receive: Any, send: Any) -> None:
    """What uvicorn can do: read the body, answer as many bytes as a match has."""
    if scope["type"] != "http":
        return
    while (await receive()).get("more_body"):
        pass
    head = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(_REPLY))]
    await send({"type": "http.response.start", "status": 200, "headers": head})
    await send({"type": "http.response.body", "body": _REPLY})


def make_engine(folder: Path, n: int) -> list[bytes]:
    """An engine, and the bodies of requests to it."""
    clicks = ClickModel(DESCRIPTION, {"model": FTRL().to_serving()})
    inventory = described(n)
    engine = AdEngine.create(folder, inventory, clicks=clicks, auction=Auction(places=4))
    asked = Names.of([normalise_query(query) for query in queries(20_000, list(inventory.phrases[:5000]))])
    found = np.diff(engine.index.match_many(asked, CANDIDATES, normalised=True).ptr)
    asked = asked.take(np.flatnonzero(found == CANDIDATES)[:BODIES])
    learn(engine, asked).save(folder / "clicks")
    rng = np.random.default_rng(5)
    return [
        json.dumps(
            {"query": query, "limit": CANDIDATES, "context": {"city": f"city{rng.integers(CITIES)}", "hour": i % 24}}
        ).encode()
        for i, query in enumerate(asked)
    ]


def processes(first: int) -> list[int]:
    """A process with those that it started."""
    found, at = [first], 0
    while at < len(found):
        with contextlib.suppress(OSError):
            tasks = Path(f"/proc/{found[at]}/task").iterdir()
            found += [int(child) for task in tasks for child in (task / "children").read_text().split()]
        at += 1
    return found


def cpu_seconds(first: int) -> float:
    """The CPU time of a process and those that it started."""
    total = 0
    for one in processes(first):
        fields = Path(f"/proc/{one}/stat").read_text().rpartition(")")[2].split()
        total += int(fields[11]) + int(fields[12])
    return total / TICK


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[tuple[int, str]]:
    """Our server: its process and its address."""
    command = [sys.executable, "-m", "broadmatch", "serve", str(folder), "--port", "0", "--workers", str(WORKERS)]
    server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.pid, re.findall(r"http://\S+", server.stdout.readline())[0]
    finally:
        server.terminate()
        server.wait(30)
        server.stdout.close()


@contextlib.contextmanager
def serving_raw() -> Iterator[tuple[int, str]]:
    """Raw uvicorn."""
    command = [sys.executable, "-m", "uvicorn", "benchmarks.serve_load:raw", "--port", "0", "--no-access-log"]
    more = ["--workers", str(WORKERS), "--lifespan", "off", "--loop", "uvloop", "--http", "httptools"]
    server = subprocess.Popen(command + more, stderr=subprocess.PIPE, text=True)
    assert server.stderr is not None
    try:
        address = next(re.findall(r"http://[\d.:]+", line)[0] for line in server.stderr if "http://" in line)
        for started, _ in enumerate(line for line in server.stderr if "Started server process" in line):
            if started + 1 == WORKERS:
                break
        yield server.pid, address
    finally:
        server.terminate()
        server.wait(30)
        server.stderr.close()


def stolen_ticks() -> tuple[int, int]:
    """CPU time that a virtual machine was kept waiting for, and all of it, since it started."""
    ticks = [int(one) for one in Path("/proc/stat").read_text().split("\n")[0].split()[1:9]]
    return ticks[7], sum(ticks)


def most_a_second(process: int, address: str, script: Path, seconds: int) -> dict[str, float]:
    """What wrk reaches, and the CPU time of a request."""
    command = ["wrk", "-t1", f"-c{CONNECTIONS}", f"-d{seconds}s", "-s", str(script), f"{address}/v1/match"]
    subprocess.run([*command[:3], "-d2s", *command[4:]], capture_output=True, check=True)
    before = cpu_seconds(process)
    said = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    took = cpu_seconds(process) - before
    n = int(re.findall(r"(\d+) requests in", said)[0])
    failed = re.findall(r"Non-2xx or 3xx responses: (\d+)", said)
    return {
        "per_second": float(re.findall(r"Requests/sec:\s+([\d.]+)", said)[0]),
        "cpu_us": took / n * 1e6,
        "failed": int(failed[0]) if failed else 0,
    }


class _Connection(asyncio.Protocol):
    """A connection that has one request at a time."""

    def __init__(self, idle: "asyncio.Queue[_Connection]", took: list[float]) -> None:
        self._idle, self._took, self._buffer, self.due = idle, took, b"", 0.0
        self.failed = 0

    def connection_made(self, transport: Any) -> None:
        """It is open."""
        self.transport = transport
        self._idle.put_nowait(self)

    def data_received(self, data: bytes) -> None:
        """Some of an answer came."""
        self._buffer += data
        head, found, body = self._buffer.partition(b"\r\n\r\n")
        if not found:
            return
        size = int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0])
        if len(body) >= size:
            self._took.append(time.perf_counter() - self.due)
            self.failed += not head.startswith(b"HTTP/1.1 200")
            self._buffer = b""
            self._idle.put_nowait(self)


async def paced(address: str, bodies: list[bytes], rate: float, seconds: float) -> dict[str, float]:
    """Requests at fixed times; percentiles of milliseconds from when they were due to when they were answered."""
    host, port = address.removeprefix("http://").split(":")
    loop, idle, took = asyncio.get_running_loop(), asyncio.Queue[_Connection](), list[float]()
    made = [await loop.create_connection(lambda: _Connection(idle, took), host, int(port)) for _ in range(CONNECTIONS)]
    head = b"POST /v1/match HTTP/1.1\r\nHost: %s\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n"
    requests = [head % (host.encode(), len(body)) + body for body in bodies]
    n, began, ticks = int(rate * seconds), time.perf_counter() + 0.1, stolen_ticks()
    for i in range(n):
        due = began + i / rate
        if (left := due - time.perf_counter()) > 0:
            await asyncio.sleep(left)
        connection = await idle.get()
        connection.due = due
        connection.transport.write(requests[i % len(requests)])
    while idle.qsize() < CONNECTIONS:
        await asyncio.sleep(0.01)
    stolen, whole = (after - before for before, after in zip(ticks, stolen_ticks(), strict=True))
    for transport, _ in made:
        transport.close()
    p50, p99, p999 = np.percentile(np.array(took[n // 10 :]) * 1e3, (50, 99, 99.9))  # the first tenth warms up
    failed = sum(protocol.failed for _, protocol in made)
    return {"rate": rate, "p50_ms": float(p50), "p99_ms": float(p99), "p999_ms": float(p999), "failed": failed,
            "stolen_percent": 100 * stolen / max(whole, 1)}  # fmt: skip


def main() -> None:
    """Print one line of JSON for each figure."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--seconds", type=int, default=10)
    parser.add_argument("--rate", type=float, default=2500.0)
    given = parser.parse_args()
    if shutil.which("wrk") is None:
        sys.exit("wrk is not installed: apt install wrk.")
    with tempfile.TemporaryDirectory() as temporary:
        folder, lines, script = (Path(temporary) / name for name in ("engine", "bodies", "match.lua"))
        bodies = make_engine(folder, 100_000 if given.small else 1_000_000)
        lines.write_bytes(b"\n".join(bodies))
        script.write_text(SCRIPT.format(bodies=lines))
        for entry, opened in (("raw uvicorn", serving_raw()), ("match", serving(folder))):
            with opened as (process, address):
                found = most_a_second(process, address, script, given.seconds)
                tell(benchmark="serve_load", entry=entry, workers=WORKERS, load=os.getloadavg()[0], **found)
                with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
                    times = runner.run(paced(address, bodies, given.rate, given.seconds))
                tell(benchmark="serve_load", entry=f"{entry}, paced", workers=WORKERS, **times)


if __name__ == "__main__":
    main()
