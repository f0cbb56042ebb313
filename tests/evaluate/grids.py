"""Small grids for tests of the view, a page that shows one without a server, and what a test sees of it."""

from datetime import UTC, datetime
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import numpy as np

import broadmatch.evaluate
from broadmatch.evaluate.gridviz import Grid, GridGroup, GridMetric, GridPeriod
from broadmatch.evaluate.gridviz.file import grid_bytes

STATIC = Path(broadmatch.evaluate.__file__).parent / "static"
ADDRESS = "http://localhost/grid"
MODELS = ("control", "sparse", "dense")
METRICS = (
    GridMetric("LogLoss", "nats", "low"),
    GridMetric("AucLoss", "", "low"),
    GridMetric("Bias", "", "zero"),
    GridMetric("Gain", "", "high"),
)
COUNTRIES = {"france": (4000, 100), "germany": (3000, 100), "italy": (2000, 100), "spain": (1000, 700)}
HOUR = 3_600_000_000
START = int(datetime(2026, 3, 1, tzinfo=UTC).timestamp()) * 1_000_000
_MEDIA = {".js": "text/javascript", ".css": "text/css"}
_PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>GridViz</title>
<meta name="viewport" content="width=device-width, initial-scale=1">
<link rel="stylesheet" href="/static/look.css"><link rel="stylesheet" href="/static/grid.css">
<link rel="icon" href="data:,">
<main id="page"></main><script type="module" src="/start.js"></script></html>"""
_START = """import { decode } from "/static/grid_data.js";
import { showGrid } from "/static/grid_page.js";
const grid = decode(await (await fetch("/data")).arrayBuffer());
window.shown = showGrid(document.querySelector("#page"), grid);
window.frame = () => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)));
await window.frame();
document.body.dataset.ready = "yes";"""


def open_grid(page, grid, address=""):
    """Show a grid in a page, with the state of the view in its address."""

    def answer(route):
        path = route.request.url.removeprefix("http://localhost").split("#")[0]
        if path == "/grid":
            route.fulfill(body=_PAGE, content_type="text/html")
        elif path == "/start.js":
            route.fulfill(body=_START, content_type="text/javascript")
        elif path == "/data":
            route.fulfill(body=grid if isinstance(grid, bytes) else grid_bytes(grid))
        else:
            file = STATIC / Path(path).name
            route.fulfill(body=file.read_bytes(), content_type=_MEDIA[file.suffix])

    page.context.route("http://localhost/**", answer)
    page.goto("about:blank")
    page.goto(f"{ADDRESS}#{address}")
    page.wait_for_selector("body[data-ready]")


def make_grid(slices=None, groups=None, impressions=None, clicks=None, hours=0, **more):
    """Four countries and twenty topics, if nothing else is said, all values equal: a test plants what it needs."""
    if slices is None:
        topics = [f"topic {i}" for i in range(20)]
        slices = ["all", *COUNTRIES, *topics]
        groups = (GridGroup("all", 0, 1), GridGroup("country", 1, 4), GridGroup("topic", 5, 20))
        impressions = [10_000, *(n for n, _ in COUNTRIES.values()), *(500 + i for i in range(20))]
        clicks = [1_000, *(c for _, c in COUNTRIES.values()), *(20 + i for i in range(20))]
    K, M, S = len(METRICS), len(MODELS), len(slices)
    value = np.empty((K, M, S), np.float32)
    value[:] = np.array([0.5, 0.25, 0.1, 2.0])[:, None, None]
    grid = {
        "value": value,
        "low": np.full((K, M, S), 0.01, np.float32),
        "high": np.full((K, M, S), 0.02, np.float32),
        "se": np.full((K, M * (M - 1) // 2, S), 0.01, np.float32),
        "impressions": np.array(impressions, float),
        "clicks": np.array(clicks, float),
    }
    if hours:
        grid |= {
            "periods": tuple(GridPeriod(START + h * HOUR, START + (h + 1) * HOUR) for h in range(hours)),
            "period_impressions": np.tile(np.rint(grid["impressions"] / hours), (hours, 1)),
            "period_clicks": np.tile(np.rint(grid["clicks"] / hours), (hours, 1)),
            "period_value": np.tile(value, (hours, 1, 1, 1)),
            "period_se": np.full((hours, K, M, S), 0.05, np.float32),
        }
    return Grid("Three models", MODELS, 0, 0.95, METRICS, tuple(groups), tuple(slices), **(grid | more))


def planted_grid(hours=0):
    """In sparse, LogLoss is 10 % better in france, 10 % worse in germany, the same in italy, unknown in spain."""
    grid = make_grid(hours=hours)
    values = [grid.value, *([grid.period_value] if hours else [])]
    for value in values:
        value[..., 0, 1, 1:5] = 0.5 * np.array([0.9, 1.1, 1.0, np.nan])
        value[..., 0, 2, 1:5] = 0.5 * 1.02
        value[..., 2, 1, 1:5] = [-0.3, 0.05, -0.1, 0.1]  # Bias: worse, better, as large, the same
        value[..., 3, 1, 1:5] = [2.2, 1.8, 2.0, 2.0]  # Gain: better, worse
        value[..., 0, 1, 5:] = 0.5 + 0.002 * np.arange(20)
    return grid


PLACES = """() => {
  const { view, scene } = window.shown;
  const first = scene.columns.columns.slice(0, 500);
  const columns = Array.from(first, (slice, j) => [scene.grid.slices[slice], ...view.columnPlace(j)]);
  const { models, metrics } = scene.grid;
  const rows = view.at.rows.map(({ model, metric, top, height }) => [models[model], metrics[metric].name, top, height]);
  const box = view.canvas.getBoundingClientRect();
  return { columns, rows, x: box.left, y: box.top, area: [view.at.x, view.at.width] };
}"""
PIXELS = """(box) => {
  const data = window.shown.view.context.getImageData(...box).data;
  return Array.from({ length: data.length / 4 }, (_, i) => Array.from(data.slice(4 * i, 4 * i + 4)));
}"""
NUMBERS = """() => {
  const { view, scene } = window.shown;
  const found = {};
  const { models, metrics, slices } = scene.grid;
  view.written = (r, j, text) => {
    const { model, metric } = scene.rows[r];
    found[`${models[model]} ${metrics[metric].name} ${slices[scene.columns.columns[j]]}`] = text;
  };
  view.drawNow();
  view.written = null;
  return found;
}"""


class Shown:
    """A grid in a page, as a test sees it."""

    def __init__(self, page):
        self.page = page
        self.report = page.get_by_role("region", name="Report of a cell")
        self.field = page.locator(".grid-field")

    def places(self):
        self.page.evaluate("frame()")
        return self.page.evaluate(PLACES)

    def columns(self):
        """The names of the slices from the left, without all traffic."""
        return [name for name, *_ in self.places()["columns"][1:]]

    def count(self):
        """How many slices are shown, without all traffic."""
        return self.page.evaluate("() => shown.scene.columns.columns.length - 1")

    def rows(self):
        return [(model, metric) for model, metric, *_ in self.places()["rows"]]

    def middle(self, model, metric, name):
        """The middle of a cell on the canvas."""
        places = self.places()
        left, right = next(ends for one, *ends in places["columns"] if one == name)
        top, height = next(ends for a, b, *ends in places["rows"] if (a, b) == (model, metric))
        return (left + right) / 2, top + height / 2

    def color(self, model, metric, name):
        """Red, green and blue near the upper left corner of a cell, where no number stands."""
        places = self.places()
        left = next(left for one, left, _ in places["columns"] if one == name)
        top = next(top for a, b, top, _ in places["rows"] if (a, b) == (model, metric))
        return self.pixels(left + 2, top + 2, 1, 1)[0][:3]

    def pixels(self, x, y, width, height):
        """Red, green, blue and cover of each pixel of a part of the canvas."""
        return self.page.evaluate(PIXELS, [round(x), round(y), round(width), round(height)])

    def blueness(self, *cell):
        """Above 0 where better, below where worse, about 0 where alike."""
        red, _, blue = self.color(*cell)
        return blue - red

    def hover(self, *cell):
        x, y = self.middle(*cell)
        places = self.places()
        self.page.mouse.move(places["x"] + x, places["y"] + y)
        self.page.evaluate("frame()")

    def numbers(self):
        return self.page.evaluate(NUMBERS)

    def choose(self, label, text):
        self.page.get_by_role("combobox", name=label, exact=True).select_option(text)

    def tick(self, name, *boxes):
        """Open a list, flip boxes, close it."""
        self.page.locator("summary", has_text=name).click()
        for box in boxes:
            self.page.get_by_role("group", name=name).get_by_role("checkbox", name=box).click()
        self.page.keyboard.press("Escape")

    def finer(self):
        self.page.get_by_text("More settings").click()

    def address(self):
        """What the address holds once it is written."""
        self.page.evaluate("shown.writeAddress()")
        return parse_qs(urlsplit(self.page.url).fragment)
