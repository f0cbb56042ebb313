"""What totals hide: five variants of a click model on the reddit stream, over 50,000 slices, as one GridViz page.

    python -m benchmarks.gridviz_reddit [--out FOLDER]

An impression is a post, a click is a hundred comments. `broadmatch clicks train` learns five variants in one pass and
`build_grid` compares them with the first, `words`, by subreddit, domain, kind of post, hour, and crossed. Writes
grid.html, grid.grid and the picture of docs/gridviz.md to FOLDER, and prints the findings told there: one JSON line
each, differences with 95 % intervals, significance after Benjamini and Hochberg (q = 0.05) over all cells of the metric
in the slicing.
"""

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

from benchmarks.common import DATA, need_data, peak_gb, tell
from broadmatch.evaluate.gridviz import Grid, build_grid, changes, significant, write_grid, write_page, write_picture

POSTS = DATA / "reddit" / "posts.parquet"
DESCRIPTION = """
label = "comments >= 100"
time = "time"
slices = ["subreddit", "domain", "is_self", "hour"]
[signals]
subreddit = "categorical"
domain = "categorical"
is_self = "categorical"
hour = { kind = "hour", column = "time" }
title = "text"
"""
VARIANTS = ("words:", "no title: without=title", "no domain: without=domain", "slow: alpha=0.1", "sparse: l1=10")
AUC, LOG, _, BIAS = range(4)
Z = 1.959964


def train(folder: Path) -> Path:
    """The predictions of all variants, made before learning."""
    (folder / "reddit.toml").write_text(DESCRIPTION)
    given = ["--describe", folder / "reddit.toml", "--out", folder / "model", "--predictions", folder / "predictions"]
    settings = [part for setting in ("alpha=0.5", "beta=0.3", "l1=1") for part in ("--set", setting)]
    variants = [part for variant in VARIANTS for part in ("--variant", variant)]
    command = [sys.executable, "-m", "broadmatch", "clicks", "train", POSTS, *given, *settings, *variants]
    subprocess.run([str(part) for part in command], check=True, stdout=subprocess.DEVNULL)
    return folder / "predictions"


def findings(grid: Grid) -> None:
    """Totals, and what stands beside them in the slices."""
    found, log_off = changes(grid), grid.models.index("no title")
    no_domain = grid.models.index("no domain")
    for m, model in enumerate(grid.models):
        tell(finding="totals", model=model, **{k.name: cell(grid, found, i, m, 0) for i, k in enumerate(grid.metrics)})
    kinds = columns_of(grid, "is_self")
    for c in range(kinds.start, kinds.stop):
        for metric in (AUC, LOG):
            where = {"is_self": grid.slices[c], "impressions": int(grid.impressions[c])}
            tell(finding="1: titles serve self posts only", metric=grid.metrics[metric].name, **where,
                 no_title=cell(grid, found, metric, log_off, c),
                 significant=bool(significant(grid, found, kinds)[metric, log_off, c - kinds.start]))  # fmt: skip
    for number, metric, model, group in (
        ("2: where words do harm", LOG, log_off, "subreddit"),
        ("3: bias moves where the total stands still", BIAS, no_domain, "subreddit"),
    ):
        across(grid, found, number, metric, model, group)


def across(grid: Grid, found: object, finding: str, metric: int, model: int, group: str) -> None:
    """How many slices of a group changed either way, and those that did most surely."""
    where = columns_of(grid, group)
    marked = significant(grid, found, where)[metric, model]
    difference = found.difference[metric, model, where]
    tested = ~np.isnan(found.p[metric, :, where])
    tell(finding=finding, metric=grid.metrics[metric].name, model=grid.models[model], slicing=group,
         total=cell(grid, found, metric, model, 0), slices=where.stop - where.start,
         tested=int(tested[model].sum()), lower=int((marked & (difference < 0)).sum()),
         higher=int((marked & (difference > 0)).sum()))  # fmt: skip
    z = difference / found.se[metric, model, where]
    for at in [*np.argsort(np.where(marked, z, 0))[:4], *np.argsort(np.where(marked, -z, 0))[:4]]:
        c = where.start + int(at)
        tell(finding=finding, slice=grid.slices[c], impressions=int(grid.impressions[c]), clicks=int(grid.clicks[c]),
             words=float(grid.value[metric, 0, c]), **cell(grid, found, metric, model, c),
             significant=bool(marked[at]))  # fmt: skip


def columns_of(grid: Grid, name: str) -> slice:
    group = next(g for g in grid.groups if g.name == name)
    return slice(group.first, group.first + group.count)


def cell(grid: Grid, found: object, k: int, m: int, c: int) -> dict[str, float]:
    """Value, difference to the baseline with its interval, and its change in percent."""
    d, se = float(found.difference[k, m, c]), float(found.se[k, m, c])
    ends = {"low": d - Z * se, "high": d + Z * se, "p": float(found.p[k, m, c])} if m != grid.baseline else {}
    shown = {"value": float(grid.value[k, m, c]), "difference": d, **ends}
    share = {} if k == BIAS else {"percent": 100 * d / float(grid.value[k, grid.baseline, c])}
    return {name: float(f"{number:.5g}") for name, number in (shown | share).items()}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, default=Path("gridviz-reddit"))
    parser.add_argument("--predictions", type=Path, help="of an earlier run: do not train again")
    chosen = parser.parse_args()
    need_data()
    chosen.out.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory() as folder:
        predictions = chosen.predictions or train(Path(folder))
        started = time.process_time()
        grid = build_grid(
            predictions, slices=["is_self", "hour", "subreddit", "domain"],
            cross=[("is_self", "hour"), ("subreddit", "is_self"), ("subreddit", "hour")],
            min_impressions=20, title="Reddit: five variants of a click model",
        )  # fmt: skip
        seconds = time.process_time() - started
    write_grid(grid, chosen.out / "grid.grid")
    write_page(grid, chosen.out / "grid.html")
    write_picture(grid, chosen.out / "gridviz_reddit.png", slicing="is_self × hour")
    size = (chosen.out / "grid.html").stat().st_size
    tell(what="build", slices=len(grid.slices), rows=int(grid.impressions[0]), cpu_seconds=seconds, page_bytes=size,
         peak_gb=peak_gb())  # fmt: skip
    findings(grid)


if __name__ == "__main__":
    main()
