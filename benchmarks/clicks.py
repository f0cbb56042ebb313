"""Click prediction: broadmatch against Vowpal Wabbit, in the same run, alternating, each side in a process of its own.

    python -m benchmarks.clicks            # the synthetic click log (2 M rows) and the reddit stream (2 M posts)
    python -m benchmarks.clicks --small    # a tenth of the click log, no reddit
    python -m benchmarks.clicks --first-try    # whole processes, as on a first try: 200,000 rows learned, two predicted

Both learn FTRL-Proximal in one pass, from a file to a trained model: Vowpal Wabbit from its text format with its native
driver (which parses in a thread of its own beside the one that learns), broadmatch from Parquet. Reading, hashing and
learning count; starting the interpreter and importing do not (`process_seconds` is the whole process, warm-up and
test included). Learning rates were chosen for each side on training data, and the same were best for both: α = 0.15,
β = 0.7 on the last fifth of the training log (α from 0.005 to 0.3 and β from 0.1 to 3 tried), α = 0.5, β = 0.3 on the
first 500,000 posts of reddit (α from 0.02 to 1.5). Peak memory is that of the whole process.
`benchmarks.clicks_defaults` compares the losses of both where nobody chose anything, with the best of 40 variants.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np

DATA = Path(__file__).parents[2] / "shared" / "data"
TOOL = DATA.parent / "tools" / "click_log.py"
POSTS = DATA / "reddit" / "posts.parquet"
ALPHA, BETA = {"log": 0.15, "reddit": 0.5}, {"log": 0.7, "reddit": 0.3}
SIDES = {
    "log": ("vw -b 22", "vw -b 24", "broadmatch", "broadmatch, 2 threads"),
    "reddit": ("vw -b 22", "vw -b 24", "broadmatch", "broadmatch, 2 threads"),
}


def reddit_description() -> Any:
    """An impression is a post, a click is a hundred comments."""
    from broadmatch.signals import Categorical, Description, Hour, Text

    signals = [Categorical("subreddit"), Categorical("domain"), Categorical("is_self"), Hour("time"), Text("title")]
    return Description(label="comments >= 100", time="time", slices=["subreddit"], signals=signals)


def log_description() -> Any:
    """Twenty categorical columns."""
    from broadmatch.signals import Categorical, Description

    return Description(label="y", signals=[Categorical(f"f{j}") for j in range(20)])


def peak_mb() -> float:
    """The most memory this process has held; not `ru_maxrss`, which begins with that of the process that started it."""
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def tell(**facts: Any) -> None:
    """Print one measurement."""
    from benchmarks import common  # not above: scipy, which it imports, would count as our memory

    common.tell(**facts)


def losses(clicked: Any, p: Any) -> dict[str, float]:
    """AUC and log loss."""
    from broadmatch.evaluate import auc_loss, log_loss

    return {"auc": 1 - auc_loss(clicked, p), "log_loss": log_loss(clicked, p)}


def learn_ours(task: str, folder: Path, threads: int, judged: bool) -> dict[str, Any]:
    """From Parquet to a model in memory, and its figures; the first batch compiles and is learned before the clock."""
    import pyarrow as pa

    from broadmatch.clicks import FTRL, ClickTraining
    from broadmatch.clicks.training.batches import BatchStream

    pa.set_memory_pool(pa.system_memory_pool())  # as the command line does
    source = folder / "train.parquet" if task == "log" else POSTS
    description = log_description() if task == "log" else reddit_description()

    def training(what: Path, jobs: int) -> Any:
        return ClickTraining(what, description, FTRL(alpha=ALPHA[task], beta=BETA[task]), n_jobs=jobs)

    training(folder / f"warm-{task}.parquet", threads).run()
    begin = time.perf_counter()
    run = training(source, threads)
    run.run()
    seconds = time.perf_counter() - begin
    peak = peak_mb()
    facts = {"seconds": seconds, "rows": run.n_learned, "peak_mb": peak, "features": run.learner.n_features}
    if not judged:
        return facts
    if task == "log":
        batches = [batch for batch, _ in BatchStream(folder / "test.parquet", description)]
        clicked = np.concatenate([batch.impressions.clicked for batch in batches])
        return facts | losses(clicked, np.concatenate([run.learner.predict_many(b.impressions) for b in batches]))
    return facts | progressive(run, description, threads)


def progressive(run: Any, description: Any, threads: int) -> dict[str, float]:
    """The progressive figures of the whole stream, in a second pass that keeps the predictions."""
    import pyarrow.parquet as pq

    from broadmatch.clicks import FTRL, ClickTraining

    with tempfile.TemporaryDirectory() as kept:
        again = ClickTraining(
            run.source,
            description,
            FTRL(alpha=run.learner.alpha, beta=run.learner.beta),
            n_jobs=threads,
            predictions=f"{kept}/p",
        )
        again.run()
        table = pq.read_table(f"{kept}/p")
    return losses(table["clicked"].to_numpy(), table["p_model"].to_numpy())


def learn_theirs(task: str, folder: Path, bits: int, judged: bool) -> dict[str, Any]:
    """Vowpal Wabbit's native driver over its text file."""
    from vowpalwabbit import Workspace

    rates = f"--ftrl_alpha {ALPHA[task]} --ftrl_beta {BETA[task]}"
    options = f"--ftrl {rates} --loss_function logistic -b {bits} --quiet --no_stdin"
    model = folder / f"{task}.{bits}.model"
    file = folder / ("train.vw" if task == "log" else "reddit.vw")
    begin = time.perf_counter()
    vw = Workspace(f"{options} -d {file}" + (f" -f {model}" if task == "log" else ""))
    seconds = time.perf_counter() - begin
    rows, loss = vw.get_weighted_examples(), vw.get_sum_loss() / vw.get_weighted_examples()
    peak = peak_mb()
    vw.finish()
    facts = {"seconds": seconds, "rows": int(rows), "peak_mb": peak}
    if not judged:
        return facts
    out = folder / f"{task}.{bits}.predictions"
    what = f"-t -i {model} -d {folder / 'test.vw'}" if task == "log" else f"{options} -d {file}"
    Workspace(f"{what} --quiet --no_stdin -p {out}").finish()
    raw = np.loadtxt(out)
    p = 1 / (1 + np.exp(-raw))
    clicked = np.load(folder / ("test.npy" if task == "log" else "reddit.npy"))
    return facts | losses(clicked, p) | {"vw_progressive_log_loss": loss}


