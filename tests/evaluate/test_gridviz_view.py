"""GridViz in a browser: what we add to the paper: significance, pixels, zoom, time, the address, table, picture."""

from urllib.parse import parse_qs

import numpy as np
import pytest
from scipy import stats

from broadmatch.evaluate.gridviz import GridGroup
from tests.browser import NARROW, axe, axe_in_both_themes, screenshot_like
from tests.evaluate.grids import Shown, make_grid, open_grid, planted_grid


@pytest.fixture
def shown(page):
    open_grid(page, planted_grid())
    return Shown(page)


def test_significance_is_benjamini_and_hochbergs(page):
    rng, S = np.random.default_rng(5), 400
    grid = make_grid(
        ["all", *map(str, range(S - 1))], (GridGroup("all", 0, 1), GridGroup("n", 1, S - 1)), [1000] * S, [10] * S
    )
    z = rng.normal(size=(2, S)) * np.where(np.arange(S) % 8, 1, 3)
    z[1, 5] = np.nan
    grid.value[0, 1:] = 0.5 + 0.01 * z
    open_grid(page, grid, "metric=LogLoss")
    marked = page.evaluate("() => Array.from(shown.scene.cells.marked)")
    p = 2 * stats.norm.sf(np.abs(z))
    family = p[np.isfinite(p)]
    expected = np.zeros(p.shape, bool)
    expected[np.isfinite(p)] = stats.false_discovery_control(family) <= 0.05
    assert 5 < expected.sum() < 200
    order = page.evaluate("() => Array.from(shown.scene.columns.columns)")
    assert np.array_equal(np.array(marked, bool).reshape(3, S)[1:], expected[:, order])
    assert not any(marked[:S])
    # the family is what is shown: of ten cells each has a better chance
    page.get_by_label("Slices by name").fill("^[0-9]$")
    page.evaluate("frame()")
    order = page.evaluate("() => Array.from(shown.scene.columns.columns)")
    few = p[:, order]
    expected = np.zeros(few.shape, bool)
    expected[np.isfinite(few)] = stats.false_discovery_control(few[np.isfinite(few)]) <= 0.05
    assert np.array_equal(
        np.array(page.evaluate("() => Array.from(shown.scene.cells.marked)"), bool).reshape(3, -1)[1:], expected
    )
    # marked cells are underlined
    shown = Shown(page)
    places = shown.places()
    top, height = places["rows"][1][2:]
    for j, (_, left, right) in enumerate(places["columns"]):
        ink = shown.pixels((left + right) / 2, top + height - 2, 1, 1)[0][:3]
        assert (sum(ink) < 200) == expected[0, j]


