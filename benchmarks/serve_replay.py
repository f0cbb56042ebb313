"""A day of marketplace traffic through HTTP and the event log, against the same day in one process.

    python -m benchmarks.serve_replay                  # 400 pages, a day of 5,000 sessions

In one process searches go to the engine, impressions and clicks to the join as arrays, and the engine is given what was
learned every hour (`simulate_loop`). Over HTTP a server of one worker answers (its time is that of the requests), logs
what it shows, is told of the clicks, and charges budgets; a learner follows the log, and what it publishes at the same
moments is taken up. Searches and clicks come one by one, in order of time: the log is read so too, and a click that is
logged after its window has passed counts for nothing. Every decision (ads, prices, probabilities) and every bit that
was learned must be the same, or it ends with 1.
"""

import argparse
import contextlib
import dataclasses
import http.client
import json
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from benchmarks.common import tell
from broadmatch.ads import AdAnswers, Budgets
from broadmatch.ads._auction import NO_BUDGET
from broadmatch.clicks import FTRL, IsotonicCalibration
from broadmatch.clicks.training.from_events import EventTraining
from broadmatch.io import EmbeddedEventLog
from broadmatch.serve.learning import PublishedClicks
from broadmatch.serve.publishing import PublishedModels
from broadmatch.simulate import Marketplace, simulate_marketplace
from broadmatch.simulate.loop.arms import parse_arms
from broadmatch.simulate.loop.closed_loop import _Loop
from broadmatch.simulate.loop.serving import CANDIDATES, JOIN_WINDOW, SIGNALS, ArmServer, ShownRows
from broadmatch.simulate.traffic import DEVICES, DayTraffic
from broadmatch.simulate.verticals import CITIES

MINUTES, HOUR, DAY = 15, 3600.0, 86_400.0
EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
START = 60.0
"""Seconds in which a server has to be ready."""


class Decision(NamedTuple):
    """What was shown for a search, from the first place on."""

    ads: tuple[str, ...]
    prices: tuple[float, ...]
    probabilities: tuple[float, ...]


class RecordingServer(ArmServer):
    """The arm of the loop, which keeps what it decides."""

    decisions: dict[int, Decision]
    kept_back = 0
    """Candidates that were kept back by their budgets."""

    def _log(self, answers: AdAnswers, shown: ShownRows, day: DayTraffic) -> None:
        self.kept_back += int((answers.result.outcome == NO_BUDGET).sum())
        names = self.engine.index.names(answers.candidates.ad[shown.row])
        found: dict[int, list[Any]] = {}
        for search, name, price, p in zip(
            shown.search.tolist(), names, shown.price.tolist(), answers.probability[shown.row].tolist(), strict=True
        ):
            found.setdefault(search, []).append((name, price, p))
        self.decisions |= {search: Decision(*zip(*rows, strict=True)) for search, rows in found.items()}
        super()._log(answers, shown, day)


class Prepared(NamedTuple):
    """A day that is about to begin: the arm of the loop, its traffic, what the server and its learner begin with."""

    server: RecordingServer
    day: DayTraffic
    folder: Path
    learner: FTRL


def prepare(market: Marketplace, place: Path, sessions: int, seed: int = 0, budget: float = 1.0) -> Prepared:
    """Everything before the first search; `budget` is a factor on all budgets."""
    loop = _Loop.of(market, parse_arms(["own"]), 1, sessions, seed)
    limits = loop.inventory.budgets * loop._traffic_of_arm * budget
    loop.inventory = dataclasses.replace(loop.inventory, budgets=limits)
    server = RecordingServer(loop.arms[0], loop.users, 1, seed=seed)
    server.decisions, loop.servers = {}, [server]
    history = loop.write_history(place / "history.parquet")
    sources = loop.phrase_sources(history, 3, 1)
    loop.learn_history(history)
    learner = FTRL.from_state(server.learner.to_state())
    loop.open_day(place / "engines", 0, sources, [history])
    shutil.copytree(place / "engines" / "0", place / "server")
    server.budgets = Budgets(budget=server.engine.campaign_budget, traffic=np.ones(24))
    return Prepared(server, loop.traffic.day(0), place / "server", learner)