def prepare(folder: Path, small: bool) -> None:
    """Write the click log and, for the whole run, the reddit stream in the format of Vowpal Wabbit."""
    import pyarrow.parquet as pq

    rows = ["--rows", "200000"] if small else []
    subprocess.run([sys.executable, str(TOOL), str(folder), "--text", *rows], check=True, stdout=sys.stderr)
    for task, source in (("log", folder / "test.parquet"), ("reddit", POSTS)):
        pq.write_table(pq.ParquetFile(source).read_row_group(0).slice(0, 2000), folder / f"warm-{task}.parquet")
    np.save(folder / "test.npy", pq.read_table(folder / "test.parquet", columns=["y"])["y"].to_numpy())
    if not small:
        write_reddit(folder)


def write_reddit(folder: Path) -> None:
    """Each post as a line: the same words and columns as in our description, one namespace each."""
    import re
    from datetime import UTC, datetime

    import pyarrow.parquet as pq

    words = re.compile(r"[^\W_]+")
    labels = []
    with (folder / "reddit.vw").open("w", encoding="utf-8") as out:
        for group in pq.ParquetFile(POSTS).iter_batches():
            for row in group.to_pylist():
                clicked = row["comments"] >= 100
                labels.append(clicked)
                title = " ".join(dict.fromkeys(words.findall((row["title"] or "").lower())))
                hour = datetime.fromtimestamp(row["time"], UTC).hour
                out.write(
                    f"{1 if clicked else -1} |s {row['subreddit']} |d {row['domain'].replace(':', '_')} "
                    f"|i {int(row['is_self'])} |h {hour} |t {title}\n"
                )
    np.save(folder / "reddit.npy", np.array(labels, np.int8))


