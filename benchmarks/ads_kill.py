"""A writer of the ad index that is killed at random moments, under the load of readers.

    python -m benchmarks.ads_kill               # 100 kills
    python -m benchmarks.ads_kill --kills 5

The writer changes all phrases of a group of ads to the same bid, all in one change, and says so when that is done;
every few changes it compacts. Readers look all the time, and must find one bid in the whole group. SIGKILL comes at
random; then what was acknowledged last, or the change after it, must be there.
"""

import argparse
import json
import os
import random
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

ADS, READERS = 20, 2


def write(path: Path) -> None:
    """Change the index until killed; each change is said when it is acknowledged."""
    from broadmatch.ads import AdIndex

    index = AdIndex(path)
    bid = int(index.match("phrase 0").bid[0]) if index.match("phrase 0").bid.size else 0
    print("ready", flush=True)
    while True:
        bid += 1
        with index.change() as change:
            for i in range(ADS):
                change.put_ad(f"ad{i}", [(f"phrase {i}", "exact", bid), ("all", "broad", bid)])
        print(bid, flush=True)
        if bid % 7 == 0:
            index.compact()


def read(path: Path) -> None:
    """Look until told to stop; tell how often, and how often half a change was seen."""
    from broadmatch.ads import AdIndex

    index = AdIndex(path, every=0.0)
    looks = halves = falls = last = 0
    stop = path.parent / "stop"
    while not stop.exists():
        found = index.match("all things")
        several = index.match_many([f"phrase {i}" for i in range(ADS)])
        bids = {*found.bid.tolist()}, {*several.bid.tolist()}
        whole = all(len(one) == 1 for one in bids) and len(found.ad) == len(several.ad) == ADS
        halves += not whole
        now = max(bids[0])
        falls += now < last
        looks, last = looks + 1, now
    print(json.dumps({"looks": looks, "halves": halves, "went_back": falls}))


def start(part: str, path: Path) -> "subprocess.Popen[str]":
    """A writer or a reader in a process of its own."""
    root = Path(__file__).parents[1]
    command = [sys.executable, "-m", "benchmarks.ads_kill", "--part", part, "--index", str(path)]
    return subprocess.Popen(
        command, cwd=root, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": str(root)}
    )


def measure(folder: Path, kills: int, seed: int = 0) -> dict[str, Any]:
    """Kill writers, and look after each what the index holds."""
    from broadmatch.ads import AdIndex, Inventory

    rng, path = random.Random(seed), folder / "index"
    rows = [{"ad": f"ad{i}", "page": "p", "phrase": f"phrase {i}", "match": "exact", "bid": 1} for i in range(ADS)]
    with AdIndex.create(path, Inventory.from_rows(rows)).change() as change:
        for i in range(ADS):
            change.put_ad(f"ad{i}", [(f"phrase {i}", "exact", 1), ("all", "broad", 1)])
    readers = [start("read", path) for _ in range(READERS)]
    lost = half = changes = 0
    acknowledged = 1
    for _ in range(kills):
        writer = start("write", path)
        assert writer.stdout is not None and writer.stdout.readline() == "ready\n"
        time.sleep(rng.random() * 0.25)
        writer.kill()
        said = [int(line) for line in writer.communicate()[0].split()]
        changes += len(said)
        acknowledged = max([acknowledged, *said])
        index = AdIndex(path)
        found = {
            *index.match("all of it").bid.tolist(),
            *index.match_many([f"phrase {i}" for i in range(ADS)]).bid.tolist(),
        }
        half += len(found) != 1
        lost += max(found) < acknowledged
        lost += max(found) > acknowledged + 1
    (folder / "stop").touch()
    looked = [json.loads(reader.communicate()[0]) for reader in readers]
    return {"kills": kills, "changes": changes, "lost": lost, "half_after_a_kill": half, "readers": looked}


def main() -> None:
    """Measure, or be a writer or a reader."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--part", choices=("read", "write"), help=argparse.SUPPRESS)
    parser.add_argument("--index", type=Path, help=argparse.SUPPRESS)
    asked = parser.parse_args()
    if asked.part:
        (write if asked.part == "write" else read)(asked.index)
        return
    with tempfile.TemporaryDirectory() as folder:
        print(json.dumps(measure(Path(folder), 5 if asked.small else asked.kills)))


if __name__ == "__main__":
    main()
