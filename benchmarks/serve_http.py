"""What a request costs a server, in CPU time of its whole process, beside bare uvicorn and FastAPI.

    python -m benchmarks.serve_http                    # needs wrk, and the extra [bench]
    python -m benchmarks.serve_http --seconds 1 --rounds 2

One worker each, all started before anything is measured and asked in turn, round by round: bare uvicorn that answers
200 bytes; `match` of ours with 20 candidates and 4 places, with an event log on disk and with one that acknowledges at
once (the difference is the log's share); the same endpoint with FastAPI and pydantic, which logs to nowhere. wrk asks
over 1, 16 and 64 connections with 200 queries in turn. The best of the rounds counts, since others work on the machine.
In the same rounds, in this process: the engine's own time for the same queries, singly (`answer`), and by query in as
many together as the server answers at that number of connections.
"""

import argparse
import http.client
import json
import re
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import tell
from benchmarks.serve_shop import CITIES, QUERIES, Server, make_shop, query

SERVERS = ("bare", "no-log", "broadmatch", "fastapi")
CONNECTIONS = (1, 16, 64)
GOAL_US, GOAL_SHARE = 40.0, 1 / 3
_LUA = """
local bodies = {%s}
local i = 0
wrk.headers["Content-Type"] = "application/json"
request = function()
  i = i %% #bodies + 1
  return wrk.format("POST", "/v1/match", nil, bodies[i])
end
"""


def asked(n: int) -> list[tuple[str, dict[str, Any]]]:
    """Queries with their context."""
    return [(query(i % QUERIES), {"city": f"city{i % CITIES}", "hour": i % 24}) for i in range(n)]


def write_script(path: Path) -> None:
    """What wrk sends."""
    bodies = [json.dumps({"query": text, "context": context}) for text, context in asked(QUERIES)]
    path.write_text(_LUA % ",".join(f"'{body}'" for body in bodies))


def load(server: Server, script: Path, connections: int, seconds: float) -> tuple[float, float]:
    """CPU µs of the server a request, and requests a second."""
    command = ["wrk", "-t1", f"-c{connections}", f"-d{seconds:g}s", "-s", str(script), f"{server.address}/v1/match"]
    before = server.cpu_seconds()
    found = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    used = server.cpu_seconds() - before
    assert "Non-2xx" not in found, found
    requests = int(re.search(r"(\d+) requests in", found)[1])  # type: ignore[index]
    return used / requests * 1e6, float(re.search(r"Requests/sec:\s+([\d.]+)", found)[1])  # type: ignore[index]


class EngineAlone:
    """The engine's own time for the same queries."""

    def __init__(self, folder: Path) -> None:
        from broadmatch.serve.service import LiveService

        self.engine = LiveService(folder).current.arms[0].engine

    def singly(self, n: int = 400) -> float:
        """CPU µs of `answer`."""
        rows = asked(n)
        started = time.process_time()
        for i, (text, context) in enumerate(rows):
            self.engine.answer(text, context, key=i)
        return (time.process_time() - started) / n * 1e6

    def together(self, size: int, n: int = 640) -> float:
        """CPU µs a query of as many at once, by the way that the server takes."""
        rows, calls = asked(n), max(1, n // size)
        started = time.process_time()
        for call in range(calls):
            texts, contexts = zip(*rows[call * size : (call + 1) * size], strict=True)
            keys = np.arange(len(texts), dtype=np.uint64)
            self.engine.answer_few(texts, contexts, key=keys)
        return (time.process_time() - started) / (calls * size) * 1e6


def searches_together(server: Server) -> tuple[float, float]:
    """How many searches the server has answered, and in how many turns, by its metrics."""
    connection = http.client.HTTPConnection("127.0.0.1", server.port)
    connection.request("GET", "/v1/metrics")
    text = connection.getresponse().read().decode()
    return tuple(float(re.search(rf"^broadmatch_{name}_total ([\d.e+]+)$", text, re.M)[1])  # type: ignore[index,return-value]
                 for name in ("searches", "search_turns"))  # fmt: skip


def measure(folder: Path, script: Path, seconds: float, rounds: int) -> None:
    """All in turn, several times."""
    engine, servers = EngineAlone(folder), {what: Server(folder, what) for what in SERVERS}
    best: dict[tuple[str, int], float] = {}
    rate: dict[tuple[str, int], float] = {}
    sizes = dict.fromkeys(CONNECTIONS, 1.0)
    for _ in range(rounds + 1):
        for connections in CONNECTIONS:
            for what, server in servers.items():
                before = searches_together(server) if what == "no-log" else (0.0, 0.0)
                took, found = load(server, script, connections, seconds)
                key = what, connections
                best[key], rate[key] = min(best.get(key, took), took), max(rate.get(key, 0.0), found)
                if what == "no-log":
                    after = searches_together(server)
                    sizes[connections] = (after[0] - before[0]) / max(after[1] - before[1], 1.0)
            for what, took in (("single", engine.singly()), ("engine", engine.together(round(sizes[connections])))):
                best[what, connections] = min(best.get((what, connections), took), took)
    for connections in CONNECTIONS:
        report(connections, sizes[connections], {what: best[what, connections] for what, c in best if c == connections},
               {what: rate[what, connections] for what in SERVERS})  # fmt: skip
    for server in servers.values():
        server.close()


def report(connections: int, size: float, us: dict[str, float], rate: dict[str, float]) -> None:
    """What was found for one number of connections."""
    over = us["no-log"] - us["bare"] - us["engine"]
    share = (us["no-log"] - us["engine"]) / (us["fastapi"] - us["single"])
    tell(benchmark="serve_http", connections=connections, searches_together=size, bare_us=us["bare"],
         match_us=us["no-log"], match_logged_us=us["broadmatch"], log_us=us["broadmatch"] - us["no-log"],
         fastapi_us=us["fastapi"], engine_us=us["engine"], engine_answer_us=us["single"],
         over_bare_and_engine_us=over, goal_us=GOAL_US, reached=over <= GOAL_US,
         share_of_fastapi=share, goal_share=GOAL_SHARE, share_reached=share <= GOAL_SHARE,
         **{f"{what.replace('-', '_')}_per_s": found for what, found in rate.items()})  # fmt: skip


def main() -> None:
    """Measure, and print JSON lines."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--rounds", type=int, default=5)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name) / "shop"
        make_shop(folder)
        write_script(Path(name) / "match.lua")
        measure(folder, Path(name) / "match.lua", given.seconds, given.rounds)


if __name__ == "__main__":
    main()
