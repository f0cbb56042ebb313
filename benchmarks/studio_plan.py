"""What an answer of the planner costs, and how soon its page can be used: python -m benchmarks.studio_plan FOLDER.

FOLDER is that of a server, as `broadmatch demo` makes one. Pages of 50 kB are made of known pages put together. CPU
times are those of all threads of the server's process; of the browser, time from the request to the first field that
can be typed into, in headless Chromium on this machine, cold (first load) and warm.
"""

import itertools
import json
import os
import statistics
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from broadmatch.io import read_pages
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.planner.planning import Planning, PlanRequest, WhyRequest
from broadmatch.serve.studio.work import StudioWork

_TIMES = 30


def page_of(pages: list[str], size: int, start: int) -> str:
    """Known pages put together until they are so large."""
    turned, made = itertools.cycle(pages[start:] + pages[:start]), ""
    while len(made) < size:
        made += next(turned)
    return made[:size]


def measure(name: str, run, requests) -> None:
    """Print CPU and wall times of answers in milliseconds."""
    run(requests[0])
    cpu, wall = [], []
    for request in requests:
        at, before = time.perf_counter(), time.process_time()
        run(request)
        cpu.append(1e3 * (time.process_time() - before))
        wall.append(1e3 * (time.perf_counter() - at))
    figures = {
        "cpu_p50_ms": statistics.median(cpu),
        "cpu_max_ms": max(cpu),
        "wall_p50_ms": statistics.median(wall),
        "wall_max_ms": max(wall),
    }
    print(
        json.dumps({"what": name, "answers": len(cpu)} | {key: round(value, 1) for key, value in figures.items()}),
        flush=True,
    )


def browser(folder: Path) -> None:
    """Print how soon the first page can be used, and how soon a plan is there."""
    from playwright.sync_api import sync_playwright

    from tests.browser import CHROMIUM, serving
    from tests.serve.shop import Sink

    app = make_app(ServeConfig(folder=folder), LiveService(folder), Sink())
    with (
        serving(app) as address,
        sync_playwright() as driver,
        driver.chromium.launch(executable_path=CHROMIUM) as opened,
    ):
        for what, path, field in (
            ("first page usable, cold", "", "#planner-page"),
            ("first page usable, warm", "", "#planner-page"),
            ("one line of JSON, as a peer", "/v1/health", "body"),
        ):
            page = opened.new_page()
            at = time.perf_counter()
            page.goto(address + path)
            page.wait_for_selector(field)
            usable = time.perf_counter() - at
            page.close()
            load = round(os.getloadavg()[0], 1)
            print(json.dumps({"what": what, "wall_ms": round(1e3 * usable), "load": load}), flush=True)


def main(folder: Path) -> None:
    """Measure a server's folder."""
    live = LiveService(folder)
    planning = Planning(live, StudioFolder(folder), StudioWork(ThreadPoolExecutor(1)))
    pages = [page.html.decode() for page in read_pages(folder / "pages.parquet")]
    for size in (5_000, 50_000, 5_000_000):
        few = _TIMES if size < 1_000_000 else 5
        made = [page_of(pages, size, 17 * i % len(pages)) for i in range(few)]
        measure(f"plan, page of {size // 1000} kB", planning._plan, [PlanRequest(html=one) for one in made])
    made = [page_of(pages, 50_000, 17 * i % len(pages)) for i in range(_TIMES)]
    best = [planning._plan(PlanRequest(html=one)).phrases[0].phrase for one in made]
    asked = [WhyRequest(html=one, phrase=phrase) for one, phrase in zip(made, best, strict=True)]
    measure("why, page of 50 kB", planning._explain, asked)
    browser(folder)


if __name__ == "__main__":
    main(Path(sys.argv[1] if len(sys.argv) > 1 else "demo/server"))