def measure(side: str, task: str, folder: Path, judged: bool) -> dict[str, Any]:
    """One side in a fresh process; `judged`: with its losses too."""
    command = [sys.executable, "-m", "benchmarks.clicks", "--side", side, "--task", task, "--folder", str(folder)]
    command += ["--judged"] if judged else []
    begin = time.perf_counter()
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    facts = json.loads(done.stdout.splitlines()[-1])
    return facts | {"process_seconds": time.perf_counter() - begin}


def compare(task: str, folder: Path, rounds: int) -> None:
    """All sides, alternating, best of `rounds`; then the ratios."""
    best: dict[str, dict[str, Any]] = {}
    for number in range(rounds):
        for side in SIDES[task]:
            facts = measure(side, task, folder, judged=number == 0)
            if side not in best or facts["seconds"] < best[side]["seconds"]:
                best[side] = best.get(side, {}) | facts
    for side, facts in best.items():
        tell(task=task, side=side, examples_per_second=facts["rows"] / facts["seconds"], **facts)
    speed = {side: facts["rows"] / facts["seconds"] for side, facts in best.items()}
    fastest = max(speed[side] for side in speed if side.startswith("vw"))
    tell(
        task=task,
        ratio_to_the_fastest_vw=speed["broadmatch"] / fastest,
        ratio_of_two_threads_to_one=speed["broadmatch, 2 threads"] / speed["broadmatch"],
        log_loss_less_than_the_best_vw=min(f["log_loss"] for s, f in best.items() if s.startswith("vw"))
        - best["broadmatch"]["log_loss"],
        log_loss_of_two_threads_above_one=best["broadmatch, 2 threads"]["log_loss"] - best["broadmatch"]["log_loss"],
        peak_mb={side: round(facts["peak_mb"]) for side, facts in best.items()},
    )


FIRST_TRY = {
    "broadmatch clicks train": [
        "from broadmatch.cli import main; main()",
        *("clicks", "train", "train.parquet", "--describe", "log.toml", "--out", "first", "--overwrite"),
        *("--set", f"alpha={ALPHA['log']}", "--set", f"beta={BETA['log']}"),
    ],
    "vw": [
        "import sys; from vowpalwabbit import Workspace; Workspace(sys.argv[1]).finish()",
        f"--ftrl --ftrl_alpha {ALPHA['log']} --ftrl_beta {BETA['log']} --loss_function logistic -b 22 --quiet "
        "--no_stdin -d train.vw -f first.vw",
    ],
    "imports of broadmatch clicks train": [
        "import broadmatch.cli, pyarrow.parquet; from broadmatch.clicks import FTRL, ClickTraining"
    ],
    "imports of vw": ["import vowpalwabbit"],
    "broadmatch clicks predict": [
        "from broadmatch.cli import main; main()",
        "clicks",
        "predict",
        "first",
        "two.parquet",
    ],
    "load and predict_one": [
        "import broadmatch; model = broadmatch.load('first'); "
        "print([model.predict_one({f'f{j}': j + i for j in range(20)}) for i in (0, 1)])"
    ],
}
"""Python's code and arguments of each process that `first_try` measures."""


