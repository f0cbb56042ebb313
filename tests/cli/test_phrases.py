"""Phrases as files to send: a workbook, a page; nothing in them is taken for a formula or for HTML."""

import csv
import gzip
import io
import json
import sys
from html.parser import HTMLParser

import openpyxl
import pytest

from broadmatch.cli.phrases import answers as printed
from broadmatch.cli.phrases.answers import Wording, write_answers
from broadmatch.data import Names
from broadmatch.labels import Phrase, Recommendation
from broadmatch.labels.revealed import read_revealed
from tests.cli.conftest import failed, refused, worked

PAGES = Wording("page", "phrase", "phrases", False)
HOSTILE = ["=1+1", "+1", "-1", "@SUM(A1)", "\tx", "#N/A", "<script>alert(1)</script>", "\"&'", "пицца", "x\x07y\ud800"]


def written(format, answers, words=PAGES):
    file = io.BytesIO()
    assert write_answers(iter(answers), format, words, file) == len(answers)
    return file.getvalue()


def hostile():
    best = [Phrase(text, 1 - i / 10) for i, text in enumerate(HOSTILE)]
    return [Recommendation(text, best) for text in ("=cmd|' /C calc'!A0", '"><b>', "javascript:alert(1)")]


def rows_of(content):
    (sheet,) = openpyxl.load_workbook(io.BytesIO(content))
    return [tuple(cell.value for cell in row) for row in sheet.rows], sheet


def test_a_workbook(model, page, tmp_path):
    expected = json.loads(worked("recommend", model, page, "-k", 3, "--json"))["phrases"]
    assert worked("recommend", model, page, "-k", 3, "--out", tmp_path / "phrases.xlsx") == ""
    rows, _ = rows_of((tmp_path / "phrases.xlsx").read_bytes())
    assert rows == [
        ("page", "rank", "phrase", "score"),
        *((str(page), i, one["phrase"], one["score"]) for i, one in enumerate(expected, 1)),
    ]


def test_cells_of_a_workbook_are_texts():
    rows, sheet = rows_of(written("xlsx", hostile()))
    assert [row[2] for row in rows[1:11]] == [*HOSTILE[:-1], "xy?"]
    assert {row[0] for row in rows[1:]} == {one.name for one in hostile()}
    cells = [cell for row in sheet.iter_rows(min_row=2) for cell in row]
    assert {cell.data_type for cell in cells if cell.column in (1, 3)} == {"s"}
    assert {cell.data_type for cell in cells if cell.column in (2, 4)} == {"n"}
    # Excel keeps such a cell a text also when it is edited.
    assert all(cell.quotePrefix == (cell.value[:1] in tuple("=+-@\t")) for cell in cells if cell.column in (1, 3))


def test_a_sheet_that_is_full_is_followed_by_another(monkeypatch):
    monkeypatch.setattr(printed, "_SHEET_ROWS", 4)
    book = openpyxl.load_workbook(io.BytesIO(written("xlsx", [Recommendation("a", [Phrase("b", 0.5)] * 7)])))
    assert [sheet.max_row for sheet in book] == [4, 4, 2]
    assert written("xlsx", [])


def test_without_openpyxl_a_sentence_says_how_to_install_it(model, page, tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "openpyxl", None)
    assert "pip install 'broadmatch[xlsx]'" in failed("recommend", model, page, "--out", tmp_path / "x.xlsx")
    assert list(tmp_path.iterdir()) == []


class Texts(HTMLParser):
    """The tags with their attributes, and the texts of a page."""

    def __init__(self, content):
        super().__init__()
        self.tags, self.texts = [], []
        self.feed(content)

    def handle_starttag(self, tag, attributes):
        self.tags.append((tag, dict(attributes)))

    def handle_data(self, data):
        self.texts.append(data)


def test_a_page_to_send(model, page, market, tmp_path):
    lines = worked("recommend", model, market / "pages.parquet", "-k", 2, "--json").splitlines()
    expected, n = json.loads(lines[0]), sum(len(json.loads(line)["phrases"]) for line in lines)
    worked("recommend", model, market / "pages.parquet", "-k", 2, "--out", tmp_path / "phrases.html")
    text = (tmp_path / "phrases.html").read_text(encoding="utf-8")
    found = Texts(text)
    assert ("a", {"href": expected["page"], "rel": "noopener noreferrer"}) in found.tags
    assert {expected["page"], *(one["phrase"] for one in expected["phrases"])} <= set(found.texts)
    assert f"{n} phrases for 300 pages" in text
    bars = [attributes["style"] for tag, attributes in found.tags if tag == "i"]
    assert len(bars) == n
    assert bars[0] == "width:100%"
    # It opens offline: nothing is loaded from anywhere.
    assert not {"script", "link", "img", "iframe"} & {tag for tag, _ in found.tags}
    assert "url(" not in text
    assert not any(name in ("src", "srcset") for _, attributes in found.tags for name in attributes)


