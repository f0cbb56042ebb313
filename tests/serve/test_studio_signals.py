"""The pages of the signal index in a browser: list, signal, lineage, board; hostile names, two people at once."""

from datetime import UTC, date, datetime, timedelta

import pytest
import sqlalchemy as sa

from broadmatch.registry import ConsumptionReport, Finding, SignalIndex, VettingReport
from broadmatch.registry.schema import versions
from broadmatch.serve.api_keys import ApiKeys, add_key
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from tests.browser import NARROW, axe_in_both_themes, screenshot_like, serving
from tests.serve.shop import DESCRIPTION, Sink, make_folder
from tests.serve.studio_shop import EMOJI, IMAGE, RTL, SCRIPT

LONG = "x" * 10_000
HOSTILE = [SCRIPT, IMAGE, RTL, EMOJI, 'it\'s `a` "b"?c=1&name=d#e@x', LONG]
NEXT_YEAR = datetime.now(UTC).date() + timedelta(days=365)


def verdict(name):
    """A vetting with something to draw, as `signals vet` records it."""
    days = list(range(20_000, 20_014))
    figures = {
        "signal": name, "Impressions": 14_000, "Days": 14, "Coverage": 0.9,
        "by_day": {"day": days, "impressions": [1000] * 14, "coverage": [0.9 - i / 50 for i in range(14)],
                   "new_values": [1 / (i + 1) for i in range(14)], "psi": [None, *(i / 100 for i in range(13))]},
        "by_part": {"part": [4 * day for day in days], "psi": [0.1] * 14},
        "growth": {"features": [1000, 2000, 4000], "distinct": [100, 150, 200]},
        "gains": {"Gain": [[2**k, 0.001 * k] for k in range(8, 14)]},
    }  # fmt: skip
    found = [Finding("drift by day", 0.12, "at most 0.2", True, "DriftByDay is 0.12."),
             Finding("coverage", 0.9, "at least 0.5", True, f"Coverage is fine {SCRIPT}")]  # fmt: skip
    return VettingReport.of(found, figures)


def consumed(index, models, signals, **more):
    index.report(*(ConsumptionReport(model=m, team=t, contact=t, signals=signals, **more)
                   for t, m in models))  # fmt: skip


def fill_index(index):
    """10,000 signals that were only reported, one in full, hostile ones, and deprecations of all kinds."""
    bulk = {f"bulk.{i:05d}": None for i in range(10_000)}
    bulk |= dict.fromkeys(signal.name for signal in DESCRIPTION.signals)  # which the server reports when it likes
    index.report(ConsumptionReport(model="wide", team="bulk", signals=bulk))
    about = {"data": {"files": ["prices.parquet"], "columns": ["price"]}, "platforms": ["search"], "domains": ["ctr"]}
    index.add("price", kind="number", owner="anna", by="anna", description="what it costs", made_by="p.sql", **about)
    index.record_vetting("price", verdict("price"))
    index.allow("price", by="anna")
    index.add_version("price", by="anna", settings={"buckets": "log"})
    index.add("price_ad", kind="cross", owner="ben", by="ben", settings={"cross": ["price", "bulk.00000"]})
    models = [(f"team {i % 12}", f"model {i:03d}") for i in range(200)]
    consumed(index, models, {"price_ad": None})
    consumed(index, models[:24], {"price": 0.5, "price_ad": None})
    for name in HOSTILE:
        index.add(name, kind="number", owner=name, by=name, description=name)
        consumed(index, [(name, name)], {name: 0.5})
        index.deprecate(name, by=name, use="price@2", by_date=NEXT_YEAR, reason=name)
    for name in ("late", "done"):
        index.add(name, kind="number", owner="carl", by="carl")
        index.deprecate(name, by="carl", by_date=NEXT_YEAR)
    consumed(index, [("ads", "ctr"), ("ads", "cvr"), ("feed", "rank")], {"late": 1.0}, use="serving")
    with index._database.write() as c:  # a date that has passed cannot be given
        signal = sa.select(sa.text("id FROM signals WHERE name = 'late'")).scalar_subquery()
        c.execute(versions.update().where(versions.c.signal == signal).values(by_date=1_700_000_000_000_000))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = tmp_path_factory.mktemp("signals")
    make_folder(path / "engine")
    with SignalIndex.open(path / "signals") as index, pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_STATE_HOME", str(path / "state"))
        fill_index(index)
        yield path


def app_of(folder, signals=True, keys=None):
    address = str(folder / "signals") if signals else None
    config = ServeConfig(folder=folder / "engine", signals=address)
    return make_app(config, LiveService(folder / "engine"), Sink(), keys=keys)


@pytest.fixture(scope="module")
def studio(folder):
    with serving(app_of(folder)) as address:
        yield address


