"""GridViz in a browser: every sentence of McMahan et al., KDD 2013, §5.2, by mouse and by keyboard."""

import re

import numpy as np
import pytest

from tests.evaluate.grids import Shown, open_grid, planted_grid


@pytest.fixture
def shown(page):
    open_grid(page, planted_grid())
    return Shown(page)


# §5.2: "Metric values are represented by colored cells, with rows corresponding to the model name and the columns
# corresponding to each unique slicing of the data."
def test_rows_are_models_and_columns_are_slices(shown, page):
    assert shown.rows() == [
        (m, k) for m in ("control", "sparse", "dense") for k in ("LogLoss", "AucLoss", "Bias", "Gain")
    ]
    assert [t.strip() for t in page.locator(".grid-model > span:first-child").all_inner_texts()] == [
        "control",
        "sparse",
        "dense",
    ]
    assert page.locator(".grid-metric").all_inner_texts() == ["LogLoss", "AucLoss", "Bias", "Gain"] * 3
    assert shown.columns() == ["france", "germany", "italy", "spain"]
    # each is a cell of its own colour, and labels stand beside their rows
    assert len({tuple(shown.color("sparse", "LogLoss", name)) for name in ("france", "germany", "italy")}) == 3
    label = page.locator(".grid-metric").nth(4).bounding_box()
    places = shown.places()
    assert abs(label["y"] - places["y"] - places["rows"][4][2]) < 2


# "The column width connotes the importance of the slicing, and may be set to reflect quantities such as number of
# impressions or number of clicks."
@pytest.mark.parametrize(("width", "shares"), [
    ("impressions", {"france": 0.4, "germany": 0.3, "italy": 0.2}),
    ("clicks", {"france": 0.1, "germany": 0.1, "italy": 0.1}),
    ("all alike", {"france": 0.25, "germany": 0.25, "italy": 0.25}),
])  # fmt: skip
def test_columns_are_as_wide_as_they_weigh(shown, page, width, shares):
    shown.finer()
    shown.choose("Width of columns", width)
    places = shown.places()
    x, total = places["area"]
    y = round(next(top for a, b, top, _ in places["rows"] if (a, b) == ("sparse", "LogLoss"))) + 2
    # as painted: how many pixels of the row have the column's colour, but for the line of paper between columns
    line = [pixel[:3] for pixel in shown.pixels(x, y, total, 1)]
    for name, share in shares.items():
        assert line.count(shown.color("sparse", "LogLoss", name)) / total == pytest.approx(share, abs=0.004)
    by_size = {
        "impressions": ["france", "germany", "italy", "spain"],
        "clicks": ["spain", "france", "germany", "italy"],
    }
    assert shown.columns() == by_size.get(width, by_size["impressions"])


# "The color of the cell reflects the value of the metric compared to a chosen baseline, which enables fast scanning for
# outliers and areas of interest, as well as visual understanding of the overall performance."
def test_colours_are_changes_against_the_chosen_baseline(shown):
    cell = ("sparse", "LogLoss")
    assert shown.blueness(*cell, "france") > 60
    assert shown.blueness(*cell, "germany") < -60
    assert abs(shown.blueness(*cell, "italy")) < 8
    assert shown.color(*cell, "spain") in ([255, 255, 255], [201, 208, 216])  # not known: hatched, no colour
    assert all(abs(shown.blueness("control", k, name)) < 8 for k in ("LogLoss", "Bias") for name in ("france", "spain"))
    # where zero is best, it is the distance from zero that counts; where more is better, more is blue
    assert [np.sign(shown.blueness("sparse", "Bias", name)) for name in ("france", "germany")] == [-1, 1]
    assert abs(shown.blueness("sparse", "Bias", "italy")) < 8
    assert [np.sign(shown.blueness("sparse", "Gain", name)) for name in ("france", "germany")] == [1, -1]
    shown.choose("Baseline", "sparse")
    assert shown.blueness("control", "LogLoss", "france") < -60
    assert shown.blueness("control", "LogLoss", "germany") > 60
    assert abs(shown.blueness("sparse", "LogLoss", "france")) < 8
    assert shown.address()["baseline"] == ["sparse"]