def test_everything_on_a_page_is_escaped():
    found = Texts(written("html", hostile()).decode("utf-8", "replace"))
    plain = Texts(written("html", [Recommendation("a", [Phrase("b", s / 10) for s in range(10)])] * 3).decode())
    assert [tag for tag, _ in found.tags] == [tag for tag, _ in plain.tags]
    assert not any("href" in attributes for _, attributes in found.tags)
    assert {text for text in HOSTILE if "\x07" not in text} <= set(found.texts)


def test_bars_of_scores_below_zero_and_of_empty_sets():
    words = PAGES._replace(sets=True)
    made = [Recommendation("a", [Phrase("x", 1.0), Phrase("y", -1.0)]), Recommendation("b", [])]
    text = written("html", made, words).decode()
    assert [line["style"] for tag, line in Texts(text).tags if tag == "i"] == ["width:100%", "width:0%"]
    assert "no phrases" in text
    assert "2 phrases for 2 pages" in text
    assert "width:100%" in written("html", [Recommendation("a", [Phrase("x", 0.0)])]).decode()


def test_scores_are_named_and_explained():
    made = [Recommendation("a", [Phrase("x", -0.496), Phrase("y", -0.7), Phrase("z", -0.9)])]
    found = Texts(written("html", made).decode())
    assert [text for text in found.texts if text in ("phrase", "within the page", "score")] == [
        "phrase", "within the page", "score",
    ]  # fmt: skip
    assert [line["style"] for tag, line in found.tags if tag == "i"] == ["width:100%", "width:50%", "width:0%"]
    assert "a probability only if the model was calibrated" in " ".join(" ".join(found.texts).split())


def test_csv_holds_no_formulas_and_can_be_revealed(tmp_path):
    rows = list(csv.reader(io.StringIO(written("csv", hostile()).decode("utf-8", "surrogatepass"), newline="")))
    assert not any(cell.startswith(tuple("=+-@\t\r")) for row in rows[1:] for cell in (row[0], row[2]))
    assert [row[2] for row in rows[1:6]] == ["'=1+1", "'+1", "'-1", "'@SUM(A1)", "'\tx"]
    assert float(rows[1][3]) == 1  # scores are numbers, also below 0
    assert "-0.5" in written("csv", [Recommendation("a", [Phrase("b", -0.5)])]).decode()
    (tmp_path / "had.csv").write_bytes(written("csv", [Recommendation("-a", [Phrase("=b", 1.0), Phrase("'c", 1.0)])]))
    assert read_revealed(tmp_path / "had.csv", Names.of(["=b", "'c"])) == {"-a": ["'c", "=b"]}


def test_the_name_tells_the_format_or_is_refused(model, page, tmp_path):
    for name in ("x.pdf", "x.xls", "x", "x.docx", "x.tsv"):
        said = refused("recommend", model, page, "--out", tmp_path / name)
        assert ".csv, .jsonl, .ndjson, .json, .html, .htm, .xlsx, or .txt for a table" in said
    assert "not that of --format csv" in refused(
        "recommend", model, page, "--format", "csv", "--out", tmp_path / "x.xlsx"
    )
    assert "--out phrases.xlsx" in refused("recommend", model, page, "--format", "xlsx")
    worked("recommend", model, page, "--format", "csv", "--out", tmp_path / "x.data")
    worked("recommend", model, page, "--out", tmp_path / "x.html.gz")
    assert gzip.decompress((tmp_path / "x.html.gz").read_bytes()).startswith(b"<!doctype html>")
    assert worked("recommend", model, page, "--format", "html").startswith("<!doctype html>")
    assert sorted(file.name for file in tmp_path.iterdir()) == ["x.data", "x.html.gz"]


@pytest.mark.parametrize("name", ["x.csv.zst", "x.jsonl.zst", "x.txt.gz"])
def test_packed_files(model, page, tmp_path, name):
    worked("recommend", model, page, "--out", tmp_path / name)
    assert (tmp_path / name).stat().st_size > 50
