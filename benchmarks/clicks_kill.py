"""A training run that is killed at random moments and taken up again, against one that was never interrupted.

    python -m benchmarks.clicks_kill               # 50 kills
    python -m benchmarks.clicks_kill --kills 8

The run joins impressions with clicks that come late, out of order and twice, subsamples, calibrates, keeps the names of
its features and its predictions, puts bad rows aside, and writes checkpoints every few milliseconds. SIGKILL comes at
random: some kills fall before the first checkpoint, some into the writing of one.
At the end the learner, the counts of the join, the predictions, the rejects and the model must be the same bits.
"""

import argparse
import hashlib
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

ROWS = 60_000
FILES = 5
WINDOW = 600.0
COUNTRIES = ("fr", "us", "nz")


def write_logs(folder: Path, rows: int = ROWS, seed: int = 0) -> None:
    """Impressions and clicks in CSV files: late, out of order, twice, without an id, with bad labels and bad times."""
    rng = np.random.default_rng(seed)
    begin = np.sort(rng.uniform(0, 40_000, rows)) + 1_700_000_000
    times = begin + rng.normal(0, 20, rows)  # not quite in order
    times[rng.random(rows) < 0.002] -= 5_000  # too late
    ids = np.arange(rows).astype(str).astype(object)
    ids[rng.random(rows) < 0.001] = ""
    ads, users = rng.integers(0, 200, rows), rng.integers(0, 5_000, rows)
    clicked = rng.random(rows) < 0.02 + 0.2 * (ads % 7 == 0)
    moments = times.round(3).astype(str).astype(object)
    moments[rng.random(rows) < 0.001] = "yesterday"
    for part in np.array_split(np.arange(rows), FILES):
        lines = ["id,time,query,ad,user,country,price"]
        lines += [
            f"{ids[i]},{moments[i]},q{i // 3},{ads[i]},{users[i]},{COUNTRIES[i % 3]},{users[i] / 7:.3f}" for i in part
        ]
        (folder / f"impressions-{part[0]:08d}.csv").write_text("\n".join(lines) + "\n")
    shown = np.flatnonzero(clicked)
    shown = np.concatenate([shown, shown[rng.random(len(shown)) < 0.1], rng.integers(0, rows, 50)])
    when = begin[shown] + rng.exponential(150, len(shown))
    order = np.argsort(when + rng.normal(0, 30, len(when)), kind="stable")
    for number, part in enumerate(np.array_split(order, 3)):
        lines = ["id,time", *(f"{shown[i] if i % 997 else ''},{when[i]:.3f}" for i in part)]
        (folder / f"clicks-{number}.csv").write_text("\n".join(lines) + "\n")


def train(logs: Path, out: Path) -> None:
    """The run that is killed: from the last checkpoint, if there is one, to the model."""
    from broadmatch.clicks import FTRL, ClickTraining, SlicedCalibration
    from broadmatch.clicks.training import batches as reading
    from broadmatch.io import RecordStream, Rejects
    from broadmatch.signals import Categorical, Cross, Description, Numeric
    from broadmatch.signals.signal import Signal

    def small_batches(*args: Any, **kwargs: Any) -> RecordStream:
        return RecordStream(*args, **{**kwargs, "batch_rows": 500})

    reading.__dict__["RecordStream"] = small_batches  # many steps in a short run
    signals: list[Signal | Cross] = [Categorical(name) for name in ("ad", "user", "country")]
    signals += [Numeric("price", buckets="log"), Cross("ad", "country")]
    description = Description(id="id", time="time", query="query", slices=["country"], signals=signals)
    with Rejects(out / "rejects.jsonl") as rejects:
        run = ClickTraining(
            sorted(map(str, logs.glob("impressions-*.csv"))),
            description,
            FTRL(alpha=0.1, l1=0.1),
            clicks=sorted(map(str, logs.glob("clicks-*.csv"))),
            window=WINDOW,
            subsample=0.4,
            calibration=SlicedCalibration(by=("country",)),
            refresh=2_000,
            predictions=out / "predictions",
            names=True,
            checkpoints=out / "checkpoints",
            every=0.005,
            resume=True,
            rejects=rejects,
        )
        (out / "reading").touch()
        run.run()
        run.model().save(out / "model")
        run.learner.save(out / "learner")
    (out / "counts.json").write_text(json.dumps(run.counts()))