# "When the columns are wide enough the numeric value of the selected metrics are shown."
def test_numbers_stand_where_there_is_room(shown, page):
    numbers = shown.numbers()
    assert numbers["sparse LogLoss france"] == "−10.0%"
    assert numbers["sparse LogLoss germany"] == "+10.0%"
    assert numbers["sparse Bias france"] == "+0.20"
    assert numbers["sparse Gain germany"] == "−10.0%"
    assert numbers["control LogLoss france"] == "0.5000"
    assert "sparse LogLoss spain" not in numbers  # not known
    assert numbers["sparse LogLoss all"] == "0.000%"
    shown.tick("Slicing", "topic", "country")
    assert shown.columns()[0] == "topic 19"
    narrow = {name for name in shown.numbers() if "topic" in name}
    page.set_viewport_size({"width": 700, "height": 800})
    shown.places()
    assert not {name for name in shown.numbers() if "topic" in name}
    assert narrow
    page.get_by_role("button", name="Zoom in").click()
    page.get_by_role("button", name="Zoom in").click()
    shown.places()
    assert {name for name in shown.numbers() if "topic" in name}
    shown.finer()
    shown.choose("Number in cells", "value")
    shown.choose("Order", "name")
    page.set_viewport_size({"width": 1280, "height": 800})
    shown.places()
    assert shown.numbers()["sparse LogLoss topic 1"] in ("0.50", "0.5020")
    # they are painted, dark on light
    x, y = shown.middle("sparse", "LogLoss", "topic 1")
    assert sum(sum(pixel[:3]) < 200 for pixel in shown.pixels(x - 14, y - 7, 28, 14)) > 20


# "Multiple metrics may be selected; these are shown together in each row."
def test_metrics_and_models_are_chosen_by_ticking(shown, page):
    shown.tick("Metrics", "AucLoss", "Gain")
    assert shown.rows() == [(m, k) for m in ("control", "sparse", "dense") for k in ("LogLoss", "Bias")]
    assert shown.address()["metric"] == ["LogLoss", "Bias"]
    # by keyboard; the last one stays
    page.locator("summary", has_text="Models").focus()
    page.keyboard.press("Enter")
    for _ in range(2):
        page.keyboard.press("Tab")
        page.keyboard.press("Space")
    page.keyboard.press("Tab")
    page.keyboard.press("Space")
    assert page.get_by_role("group", name="Models").get_by_role("checkbox", name="dense").is_checked()
    page.keyboard.press("Escape")
    assert shown.rows() == [("dense", "LogLoss"), ("dense", "Bias")]


# "A detailed report for a given cell pops up when the user mouse overs over the cell."
def test_a_report_pops_up_under_the_mouse_and_under_the_cursor(page):
    grid = planted_grid(hours=6)
    object.__setattr__(grid, "reliability_slices", np.array([1], np.int32))
    object.__setattr__(grid, "reliability", np.tile(np.linspace(0, 0.2, 10, dtype=np.float32), (1, 3, 3, 1)))
    open_grid(page, grid)
    shown = Shown(page)
    assert not shown.report.is_visible()
    shown.hover("sparse", "LogLoss", "germany")
    text = shown.report.inner_text()
    assert "germany" in text
    assert "3,000 impressions (30.0 %)" in text
    assert "100 clicks" in text
    assert "sparse against control" in text
    row = shown.report.get_by_role("row").filter(has_text="LogLoss").inner_text().split("\t")
    # the interval reaches 0.01 below and 0.02 above; the difference is five standard errors of 0.01
    assert [cell.strip() for cell in row] == [
        "LogLoss, nats",
        "+10.0%",
        "< 0.0001 significant",
        "0.5500",
        "0.5400 … 0.5700",
        "0.5000",
        "0.050 ± 0.020",
    ]
    assert "Reliability is kept for the largest slices only" in text
    assert "Change of LogLoss by period" in text
    shown.hover("sparse", "Gain", "france")
    assert shown.report.get_by_role("img", name="Click rate by predicted click rate").is_visible()
    assert "active" in shown.report.get_by_role("row").filter(has_text="Gain").get_attribute("class")
    page.mouse.move(5, 5)
    assert not shown.report.is_visible()
    # by keyboard: the field takes the focus, arrows move a cursor, Enter keeps the report, Escape closes it
    shown.field.focus()
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    assert "germany" in shown.report.inner_text()
    assert "AucLoss" in shown.report.locator("tr.active").inner_text()
    assert re.match(
        r"germany, sparse, AucLoss 0\.2500, 0\.000%; 3,000 impressions",
        page.locator(".grid-view [role=status]").inner_text(),
    )
    page.keyboard.press("Escape")
    assert not shown.report.is_visible()
    page.keyboard.press("Home")
    assert "all" in shown.report.locator("p").first.inner_text()
    page.keyboard.press("Enter")
    page.mouse.move(5, 5)
    assert shown.report.is_visible()
    shown.report.get_by_role("button", name="Close the report").click()
    assert not shown.report.is_visible()


