"""The planner in a real browser: by mouse and by keyboard, with everything, with little, and with hostile texts."""

import csv
import io
from pathlib import Path

import openpyxl
import pytest
from playwright.sync_api import expect

from broadmatch.serve.api_keys import ApiKeys, add_key
from tests.browser import NARROW, WIDE, axe, axe_in_both_themes, screenshot_like, serving
from tests.serve.plan_shop import ADDRESS, TAXI, make_plan_folder, plan_app

HOSTILE = "<script>window.bad = 1</script> \"><img src=x onerror='window.bad = 1'> \u202eרע\u202c 🍕 " + "taxi " * 2000
NO_TOUR = "localStorage.setItem('broadmatch-tour', 'seen')"


@pytest.fixture(scope="module")
def studio(tmp_path_factory):
    with serving(plan_app(make_plan_folder(tmp_path_factory.mktemp("studio") / "engine"))) as address:
        yield address


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    folder = make_plan_folder(tmp_path_factory.mktemp("bare") / "engine", model=False, facts=False)
    with serving(plan_app(folder)) as address:
        yield address


def open_planner(page, address, hash_="#planner"):
    page.add_init_script(NO_TOUR)
    page.goto(f"{address}/{hash_}")
    expect(page.get_by_role("heading", name="Planner", level=1)).to_be_visible()
    return page


def taken(page):
    return page.locator("tr.taken button.phrase").all_inner_texts()


def wait_for_plan(page):
    expect(page.locator("table.plan")).to_be_visible()
    expect(page.locator(".results[aria-busy]")).to_have_count(0)


def test_phrases_come_as_one_types_and_are_chosen_by_mouse(page, studio):
    open_planner(page, studio)
    expect(page.get_by_text("Or try one of the 2 known pages")).to_be_visible()
    page.get_by_label("Page", exact=True).fill("order an airport taxi")
    wait_for_plan(page)
    expect(page.get_by_text("Read as plain text.")).to_be_visible()
    assert "text=order+an+airport+taxi" in page.url
    airport = page.locator("tr", has=page.get_by_role("button", name="airport taxi", exact=True))
    for text in ("learned", "extracted"):
        expect(airport.get_by_text(text)).to_be_visible()
    expect(airport.locator("svg.spark")).to_have_attribute("aria-label", "2 days from 2024-03-01: from 3 to 3")
    # The slider takes fewer phrases for more precision; a hand-made choice stands above it.
    slider = page.get_by_label("Expected precision, at least")
    slider.fill("0.95")
    few = taken(page)
    slider.fill("0")
    everything = taken(page)
    assert 0 < len(few) < len(everything) == page.locator("button.phrase").count()
    page.get_by_label("Take airport taxi", exact=True).uncheck()
    assert "airport taxi" not in taken(page)
    expect(page.locator(".summary")).to_contain_text(f"of {len(everything)}")
    # A bid brings what the log lets expect, and what the log has not is absent.
    clicks, bid = (
        airport.locator("td[data-label='Clicks a month']"),
        page.get_by_label("Bid on airport taxi", exact=True),
    )
    bid.fill("0.01")
    expect(clicks).to_have_text("0.0")
    bid.fill("9")
    assert float(clicks.inner_text()) > 1
    unknown = page.locator("tr", has=page.get_by_role("button", name="minicab", exact=True))
    expect(unknown.locator("td[data-label='Clicks a month']")).to_have_text("–")
    expect(unknown.locator("td[data-label='Searches a month']")).to_have_text("–")
    # Why: words marked on the page, and the training pages behind it.
    page.get_by_role("button", name="airport taxi", exact=True).click()
    expect(page.get_by_text("Words of the page that led to it")).to_be_visible()
    expect(page.locator(".page-text mark").first).to_be_visible()
    expect(page.get_by_text("Training pages like this one that had it")).to_be_visible()
    assert axe_in_both_themes(page) == []


