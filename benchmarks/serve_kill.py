"""A server that is killed at random moments under load: what it acknowledged is in the log once, and it starts again.

    python -m benchmarks.serve_kill                                  # 1,000 kills, 60 of them of a server of 2 workers
    python -m benchmarks.serve_kill --kills 17 --supervised 3        # what the tests run

Clients ask for ads, click on some that they were answered, click on some twice, and post impressions of their own; they
write down what was acknowledged. SIGKILL comes at random, to one in four from the start of the process on. Most kills
are of a server of one process, forked from one that has all kernels loaded, so that it starts in a tenth of a second;
`--supervised` ones are of `broadmatch serve --workers 2`: a worker, which must be started again while the other
answers, or the first process, with which the workers must end. Then every impression that was answered and every event
that was acknowledged must be in the log once, nothing twice, and what campaigns spent, by the follower of the log, must
be the sum over the clicks in it, to the bit.
"""

import argparse
import contextlib
import http.client
import json
import os
import random
import select
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from broadmatch.ads import AdEngine, Auction, Inventory
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.io import EmbeddedEventLog
from broadmatch.serve import supervisor
from broadmatch.serve.config import ServeConfig, ServeFolder
from broadmatch.serve.endpoints.server_state import warm_arm
from broadmatch.serve.service import LiveService
from broadmatch.serve.spending.sums import DAY, SPENT, SharedSums, SpendingFollower
from broadmatch.signals import Categorical, Description

WORDS = ["red", "blue", "shoes", "boots", "cheap"]
THREADS, MOST_SECONDS, START_SECONDS = 3, 0.3, 60.0


def make_folder(path: Path) -> Path:
    """An engine of a few ads, whose campaigns have budgets."""
    rows = [
        {
            "advertiser": f"v{i % 8}", "campaign": f"c{i % 8}", "ad": f"a{i}", "page": f"https://shop.example/{i}",
            "phrase": WORDS[i % 5], "match": "broad", "bid": 0.1 + i / 40, "budget": 1e6,
        }
        for i in range(24)
    ]  # fmt: skip
    described = Description(label="clicked", signals=[Categorical("ad"), Categorical("query")])
    clicks = ClickModel(described, {"model": FTRL().to_serving()})
    AdEngine.create(path, Inventory.from_rows(rows), clicks=clicks, auction=Auction(places=4))
    return path


class Clients:
    """Threads that load a server, and know what it acknowledged."""

    def __init__(self, address: str, run: int) -> None:
        self.answered: list[str] = []
        """Impressions and events that are in the log, by the server's word."""
        self.strange: list[str] = []
        self._host = address.removeprefix("http://")
        self._run, self._stop = run, threading.Event()
        self._threads = [threading.Thread(target=self._work, args=(k,)) for k in range(THREADS)]
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """End them."""
        self._stop.set()
        for thread in self._threads:
            thread.join()

    def _work(self, k: int) -> None:
        draw, number = random.Random(f"{self._run}.{k}"), 0
        while not self._stop.is_set():
            connection = http.client.HTTPConnection(self._host, timeout=5)
            with contextlib.suppress(OSError, http.client.HTTPException), contextlib.closing(connection):
                while not self._stop.is_set():
                    number += 1
                    self._once(connection, draw, f"{self._run}.{k}.{number}")
            self._stop.wait(0.01)

    def _once(self, connection: http.client.HTTPConnection, draw: random.Random, name: str) -> None:
        found = self._post(connection, "match", {"query": " ".join(draw.sample(WORDS, 3))})
        if found is None:
            return
        shown = [place["impression"] for place in found["places"]]
        self.answered += shown
        own = [{"kind": "impressions", "id": f"{name}.{i}", "columns": {"of": name}} for i in range(draw.randint(1, 9))]
        if self._post(connection, "events", own) is not None:
            self.answered += [str(one["id"]) for one in own]
        clicked = draw.choices(shown, k=2)
        if self._post(connection, "events", [{"kind": "clicks", "impression": one} for one in clicked]) is not None:
            self.answered += [f"c{one}" for one in {*clicked}]

    def _post(self, connection: http.client.HTTPConnection, path: str, body: Any) -> Any:
        connection.request("POST", f"/v1/{path}", json.dumps(body), {"Content-Type": "application/json"})
        answer = connection.getresponse()
        text = answer.read()
        if answer.status == 200:
            return json.loads(text)
        if answer.status != 503:
            self.strange.append(f"{answer.status} {text[:200]!r}")
        return None


def start_forked(folder: Path, workers: int = 1) -> tuple[int, int]:
    """A server in a process of its own: its number, and where it says its address."""
    said, out = os.pipe()
    process = os.fork()
    if process == 0:
        code = 1
        try:
            os.close(said)
            config = ServeConfig(folder=folder, port=0, workers=workers)
            code = supervisor.run(config, lambda address: os.write(out, address.encode() + b"\n"))
        finally:
            os._exit(code)
    os.close(out)
    return process, said


def said_within(said: int, seconds: float) -> str:
    """The address of a server, when it takes requests; empty if the time is over."""
    ready, _, _ = select.select([said], [], [], seconds)
    return os.read(said, 4096).decode().strip() if ready else ""


def kill_alone(folder: Path, run: int, draw: random.Random, found: dict[str, Any]) -> None:
    """One life of a server of one process."""
    process, said = start_forked(folder)
    early = draw.random() < 0.25
    address = said_within(said, draw.uniform(0, MOST_SECONDS) if early else START_SECONDS)
    if not early and not address:
        found["did_not_start"] += 1
    clients = Clients(address, run) if address else None
    if not early:
        time.sleep(draw.uniform(0, MOST_SECONDS))
    os.kill(process, signal.SIGKILL)
    os.waitpid(process, 0)
    os.close(said)
    found["kills"] += 1
    if clients is not None:
        clients.stop()
        found["acknowledged"] += clients.answered
        found["strange"] += clients.strange