def in_process(ready: Prepared) -> list[dict[str, Any]]:
    """The day in one process; what was learned by each hour."""
    server, day, learned = ready.server, ready.day, []
    for a, b, stop in slices(day):
        for row in range(a, b):
            server.take_clicks(float(day.second[row]))
            server.serve(day, np.array([row]), np.zeros(1, np.int64))
        server.learn(stop)
        if stop % HOUR == 0:
            server.exchange()
            learned.append(bits(server.learner, server.calibration))
    return learned


def slices(day: DayTraffic) -> Iterator[tuple[int, int, float]]:
    """The searches between two moments of learning, and the second of the later one."""
    for start in np.arange(0.0, DAY, 60.0 * MINUTES).tolist():
        stop = start + 60.0 * MINUTES
        yield *np.searchsorted(day.second, (start, stop)).tolist(), stop


def bits(learner: FTRL, calibration: IsotonicCalibration) -> dict[str, Any]:
    """Every array of a learner and its calibration."""
    return {
        f"{name}/{key}": value.copy()
        for name, one in (("learner", learner), ("calibration", calibration))
        for key, value in one.to_state().arrays.items()
    }


@contextlib.contextmanager
def serving(folder: Path, *options: str) -> Iterator[tuple[str, int]]:
    """A server in a process of its own, at a port that the system chooses."""
    command = [sys.executable, "-m", "broadmatch", "serve", str(folder), "--port", "0", *options]
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(command, stdout=said, stderr=said, text=True) as process,
    ):
        try:
            yield _address(process, said)
        finally:
            process.send_signal(signal.SIGTERM)
            ended = process.wait(20)
            said.seek(0)
            if ended:
                print(said.read(), file=sys.stderr)
                raise RuntimeError(f"The server ended with {ended}.")


def _address(process: "subprocess.Popen[str]", said: Any) -> tuple[str, int]:
    """Where the server is, when it is ready."""
    until = time.monotonic() + START
    while time.monotonic() < until and process.poll() is None:
        said.seek(0)
        found = re.search(r"http://([\d.]+):(\d+)", said.read())
        if found:
            host, port = found[1], int(found[2])
            with (
                contextlib.suppress(OSError),
                contextlib.closing(http.client.HTTPConnection(host, port, timeout=5)) as line,
            ):
                if ask(line, "GET", "/v1/ready", allowed=(200, 503)):
                    return host, port
        time.sleep(0.05)
    raise RuntimeError("The server did not become ready.")


def ask(
    connection: http.client.HTTPConnection,
    method: str,
    path: str,
    body: Any = None,
    *,
    allowed: tuple[int, ...] = (200,),
    text: bool = False,
) -> Any:
    """One request, its answer read as JSON or as text; None if its status is another one that is allowed."""
    data = None if body is None else json.dumps(body).encode()
    connection.request(method, path, data, {"content-type": "application/json"} if data else {})
    answer = connection.getresponse()
    read = answer.read()
    if answer.status not in allowed:
        raise RuntimeError(f"{method} {path}: {answer.status} {read[:500]!r}")
    if answer.status >= 400:
        return None
    return read.decode() if text else json.loads(read)


def moment(second: float) -> str:
    """A time of the day as requests give it, to the microsecond that the loop has."""
    return (EPOCH + timedelta(microseconds=int(second * 1_000_000))).isoformat()