# "… an interactive interface that allows the user to select different slicing groups via a dropdown menu, or via a
# regular expression on the slicing name."
def test_slicings_come_from_a_menu_and_a_regular_expression(shown, page):
    shown.tick("Slicing", "topic")
    assert len(shown.columns()) == 24
    assert shown.columns()[:5] == ["france", "germany", "italy", "spain", "topic 19"]
    places = {name: (left, right) for name, left, right in shown.places()["columns"]}
    assert places["topic 19"][0] - places["spain"][1] > 4  # groups stand apart
    expression = page.get_by_label("Slices by name")
    expression.fill("^topic 1|an")
    assert sorted(shown.columns()) == sorted(["france", "germany", *(f"topic {i}" for i in (1, *range(10, 20)))])
    # one that is not whole says so, and the last whole one holds
    expression.fill("^topic (1|")
    assert "Unterminated group" in page.get_by_role("alert").inner_text()
    assert expression.get_attribute("aria-invalid") == "true"
    assert len(shown.columns()) == 13
    expression.fill("NOTHING LIKE IT")
    assert page.get_by_text("No slice is left").is_visible()
    expression.fill("(?i)")
    assert page.get_by_role("alert").inner_text()
    expression.fill("TOPIC 3$")
    assert shown.columns() == ["topic 3"]
    assert shown.address() == {"slicing": ["country", "topic"], "find": ["TOPIC 3$"]}


# "Columns may be sorted …"
def test_columns_are_sorted(shown):
    def ordered(by, row=None):
        shown.choose("Order", by)
        if row:
            shown.choose("… of row", row)
        return shown.columns()

    assert ordered("size, largest first") == ["france", "germany", "italy", "spain"]
    assert ordered("size, smallest first") == ["spain", "italy", "germany", "france"]
    assert ordered("name") == ["france", "germany", "italy", "spain"]
    assert ordered("change, worst first", "LogLoss of sparse") == ["germany", "italy", "france", "spain"]
    assert ordered("change, best first") == ["france", "italy", "germany", "spain"]
    assert ordered("change, largest first", "Bias of sparse") == ["france", "germany", "italy", "spain"]
    assert ordered("significance", "Gain of sparse") == ["france", "germany", "italy", "spain"]
    shown.tick("Slicing", "topic", "country")
    assert ordered("name")[:12] == [f"topic {i}" for i in range(12)]  # digits are numbers
    assert ordered("change, largest first", "LogLoss of sparse") == [f"topic {i}" for i in range(19, -1, -1)]


# "… and the dynamic range of the color scale modified to suite the data at hand."
def test_the_range_of_colours_is_set_by_hand_or_by_quantile(shown, page):
    bound = page.get_by_label("Range of LogLoss in %")
    assert float(bound.input_value()) == 10  # 95 % of the area
    assert shown.color("sparse", "LogLoss", "france") == [8, 64, 126]  # the blue end
    bound.fill("40")
    bound.press("Enter")
    assert shown.color("sparse", "LogLoss", "france") == [207, 226, 241]  # a quarter of the way to it
    bound.fill("1")
    bound.press("Enter")
    assert shown.color("dense", "LogLoss", "italy") == [127, 47, 4]  # 2 % is beyond the end
    assert shown.address()["range"] == ["LogLoss:0.01"]
    page.get_by_role("button", name="Range of LogLoss by quantile again").click()
    assert float(bound.input_value()) == 10
    page.get_by_label("Range of Bias", exact=True).fill("0.4")
    page.keyboard.press("Enter")
    assert shown.color("sparse", "Bias", "france") == [240, 160, 90]  # half the way to the orange end
    shown.finer()
    shown.tick("Slicing", "topic", "country")
    shown.choose("Colours reach over", "all of it")
    assert float(bound.input_value()) == pytest.approx(7.6)  # topic 19
    shown.choose("Colours reach over", "90 % of the area")
    assert float(bound.input_value()) < 7.2