def digest(out: Path) -> dict[str, str]:
    """What a run left, as one number for each part."""
    import pyarrow.parquet as pq

    rows = pq.read_table(out / "predictions").combine_chunks().to_pydict()
    found = {"predictions": repr(rows).encode(), "rejects": (out / "rejects.jsonl").read_bytes()}
    found["counts"] = (out / "counts.json").read_bytes()
    for name in ("model", "learner"):
        found[name] = (out / name / "manifest.json").read_bytes()  # with the sha256 of every array
    return {name: hashlib.sha256(content).hexdigest() for name, content in found.items()}


def kept(out: Path) -> set[str]:
    """What is there of checkpoints."""
    folder = out / "checkpoints"
    return {entry.name for entry in folder.iterdir()} if folder.is_dir() else set()


def moment(out: Path) -> str:
    """Where a kill fell, by what it left on disk."""
    names = kept(out)
    if any(name.endswith(".tmp") for name in names):
        return "while a checkpoint was written"
    if not names:
        return "before the first checkpoint"
    if list((out / "predictions").glob(".part*")):
        return "while predictions were written"
    return "while the older checkpoint was removed" if len(names) > 1 else "between checkpoints"


def start(logs: Path, out: Path) -> subprocess.Popen[bytes]:
    """The run in a process of its own."""
    (out / "reading").unlink(missing_ok=True)
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "benchmarks.clicks_kill", "--logs", str(logs), "--out", str(out)]
    return subprocess.Popen(command, cwd=root, stderr=subprocess.PIPE, env={**os.environ, "PYTHONPATH": str(root)})


def wait(process: subprocess.Popen[bytes], out: Path) -> None:
    """Wait until the run reads, or has ended."""
    while process.poll() is None and not (out / "reading").exists():
        time.sleep(0.001)


def wait_for_more(process: subprocess.Popen[bytes], out: Path, before: set[str]) -> None:
    """Wait until the run has begun another checkpoint, or has ended."""
    while process.poll() is None and kept(out) <= before:
        time.sleep(0.001)


def learned_once(out: Path) -> bool:
    """Whether the predictions have every impression that was learned, each once."""
    import pyarrow.parquet as pq

    ids = pq.read_table(out / "predictions", columns=["id"])["id"].to_pylist()
    learned: int = json.loads((out / "counts.json").read_text())["learned"]
    return len(ids) == len(set(ids)) == learned


def measure(folder: Path, kills: int, rows: int, seed: int) -> dict[str, Any]:
    """One whole run; then runs that are killed and taken up again, until there were enough kills and the last ended."""
    rng = random.Random(seed)
    logs, whole, broken = folder / "logs", folder / "whole", folder / "broken"
    for one in (logs, whole, broken):
        one.mkdir()
    write_logs(logs, rows)
    process = start(logs, whole)
    wait_for_more(process, whole, set())
    begin = time.monotonic()
    said = process.communicate()[1]
    if process.returncode != 0:
        raise RuntimeError(f"the run that nobody interrupted failed: {said.decode()[-2000:]}")
    span = time.monotonic() - begin
    truth, fell, same, once = digest(whole), Counter[str](), [], [learned_once(whole)]
    fresh = True
    while sum(fell.values()) < kills or not fresh:
        before, process = kept(broken), start(logs, broken)
        wait(process, broken)
        if sum(fell.values()) < kills:
            # A new run is killed early, and so is every fourth; the others once there is more to lose than before, and
            # so soon that a good half of the kills fall into one run.
            if fresh or rng.random() < 0.25:
                time.sleep(rng.random() * 0.03)
            else:
                wait_for_more(process, broken, before)
                time.sleep(rng.random() * 2 * span / min(kills, 30))
            process.send_signal(signal.SIGKILL)
        fresh = False
        said, code = process.communicate()[1], process.returncode
        if code == -signal.SIGKILL:
            fell[moment(broken)] += 1
        elif code == 0:
            same.append({name: part == digest(broken)[name] for name, part in truth.items()})
            once.append(learned_once(broken))
            broken, fresh = folder / f"broken-{len(same)}", True
            broken.mkdir()
        else:
            raise RuntimeError(f"the run could not be taken up again: {said.decode()[-2000:]}")
    return {
        "kills": sum(fell.values()),
        "runs": len(same),
        "where": dict(fell),
        "seconds_from_the_first_checkpoint": round(span, 2),
        "counts": json.loads((whole / "counts.json").read_text()),
        "same_bits": {name: all(one[name] for one in same) for name in truth},
        "each_impression_learned_once": all(once),
        "identical": bool(same) and all(all(one.values()) for one in same),
    }


def main() -> None:
    """Measure, or be the run."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--rows", type=int, default=ROWS)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--logs", type=Path)
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    if asked.logs:
        train(asked.logs, asked.out)
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), asked.kills, asked.rows, asked.seed)))


if __name__ == "__main__":
    main()
