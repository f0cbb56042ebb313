"""GridViz in the studio: the grids that a server has, in a real browser; names lead to no other file."""

import re

import pytest
from playwright.sync_api import expect

from broadmatch.evaluate.gridviz import write_grid
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.folder import StudioFolder
from tests.browser import axe, serving
from tests.evaluate.grids import planted_grid
from tests.serve.shop import Sink, make_folder

NO_TOUR = "localStorage.setItem('broadmatch-tour', 'seen')"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = make_folder(tmp_path_factory.mktemp("grids") / "engine")
    (made / "secret.grid").write_bytes(b"not for everybody")
    return made


@pytest.fixture(scope="module")
def address(folder):
    with serving(make_app(ServeConfig(folder=folder), LiveService(folder), Sink())) as address:
        yield address


@pytest.fixture(scope="module")
def grids(folder):
    """Two grids, and a file that is none."""
    found = StudioFolder(folder).grids
    found.mkdir(parents=True)
    write_grid(planted_grid(), found / "march.grid")
    write_grid(planted_grid(hours=4), found / "april.grid")
    (found / "broken.grid").write_bytes(b"BMGRID1\n....")
    return found


def test_without_grids_the_page_says_what_brings_one(page, address):
    page.add_init_script(NO_TOUR)
    page.goto(f"{address}/#grid")
    expect(page.locator("#page .state")).to_contain_text("broadmatch publish studio")


def test_published_grids_are_shown_and_kept_in_the_address(page, grids, address, troubles):
    page.add_init_script(NO_TOUR)
    page.goto(f"{address}/#grid")
    expect(page.get_by_role("heading", name="Three models")).to_be_visible()
    expect(page.locator(".grid-time")).to_be_visible()  # april is the first
    page.get_by_role("combobox", name="Grid", exact=True).select_option("march")
    expect(page.locator(".grid-time")).to_have_count(0)
    page.get_by_label("Slices by name").fill("an")
    expect(page.locator(".grid-said")).to_contain_text("2 slices, 2 left out")
    page.wait_for_url(re.compile(r"#grid\?grid=march&find=an$"))
    page.reload()
    expect(page.locator(".grid-said")).to_contain_text("2 slices, 2 left out")
    assert axe(page) == []
    page.get_by_role("combobox", name="Grid", exact=True).select_option("broken")
    expect(page.get_by_role("alert")).to_contain_text("not a whole grid file")
    page.goto(f"{address}/#grid?grid=..%2Fsecret")
    expect(page.get_by_role("alert")).to_contain_text("There is nothing at this path")
    assert all("404" in one for one in troubles)
    troubles.clear()


@pytest.mark.parametrize(
    "name", ["..%2Fsecret", "../secret", "secret", "%2e%2e/%2e%2e/secret", "march.grid", "a%00b", "", "."]
)
def test_a_name_leads_to_no_other_file(page, grids, address, name):
    answer = page.request.get(f"{address}/v1/studio/grids/{name}", max_redirects=0)
    assert answer.status in (307, 404)
    assert b"everybody" not in answer.body()


def test_the_list_says_what_there_is(page, grids, address):
    listed = page.request.get(f"{address}/v1/studio/grids").json()["grids"]
    assert [one["name"] for one in listed] == ["april", "broken", "march"]
    assert listed[2]["bytes"] == (grids / "march.grid").stat().st_size
    answer = page.request.get(f"{address}/v1/studio/grids/march")
    assert answer.headers["content-type"] == "application/octet-stream"
    assert answer.body() == (grids / "march.grid").read_bytes()
