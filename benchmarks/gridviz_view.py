"""GridViz in Chromium without a GPU: how long a frame takes when one pans, zooms, recolours and hovers.

    python -m benchmarks.gridviz_view [--frames 60] [--runs 3]

One JSON line for each grid and kind of frame. `cpu_ms` is what the page's main thread computed for a frame: script,
style, layout and painting, by its CPU clock (a wall clock counts what else the machine does); `p95_ms` is over all
frames of a run, the best of `best_of` runs. `script_ms` is the wall time of the drawing alone, its best and its median.

Planted grids of 10,000 columns × 24 rows (bound: 8 ms) and of 100,000 × 12 (16 ms) at 1,600 × 900; filter and sort of
10,000 (50 ms); and a page of 10,000 columns from its opening to its first paint with cells (1 s), by both clocks.
"""

import argparse
import json
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Browser, CDPSession, Page, sync_playwright

from benchmarks.gridviz import planted
from broadmatch.evaluate.gridviz.file import grid_bytes
from broadmatch.evaluate.gridviz.page import write_page
from tests.browser import CHROMIUM
from tests.evaluate.grids import open_grid

FRAMES: dict[str, str] = {
    "pan": "(i) => { const w = 0.2; shown.view.look(0.01 * (i % 60), 0.01 * (i % 60) + w); }",
    "zoom": "(i) => { const h = 0.5 * 0.93 ** (i % 60); shown.view.look(0.5 - h, 0.5 + h); }",
    "whole": "(i) => shown.view.look(0, i % 2 ? 1 : 0.9999)",
    "recolour": "(i) => shown.change({ range: shown.grid.metrics.map(() => 0.001 * (1 + (i % 50))) })",
    "hover": """(i) => {
        const { view } = shown;
        view.point(view.cellAt(view.at.x + 17 * (i % 60) + 3, view.at.rows[1 + (i % 9)].top + 5));
    }""",
}
STEPS: dict[str, str] = {
    "filter": "(i) => shown.change({ find: `topic .*${i % 9}` })",
    "sort by change": "(i) => shown.change({ sort: i % 2 ? 'worse' : 'better' })",
    "sort by name": "(i) => shown.change({ sort: i % 2 ? 'name' : 'size' })",
}
BOUNDS = {"10,000 × 24": 8.0, "100,000 × 12": 16.0}


def opened(browser: Browser, content: bytes) -> tuple[Page, CDPSession]:
    """A page that shows a grid, all of its groups beside each other, and what reads its CPU clock."""
    page = browser.new_context(viewport={"width": 1600, "height": 900}).new_page()
    page.set_default_timeout(60_000)
    open_grid(page, content)
    page.evaluate("() => shown.change({ groups: shown.grid.groups.map((_, i) => i).slice(1) })")
    session = page.context.new_cdp_session(page)
    session.send("Performance.enable", {"timeDomain": "threadTicks"})
    return page, session


def measured(page: Page, session: CDPSession, act: str, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Milliseconds of CPU of the main thread for each of n frames, and of drawing by the wall clock."""
    page.evaluate(f"window.act = {act}")
    both = "async (i) => { act(i); await new Promise((done) => requestAnimationFrame(done)); return shown.view.took; }"
    cpu, script = [], []
    for i in range(-3, n):
        before = _computed(session)
        took = page.evaluate(both, i + 3)
        if i >= 0:
            cpu.append(1000 * (_computed(session) - before))
            script.append(took)
    return np.array(cpu), np.array(script)


def _computed(session: CDPSession) -> float:
    found: list[dict[str, Any]] = session.send("Performance.getMetrics")["metrics"]
    return float(next(one["value"] for one in found if one["name"] == "TaskDuration"))


def best_run(run: Callable[[], tuple[np.ndarray, np.ndarray]], runs: int) -> dict[str, Any]:
    """Of the run with the lowest 95th percentile."""
    found = sorted((run() for _ in range(runs)), key=lambda one: float(np.percentile(one[0], 95)))
    cpu, script = found[0]
    return {
        "p95_ms": round(float(np.percentile(cpu, 95)), 2),
        "cpu_ms": round(float(np.median(cpu)), 2),
        "script_ms": [round(float(script.min()), 2), round(float(np.median(script)), 2)],
        "frames": len(cpu),
        "best_of": runs,
    }


def first_paint(browser: Browser, file: Path, runs: int) -> dict[str, Any]:
    """Of the self-contained page: from navigation until cells are on the screen."""
    took, cpu = [], []
    for _ in range(runs):
        page = browser.new_page(viewport={"width": 1600, "height": 900})
        session = page.context.new_cdp_session(page)
        session.send("Performance.enable", {"timeDomain": "threadTicks"})
        page.goto(file.as_uri())
        page.wait_for_function("() => document.querySelector('.grid-field canvas')?.width > 300")
        took.append(page.evaluate("() => new Promise((done) => requestAnimationFrame(() => done(performance.now())))"))
        cpu.append(1000 * _computed(session))
        page.close()
    figures = {"cpu_ms": round(min(cpu)), "wall_ms": [round(min(took)), round(float(np.median(took)))]}
    return {"step": "first paint of grid.html", **figures, "best_of": runs, "bound_ms": 1000}


def measure_grid(browser: Browser, size: str, shape: tuple[int, int, int], frames: int, runs: int) -> None:
    """Print the frames of one planted grid, and the steps of the smaller one."""
    page, session = opened(browser, grid_bytes(planted(*shape)))

    def say(what: dict[str, str], act: str, n: int, bound: float) -> None:
        figures = best_run(lambda: measured(page, session, act, n), runs)
        print(json.dumps({"grid": size, **what, **figures, "bound_ms": bound}, ensure_ascii=False), flush=True)
        page.evaluate("() => shown.view.look(0, 1)")

    for kind, act in FRAMES.items():
        say({"frame": kind}, act, frames, BOUNDS[size])
    if shape[0] <= 10_000:
        for kind, act in STEPS.items():
            say({"step": kind}, act, 10, 50.0)
    page.close()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--frames", type=int, default=60)
    parser.add_argument("--runs", type=int, default=3)
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=CHROMIUM)
        measure_grid(browser, "10,000 × 24", (10_000, 6, 4), chosen.frames, chosen.runs)
        measure_grid(browser, "100,000 × 12", (100_000, 4, 3), chosen.frames, chosen.runs)
        file = Path(folder) / "grid.html"
        write_page(planted(10_000, 6, 4), file)
        print(json.dumps(first_paint(browser, file, chosen.runs)), flush=True)
        browser.close()


if __name__ == "__main__":
    main()
