"""FTRL's defaults beside Vowpal Wabbit's and the best of 40 variants, each learned in one pass; progressive log loss.

    python -m benchmarks.clicks_defaults            # reddit, the click log, the avazu and criteo samples
    python -m benchmarks.clicks_defaults avazu      # some of them
    python -m benchmarks.clicks_defaults --settings # what beta, l1, l2 and power are worth, near the best alpha
    python -m benchmarks.clicks_defaults --defaults # rows of docs/defaults.md (benchmarks/defaults.py)
    python -m benchmarks.clicks_defaults reddit --tune 400000 # `clicks train --tune` on so many rows, and what follows

The 40 variants are 10 α from 0.01 to 2 with gradients and with counts, β = 1 and 0.3. They know nothing beforehand
either, but which is the best is known only afterwards: it is what a search would find. Vowpal Wabbit gets the same
features, as `--ftrl --loss_function logistic -b 22`. `last` is the last fifth of a stream, on the click log its test
part, the last tenth. Intervals are of paired differences, of blocks of 250 rows. The heats of the race were chosen by
races replayed on 16 synthetic streams of other kinds (rare clicks, long rows, numbers, drift). The four here had been
looked at before, all of them and to their ends, so they are no fresh test of that choice.

--tune N gives the 60 candidates of `clicks train --tune` the first N rows, takes the one with the least progressive
log loss, and lets it and the default go on over the next N / 4 rows, beside the best of all variants there.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks import DATA, POSTS, TOOL, log_description, reddit_description
from benchmarks.common import tell
from broadmatch.clicks import FTRL, ManyModels, Variant, tuning_candidates
from broadmatch.clicks.training.batches import BatchStream
from broadmatch.data import Batch, Impressions
from broadmatch.evaluate.click_metrics import log_losses
from broadmatch.signals import Categorical, Description, Hour, Numeric

ALPHAS = (0.01, 0.02, 0.04, 0.07, 0.13, 0.25, 0.4, 0.7, 1.2, 2.0)
VARIANTS = {
    f"alpha={alpha} {rates} beta={beta}": Variant(alpha=alpha, beta=beta, rates=rates)
    for rates in ("gradients", "counts")
    for beta in (1.0, 0.3)
    for alpha in ALPHAS
}
LAST = {"log": 0.1}
NAMES = {"log": "click log, 2 million rows", "reddit": "reddit, 2 million posts", "avazu": "avazu, 8,999 rows",
         "criteo": "criteo, 8,000 rows"}  # fmt: skip
ROW = {
    "part": "FTRL",
    "default": "`FTRL()`: learning rates by a race of 34 candidates over the first 262,144 rows",
    "chosen_on": "16 synthetic streams, on which the heats of the race were replayed; the streams below had been "
    "looked at before",
}
_BLOCK, _PIECE = 250, 100_000


def avazu() -> Description:
    """Every column as a category, and the hour."""
    names = "C1 banner_pos site_id site_domain site_category app_id app_domain app_category device_id device_ip "
    names += "device_model device_type device_conn_type C14 C15 C16 C17 C18 C19 C20 C21"
    time_column = {"column": "hour", "format": "%y%m%d%H"}
    return Description(
        label="click", id="id", time=time_column, signals=[Hour("hour"), *(Categorical(n) for n in names.split())]
    )


def criteo() -> Description:
    """Thirteen numbers in buckets of their logarithm, 26 categories."""
    numbers = [Numeric(f"I{i}", buckets="log") for i in range(1, 14)]
    return Description(
        format="criteo", label="label", signals=[*numbers, *(Categorical(f"C{i}") for i in range(1, 27))]
    )


def load(name: str, folder: Path, most: float = np.inf) -> Impressions:
    """A stream, encoded; its first batches with so many rows."""
    sources: Any = {
        "reddit": POSTS,
        "avazu": DATA / "avazu-9k/avazu.csv.gz",
        "criteo": DATA / "criteo-8k/criteo.csv.gz",
    }
    if name == "log":
        subprocess.run([sys.executable, str(TOOL), str(folder)], check=True, stdout=sys.stderr)
        sources["log"] = [folder / "train.parquet", folder / "test.parquet"]
    described = {"reddit": reddit_description, "log": log_description, "avazu": avazu, "criteo": criteo}[name]()
    batches, n_rows = list[Batch](), 0
    for batch, _ in BatchStream(sources[name], described):
        batches.append(batch)
        n_rows += batch.impressions.n_rows
        if n_rows >= most:
            break
    return Batch.concatenate(batches).impressions


def block_losses(clicked: NDArray[Any], p: NDArray[np.float64]) -> NDArray[np.float64]:
    """Summed log losses of blocks of rows, a column for each model."""
    losses = log_losses(clicked[:, None] > 0.5, p.reshape(len(clicked), -1))
    return np.add.reduceat(losses, np.arange(0, len(losses), _BLOCK), axis=0)


def learned(learner: Any, rows: Impressions) -> NDArray[np.float64]:
    """The losses of a learner or of many, before each update."""
    found = []
    for start in range(0, rows.n_rows, _PIECE):
        piece = rows.between(start, min(start + _PIECE, rows.n_rows))
        found.append(block_losses(piece.clicked, learner.learn_many(piece, encoded=True)))
    return np.concatenate(found)


def vowpal_wabbit(rows: Impressions, folder: Path) -> NDArray[np.float64]:
    """The losses of `vw --ftrl` with its default rates, before each update; the features are those of `rows`."""
    from vowpalwabbit import Workspace

    texts = [f"k{key:x}" for key in rows.keys.tolist()]
    with (folder / "rows.vw").open("w") as out:
        for row, clicked in enumerate(rows.clicked):
            a, b = rows.indptr[row], rows.indptr[row + 1]
            out.write(f"{1 if clicked else -1} | {' '.join(texts[a:b])}\n")
    options = f"--ftrl --loss_function logistic -b 22 --noconstant --quiet --no_stdin -d {folder / 'rows.vw'}"
    Workspace(f"{options} -p {folder / 'rows.p'}").finish()
    return block_losses(rows.clicked, 1 / (1 + np.exp(-np.loadtxt(folder / "rows.p"))))


def paired(losses: NDArray[np.float64], other: NDArray[np.float64]) -> tuple[float, float]:
    """By how many percent losses are higher than others on the same rows, and half the 95 % interval of that."""
    difference = losses - other
    scale = 100 / other.sum()
    return float(scale * difference.sum()), float(scale * 1.96 * np.sqrt(len(difference)) * difference.std())


def default_rows(name: str, part: str, told: dict[str, Any]) -> None:
    """Rows of docs/defaults.md, beside the rival and beside what a search would have found."""
    data = (
        NAMES[name]
        if part == "all"
        else f"{NAMES[name].partition(',')[0]}, its last {'tenth' if LAST.get(name) else 'fifth'}"
    )
    for side, rival in (
        ("vw", "`vw --ftrl`, its defaults"),
        ("best of 40", "the best of 40 variants, known afterwards"),
    ):
        found = told[side]
        tell(**ROW, data=data, metric="progressive log loss, difference in %", ours=told["default"],
             tuned=found["log_loss"], rival=rival, difference=round(found["default_above_in_percent"], 2),
             interval=round(found["half"], 2), cpu_s=time.process_time())  # fmt: skip


def measure(name: str, folder: Path, defaults: bool = False) -> None:
    """All sides on one stream."""
    rows = load(name, folder)
    learner = FTRL()
    started = time.process_time()
    ours = learned(learner, rows)[:, 0]
    seconds = time.process_time() - started
    alone = FTRL(alpha=learner.chosen.alpha, rates=learner.chosen.rates)
    started = time.process_time()
    learned(alone, rows)
    seconds_alone = time.process_time() - started
    old, theirs = learned(FTRL(alpha=0.1), rows)[:, 0], vowpal_wabbit(rows, folder)[:, 0]
    variants = learned(ManyModels(VARIANTS), rows)
    first = int((1 - LAST.get(name, 0.2)) * len(ours))
    facts = {"stream": name, "rows": rows.n_rows, "clicks": float(rows.clicked.mean()), "chosen": str(learner.chosen)}
    tell(**facts, cpu_seconds=seconds, cpu_seconds_of_the_winner_alone=seconds_alone)
    for part, since, n in (("all", 0, rows.n_rows), ("last", first, rows.n_rows - first * _BLOCK)):
        best = int(variants[since:].sum(axis=0).argmin())
        sides = {"vw": theirs, "alpha 0.1": old, "best of 40": variants[:, best]}
        told: dict[str, Any] = {"default": ours[since:].sum() / n}
        for side, losses in sides.items():
            change, half = paired(ours[since:], losses[since:])
            told[side] = {"log_loss": losses[since:].sum() / n, "default_above_in_percent": change, "half": half}
        tell(stream=name, part=part, best=list(VARIANTS)[best], **told)
        if defaults:
            default_rows(name, part, told)


def settings(name: str, folder: Path) -> None:
    """What other settings change, at the winner's learning rates and around them, on the first 300,000 rows."""
    rows = load(name, folder)
    rows = rows.between(0, min(300_000, rows.n_rows))
    learner = FTRL()
    learner.learn_many(rows, encoded=True)
    base = {"alpha": learner.chosen.alpha, "rates": learner.chosen.rates}
    tried: dict[str, Any] = {"as chosen": {}}
    tried |= {f"l1={v}": {"l1": v} for v in (0.1, 0.3, 1.0)} | {f"l2={v}": {"l2": v} for v in (0.1, 1.0, 10.0)}
    for name_of, values in (("beta", (0.1, 0.3, 3.0)), ("power", (0.4, 0.6, 0.7))):
        for value in values:
            for factor in (0.5, 0.7, 1.0, 1.4, 2.0):
                tried[f"{name_of}={value} alpha x {factor}"] = {name_of: value, "alpha": base["alpha"] * factor}
    losses = learned(ManyModels({k: Variant(**base | v) for k, v in tried.items()}), rows)
    later = losses[len(losses) // 2 :]
    found = {k: paired(later[:, i], later[:, 0]) for i, k in enumerate(tried)}
    for group in ("l1", "l2", "beta=0.1", "beta=0.3", "beta=3", "power=0.4", "power=0.6", "power=0.7"):
        one = min((k for k in found if k.startswith(group)), key=lambda k: found[k][0])
        tell(stream=name, chosen=str(learner.chosen), setting=one, change_in_percent=found[one][0], half=found[one][1])


def tuned(name: str, folder: Path, n_rows: int, defaults: bool) -> None:
    """What a tuning takes on the first rows, there and on the rows that follow."""
    rows = load(name, folder, n_rows * 5 // 4)
    rows = rows.between(0, min(n_rows * 5 // 4, rows.n_rows))
    candidates = tuning_candidates()
    few = rows.between(0, 1000)
    for made in (FTRL(), ManyModels(candidates)):  # compiles
        made.learn_many(few, encoded=True)
    started = time.process_time()
    ours = learned(FTRL(), rows)[:, 0]
    one = time.process_time() - started
    started = time.process_time()
    losses = learned(ManyModels(candidates), rows)
    cpu = time.process_time() - started
    cut = n_rows // _BLOCK
    chosen = int(losses[:cut].sum(axis=0).argmin())
    others = np.column_stack([losses, learned(ManyModels(VARIANTS), rows)])
    known = [*candidates, *VARIANTS]
    for part, since, end in (("tuned on", 0, cut), ("after it", cut, len(ours))):
        best = int(others[since:end].sum(axis=0).argmin())
        n = (end - since) * _BLOCK
        told: dict[str, Any] = {"chosen": list(candidates)[chosen], "log_loss": losses[since:end, chosen].sum() / n}
        sides = {
            "the default, `FTRL()`": ours,
            f"the best of 100 variants, known afterwards: {known[best]}": others[:, best],
        }
        for side, theirs in sides.items():
            change, half = paired(losses[since:end, chosen], theirs[since:end])
            told[side] = {"log_loss": theirs[since:end].sum() / n, "tuned_above_in_percent": change, "half": half}
            if defaults:
                where = f"{name}, {'the first' if since == 0 else 'the next'} {n:,} rows"
                tell(part="clicks train --tune", default=f"60 candidates in one pass; found {told['chosen']}",
                     chosen_on=f"the progressive log loss of the first {n_rows:,} rows", data=where,
                     metric="progressive log loss, difference in %", ours=told["log_loss"],
                     tuned=told[side]["log_loss"], rival=side, difference=round(change, 2), interval=round(half, 2),
                     cpu_s=round(cpu, 1))  # fmt: skip
        tell(stream=name, part=part, rows=n, cpu_s_default=one, cpu_s_tune=cpu, **told)


def main() -> None:
    """Measure the streams that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("streams", nargs="*", default=["avazu", "criteo", "log", "reddit"])
    parser.add_argument("--settings", action="store_true")
    parser.add_argument("--tune", type=int, help="what `clicks train --tune` takes on so many rows")
    parser.add_argument("--defaults", action="store_true", help="print rows of docs/defaults.md, too")
    asked = parser.parse_args()
    if not POSTS.exists() or not TOOL.exists():
        print(f"The real data sets are not at {DATA}: nothing measured.", file=sys.stderr)
        return
    for name in asked.streams:
        with tempfile.TemporaryDirectory() as folder:
            if asked.settings:
                settings(name, Path(folder))
            elif asked.tune:
                tuned(name, Path(folder), asked.tune, asked.defaults)
            else:
                measure(name, Path(folder), asked.defaults)


if __name__ == "__main__":
    main()
