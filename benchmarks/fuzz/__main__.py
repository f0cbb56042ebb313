"""Fuzz readers: python -m benchmarks.fuzz [--seconds 60] [--seed N] [TARGET …]

Each target runs in a process of its own, with numba's bounds checks on, a limit of memory, and 10 seconds for a case. A
case follows from the name of the target, the seed and its number, so that what is found can be seen again: --seed N
--case I TARGET runs one. What a finding read is kept in benchmarks/out/fuzz. One JSON line a target; the exit code is 1
if anything but broadmatch's own errors came out.
"""

import argparse
import faulthandler
import hashlib
import json
import logging
import os
import random
import resource
import shutil
import subprocess
import sys
import tempfile
import time
import traceback
import warnings
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import broadmatch
from benchmarks.fuzz import targets
from broadmatch.errors import BroadmatchError

CASE_SECONDS = 10
COMPILE_SECONDS = 600
MEMORY = 6 << 30
GROWTH = 1 << 30
AT_ONCE = 2
"""Targets that run side by side: most of the time of a short run goes into compiling."""
MOST_FINDINGS = 5
OUT = Path(__file__).parents[1] / "out" / "fuzz"


def main() -> int:
    """Fuzz the targets, two at a time."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("targets", nargs="*", metavar="TARGET", help="if none is named, all")
    parser.add_argument("--seconds", type=float, default=60, help="for each target, compilation not counted")
    parser.add_argument("--no-bounds-checks", action="store_true", help="with the usual machine code: starts at once")
    parser.add_argument("--small", action="store_true", help="five seconds for each")
    parser.add_argument("--seed", type=int, help="if not given, another one each time")
    parser.add_argument("--case", type=int, help="only this case, in this process")
    parser.add_argument("--worker", action="store_true", help=argparse.SUPPRESS)
    given = parser.parse_args()
    known = targets()
    if unknown := set(given.targets) - set(known):
        parser.error(f"there is no target {', '.join(sorted(unknown))}; there are {', '.join(known)}")
    seed = random.SystemRandom().getrandbits(32) if given.seed is None else given.seed
    seconds = 5.0 if given.small else given.seconds
    names = given.targets or list(known)
    if given.case is not None or given.worker:
        return work(names[0], seed, given.case or 0, seconds, once=not given.worker)
    checked = not given.no_bounds_checks
    with ThreadPoolExecutor(AT_ONCE) as pool:
        return int(sum(pool.map(lambda name: supervise(name, seed, seconds, checked), names)) > 0)


def supervise(name: str, seed: int, seconds: float, checked: bool) -> int:
    """Run a target in processes of their own until its time is over; a crash or a hang ends one, and is a finding."""
    OUT.mkdir(parents=True, exist_ok=True)
    began, case, cases, findings, peak, used = time.monotonic(), 0, 0, 0, 0, 0.0
    environment = os.environ | {"PYTHONHASHSEED": "0"}
    if checked:
        environment |= {"NUMBA_BOUNDSCHECK": "1", "NUMBA_CACHE_DIR": str(_cache())}
    while used < seconds and findings < MOST_FINDINGS:
        report = OUT / f"{name}-{seed}.json"
        report.write_text("{}")
        command = [sys.executable, "-m", "benchmarks.fuzz", "--seed", str(seed), name]
        run = subprocess.run(
            [*command, "--worker", "--seconds", str(seconds - used), "--case", str(case)], env=environment, check=False
        )
        done = json.loads(report.read_text())
        at = done.get("case", case)
        # A crash or a hang comes again; a kernel that was compiled on the way does not.
        if run.returncode and subprocess.run([*command, "--case", str(at)], env=environment, check=False).returncode:
            findings += 1
            print(f"{name}: a process ended with {run.returncode}; see it with --seed {seed} --case {at}")
        findings += done.get("findings", 0)
        used += max(done.get("seconds", 0.0), 0.01)
        cases, case, peak = cases + at + 1 - case, at + 1, max(peak, done.get("peak_mb", 0))
        report.unlink()
    print(
        json.dumps(
            {"fuzz": name, "seed": seed, "cases": cases, "findings": findings, "seconds": round(used, 1),
             "with_compilation": round(time.monotonic() - began, 1), "peak_mb": peak}
        ),
        flush=True,
    )  # fmt: skip
    return findings


def work(name: str, seed: int, first: int, seconds: float, *, once: bool) -> int:
    """Run cases from number `first` on in this process, and write what came of them where the supervisor looks."""
    run, report, found = targets()[name], OUT / f"{name}-{seed}.json", set()
    OUT.mkdir(parents=True, exist_ok=True)
    warnings.simplefilter("error")
    logging.getLogger("broadmatch").setLevel(logging.CRITICAL)
    resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with tempfile.TemporaryDirectory(prefix=f"fuzz-{name}-") as place:
        folder = Path(place)
        faulthandler.enable()
        for number in (first,) if once else range(-200, 0):  # kernels are compiled
            _attempt(run, name, seed, number, folder, COMPILE_SECONDS)
        before, began, case = _peak(), time.monotonic(), first
        while True:
            facts = {
                "case": case,
                "seconds": time.monotonic() - began,
                "findings": len(found),
                "peak_mb": _peak() >> 20,
            }
            with report.open("r+") if report.exists() else report.open("w") as out:
                out.write(f"{json.dumps(facts):<200}")  # in place, so that it is there even after a crash
            problem = _attempt(run, name, seed, case, folder, CASE_SECONDS)
            if _peak() - before > GROWTH:
                problem, before = f"memory grew by {(_peak() - before) >> 20} MB", _peak()
            if problem and (cause := problem.rstrip().rsplit("\n", 1)[-1][:60]) not in found:
                found.add(cause)
                kept = OUT / f"{name}-{seed}-{case}"
                shutil.copytree(folder, kept, dirs_exist_ok=True)
                print(f"{name}: see it with --seed {seed} --case {case}; what was read is in {kept}\n{problem}")
            if once or time.monotonic() - began > seconds or len(found) >= MOST_FINDINGS:
                break
            case += 1
        facts |= {"seconds": time.monotonic() - began, "findings": len(found), "peak_mb": _peak() >> 20}
        report.write_text(json.dumps(facts))
    return len(found) if once else 0


def _attempt(run: object, name: str, seed: int, case: int, folder: Path, seconds: int) -> str:
    """Run one case; what went wrong, if anything that is not ours came out."""
    faulthandler.dump_traceback_later(seconds, exit=True)
    try:
        run(random.Random(f"{name}:{seed}:{case}"), folder)  # type: ignore[operator]
    except BroadmatchError:
        return ""
    except Exception:
        return traceback.format_exc()
    finally:
        faulthandler.cancel_dump_traceback_later()
    return ""


def _peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _cache() -> Path:
    """Code with bounds checks is kept apart from the other, for just this source."""
    digest = hashlib.sha256()
    for file in sorted(Path(broadmatch.__file__).parent.rglob("*.py")):
        digest.update(file.read_bytes())
    return OUT / "numba" / digest.hexdigest()[:12]


if __name__ == "__main__":
    sys.exit(main())
