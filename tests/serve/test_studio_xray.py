"""The page of auctions in a browser: by mouse and by keyboard, with hostile texts, and without ads."""

import pytest

from broadmatch.ads import AdEngine, Inventory
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from tests.browser import NARROW, axe_in_both_themes, screenshot_like, serving
from tests.serve.shop import Sink
from tests.serve.studio_shop import LONG, RTL, SCRIPT, learned, make_studio

KEY = "00000000000000ff"


@pytest.fixture(scope="module")
def sink():
    return Sink()


@pytest.fixture(scope="module")
def studio(tmp_path_factory, sink):
    path = make_studio(tmp_path_factory.mktemp("xray") / "engine")
    with serving(make_app(ServeConfig(folder=path), LiveService(path), sink)) as address:
        yield address


def cells(page, column):
    return [text.strip() for text in page.locator(f"tbody tr td:nth-child({column})").all_inner_texts()]


def test_an_auction_is_taken_apart_by_mouse(page, studio, sink):
    page.goto(f"{studio}/#xray?key={KEY}")
    page.get_by_text("Type what somebody searches for").wait_for()
    page.get_by_role("button", name="red shoes").click()
    page.get_by_text("8 of 8 ads match “red shoes”").wait_for()
    rows = page.locator("[aria-label='Candidates'] tbody tr")
    assert rows.count() == 8 and cells(page.locator("[aria-label='Candidates']"), 1)[:4] == ["1", "2", "3", "–"]
    assert page.locator(".bars rect.score").count() == 8 and page.get_by_text("reserve", exact=True).count() == 1
    widths = [float(bar.get_attribute("width")) for bar in page.locator(".bars rect.score").all()]
    assert widths == sorted(widths, reverse=True)
    paid = [float(bar.get_attribute("width")) for bar in page.locator(".bars rect.paid").all()]
    assert 0 < paid[0] < widths[0] and paid[3] == 0
    assert "add up to" in page.locator("section.card").first.inner_text()
    rows.nth(4).get_by_role("button").first.click()
    page.locator("[aria-label='Candidates'] tr:nth-child(5) [aria-pressed=true]").wait_for()
    last = rows.nth(7).locator("input")
    last.fill("50")
    last.press("Tab")
    page.get_by_text("was out").wait_for()
    assert cells(page.locator("[aria-label='Candidates']"), 1)[0].startswith("1 was out")
    assert "bid.a" in page.url and page.url.count("key=") == 1
    page.reload()
    page.get_by_text("was out").wait_for()
    page.get_by_role("button", name="Undo the bid").click()
    page.get_by_text("was out").wait_for(state="detached")
    page.get_by_label("Name of the ad").fill("nobody")
    page.get_by_role("button", name="Ask").click()
    page.get_by_text("there is no ad 'nobody' in the index").wait_for()
    assert not sink.events


def test_terms_are_changed_by_keyboard_and_taken_back(page, studio):
    page.goto(f"{studio}/#xray?q=red+shoes&key={KEY}")
    table = page.locator("[aria-label='Candidates']")
    table.wait_for()
    page.get_by_label("Reserve (score)").focus()
    page.keyboard.press("Control+A")
    page.keyboard.type("100")
    page.get_by_text("score below the reserve").first.wait_for()
    assert set(cells(table, 1)) == {"– was 1", "– was 2", "– was 3", "–"} and "reserve=100" in page.url
    page.get_by_role("button", name="As served").press("Enter")
    page.get_by_text("was 1").first.wait_for(state="detached")
    slider = page.get_by_label("Squashing")
    for _ in range(20):
        slider.press("ArrowLeft")
    page.get_by_text("probability^0.00").wait_for()
    assert [float(text) for text in cells(table, 6)] == [2.75 - i / 4 for i in range(8)]
    page.get_by_label("Prices").select_option("vcg")
    page.get_by_text("what others lose by it").first.wait_for()


def test_texts_are_shown_as_texts_and_nothing_is_serious(page, studio):
    query = f"red shoes {SCRIPT} {RTL}"
    page.goto(f"{studio}/#xray?key={KEY}")
    page.get_by_label("Search").fill(query + LONG[:9000])
    page.get_by_text("ads match").wait_for()
    page.get_by_label("Search").fill(query)
    page.get_by_label("city").fill(SCRIPT)
    page.locator("[aria-label='Candidates']").get_by_text(SCRIPT).first.wait_for()
    assert page.locator("#page script, #page img").count() == 0
    assert not axe_in_both_themes(page)
    page.set_viewport_size(NARROW)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1280, "height": 800})
    page.goto(f"{studio}/#xray?q=nothing+like+it&key={KEY}")
    page.get_by_text("0 of 8 ads match").wait_for()
    page.goto(f"{studio}/#xray?q=red+shoes&key={KEY}&reserve=0.3")
    page.locator(".bars").wait_for()
    screenshot_like(page, "xray")


def test_a_server_without_ads_says_what_to_do(page, tmp_path):
    row = {"ad": "a", "page": "https://x.example/", "phrase": "x", "match": "broad", "bid": 1.0, "advertiser": "v"}
    engine = AdEngine.create(tmp_path / "e", Inventory.from_rows([row]), clicks=learned())
    with engine.index.change() as change:
        change.remove_ad("a")
    with serving(make_app(ServeConfig(folder=tmp_path / "e"), LiveService(tmp_path / "e"), Sink())) as address:
        page.goto(f"{address}/#xray?q=x")
        page.get_by_text("No ad bids on anything here").wait_for()