def test_no_outlier_hides_below_a_pixel(page):
    n = 20_000
    slices, groups = ["all", *(f"s{i}" for i in range(n))], (GridGroup("all", 0, 1), GridGroup("n", 1, n))
    grid = make_grid(slices, groups, [10**6, *range(2 * n, n, -1)], [10] * (n + 1))
    grid.value[0, 1, 1 + n // 2] = 0.5 * 1.5
    grid.value[0, 1, 2 + n // 2 :] = 0.5 * 0.995
    open_grid(page, grid, "metric=LogLoss&range=LogLoss:0.5")
    shown = Shown(page)

    def reddest():
        places = shown.places()
        line = shown.pixels(places["area"][0], places["rows"][1][2] + 2, places["area"][1], 1)
        return max(red - blue for red, _, blue, _ in line)

    assert reddest() < 30  # one of twenty slices of its pixel
    shown.finer()
    shown.choose("Narrower than a pixel", "largest change")
    assert reddest() > 100
    # small slices are left out on request
    page.get_by_label("Least impressions").fill(str(n + 11))
    assert shown.count() == n - 10
    assert "10 left out" in page.locator(".grid-said").inner_text()


def test_zoom_and_pan_by_wheel_keys_mouse_and_fingers(shown, page):
    def view():
        return page.evaluate("() => [shown.state.from, shown.state.to]")

    shown.hover("sparse", "LogLoss", "germany")
    page.mouse.wheel(0, -400)
    page.evaluate("frame()")
    start, end = view()
    assert start > 0.1
    assert 0.5 < end < 0.9
    assert shown.places()["columns"][2][1] < shown.middle("sparse", "LogLoss", "germany")[0]
    x, y = 900, shown.places()["y"] + shown.middle("sparse", "LogLoss", "germany")[1]
    page.mouse.move(x, y)
    page.mouse.down()
    page.mouse.move(x - 100, y, steps=3)
    page.mouse.up()
    moved, _ = view()
    width = shown.places()["area"][1]
    assert moved - start == pytest.approx(100 / width * (end - start), rel=0.1)
    assert not page.evaluate("shown.keptCell")  # a drag is no click
    shown.field.focus()
    page.keyboard.press("Shift+ArrowLeft")
    assert view()[0] < moved
    page.keyboard.press("0")
    assert view() == [0, 1]
    page.keyboard.press("End")
    page.keyboard.press("+")
    assert view()[1] > 0.95
    assert view()[0] > 0.2
    page.keyboard.press("-")
    page.get_by_role("button", name="Show all columns").click()
    assert view() == [0, 1]
    pinch = """async () => {
      const canvas = shown.view.canvas;
      const box = canvas.getBoundingClientRect();
      canvas.setPointerCapture = () => {};
      const at = (id, x) => ({ pointerId: id, clientX: box.left + x, clientY: box.top + 150, bubbles: true });
      const send = (type, id, x) => canvas.dispatchEvent(new PointerEvent(type, at(id, x)));
      send("pointerdown", 1, 400); send("pointerdown", 2, 500);
      for (let i = 1; i <= 10; i++) { send("pointermove", 1, 400 - 10 * i); send("pointermove", 2, 500 + 10 * i); }
      send("pointerup", 1, 300); send("pointerup", 2, 600);
    }"""
    page.evaluate(pinch)
    start, end = view()
    assert end - start == pytest.approx(1 / 3, rel=0.15)


def test_time_is_chosen_on_a_bar_and_seen_in_small_grids(page):
    grid = planted_grid(hours=48)
    grid.period_value[24:, 0, 1, 1] = 0.5 * 1.2  # france on the second day
    object.__setattr__(grid, "value", grid.period_value.mean(axis=0, dtype=np.float64).astype(np.float32))
    open_grid(page, grid, "metric=LogLoss")
    shown = Shown(page)
    assert shown.numbers()["sparse LogLoss france"] == "+5.0%"
    start = page.get_by_label("From period")
    start.focus()
    for _ in range(24):
        page.keyboard.press("ArrowRight")
    assert "2026-03-02 00:00 to 2026-03-03 00:00 UTC" in page.locator(".grid-time").inner_text()
    shown.places()
    assert shown.numbers()["sparse LogLoss france"] == "+20.0%"
    assert shown.address()["start"] == ["24"]
    # 24 periods are independent: 0.1 / (0.05 / √24)
    z = page.evaluate("() => shown.scene.cells.z[shown.scene.columns.columns.length + 1]")
    assert z == pytest.approx(0.1 / 0.05 * np.sqrt(24), rel=0.05)
    page.get_by_role("button", name="Whole time").click()
    shown.finer()
    shown.choose("Time", "a grid a day")
    panels = page.locator(".grid-panel")
    assert [text.split("\n")[0] for text in panels.all_inner_texts()] == ["2026-03-01", "2026-03-02"]
    color = """(at) => {
      const context = document.querySelectorAll(".grid-panel canvas")[at].getContext("2d");
      return Array.from(context.getImageData(4, 2, 1, 1).data.slice(0, 3));
    }"""
    first, second = (page.evaluate(color, at) for at in (0, 1))
    assert first[2] > first[0]
    assert second[2] < second[0]
    shown.choose("Time", "a grid an hour of the day")
    assert panels.count() == 24
    panels.nth(3).focus()
    page.keyboard.press("Enter")
    assert "3:00 to 4:00 of each day" in page.locator(".grid-time").inner_text()
    shown.places()
    assert shown.numbers()["sparse LogLoss france"] == "+5.0%"
    assert shown.address()["hour"] == ["3"]


def test_the_address_is_the_state_of_the_view(page):
    wanted = (
        "slicing=topic&metric=Bias&metric=LogLoss&model=dense&model=control&baseline=dense&find=1"
        "&width=clicks&sort=worse&row=1&floor=255&pixel=largest&number=value&quantile=99&range=Bias%3A0.25&from=0.25&to=0.5"
    )
    open_grid(page, planted_grid(hours=4), f"{wanted}&start=1&end=3")
    shown = Shown(page)
    assert shown.address() == parse_qs(f"{wanted}&start=1&end=3")
    assert shown.rows() == [("dense", "Bias"), ("dense", "LogLoss"), ("control", "Bias"), ("control", "LogLoss")]
    page.evaluate("() => { location.hash = 'slicing=topic' }")
    page.wait_for_function("() => shown.state.find === '' && shown.scene.columns.columns.length === 21")
    # what makes no sense is as at the start
    open_grid(
        page,
        planted_grid(),
        "slicing=x&baseline=y&sort=toString&width=__proto__&from=0.9&to=0.1&row=-7&range=Bias:x&floor=-1&start=9&hour=99&find=(",
    )
    assert shown.columns() == ["france", "germany", "italy", "spain"]
    assert shown.address() == {"find": ["("]}


def test_the_table_has_what_the_grid_shows(shown, page):
    shown.tick("Slicing", "topic", "country")
    shown.tick("Metrics", "AucLoss", "Bias", "Gain")
    shown.choose("Order", "name")
    summary = page.locator("summary", has_text="As a table")
    summary.focus()
    page.keyboard.press("Enter")
    table = page.get_by_role("table", name="Three models")
    assert (
        " ".join(table.locator("thead").inner_text().split())
        == "Slice Impressions Clicks LogLoss control LogLoss sparse LogLoss dense"
    )
    rows = [[cell.strip() for cell in row.split("\t")] for row in table.locator("tbody tr").all_inner_texts()]
    assert rows[0] == ["all", "10,000", "1,000", "0.5000", "0.000%", "0.000%"]
    assert rows[6] == ["topic 5", "505", "25", "0.5000", "+2.0%", "0.000%"]
    assert rows[20][4] == "+7.6%*"
    assert page.get_by_role("button", name="Next").is_disabled()
    page.get_by_label("Slices by name").fill("1")
    assert table.locator("tbody tr").count() == 12


def test_a_picture_is_saved(shown, page):
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save as PNG").click()
    assert saved.value.suggested_filename == "Three-models.png"
    content = saved.value.path().read_bytes()
    assert content.startswith(b"\x89PNG")
    width, height = (int.from_bytes(content[at : at + 4], "big") for at in (16, 20))
    assert width > 1000
    assert height > 400


HOSTILE = [
    "<script>window.hurt = 1</script>", '"><img src=x onerror="window.hurt = 1">', "\u202eright to left\u202c עברית",
    "😀" * 30, "x" * 10_000, "", "a\nb\t\0c", "${alert(1)}", "=1+1", "__proto__", "constructor",
]  # fmt: skip


def test_hostile_names_are_text(page):
    n = len(HOSTILE)
    grid = make_grid(
        ["all", *HOSTILE],
        (GridGroup("<b>all</b>", 0, 1), GridGroup('"><svg onload=alert(1)>', 1, n)),
        [1000 * n] + [1000] * n,
        [10] * (n + 1),
    )
    object.__setattr__(grid, "models", ("<i>control</i>", "'; drop", "__proto__"))
    object.__setattr__(grid, "title", "<script>window.hurt = 1</script>" * 3)
    object.__setattr__(grid, "notes", ("<img src=x onerror=alert(1)>",))
    open_grid(page, grid)
    shown = Shown(page)
    page.locator("summary", has_text="As a table").click()
    shown.field.focus()
    for name in HOSTILE:
        page.keyboard.press("ArrowRight")
        assert shown.report.locator("p").first.inner_text()
        if name.startswith("<script>"):
            assert shown.report.locator("p").first.inner_text() == name
    page.keyboard.press("Escape")
    assert page.evaluate("window.hurt") is None
    assert page.locator("main :is(script, img, svg, b, i)").count() == 0
    page.set_viewport_size(NARROW)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    shown.tick("Slicing", "svg")
    assert axe(page) == []


def test_it_is_accessible_and_looks_as_it_did(page):
    open_grid(page, planted_grid(hours=4), "slicing=country&slicing=topic&metric=LogLoss&metric=Bias")
    shown = Shown(page)
    screenshot_like(page, "gridviz-light")
    shown.finer()
    page.locator("summary", has_text="As a table").click()
    shown.field.focus()
    page.keyboard.press("Enter")
    page.locator("summary", has_text="Slicing").focus()
    page.keyboard.press("Enter")
    assert shown.report.is_visible()
    assert page.get_by_role("checkbox", name="country").is_visible()
    assert axe_in_both_themes(page) == []
    page.keyboard.press("Escape")
    page.get_by_role("button", name="Close the report").click()
    page.emulate_media(color_scheme="dark")
    page.set_viewport_size(NARROW)
    page.get_by_text("More settings").click()
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    page.evaluate("scrollTo(0, 0)")
    shown.places()
    screenshot_like(page, "gridviz-narrow-dark")


def test_dark_is_dark(page):
    page.emulate_media(color_scheme="dark")
    open_grid(page, planted_grid())
    shown = Shown(page)
    assert sum(shown.color("control", "LogLoss", "france")) < 200
    page.evaluate("() => { document.documentElement.dataset.theme = 'light' }")
    page.wait_for_function("() => shown.view.shades.theme === 'light'")
    assert sum(shown.color("control", "LogLoss", "france")) > 600
    assert shown.blueness("sparse", "LogLoss", "france") > 60


def test_frames_are_fast(page):
    """A generous bound on a small version of benchmarks/gridviz_view.py: the best of many, as others work too."""
    n = 10_000
    grid = make_grid(
        ["all", *(f"s{i}" for i in range(n))],
        (GridGroup("all", 0, 1), GridGroup("n", 1, n)),
        [10**6, *range(2 * n, n, -1)],
        [10] * (n + 1),
    )
    grid.value[:] += np.random.default_rng(0).normal(0, 0.01, grid.value.shape).astype(np.float32)
    open_grid(page, grid)
    frame = "(i) => { shown.state.from = i / 100; shown.view.drawNow(); return shown.view.took; }"
    took = [page.evaluate(frame, i) for i in range(30)]
    assert min(took) < 16, took
