"""The page of judgements in a browser: graded by keyboard and by mouse, undone, and kept when the server fails."""

import pytest

from broadmatch.errors import CannotWrite
from broadmatch.evaluate import Judgements, SheetKey
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.grades import GradeFile
from tests.browser import NARROW, axe_in_both_themes, serving
from tests.serve.shop import Sink
from tests.serve.studio_shop import make_studio


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_studio(tmp_path_factory.mktemp("judge") / "engine")


@pytest.fixture(scope="module")
def studio(folder):
    with serving(make_app(ServeConfig(folder=folder), LiveService(folder), Sink())) as address:
        yield address


@pytest.fixture
def grades(folder):
    file = GradeFile(folder / "studio" / "judgements" / "sheet.grades.csv")
    yield file
    file.path.unlink(missing_ok=True)


def test_a_sheet_is_graded_by_keyboard(page, studio, grades, folder):
    page.goto(f"{studio}/#judge")
    page.get_by_text("Say who you are").wait_for()
    page.get_by_label("Your name").fill("anna")
    page.keyboard.press("Enter")
    page.get_by_text("0 of 6 graded, all on disk").wait_for()
    now = page.locator("li.now")
    first = now.inner_text()
    page.keyboard.press("4")
    page.get_by_text("1 of 6 graded, all on disk").wait_for()
    assert now.inner_text() != first and page.url.split("#")[1].startswith("judge")
    page.keyboard.press("ArrowUp")
    assert now.inner_text() == first and now.locator("[aria-pressed=true]").inner_text() == "4"
    page.keyboard.press("2")
    page.keyboard.press("u")
    page.get_by_text("1 of 6 graded, all on disk").wait_for()
    assert now.locator("[aria-pressed=true]").inner_text() == "4"
    page.keyboard.press("u")
    page.get_by_text("0 of 6 graded, all on disk").wait_for()
    title = page.locator(".sheet h2").inner_text()
    page.keyboard.press("ArrowRight")
    assert page.locator(".sheet h2").inner_text() != title
    page.keyboard.press("ArrowLeft")
    for i in range(6):
        page.keyboard.press(str(1 + i % 4))
    page.get_by_text("6 of 6 graded, all on disk. The sheet is done").wait_for()
    (given,) = grades.read().values()
    assert sorted(given.values()) == [1, 1, 2, 2, 3, 4]
    key = SheetKey.open(folder / "studio" / "judgements" / "sheet.key.json")
    assert Judgements.read(key, [grades.path]).relevant.sum() == 2
    assert page.locator("#page script, #page img").count() == 0
    assert not axe_in_both_themes(page)
    page.set_viewport_size(NARROW)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")


def test_two_judges_by_mouse_and_their_agreement(page, studio, grades):
    for judge, choice in (("anna", "4 excellent"), ("ben", "1 bad")):
        page.goto(f"{studio}/#judge?sheet=sheet&judge={judge}")
        page.get_by_text("0 of 6 graded").wait_for()
        page.get_by_role("button", name=choice).first.click()
        page.get_by_text("1 of 6 graded, all on disk").wait_for()
    page.get_by_text("On relevant or not: 0.000").wait_for()
    with page.expect_download() as saved:
        page.get_by_role("button", name="Save the grades as CSV").click()
    assert saved.value.path().read_bytes() == grades.path.read_bytes()
    page.goto(f"{studio}/#judge?sheet=sheet&judge=anna")
    page.get_by_text("1 of 6 graded").wait_for()


def test_a_grade_that_cannot_be_written_waits(page, studio, grades, troubles, monkeypatch):
    page.goto(f"{studio}/#judge?sheet=sheet&judge=carl")
    page.get_by_text("0 of 6 graded").wait_for()

    def full(*_):
        raise CannotWrite("The disk is full; make room.")

    with monkeypatch.context() as broken:
        broken.setattr(GradeFile, "append", full)
        page.keyboard.press("3")
        page.keyboard.press("1")
        page.get_by_text("The disk is full; make room. 2 grades wait in this page").wait_for()
        assert grades.read() == {}
    page.get_by_text("2 of 6 graded, all on disk").wait_for()
    assert sorted(grades.read()["carl"].values()) == [1, 3]
    assert troubles and all("503" in one for one in troubles)
    troubles.clear()