def first_try(folder: Path, rounds: int) -> None:
    """Whole processes, from start to end, with warm caches of kernels and bytecode: alternating, best of `rounds`."""
    import pyarrow.parquet as pq

    subprocess.run(
        [sys.executable, str(TOOL), str(folder), "--text", "--rows", "222223"], check=True, stdout=sys.stderr
    )
    (folder / "log.toml").write_text('label = "y"\n[signals]\n' + "".join(f'f{j} = "categorical"\n' for j in range(20)))
    pq.write_table(pq.read_table(folder / "test.parquet").slice(0, 2), folder / "two.parquet")
    environment = os.environ | {"PYTHONPYCACHEPREFIX": str(folder / "bytecode"), "PYTHONDONTWRITEBYTECODE": ""}
    best: dict[str, dict[str, float]] = {}
    for number in range(1 + rounds):  # the first one compiles
        for what, command in FIRST_TRY.items():
            begin = time.perf_counter()
            child = subprocess.Popen(
                [sys.executable, "-c", *command], cwd=folder, env=environment, stdout=subprocess.DEVNULL
            )
            _, code, used = os.wait4(child.pid, 0)
            seconds = time.perf_counter() - begin
            if code:
                raise RuntimeError(f"{what} failed")
            facts = {"seconds": seconds, "cpu_seconds": used.ru_utime + used.ru_stime, "peak_mb": used.ru_maxrss / 1024}
            if number:
                best[what] = {name: min(value, best.get(what, facts)[name]) for name, value in facts.items()}
    for what, facts in best.items():
        tell(task="first try", what=what, **facts)
    ours, theirs = "broadmatch clicks train", "vw"
    own = {what: best[what]["seconds"] - best[f"imports of {what}"]["seconds"] for what in (ours, theirs)}
    tell(
        task="first try",
        ratio_to_vw=best[ours]["seconds"] / best[theirs]["seconds"],
        ratio_to_vw_without_imports=own[ours] / own[theirs],
    )


def serving(folder: Path) -> None:
    """One prediction from Python, and batches on one core, of a model opened from disk."""
    import broadmatch
    from broadmatch.clicks import FTRL, ClickTraining
    from broadmatch.clicks.training.batches import BatchStream

    description = log_description()
    run = ClickTraining(folder / "train.parquet", description, FTRL(alpha=ALPHA["log"], beta=BETA["log"], l1=0.2))
    run.run()
    run.model().save(folder / "served")
    model = broadmatch.load(folder / "served")
    batch = next(iter(BatchStream(folder / "test.parquet", description)))[0]
    row = {f"f{j}": int(v) for j, v in enumerate(range(20))}
    keys = batch.impressions.row(0).keys.copy()
    served = model.variant()
    times: dict[str, float] = {}
    for what, call, n in (
        ("predict_one of a dict, µs", lambda: model.predict_one(row), 5000),
        ("predict_one of keys, µs", lambda: served.predict_one(keys), 5000),
        ("uncertainty_one of keys, µs", lambda: served.uncertainty_one(keys), 5000),
        ("predict_many, rows/s", lambda: served.predict_many(batch.impressions), 5),
    ):
        call()
        spans = []
        for _ in range(5):
            begin = time.perf_counter()
            for _ in range(n):
                call()
            spans.append((time.perf_counter() - begin) / n)
        times[what] = len(batch) / min(spans) if what.endswith("/s") else 1e6 * min(spans)
    tell(task="serving", features=served.n_features, model_mb=served.nbytes / 1e6, **times)


def main() -> None:
    """Measure one side, or all."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--rounds", type=int, default=6)
    parser.add_argument("--judged", action="store_true")
    parser.add_argument("--first-try", action="store_true")
    parser.add_argument("--side")
    parser.add_argument("--task")
    parser.add_argument("--folder", type=Path)
    asked = parser.parse_args()
    if asked.side:
        if asked.side.startswith("vw"):
            facts = learn_theirs(asked.task, asked.folder, int(asked.side.split()[-1]), asked.judged)
        else:
            facts = learn_ours(asked.task, asked.folder, 2 if "2 threads" in asked.side else 1, asked.judged)
        print(json.dumps(facts))
        return
    if not POSTS.exists() or not TOOL.exists():
        print(f"The real data sets are not at {DATA}: nothing measured.", file=sys.stderr)
        return
    with tempfile.TemporaryDirectory() as kept:
        folder = asked.folder or Path(kept)
        if asked.first_try:
            first_try(folder, asked.rounds)
            return
        prepare(folder, asked.small)
        serving(folder)
        compare("log", folder, asked.rounds)
        if not asked.small:
            compare("reddit", folder, asked.rounds)


if __name__ == "__main__":
    main()