def plain(page, sound=True):
    """Hostile texts are texts, a phone shows it all, and, if that is looked for, nothing serious is found."""
    assert page.locator("#page script, #page img").count() == 0
    assert not (sound and axe_in_both_themes(page))
    page.set_viewport_size(NARROW)
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
    page.set_viewport_size({"width": 1280, "height": 800})


def rows(page, label):
    return page.locator(f"[aria-label='{label}'] tbody tr")


def test_search_among_ten_thousand(page, studio):
    page.goto(f"{studio}/#planner")
    page.keyboard.press("7")
    page.get_by_text("1 to 50 of 10,022").wait_for()
    page.get_by_role("button", name="Next").click()
    page.get_by_text("51 to 100 of").wait_for()
    assert "offset=50" in page.url
    page.get_by_label("Name, owner").fill("bulk.0123")
    page.get_by_text("1 to 10 of 10").wait_for()
    assert rows(page, "Signals").first.inner_text().startswith("bulk.01230@1")
    page.get_by_label("Name, owner").fill("")
    page.get_by_label("Status").select_option("white-listed")
    page.get_by_text("1 to 1 of 1").wait_for()
    assert "\t24\t" in rows(page, "Signals").first.inner_text()  # models
    page.reload()
    page.get_by_text("1 to 1 of 1").wait_for()  # what is asked for stands in the address
    page.goto(f"{studio}/#signals?owner=CARL&order=newest")
    page.get_by_text("1 to 2 of 2").wait_for()
    assert [text.split("@")[0] for text in rows(page, "Signals").all_inner_texts()] == ["done", "late"]
    page.goto(f"{studio}/#signals?status=deprecated")
    page.get_by_text("1 to 8 of 8").wait_for()
    plain(page)
    screenshot_like(page, "signals")
    page.get_by_label("Owner", exact=True).fill("nobody has this")
    page.get_by_text("No signal is like that").wait_for()


def test_a_signal_with_all_that_belongs_to_it(page, studio):
    page.goto(f"{studio}/#signals?text=what+it+costs&status=white-listed")
    page.get_by_role("link", name="price@1").press("Enter")
    page.get_by_text("Models may consume it; 24 models now.").wait_for()
    assert rows(page, "Consumers").count() == 24
    assert "model 000\tteam 0\t–\ttraining\t50.0 %" in rows(page, "Consumers").first.inner_text()
    assert {"prices.parquet", "search", "ctr"} <= set(page.locator("dd").all_inner_texts())
    assert page.locator(".chart").count() == 7
    drift = page.locator("section.card", has_text="Drift: PSI of a day")
    assert drift.locator("polyline").count() == 2  # and its bound
    drift.locator(".chart > svg").focus()
    page.keyboard.press("End")
    assert "2024-10-17" in page.locator(".tip:visible").inner_text()
    assert page.get_by_text(f"Coverage is fine {SCRIPT}").count() == 1
    assert [row.split("\t")[2] for row in rows(page, "History").all_inner_texts()] == [
        "add version", "allow", "vetting passed", "add"]  # fmt: skip
    plain(page)
    screenshot_like(page, "signal")
    page.get_by_role("link", name="price@2").first.click()
    page.get_by_text("It was never vetted").wait_for()


def test_the_lineage_of_two_hundred_models(page, studio):
    page.goto(f"{studio}/#signals?name=price_ad&tab=graph")
    page.locator(".node").nth(202).wait_for()
    assert page.locator(".node").count() == 203 and page.locator(".edge").count() == 202
    boxes = page.locator(".node").evaluate_all(
        "all => all.map((one) => `${one.x.baseVal.value} ${one.y.baseVal.value}`)"
    )
    assert len(set(boxes)) == 203  # none covers another
    page.get_by_role("button", name="model 007").focus()
    assert page.locator(".edge.on").count() == 1 and page.locator(".node.on").count() == 2
    page.keyboard.press("Tab")
    assert page.locator(".node.on text").all_text_contents() == ["price_ad@1", "model 019"]  # the next of the team
    page.locator(".node", has_text="price_ad@1").hover()
    assert page.locator(".edge.on").count() == 202
    page.locator(".node", has_text="model 003").click()
    assert page.evaluate("document.activeElement.textContent") == "model 003"
    screenshot_like(page, "lineage")
    page.get_by_label("Only").fill("team 11")
    assert page.locator(".lineage li:visible").count() == 16
    page.get_by_label("Only").fill("price")
    page.get_by_role("link", name="price@1").press("Enter")
    page.get_by_role("link", name="price@2").wait_for()
    assert page.locator(".node").count() == 9 + 24 and page.locator(".edge.cross").count() == 1
    plain(page)