def over_http(ready: Prepared) -> tuple[dict[int, Decision], list[dict[str, Any]], int]:
    """The day through a server; its decisions, what was learned by each hour, and the events of the log."""
    day, users, learned, decisions = ready.day, ready.server.users, [], dict[int, Decision]()
    pages = dict(
        zip(ready.server.engine.index.names(np.arange(len(ready.server.pages))), ready.server.pages, strict=True)
    )
    calibration = IsotonicCalibration(half_life=500_000)
    waiting: list[tuple[float, str]] = []
    with serving(ready.folder, "--clock", "request") as address, contextlib.ExitStack() as stack:
        line = stack.enter_context(contextlib.closing(http.client.HTTPConnection(*address, timeout=60)))
        log = stack.enter_context(EmbeddedEventLog(ready.folder / "events"))
        training = EventTraining(
            log,
            SIGNALS,
            ready.learner,
            window=JOIN_WINDOW,
            calibration=calibration,
            service=PublishedClicks(PublishedModels(ready.folder)),
            every_minutes=60,
            guard=None,
        )
        for a, b, stop in slices(day):
            for row in range(a, b):
                waiting = send_clicks(line, waiting, float(day.second[row]))
                places = ask(line, "POST", "/v1/match", search(day, row))["places"]
                if places:
                    named = ("ad", "price", "probability")
                    decisions[row] = Decision(*(tuple(place[name] for place in places) for name in named))
                waiting += clicked(users, day, row, places, pages)
            waiting = send_clicks(line, waiting, stop)
            while training.step():
                pass
            training.pass_time(round(stop * 1_000_000))
            if stop % HOUR == 0:
                ask(line, "POST", "/v1/models/reload")
                learned.append(bits(training.learner, calibration))
        n = log.end.offsets[0]
    return decisions, learned, n


def send_clicks(
    line: http.client.HTTPConnection, waiting: list[tuple[float, str]], now: float
) -> list[tuple[float, str]]:
    """Tell the server of the clicks that have arrived; the others."""
    waiting.sort(key=lambda click: click[0])
    due = [click for click in waiting if click[0] <= now]
    if due:
        ask(
            line, "POST", "/v1/events", [{"kind": "clicks", "impression": name, "time": moment(at)} for at, name in due]
        )
    return waiting[len(due) :]


def search(day: DayTraffic, row: int) -> dict[str, Any]:
    """A search as a request."""
    context = {"city": CITIES[day.city[row]], "device": DEVICES[day.device[row]], "hour": int(day.second[row] // 3600)}
    key = f"{int(day.key[row]) & (1 << 64) - 1:016x}"
    at = moment(float(day.second[row]))
    return {"query": day.texts[day.text[row]], "context": context, "key": key, "time": at, "limit": CANDIDATES}


def clicked(users: Any, day: DayTraffic, row: int, places: list[Any], pages: dict[str, Any]) -> list[tuple[float, str]]:
    """What the user clicks, and when the click arrives."""
    page = np.array([pages[place["ad"]] for place in places], np.int64)
    of = np.full(len(places), row)
    hit = np.flatnonzero(users.clicks(page, day, of, np.arange(1, len(places) + 1)))
    delay = users.delay(page[hit], day, of[hit])
    return [
        (float(day.second[row] + late), places[i]["impression"])
        for i, late in zip(hit.tolist(), delay.tolist(), strict=True)
    ]


def differing(ours: dict[str, Any], others: dict[str, Any]) -> list[str]:
    """The arrays that are not the same, bit for bit."""
    return [
        name
        for name in ours.keys() | others.keys()
        if name not in ours or name not in others or ours[name].tobytes() != others[name].tobytes()
    ]


def replay(market: Marketplace, place: Path, sessions: int, budget: float = 1.0) -> dict[str, Any]:
    """Both days, and how they differ."""
    ready = prepare(market, place, sessions, budget=budget)
    started = time.monotonic()
    decisions, learned, events = over_http(ready)
    seconds = time.monotonic() - started
    expected = in_process(ready)
    own = ready.server.decisions
    return {
        "searches": len(ready.day),
        "with_ads": len(own),
        "events": events,
        "spent": float(ready.server.budgets.spent.sum()),
        "kept_back": ready.server.kept_back,
        "other_decisions": sum(decisions.get(row) != own.get(row) for row in own.keys() | decisions.keys()),
        "models": len(learned),
        "other_models": sum(bool(differing(*pair)) for pair in zip(learned, expected, strict=True)),
        "http_seconds": seconds,
    }


def main() -> None:
    """Replay a day."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sessions", type=int, default=5_000)
    parser.add_argument("--small", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder)
        market = simulate_marketplace(place / "market", n_pages=400, n_sessions=30_000, days=10, seed=5)
        sessions = 300 if given.small else given.sessions
        found = replay(market, place, sessions)
        tell(benchmark="serve_replay", **found)
        if found["other_decisions"] or found["other_models"]:
            sys.exit("The day over HTTP is not the day in one process.")


if __name__ == "__main__":
    main()
