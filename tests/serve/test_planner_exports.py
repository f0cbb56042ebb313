"""Plans as files: golden files of each format, formulas that do nothing, and keywords that platforms take."""

import csv
import io
import sys
from pathlib import Path

import msgspec
import openpyxl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.errors import MissingExtra
from broadmatch.serve.studio.planner.exports import (
    FORMATS,
    ExportRequest,
    PlanRow,
    keyword_text,
    plain_text,
    write_csv,
    write_google,
    write_microsoft,
    write_xlsx,
)
from tests.serve.plan_shop import make_plan_folder, plan_app
from tests.serve.shop import call

GOLDEN = Path(__file__).parent / "golden"
PLAN = ExportRequest(
    campaign="Shoes",
    page="https://shop.example/shoes?a=1&b=2",
    negatives=["free", '"second hand"', "[shoe repair]"],
    rows=[
        PlanRow("red shoes", "broad", "shoe", 1.2, 0.91, ["learned", "extracted"], 1234.5, 87, 0.8, 2.25, 41.5, 33.2),
        PlanRow("red shoes", "exact", "shoe", 1.5, 0.91, ["learned"]),
        PlanRow('boots, "warm"', "phrase", "", None, 0.5, ["expanded"], 10.0),
        PlanRow("größe 45 Schuhe", "exact", "schuhe", 0.4),
        PlanRow('=HYPERLINK("http://x","y")', "broad", "=cmd", 0.5),
        PlanRow("+49 boots", "broad", "-1+1", 0.5),
        PlanRow("\t@SUM(A1)\r\nB", "broad", "@x", 0.5),
        PlanRow("c++ & o'neill's", "broad", "shoe", 0.5),
    ],
)
FORMULAS = st.text(st.sampled_from("=+-@\t\r\n |%＝ ab\"'"), max_size=8)


@pytest.mark.parametrize(
    ("name", "write"), [("plan", write_csv), ("google", write_google), ("microsoft", write_microsoft)]
)
def test_files_are_as_documented(name, write):
    assert write(PLAN) == (GOLDEN / f"{name}.csv").read_bytes()


def rows_of(content):
    return list(csv.reader(io.StringIO(content.decode("utf-8-sig"), newline="")))


def test_the_file_of_google_ads_editor_has_its_columns():
    head, *rows = rows_of(write_google(PLAN))
    assert head == ["Campaign", "Ad Group", "Keyword", "Criterion Type", "Max CPC", "Final URL"]
    assert {row[3] for row in rows} == {
        "Broad",
        "Phrase",
        "Exact",
        *(f"Campaign Negative {one}" for one in ("Broad", "Phrase", "Exact")),
    }
    assert rows[0] == ["Shoes", "shoe", "red shoes", "Broad", "1.20", PLAN.page]
    assert rows[-1] == ["Shoes", "", "shoe repair", "Campaign Negative Exact", "", ""]


def test_the_bulk_file_of_microsoft_is_of_version_6():
    head, version, *rows = rows_of(write_microsoft(PLAN))
    assert head[0] == "Type" and dict(zip(head, version, strict=True)) == dict.fromkeys(head, "") | {
        "Type": "Format Version",
        "Name": "6.0",
    }
    records = [dict(zip(head, row, strict=True)) for row in rows]
    groups = {one["Id"]: one["Ad Group"] for one in records if one["Type"] == "Ad Group"}
    assert all(int(number) < 0 for number in groups)
    keywords = [one for one in records if one["Type"] == "Keyword"]
    assert len(keywords) == len(PLAN.rows)
    assert all(
        groups[one["Parent Id"]] == one["Ad Group"] and one["Match Type"] in ("Broad", "Phrase", "Exact")
        for one in keywords
    )
    negatives = [(one["Keyword"], one["Match Type"]) for one in records if one["Type"] == "Campaign Negative Keyword"]
    assert negatives == [("free", "Phrase"), ("second hand", "Phrase"), ("shoe repair", "Exact")]
    assert records.index(keywords[0]) > max(i for i, one in enumerate(records) if one["Type"] == "Ad Group")


def test_a_workbook_has_numbers_as_numbers_and_no_formula():
    sheet = openpyxl.load_workbook(io.BytesIO(write_xlsx(PLAN))).active
    rows = list(sheet.iter_rows())
    assert [cell.value for cell in rows[0]][:4] == ["Phrase", "Match type", "Theme", "Bid"]
    assert [cell.value for cell in rows[1]] == [
        "red shoes",
        "Broad",
        "shoe",
        1.2,
        0.91,
        "learned, extracted",
        1234.5,
        87,
        0.8,
        2.25,
        41.5,
        33.2,
    ]
    assert rows[2][6].value is None  # absent, and not 0
    assert "f" not in {cell.data_type for row in rows for cell in row}
    assert rows[5][0].value == '=HYPERLINK("http://x","y")'


@given(FORMULAS)
def test_no_cell_of_a_file_begins_a_formula(text):
    plan = ExportRequest(rows=[PlanRow(text, "broad", text, 1.0)], campaign=text, page=text, negatives=[text])
    for write in (write_csv, write_google, write_microsoft):
        for row in rows_of(write(plan))[1:]:
            for cell in row:
                number = cell.lstrip("-").replace(".", "", 1).isdigit()
                assert number or not cell.startswith(("=", "+", "-", "@", "\t", "\r", "＝", " =")), (write, cell)
    assert "'" not in keyword_text(text)[:1]


@given(st.text(max_size=60))
def test_what_is_no_formula_stays_as_it_is(text):
    assert plain_text(f"a{text}".replace("\n", " ")).startswith("a")
    again = keyword_text(text)
    assert keyword_text(again) == again


def test_keywords_that_are_too_long_or_nothing_are_left_out():
    plan = ExportRequest(rows=[PlanRow(one, "broad") for one in ("x" * 90, "🍕", "a " * 11, "ok", "OK")])
    assert [row[2] for row in rows_of(write_google(plan))[1:]] == ["ok"]
    assert [row[6] for row in rows_of(write_microsoft(plan)) if row[0] == "Keyword"] == [
        "x" * 90,
        "a " * 10 + "a",
        "ok",
    ]


def test_files_come_over_http(tmp_path, monkeypatch):
    app = plan_app(make_plan_folder(tmp_path / "engine", model=False, facts=False))
    body = msgspec.to_builtins(PLAN)
    for name, kind in FORMATS.items():
        (answer,) = call(app, ("POST", f"/v1/studio/export/{name}", body))
        assert answer.status_code == 200 and answer.headers["content-type"].encode() == kind.media
    (empty,) = call(app, ("POST", "/v1/studio/export/csv", body | {"rows": []}))
    assert empty.status_code == 422 and empty.json()["detail"] == "The plan has no phrases; choose some."
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    with pytest.raises(MissingExtra):
        write_xlsx(PLAN)
    (missing,) = call(app, ("POST", "/v1/studio/export/xlsx", body))
    assert missing.status_code == 501 and "pip install" in missing.json()["detail"]