def runs(process: int) -> bool:
    """Whether a process has not ended; one that ended may stay listed where nobody takes up orphans."""
    try:
        return Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


class Supervised:
    """`broadmatch serve --workers 2`, with what it says on standard error."""

    def __init__(self, folder: Path) -> None:
        command = [sys.executable, "-m", "broadmatch", "serve", str(folder), "--port", "0", "--workers", "2"]
        self.process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.workers: list[int] = []
        self.address = str(self._until("started")["address"])

    def _until(self, event: str) -> dict[str, Any]:
        """Read on to a line of this event; workers that start are noted."""
        assert self.process.stderr is not None
        for line in self.process.stderr:
            facts = json.loads(line) if line.startswith("{") else {"event": line}
            if facts["event"] == "worker started":
                self.workers.append(int(facts["pid"]))
            if facts["event"] == event:
                return dict(facts)
        raise RuntimeError("The server ended.")

    def kill_worker(self, draw: random.Random) -> None:
        """Kill a worker, and wait until there is another."""
        worker = draw.choice(self.workers)
        self.workers.remove(worker)
        os.kill(worker, signal.SIGKILL)
        self._until("worker started")

    def kill(self) -> bool:
        """Kill the first process; whether its workers end within two seconds."""
        self.process.kill()
        self.process.wait()
        until = time.monotonic() + 2
        while any(runs(one) for one in self.workers) and time.monotonic() < until:
            time.sleep(0.01)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return time.monotonic() < until

    def stop(self) -> tuple[int, float]:
        """End it by SIGTERM: its exit code, and the seconds that it took."""
        began = time.monotonic()
        self.process.terminate()
        code = self.process.wait(30)
        assert self.process.stderr is not None
        self.process.stderr.close()
        return code, time.monotonic() - began


def kill_supervised(folder: Path, kills: int, draw: random.Random, found: dict[str, Any]) -> None:
    """Kill workers, and every third time the first process, of servers of two workers; then stop it as one does."""
    server = Supervised(folder)
    for k in range(kills):
        clients = Clients(server.address, 1_000_000 + k)
        time.sleep(draw.uniform(0.05, MOST_SECONDS))
        if k % 3 == 1:
            found["workers_left"] += not server.kill()
            server = Supervised(folder)
        else:
            server.kill_worker(draw)
        found["kills"] += 1
        clients.stop()
        found["acknowledged"] += clients.answered
        found["strange"] += clients.strange
    clients = Clients(server.address, 2_000_000)
    time.sleep(MOST_SECONDS)
    found["exit_code"], found["stop_seconds"] = server.stop()
    clients.stop()
    found["acknowledged"] += clients.answered
    found["strange"] += clients.strange


def events_of(log: EmbeddedEventLog) -> Iterator[Any]:
    """All events of a log."""
    position = log.begin
    while True:
        batch, position = log.read(position, 50_000)
        if not len(batch):
            return
        yield from batch


def spending_is_the_sum(log: EmbeddedEventLog) -> bool:
    """Whether the follower's sums of each day are those of the clicks in the log, one after the other."""
    wanted: dict[int, dict[int, float]] = {}
    for event in events_of(log):
        if event.kind == "clicks":
            payload = json.loads(event.payload)
            of_day = wanted.setdefault(event.time // DAY, {})
            campaign = int(payload["campaign"], 16)
            of_day[campaign] = of_day.get(campaign, 0.0) + payload["price"]
    follower = SpendingFollower(log, SharedSums(), lambda: int(time.time() * 1e6) // DAY)
    follower.catch_up()
    days = sorted(wanted)[-2:]
    found = {day: dict(zip(*(part.tolist() for part in follower.sums.of(day, SPENT)), strict=True)) for day in days}
    return found == {day: wanted[day] for day in days} and bool(days)


def main() -> None:
    """Print one line of JSON; end with 1 if anything was lost."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=940)
    parser.add_argument("--supervised", type=int, default=60)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    draw, began = random.Random(given.seed), time.monotonic()
    found: dict[str, Any] = Counter()
    found["acknowledged"], found["strange"] = [], []
    with tempfile.TemporaryDirectory() as temporary:
        warm = LiveService(make_folder(Path(temporary) / "warm"))  # its kernels are those of the servers forked here
        for arm in warm.current.arms:
            warm_arm(arm)
        folder = Path(temporary) / "engine"
        process = os.fork()
        if process == 0:
            make_folder(folder)
            os._exit(0)
        os.waitpid(process, 0)
        for run in range(given.kills):
            kill_alone(folder, run, draw, found)
        if given.supervised:
            kill_supervised(folder, given.supervised, draw, found)
        with EmbeddedEventLog(ServeFolder(folder).events) as log:
            there = Counter(event.id for event in events_of(log))
            sums = spending_is_the_sum(log)
    acknowledged, strange = found.pop("acknowledged"), found.pop("strange")
    result = {
        **found,
        "acknowledged": len(acknowledged),
        "in_the_log": len(there),
        "lost": sum(one not in there for one in acknowledged),
        "twice": sum(n > 1 for n in there.values()),
        "other_answers": len(strange),
        "spending_is_the_sum_over_the_log": sums,
        "seconds": round(time.monotonic() - began, 1),
    }
    print(json.dumps(result))
    for one in strange[:5]:
        print(one, file=sys.stderr)
    wrong = result["lost"] or result["twice"] or strange or not sums or found.get("did_not_start")
    sys.exit(1 if wrong or found.get("workers_left") or found.get("exit_code") else 0)


if __name__ == "__main__":
    main()
