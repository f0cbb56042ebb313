"""The pages of models and of the market in a browser, with everything there and with nothing there."""

import pytest
from playwright.sync_api import expect

from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from tests.browser import NARROW, axe_in_both_themes, screenshot_like, serving
from tests.serve.shop import Sink, make_folder
from tests.serve.studio_shop import ADDRESS, EMOJI, SCRIPT, add_loop, make_studio


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_studio(tmp_path_factory.mktemp("models") / "engine")


@pytest.fixture(scope="module")
def studio(folder):
    with serving(make_app(ServeConfig(folder=folder), LiveService(folder), Sink())) as address:
        yield address


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A server with nothing but ads."""
    path = make_folder(tmp_path_factory.mktemp("bare") / "engine")
    with serving(make_app(ServeConfig(folder=path), LiveService(path), Sink())) as address:
        yield address


def plain(page):
    """Hostile texts are texts, nothing serious is found, and a phone shows it all."""
    assert page.locator("#page script, #page img").count() == 0
    assert not axe_in_both_themes(page)
    page.set_viewport_size(NARROW)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1280, "height": 800})


def test_what_is_served_and_its_hours(page, studio):
    page.goto(f"{studio}/#models")
    page.get_by_text(f"its log loss is higher {SCRIPT}").wait_for()
    assert page.get_by_text("held back").count() == 1 and page.get_by_role("cell", name="initial").count() == 1
    plain(page)
    page.get_by_role("link", name="By hour").press("Enter")
    drawn = page.locator(".chart > svg")
    drawn.wait_for()
    assert page.locator(".chart polyline").count() == 2
    drawn.focus()
    for _ in range(3):
        page.keyboard.press("ArrowRight")
    tip = page.locator(".tip")
    assert "served: 0.34" in tip.inner_text() and "11-18 03:00" in tip.inner_text()
    page.keyboard.press("Escape")
    assert tip.is_hidden()
    drawn.hover(position={"x": 60, "y": 100})
    expect(tip).to_contain_text("served: 0.4")
    page.get_by_text("Numbers").click()
    expect(page.locator("[aria-label^='Numbers'] tbody tr")).to_have_count(10)
    page.get_by_role("combobox", name="By", exact=True).select_option("city")
    page.get_by_label("Slice").select_option(SCRIPT)
    page.locator(".chart > svg").wait_for()
    assert "slice=%3Cscript" in page.url
    plain(page)
    page.get_by_label("Figure").select_option("Bias")
    page.wait_for_url("**metric=Bias**")
    page.locator(".chart polyline").nth(1).wait_for(state="attached")  # an hour is missing: two pieces


def test_how_right_it_is_and_what_it_weighs(page, studio):
    page.goto(f"{studio}/#models?tab=reliability")
    page.get_by_role("combobox", name="By", exact=True).select_option("city")
    slices = page.locator("[aria-label='Slices'] tbody tr")
    slices.get_by_role("cell", name=SCRIPT).wait_for()
    assert page.locator(".chart").count() == 2 and page.locator(".diagonal").count() == 2
    assert slices.count() == 4
    plain(page)
    screenshot_like(page, "reliability")
    page.goto(f"{studio}/#models?tab=features")
    page.get_by_label("Signal").select_option("city")
    features = page.locator("[aria-label='Features'] tbody tr")
    features.nth(3).wait_for(state="detached")  # all signals were there before, with such a cell too
    features.get_by_role("cell", name=SCRIPT).wait_for()
    assert features.count() == 3
    plain(page)


def test_a_bad_phrase_is_followed_and_excluded_with_undo(page, studio, folder):
    page.goto(f"{studio}/#models?tab=trace")
    page.get_by_label("Page", exact=True).fill(ADDRESS)
    page.get_by_role("button", name="Recommend").press("Enter")
    phrase = page.get_by_role("button", name=EMOJI)
    phrase.press("Enter")
    page.get_by_text(f"Behind “{EMOJI}”").wait_for()
    pages = page.locator("[aria-label='Training pages'] tbody tr")
    assert pages.count() >= 1 and all("taxi" in text for text in pages.all_inner_texts())
    page.locator("summary", has_text="leaves").click()
    page.locator("[aria-label='Leaves'] tbody tr").first.wait_for()
    plain(page)
    page.get_by_role("button", name="Exclude it on this page").click()
    page.get_by_role("cell", name=EMOJI, exact=True).wait_for()
    phrase.wait_for(state="detached")
    assert (folder / "excluded.json").is_file()
    page.locator("section.card").get_by_text("it is excluded").first.wait_for()
    page.locator("#toasts").get_by_role("button", name="Undo").click()
    phrase.wait_for()
    page.get_by_role("button", name="Exclude it everywhere").click()
    page.get_by_role("cell", name="everywhere").wait_for()
    page.reload()
    page.get_by_role("button", name="Bring back").press("Enter")
    phrase.wait_for()
    assert page.get_by_role("button", name="Bring back").count() == 0


def test_arms_of_the_market(page, studio, folder):
    page.goto(f"{studio}/#market")
    page.locator(".chart .band").nth(1).wait_for(state="attached")
    assert page.locator(".chart polyline").count() == 2 and page.locator("[aria-label='Arms'] tbody tr").count() == 2
    assert page.locator("[aria-label='Arms'] tbody tr").nth(1).inner_text().split("\t")[3] == "110.0 %"
    plain(page)
    screenshot_like(page, "market")
    page.get_by_label("Measure").select_option("regret")
    page.locator(".chart polyline").nth(3).wait_for(state="attached")  # day 2 is not known: two pieces an arm
    page.locator(".chart > svg").focus()
    page.keyboard.press("End")
    assert "day: 4" in page.locator(".tip").inner_text() and "0.1 (0 to 0.2)" in page.locator(".tip").inner_text()
    add_loop(folder, arms=("own",), name="one")
    page.reload()
    page.get_by_label("Run").select_option("one")
    page.locator("[aria-label='Arms'] tbody tr").nth(1).wait_for(state="detached")
    assert page.locator("[aria-label='Arms'] tbody tr").count() == 1 and "run=one" in page.url


def test_what_is_not_there_says_what_brings_it(page, bare, troubles):
    said = {
        "models": "Nothing was published yet", "models?tab=curves": "No hour of traffic", "market": "No loop is here",
        "models?tab=reliability": "there is no event log", "models?tab=features": "there is no event log",
        "judge": "There is no sheet to judge", "models?tab=trace&page=x": "No phrase model is served here",
    }  # fmt: skip
    for name, text in said.items():
        page.goto(f"{bare}/#{name}")
        page.get_by_text(text).first.wait_for()
    assert all("404" in one for one in troubles)  # the browser reports what was answered with 404
    troubles.clear()
