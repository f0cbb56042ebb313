"""A learner that is killed at random moments while another process appends, against one that was never interrupted.

    python -m benchmarks.event_learning_kill               # 200 kills
    python -m benchmarks.event_learning_kill --kills 8

The learner follows the log of a server's folder in small steps, writes checkpoints every few milliseconds, publishes a
model every five minutes of the log's time, and prunes. SIGKILL comes at random after it has begun to read: into
reading, learning, the writing of a model or of a checkpoint. Between kills, what is in service is opened with all its
checksums, as a server does. At the end learner, calibration, guard, counts and every model must be the same bits as
those of a straight run over the whole log, and every event must be read once.
"""

import argparse
import json
import multiprocessing
import random
import shutil
import tempfile
import time
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import broadmatch
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.clicks.training import from_events
from broadmatch.io import EmbeddedEventLog, Event
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.serve import PublishedModels
from broadmatch.serve.learning import ServerLearning
from broadmatch.signals import Categorical, Cross, Description

SECOND, START = 1_000_000, 1_700_000_100_000_000
WINDOW, EVERY, STEP = 120.0, 5, 300
DESCRIBED = Description(
    label="clicked", slices=["city"], signals=[*map(Categorical, ("ad", "city", "query")), Cross("ad", "city")]
)
_AIMED = 0.2
"""So many of the kills wait until a model is being written."""
fork = multiprocessing.get_context("fork")


def make(n: int, seed: int = 0) -> list[Event]:
    """Impressions and clicks, some late, twice or for nothing, payloads that cannot be read, and wrong clocks."""
    rng, events = np.random.default_rng(seed), []
    for i in range(n):
        at = START + round(i / 4 * SECOND)
        ad, city = int(rng.integers(0, 40)), int(rng.integers(0, 5))
        payload = json.dumps({"ad": f"ad {ad}", "city": f"c{city}", "query": f"q{rng.integers(0, 300)}"}).encode()
        wrong = rng.random() < 0.003
        events.append(
            Event(f"i{i}", at - 10**9 * bool(rng.random() < 0.002), "impressions", b"{]}" if wrong else payload)
        )
        for k in range(int(rng.random() < 0.05 + 0.1 * (ad % 3)) * (1 + (i % 20 == 0))):
            late = at + round(rng.exponential(40.0) * SECOND)
            events.append(Event(f"c{i}.{k}", late, "clicks", b'{"impression":"i%d"}' % i))
        if rng.random() < 0.002:
            events.append(Event(f"x{i}", at + 10**12, "clicks", b'{"impression":"none"}'))
    order = np.argsort([event.time % 10**12 for event in events], kind="stable")
    return [events[i] for i in order.tolist()]


def begin(folder: Path) -> None:
    """The folder of a server that has a click model and no events."""
    ClickModel(
        DESCRIBED, {"ftrl": FTRL().to_serving()}, training={"learner": "FTRL", "parameters": {"alpha": "0.2"}}
    ).save(folder / "clicks")


def append(folder: Path, events: list[Event], pause: float) -> None:
    """What the server's process does: a few events at a time."""
    with EmbeddedEventLog(folder / "events", write=True) as log:
        for i in range(0, len(events), 100):
            log.append(events[i : i + 100])
            time.sleep(pause)
    (folder / "appended").touch()


def learn(folder: Path, log_folder: Path, *, step: int, often: bool) -> None:
    """What the learner's process does, until all is appended and learned."""
    if often:
        from_events._CHECKPOINT_SECONDS = from_events._PUBLISHED_SECONDS = 0.005
    with EmbeddedEventLog(log_folder) as log, ServerLearning(folder).training(
        log, window=WINDOW, every_minutes=EVERY
    ) as training:  # fmt: skip
        (folder / "reading").touch()
        while True:
            complete = (log_folder.parent / "appended").exists()
            while training.step(step):
                pass
            if complete:
                break
            log.wait(training.position, 0.02)
        training.checkpoint()
    (folder / "learned").touch()