def test_the_board_has_what_is_overdue_first(page, studio):
    page.goto(f"{studio}/#signals")
    page.get_by_role("link", name="Deprecations").press("Enter")
    page.get_by_text("1 to 8 of 8").wait_for()
    first, last = rows(page, "Deprecations").first.inner_text(), rows(page, "Deprecations").last.inner_text()
    assert first.startswith("late@1\toverdue 2023-11-14\t3\tads: 2feed: 1\t0 of 3\t–\tdeprecated")
    assert last.startswith("done@1") and "it can be retired" in last
    plain(page)
    screenshot_like(page, "deprecations")


@pytest.mark.parametrize("name", HOSTILE, ids=range(len(HOSTILE)))
def test_names_are_only_texts(page, studio, name):
    page.goto(f"{studio}/#signals?status=deprecated")
    full = f"{name}@1"
    page.locator("td a", has_text=full[:300]).first.click()
    page.get_by_text("1 model still to replace it.").wait_for()
    assert page.locator("h2.whole").text_content() == full
    plain(page, name == LONG)
    page.get_by_role("link", name="Lineage", exact=True).click()
    page.locator(".node").nth(2).wait_for()
    plain(page, sound=False)
    assert page.locator("h1").inner_text() == "Signals"


def test_a_signal_is_deprecated_with_undo_and_retired(page, studio, folder):
    with SignalIndex.open(folder / "signals") as index:
        index.add("shop", kind="number", owner="anna", by="anna")
        index.record_vetting("shop", verdict("shop"))
        page.goto(f"{studio}/#signals?name=shop")
        page.get_by_role("button", name="White-list it").click()
        page.get_by_text("Models may consume it;").wait_for()
        page.locator("summary", has_text="Deprecate it").click()
        page.get_by_label("Use instead").fill("price@2")
        page.get_by_label("By", exact=True).fill(NEXT_YEAR.isoformat())
        page.get_by_role("button", name="Deprecate", exact=True).click()
        page.get_by_text(f"Due {NEXT_YEAR}. Nobody consumes it any more.").wait_for()
        assert (index.get("shop").replacement, index.audit("shop")[0]["who"]) == ("price@2", "local")
        page.locator("#toasts").get_by_role("button", name="Undo").click()
        page.get_by_text("Models may consume it;").wait_for()
        page.locator("summary", has_text="Retire it").click()
        page.get_by_role("button", name="Retire for good").click()
        page.get_by_text("lists what can be deleted").wait_for()
        assert index.get("shop").status == "retired"
        assert page.locator(".changes").count() == 0


def test_the_second_of_two_people_is_refused(page, studio, folder, troubles):
    with SignalIndex.open(folder / "signals") as index:
        index.add("both", kind="number", owner="anna", by="anna")
        other = page.context.new_page()
        for one in (page, other):
            one.goto(f"{studio}/#signals?name=both")
            one.locator("summary", has_text="Deprecate it").click()
            one.get_by_label("Reason").first.fill("mine" if one is page else "theirs")
        other.get_by_role("button", name="Deprecate", exact=True).click()
        other.get_by_text("Nobody consumes it any more").wait_for()
        page.get_by_role("button", name="Deprecate", exact=True).click()
        page.get_by_role("alert").get_by_text("was changed by somebody else since revision 1, it is at 2").wait_for()
        assert index.get("both").reason == "theirs"
        page.get_by_role("button", name="Look at it again").click()
        page.locator("dd", has_text="theirs").wait_for()
    assert [one for one in troubles if "409" in one] == troubles  # the browser reports what was answered
    troubles.clear()


def test_roles_and_no_index(page, folder, tmp_path, troubles):
    key = add_key(tmp_path / "keys.json", "reader", "read")
    with serving(app_of(folder, keys=ApiKeys.at(tmp_path / "keys.json"))) as address:
        page.add_init_script(f"sessionStorage.setItem('broadmatch-key', '{key}')")
        page.goto(f"{address}/#signals?name=price")
        page.get_by_text("Models may consume it;").wait_for()
        assert page.locator("summary", has_text="Deprecate it").count() == 0
        page.goto(f"{address}/#signals?name=none")
        page.get_by_text("There is no signal 'none@1' in the index").wait_for()
    with serving(app_of(folder, signals=False)) as address:
        page.goto(f"{address}/#signals")
        page.get_by_text("This server has no signal index").wait_for()
    assert [one for one in troubles if "404" in one] == troubles
    troubles.clear()


def test_what_cannot_be_drawn_is_left_out(page, studio, folder):
    class Odd:
        passed = True

        def to_dict(self):
            return {"passed": True, "findings": [], "figures": {"by_day": [1, 2], "gains": 3}}

    with SignalIndex.open(folder / "signals") as index:
        index.add("odd", kind="number", owner="anna", by="anna")
        index.record_vetting("odd", Odd())
    page.goto(f"{studio}/#signals?name=odd")
    page.get_by_text("Vetting passed. Next").wait_for()
    assert page.locator(".chart").count() == 0
    assert date.today().isoformat() in rows(page, "History").first.inner_text()
