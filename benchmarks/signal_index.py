"""The signal index at size: 10,000 signals × 1,000 models × 1 million edges, on SQLite and PostgreSQL.

    python -m benchmarks.signal_index [--training POSTS.parquet]

Prints a JSON line for each measurement: the mean CPU milliseconds of this process and of PostgreSQL's, which is what it
takes on a machine of its own, and the least of the wall on this one, beside the bound that was set.
With --training, how much CPU time reporting adds to a training on the reddit stream (docs/clicks.md).
"""

import argparse
import contextlib
import json
import os
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path

import numpy as np
import sqlalchemy as sa

from broadmatch.registry import ConsumptionReport, SignalIndex, lineage
from broadmatch.registry.names import key_of_text
from broadmatch.registry.records import DAY, now_us
from broadmatch.registry.schema import models, signals, versions
from tests.registry import postgres

_ON_BOARD = [f"s{i}@1" for i in range(50)]
N_SIGNALS, N_MODELS, N_EDGES, N_DEPRECATED, N_WRITERS, N_TIMES = 10_000, 1000, 1_000_000, 500, 50, 15


def fill(index: SignalIndex, seed: int = 13) -> None:
    """Signals, models and edges, straight into the tables."""
    rng, now = np.random.default_rng(seed), now_us()
    blank = {"owner": "team", "description": "", "made_by": "", "revision": 1}
    lists = {"settings": {}, "platforms": [], "domains": [], "data": {}}
    about = {"kind": "categorical", "reason": "", "created": now, "number": 1, **lists}
    status = np.where(np.arange(N_SIGNALS) < N_DEPRECATED, "deprecated", "white-listed")
    pairs = rng.choice(N_SIGNALS * N_MODELS, N_EDGES, replace=False)
    with index._database.write() as connection:
        rows = [{"id": i + 1, "key": key_of_text(f"s{i}"), "name": f"s{i}", **blank} for i in range(N_SIGNALS)]
        connection.execute(signals.insert(), rows)
        rows = [{"id": i + 1, "signal": i + 1, "status": str(status[i]), **about} for i in range(N_SIGNALS)]
        connection.execute(versions.insert(), rows)
        seen = {"active": True, "first_seen": now - DAY, "last_seen": now, "last_training": now}
        where = {"team": "ads", "environment": "", "contact": "ads"}
        keys = [key_of_text("ads", "", f"m{i}") for i in range(N_MODELS)]
        rows = [{"id": i + 1, "key": key, "name": f"m{i}", **where, **seen} for i, key in enumerate(keys)]
        connection.execute(models.insert(), rows)
        latest = np.where(rng.random(N_EDGES) < 0.5, now, now - DAY).tolist()
        pairs.sort()
        both = zip((pairs // N_MODELS + 1).tolist(), (pairs % N_MODELS + 1).tolist(), latest, strict=True)
        rows = [(version, model, "training", now - DAY, last, 0.9) for version, model, last in both]
        if connection.dialect.name == "sqlite":
            connection.exec_driver_sql("INSERT INTO edges VALUES (?, ?, ?, ?, ?, ?)", rows)
        else:
            with connection.connection.cursor().copy("COPY edges FROM STDIN") as copy:
                for row in rows:
                    copy.write_row(row)
        if connection.dialect.name != "sqlite":
            for table, n in (("signals", N_SIGNALS), ("versions", N_SIGNALS), ("models", N_MODELS)):
                connection.execute(sa.text(f"SELECT setval('{table}_id_seq', {n})"))
    with index._database.write() as connection:
        connection.execute(sa.text("ANALYZE"))


def backend_seconds(index: SignalIndex) -> float:
    """CPU seconds that PostgreSQL's process for our connection has used; 0 of SQLite, which works in ours."""
    if index._database.is_sqlite:
        return 0.0
    with index._database.read() as connection:
        process = connection.scalar(sa.text("SELECT pg_backend_pid()"))
    user, system = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")


def took(index: SignalIndex, call, n: int = N_TIMES) -> dict[str, float]:
    """How long a call takes, the mean of several, each with its own number: CPU here, and in the server; least wall."""
    call(0)
    wall, started, server = [], time.process_time(), backend_seconds(index)
    for number in range(1, n + 1):
        began = time.perf_counter()
        call(number)
        wall.append(1000 * (time.perf_counter() - began))
    here = 1000 * (time.process_time() - started) / n
    there = 1000 * (backend_seconds(index) - server) / n
    return {"cpu_ms": round(here + there, 1), "in_server_ms": round(there, 1), "least_wall_ms": round(min(wall), 1)}


def report_of(number: int, n: int = 1000) -> ConsumptionReport:
    names = {f"s{(number * 37 + i * 7) % N_SIGNALS}": 0.9 for i in range(n)}
    return ConsumptionReport(model=f"m{number % N_MODELS}", team="ads", signals=names)


def say(**facts) -> None:
    print(json.dumps({"benchmark": "signal_index", **facts}), flush=True)


def measure(name: str, address: str) -> None:
    """The figures of one database."""
    with SignalIndex.open(address) as index:
        started = time.process_time()
        fill(index)
        sizes = {"signals": N_SIGNALS, "models": N_MODELS, "edges": N_EDGES, "deprecated": N_DEPRECATED}
        say(database=name, what="filled", **sizes, cpu_seconds=round(time.process_time() - started, 1))
        bounds = {
            "consumers of a signal": (lambda i: index.consumers(f"s{i * 101}"), 50),
            "board": (lambda i: index.board(), 200),
            "report of 1,000 edges": (lambda i: index.report(report_of(i)), 100),
        }
        for what, (call, bound) in bounds.items():
            taken = took(index, call)
            say(database=name, what=what, **taken, bound_ms=bound, kept=taken["cpu_ms"] <= bound)
        say(database=name, what="one signal", **took(index, lambda i: index.get(f"s{i * 7}")))
        page = lambda i: index.page(search="7", order="owner", offset=50 * i)  # noqa: E731
        say(database=name, what="a page of the studio's list", **took(index, page))
        say(database=name, what="a page of its board", **took(index, lambda i: index.waiting_for(_ON_BOARD)))
        say(database=name, what="lineage of a signal", **took(index, lambda i: lineage(index, f"s{i * 7}")))
        say(database=name, what="list of all signals", **took(index, lambda i: index.signals(), 3))
        writers(name, address, index)


def writers(name: str, address: str, index: SignalIndex) -> None:
    """Fifty writers at once, each with reports of its own."""
    n_each, errors = 4, []

    def write(number: int) -> None:
        try:
            with SignalIndex.open(address) as own:
                for turn in range(n_each):
                    signals_of = {f"s{i}": None for i in range(50)} | {f"w{number}.{turn}": None}
                    own.report(ConsumptionReport(model=f"w{number}", team="writers", signals=signals_of))
        except Exception as error:
            errors.append(repr(error))

    threads = [threading.Thread(target=write, args=(number,)) for number in range(N_WRITERS)]
    started = time.perf_counter()
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    seconds = time.perf_counter() - started
    kept = sum(len(index.consumers(f"w{n}.{turn}")) for n in range(N_WRITERS) for turn in range(n_each))
    shared = sum(one.team == "writers" for one in index.consumers("s7"))
    lost = N_WRITERS * n_each - kept + N_WRITERS - shared
    say(database=name, what=f"{N_WRITERS} writers at once", reports=N_WRITERS * n_each, lost=lost, errors=errors[:3],
        seconds=round(seconds, 2))  # fmt: skip


TRAIN = """
import resource, sys
from broadmatch.cli import main
try:
    main()
except SystemExit as end:
    assert not end.code, end.code
used = resource.getrusage(resource.RUSAGE_SELF)
print("CPU", used.ru_utime + used.ru_stime, file=sys.stderr)
"""
REDDIT = """label = "comments >= 100"
time = "time"
[signals]
subreddit = "categorical"
domain = "categorical"
is_self = "categorical"
title = "text"
hour = { kind = "hour", column = "time" }
"""


ONCE = """
import resource, sys, time
import pyarrow, broadmatch.clicks
from broadmatch.clicks import ClickTraining
from broadmatch.signals import Description
from broadmatch.cli.consumption import Consumption
started, described = time.process_time(), Description.from_dict({"signals": {"a": "text"}})
run = Consumption(sys.argv[1], "a measurement")
run.check(described, "m")
run.check(described, "m")
run.report({"a": None})
run.report({"a": 0.5})
run.close()
here, beside = time.process_time() - started, resource.getrusage(resource.RUSAGE_CHILDREN)
print(here, beside.ru_utime + beside.ru_stime)
"""


def once(n_times: int = 5) -> None:
    """CPU seconds that a run spends on the index, however long it learns: libraries, two checks, two reports."""
    with tempfile.TemporaryDirectory() as folder:
        with SignalIndex.open(f"{folder}/signals") as index:
            index.add("a", kind="text", owner="a", by="a")
            with index._database.write() as connection:
                connection.execute(versions.update().values(status="white-listed"))
        words = [sys.executable, "-c", ONCE, f"{folder}/signals"]
        env = {**os.environ, "XDG_STATE_HOME": folder}
        said = [
            subprocess.run(words, capture_output=True, text=True, env=env, check=True).stdout for _ in range(n_times)
        ]
    here, beside = (min(float(one.split()[k]) for one in said) for k in (0, 1))
    say(what="what a run spends on the index", cpu_seconds=round(here, 3), is_1_percent_of_seconds=round(100 * here),
        cpu_seconds_of_the_process_that_sends=round(beside, 3))  # fmt: skip


def training(posts: Path, n_copies: int, n_times: int = 3) -> None:
    """CPU seconds of a training of some millions of impressions, without and with an index; the least of several."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        (folder / "reddit.toml").write_text(REDDIT)
        files = [folder / f"posts{i}.parquet" for i in range(n_copies)]
        for file in files:
            file.symlink_to(posts.resolve())
        kinds = {"subreddit": "categorical", "domain": "categorical", "is_self": "categorical", "title": "text"}
        with SignalIndex.open(folder / "signals") as index:
            for signal, kind in (kinds | {"hour": "hour"}).items():
                index.add(signal, kind=kind, owner="a", by="a")
            with index._database.write() as connection:
                connection.execute(versions.update().values(status="white-listed"))
        seconds: dict[str, list[float]] = {"without": [], "with": []}
        for _ in range(n_times):
            for how in seconds:
                words = ["clicks", "train", *map(str, files), "--describe", str(folder / "reddit.toml")]
                words += ["--out", str(folder / "model"), "--overwrite"]
                words += ["--signals", str(folder / "signals")] if how == "with" else []
                env = {**os.environ, "XDG_STATE_HOME": str(folder / "state")}
                done = subprocess.run(
                    [sys.executable, "-c", TRAIN, *words], capture_output=True, text=True, env=env, check=True
                )
                seconds[how].append(float(done.stderr.split("CPU")[1].split()[0]))
        least = {how: min(times) for how, times in seconds.items()}
        more = least["with"] - least["without"]
        shown = {f"cpu_seconds_{how}": round(value, 2) for how, value in least.items()}
        percent = round(100 * more / least["without"], 2)
        say(what="training with reporting", copies=n_copies, **shown, more_percent=percent, bound_percent=1)


def main() -> None:
    """Measure both databases, and the training if its data is named."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--training", type=Path, help="posts.parquet of the reddit stream")
    parser.add_argument("--copies", type=int, default=4)
    parser.add_argument("--only-training", action="store_true")
    given = parser.parse_args()
    if not given.only_training:
        with tempfile.TemporaryDirectory() as folder:
            measure("sqlite", folder)
        with contextlib.ExitStack() as stack:
            if postgres.binaries() is not None:
                measure("postgresql", stack.enter_context(postgres.postgresql()))
    once()
    if given.training is not None:
        training(given.training, given.copies)


if __name__ == "__main__":
    main()