def result(folder: Path) -> dict[str, Any]:
    """What a learner left: its last checkpoint, and its models, by checksums."""
    last = Checkpoints(folder / "learning" / "main" / "checkpoints").last()
    assert last is not None
    models = PublishedModels(folder)
    versions = models.versions("clicks")
    found: dict[str, Any] = {
        "learner": {name: array.tobytes() for name, array in last.parts["learner"].arrays.items()},
        "calibration": {name: array.tobytes() for name, array in last.parts["calibration"].arrays.items()},
        "guard": last.arrays["guard"].tobytes(),
        "counts": [last.facts["read"], last.facts["set_aside"], last.facts["rejects"]["count"]],
        "join": last.parts["join"].arrays["passed"].tobytes(),
        "serving": [models.arm("clicks").version, models.arm("clicks").previous],
        "facts": {version.name: version.facts for version in versions},
        "models": {v.name: (models.path("clicks", v.name) / "manifest.json").read_bytes() for v in versions},
    }
    return found


def moment(folder: Path, before: set[str]) -> str:
    """Where a kill fell, by what it left on disk."""
    if model_parts(folder) - before:
        return "while a model was written"
    kept = folder / "learning" / "main" / "checkpoints"
    half = kept.is_dir() and any(entry.name.endswith(".tmp") for entry in kept.iterdir())
    return "while a checkpoint was written" if half else "elsewhere"


def wait_for_model(folder: Path, learner: Any) -> None:
    """Wait until a model is being written, for so long as a model takes to come."""
    known, until = model_parts(folder), time.monotonic() + 1.0
    while learner.is_alive() and time.monotonic() < until and model_parts(folder) <= known:
        time.sleep(0.0005)


def model_parts(folder: Path) -> set[str]:
    """Models that are not whole."""
    place = folder / "published" / "clicks"
    return {entry.name for entry in place.iterdir() if entry.name.endswith(".tmp")} if place.is_dir() else set()


def measure(place: Path, *, kills: int, events: int, seed: int = 0) -> dict[str, Any]:
    """Kill a learner so many times, and compare it with one that runs straight."""
    killed, straight, draw = place / "killed", place / "straight", random.Random(seed)
    made = make(events, seed)
    for folder in (killed, straight, place / "first"):
        begin(folder)
    append(place / "first", made[:1000], 0.0)
    learn(place / "first", place / "first" / "events", step=STEP, often=False)  # kernels are opened before any kill
    writer = fork.Process(target=append, args=(killed, made, 0.5 * kills / 200))
    with EmbeddedEventLog(killed / "events", write=True):
        pass
    writer.start()
    where, opened, runs = Counter[str](), 0, 0
    try:
        while not (killed / "learned").exists():
            (killed / "reading").unlink(missing_ok=True)
            before = model_parts(killed)
            learner = fork.Process(target=learn, args=(killed, killed / "events"), kwargs={"step": STEP, "often": True})
            learner.start()
            runs += 1
            while not (killed / "reading").exists() and learner.is_alive():
                time.sleep(0.001)
            if where.total() < kills:
                if draw.random() < _AIMED:
                    wait_for_model(killed, learner)
                else:
                    learner.join(draw.expovariate(1 / 0.1))
                if learner.is_alive():
                    learner.kill()
                    learner.join()
                    where[moment(killed, before)] += 1
            else:
                learner.join()
            models = PublishedModels(killed)
            broadmatch.load(models.path("clicks", models.arm("clicks").version))
            opened += 1
    finally:
        writer.join()
    learn_straight = fork.Process(
        target=learn, args=(straight, killed / "events"), kwargs={"step": 1 << 15, "often": False}
    )
    learn_straight.start()
    learn_straight.join()
    one, other = result(killed), result(straight)
    with EmbeddedEventLog(killed / "events") as log:
        n = log.end.offsets[0]
    for version in PublishedModels(killed).versions("clicks"):
        broadmatch.load(PublishedModels(killed).path("clicks", version.name))
    left = [entry.name for entry in (killed / "published" / "clicks").iterdir() if entry.name.startswith(".")]
    return {
        "kills": where.total(), "runs": runs, "where": dict(where), "events": n, "read": one["counts"][0],
        "models": len(one["models"]), "models_opened_between": opened, "remains": len(left),
        "held_back": sum(facts.get("guard", {}).get("decision") == "hold" for facts in one["facts"].values()),
        "same_bits": {name: one[name] == other[name] for name in one},
    }  # fmt: skip


def main() -> None:
    """Print one line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--events", type=int, default=40_000)
    parser.add_argument("--seed", type=int, default=0)
    given = parser.parse_args()
    place = Path(tempfile.mkdtemp())
    try:
        found = measure(place, kills=given.kills, events=given.events, seed=given.seed)
        print(json.dumps({"benchmark": "event_learning_kill", **found}))
    finally:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
