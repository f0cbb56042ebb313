"""`judge make`, a person with a pen, and `evaluate --judgements`."""

import csv
import json

import pytest

from tests.cli.conftest import failed, refused, worked


@pytest.fixture(scope="module")
def sheet(model, market, tmp_path_factory):
    place = tmp_path_factory.mktemp("judge") / "sheet.csv"
    worked("judge", "make", model, market / "pages.parquet", "--out", place, "--sample", 4, "-k", 5)
    return place


def filled(sheet, judge, answer):
    """A copy of the sheet with answers."""
    rows = list(csv.DictReader(sheet.read_text(encoding="utf-8").splitlines()))
    copy = sheet.with_name(f"{judge}.csv")
    with copy.open("w", encoding="utf-8", newline="") as file:
        out = csv.DictWriter(file, rows[0])
        out.writeheader()
        out.writerows(row | {"relevant": answer(i)} for i, row in enumerate(rows))
    return copy


def test_from_models_to_what_people_say(sheet, model):
    key = json.loads(sheet.with_name("sheet.key.json").read_text())
    assert (key["k"], list(key["models"])) == (5, [str(model)])
    assert str(model) not in sheet.read_text()
    anna, ben = filled(sheet, "anna", lambda i: i % 2), filled(sheet, "ben", lambda i: "yes" if i % 4 else "no")
    call = ("evaluate", sheet.with_name("sheet.key.json"), "--judgements", anna, "--judgements", ben)
    report = json.loads(worked(*call, "--json"))
    assert report["judges"] == {"anna": 20, "ben": 20}
    assert report["models"][str(model)]["metrics"]["P@5"]["value"] == pytest.approx((10 + 15) / 40)
    assert "Cohen's kappa" in worked(*call)


def test_the_same_seed_gives_the_same_sheet(sheet, model, market, tmp_path):
    again = tmp_path / "again.xlsx"
    said = worked("judge", "make", model, market / "pages.parquet", "--out", again, "--sample", 4, "-k", 5, "--json")
    assert json.loads(said)["rows"] == 20
    assert (tmp_path / "again.key.json").read_text() == sheet.with_name("sheet.key.json").read_text()


def test_wrong_calls_are_refused(sheet, model, data, market, tmp_path):
    pages = market / "pages.parquet"
    assert "at least one model" in refused("judge", "make", pages, "--out", tmp_path / "x.csv")
    assert "named twice" in refused("judge", "make", model, model, pages, "--out", tmp_path / "x.csv")
    assert "--sample must be" in failed("judge", "make", model, pages, "--out", tmp_path / "x.csv", "--sample", 0)
    assert "-k must be" in failed("judge", "make", model, pages, "--out", tmp_path / "x.csv", "-k", 0)
    assert ".csv or .xlsx" in failed("judge", "make", model, pages, "--out", tmp_path / "x.pdf")
    assert "nothing else" in refused("evaluate", model, data, "--judgements", sheet)
    assert "DATA" in refused("evaluate", model)
    assert "not the key" in failed("evaluate", sheet, "--judgements", sheet)
    assert "no row of the sheets" in failed("evaluate", sheet.with_name("sheet.key.json"), "--judgements", sheet)
    assert not list(tmp_path.iterdir())