def test_by_keyboard_from_the_first_key_to_the_file(page, studio):
    open_planner(page, studio)
    page.keyboard.press("/")
    expect(page.get_by_label("Page", exact=True)).to_be_focused()
    page.keyboard.type("airport taxi")
    wait_for_plan(page)
    page.get_by_label("Phrases you never want").focus()
    page.keyboard.type("cheap\n")
    expect(page.get_by_text("left out that you never want")).to_be_visible()
    assert not page.get_by_role("button", name="cheap taxi", exact=True).count()
    # Taken away by mistake: undo brings it back.
    page.get_by_role("button", name="Remove cheap").press("Enter")
    expect(page.get_by_role("button", name="cheap taxi", exact=True)).to_be_visible()
    page.get_by_role("button", name="Undo").press("Enter")
    expect(page.get_by_role("button", name="cheap taxi", exact=True)).to_have_count(0)
    page.get_by_label("Phrases you have").focus()
    page.keyboard.type("taxi fare,")
    expect(page.get_by_role("button", name="taxi fare", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Never airport taxi").press("Enter")
    expect(page.get_by_role("button", name="airport taxi", exact=True)).to_have_count(0)
    page.get_by_role("button", name="Undo").last.press("Enter")
    expect(page.get_by_role("button", name="airport taxi", exact=True)).to_be_visible()
    page.get_by_role("button", name="Edit airport taxi").press("Enter")
    page.keyboard.type("=airport taxi now")
    page.keyboard.press("Enter")
    expect(page.get_by_role("button", name="=airport taxi now", exact=True)).to_be_visible()
    page.get_by_label("Match type of airport taxi").select_option("exact")
    with page.expect_download() as file:
        page.get_by_role("button", name="Google Ads Editor").press("Enter")
    rows = list(csv.reader(io.StringIO(Path(file.value.path()).read_text("utf-8"))))
    assert ["airport taxi now", "Exact"] in [row[2:4] for row in rows] and rows[-1][3] == "Campaign Negative Broad"
    with page.expect_download() as file:
        page.get_by_role("button", name="Excel").press("Enter")
    assert file.value.suggested_filename == "plan.xlsx"
    sheet = openpyxl.load_workbook(io.BytesIO(Path(file.value.path()).read_bytes())).active
    assert "=airport taxi now" in [row[0].value for row in sheet.iter_rows()]
    # All of it is there after a reload.
    page.reload()
    wait_for_plan(page)
    expect(page.get_by_role("button", name="=airport taxi now", exact=True)).to_be_visible()


def test_known_pages_files_and_hostile_texts(page, studio, troubles):
    open_planner(page, studio)
    page.get_by_role("button", name=ADDRESS).click()
    wait_for_plan(page)
    expect(page.get_by_text("Read as the address of a known page.")).to_be_visible()
    expect(page.locator(".page-text")).to_contain_text("Order a taxi to the airport, day & night.")
    page.locator("input[type=file]").set_input_files(
        {"name": "big.html", "mimeType": "text/html", "buffer": (TAXI + "<p>taxi words</p>" * 290_000).encode()}
    )
    expect(page.get_by_text("big.html · 4.93 MB")).to_be_visible()
    wait_for_plan(page)
    expect(page.get_by_text("The page goes on; all of it counts.")).to_be_visible(timeout=30_000)
    page.get_by_role("button", name="Remove big.html").click()
    expect(page.get_by_text("Paste a page, its address, or just a few words")).to_be_visible()
    page.get_by_label("Page", exact=True).fill(HOSTILE)
    page.get_by_label("Phrases you have").fill(HOSTILE[:150])
    page.get_by_label("Phrases you have").press("Enter")
    wait_for_plan(page)
    page.locator("button.phrase").first.click()
    expect(page.get_by_text("Why “")).to_be_visible()
    assert page.evaluate("window.bad") is None and page.locator("main img, main script").count() == 0
    width = page.evaluate("document.documentElement.scrollWidth")
    assert width <= WIDE["width"]
    page.get_by_label("Page", exact=True).fill("https://nobody.example/")
    expect(page.get_by_text("No page of the address")).to_be_visible()
    assert len(troubles) == 1 and "404" in troubles.pop()


def test_a_new_text_ends_the_request_for_the_one_before(page, studio, troubles):
    open_planner(page, studio)
    asked = []
    page.on("request", lambda request: asked.append(request.url) if request.url.endswith("/plan") else None)
    page.get_by_label("Page", exact=True).press_sequentially("airport taxi to town", delay=20)
    wait_for_plan(page)
    assert len(asked) < 6  # and not one for each of 20 letters


def test_without_models_and_facts_it_says_what_brings_them(page, bare):
    open_planner(page, bare)
    page.get_by_label("Page", exact=True).fill(TAXI)
    wait_for_plan(page)
    expect(page.get_by_text("broadmatch publish recommender FOLDER MODEL")).to_be_visible()
    expect(page.get_by_text("broadmatch publish studio FOLDER --queries")).to_be_visible()
    assert set(page.locator("td[data-label='Cost a month']").all_inner_texts()) == {"–"}
    assert axe(page) == []


def test_it_fits_a_phone_and_looks_as_before(page, studio):
    page.set_viewport_size(NARROW)
    open_planner(page, studio, f"#planner?address={ADDRESS}")
    wait_for_plan(page)
    assert page.evaluate("document.documentElement.scrollWidth") <= NARROW["width"]
    assert axe_in_both_themes(page) == []
    page.set_viewport_size(WIDE)
    page.evaluate("scrollTo(0, 0)")
    screenshot_like(page, "planner")


def test_the_frame_themes_keys_tour_and_titles(page, studio):
    page.goto(studio)
    tour = page.get_by_role("dialog", name="Plan phrases for a page")
    expect(tour).to_be_visible()
    expect(tour.get_by_role("button", name="Next")).to_be_focused()
    for _ in range(3):
        page.keyboard.press("Enter")
    expect(page.get_by_role("dialog", name="Know what is served")).to_be_visible()
    assert axe(page) == []
    page.keyboard.press("Escape")
    expect(page.locator("#tour")).to_have_count(0)
    page.reload()
    expect(page.get_by_role("heading", name="Planner", level=1)).to_be_visible()
    expect(page.locator("#tour")).to_have_count(0)
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keys")).to_be_visible()
    page.get_by_role("button", name="Show the tour").click()
    expect(page.locator("#tour")).to_be_visible()
    page.get_by_role("button", name="Close the tour").click()
    page.get_by_label("Theme").select_option("dark")
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 24, 29)"
    page.reload()
    assert page.evaluate("document.documentElement.dataset.theme") == "dark"
    page.keyboard.press("t")
    assert page.evaluate("document.documentElement.dataset.theme ?? 'system'") == "system"
    page.keyboard.press("3")
    expect(page.get_by_role("link", name="GridViz")).to_have_attribute("aria-current", "page")
    page.go_back()
    expect(page).to_have_title("Planner · broadmatch")
    expect(page.locator("#page")).to_be_focused()


def test_a_server_with_keys_asks_for_one(page, tmp_path, troubles):
    folder = make_plan_folder(tmp_path / "engine", model=False, facts=False)
    secret = add_key(folder / "keys.json", "marketer", "serve")
    with serving(plan_app(folder, keys=ApiKeys.at(folder / "keys.json"))) as address:
        page.add_init_script(NO_TOUR)
        page.goto(f"{address}/#planner")
        page.get_by_role("button", name="Give a key").click()
        page.get_by_label("Key", exact=True).fill(secret)
        page.get_by_role("button", name="Use it").click()
        expect(page.get_by_role("heading", name="Planner", level=1)).to_be_visible()
    assert all("401" in one for one in troubles)
    troubles.clear()
