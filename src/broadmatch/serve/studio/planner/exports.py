"""Plans as files: CSV and XLSX to look at, Google Ads Editor's CSV and Microsoft's bulk file to import.

A text that a spreadsheet would take for a formula does nothing: in CSV an apostrophe stands before it; in XLSX it is a
cell of text. Keyword files have no need of either, as platforms refuse or ignore such characters in keywords: what is
no letter, number, or one of & ' . - / and # within a word becomes a space, so no keyword begins with = + - @ or a tab.
"""

import csv
import io
import re
from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Any, NamedTuple

from msgspec import Meta, Struct, field

from broadmatch.io.tables import need_openpyxl
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import MatchName, Request
from broadmatch.serve.problems import Problem
from broadmatch.serve.studio.work import StudioWork

_MB = 1 << 20
_FORMULA = re.compile(r"^[\s\x00-\x1f]*[=+\-@＝＋－＠|%]|^[\t\r\n]")
_CONTROL = re.compile(r"[\x00-\x1f\x7f\ufffe\uffff\ud800-\udfff]+")
_NO_KEYWORD = re.compile(r"[^\w&'.\-/# ]|_|[\U00010000-\U0010ffff]")
_EDGES = "&'.-/# "
_LONGEST = {"google": (80, 10), "microsoft": (100, None)}
"""Letters and words of a keyword."""
_Text = Annotated[str, Meta(max_length=10_000)]
_Amount = Annotated[float, Meta(ge=0, le=1e15)] | None


class PlanRow(Struct, frozen=True, forbid_unknown_fields=True):
    """A chosen phrase as it is exported; null is not known."""

    phrase: _Text
    match: MatchName
    theme: _Text = ""
    bid: _Amount = None
    score: _Amount = None
    sources: Annotated[list[_Text], Meta(max_length=10)] = field(default_factory=list)
    searches: _Amount = None
    competition: _Amount = None
    bid_low: _Amount = None
    bid_high: _Amount = None
    clicks: _Amount = None
    cost: _Amount = None


class ExportRequest(Request, frozen=True):
    """A plan: its phrases, the campaign they are for, the page they lead to, and phrases that it never wants."""

    rows: Annotated[list[PlanRow], Meta(max_length=10_000)]
    campaign: Annotated[str, Meta(max_length=400)] = "Campaign"
    page: Annotated[str, Meta(max_length=2_048)] = ""
    negatives: Annotated[list[_Text], Meta(max_length=1_000)] = field(default_factory=list)


class PlanFormat(NamedTuple):
    """A kind of file: its media type, and what writes it."""

    media: bytes
    write: Callable[[ExportRequest], bytes]


_COLUMNS: dict[str, Callable[[PlanRow], Any]] = {
    "Phrase": lambda row: row.phrase,
    "Match type": lambda row: row.match.capitalize(),
    "Theme": lambda row: row.theme,
    "Bid": lambda row: row.bid,
    "Score": lambda row: row.score,
    "Source": lambda row: ", ".join(row.sources),
    "Searches a month": lambda row: row.searches,
    "Competition (0-100)": lambda row: row.competition,
    "Top of page bid (20th percentile)": lambda row: row.bid_low,
    "Top of page bid (80th percentile)": lambda row: row.bid_high,
    "Expected clicks a month": lambda row: row.clicks,
    "Expected cost a month": lambda row: row.cost,
}


def write_csv(plan: ExportRequest) -> bytes:
    """All columns as CSV, with the byte order mark that spreadsheets tell UTF-8 by."""
    rows = [[column(row) for column in _COLUMNS.values()] for row in plan.rows]
    return "\ufeff".encode() + _csv([list(_COLUMNS), *([plain_text(one) for one in row] for row in rows)])


def write_xlsx(plan: ExportRequest) -> bytes:
    """All columns as an Excel workbook; numbers are numbers, texts are texts."""
    need_openpyxl()
    from openpyxl import Workbook
    from openpyxl.styles import Font

    book = Workbook()
    sheet = book.worksheets[0]
    sheet.title = "Plan"
    sheet.append(list(_COLUMNS))
    for number, row in enumerate(plan.rows, 2):
        for place, column in enumerate(_COLUMNS.values(), 1):
            value, cell = column(row), sheet.cell(number, place)
            cell.value = _CONTROL.sub(" ", value) if isinstance(value, str) else value
            if isinstance(value, str):
                cell.data_type = "s"  # not "f", which a text that begins with = would be
    for cell in sheet[1]:
        cell.font = Font(bold=True)
    sheet.freeze_panes = "B2"
    sheet.auto_filter.ref = sheet.dimensions
    sheet.column_dimensions["A"].width = 40
    out = io.BytesIO()
    book.save(out)
    return out.getvalue()


def write_google(plan: ExportRequest) -> bytes:
    """Google Ads Editor: a row for each keyword in its ad group (the theme), and campaign negatives.

    Columns and types as in "CSV file columns", https://support.google.com/google-ads/editor/answer/57747.
    """
    head = ["Campaign", "Ad Group", "Keyword", "Criterion Type", "Max CPC", "Final URL"]
    campaign, page, rows = _name(plan.campaign, "Campaign"), _address(plan.page), list[list[Any]]()
    for row, keyword in _keywords(plan.rows, "google"):
        rows.append([campaign, _group(row), keyword, row.match.capitalize(), _bid(row), page])
    for match, keyword in _negatives(plan.negatives, "google"):
        rows.append([campaign, "", keyword, f"Campaign Negative {match.capitalize()}", "", ""])
    return _csv([head, *rows])


def write_microsoft(plan: ExportRequest) -> bytes:
    """Microsoft's bulk file, format version 6.0: ad groups of a campaign that is there, keywords, campaign negatives.

    Records as in https://learn.microsoft.com/en-us/advertising/bulk-service/bulk-file-schema; new ad groups have
    negative ids that keywords refer to. Negatives are Phrase or Exact there, so broad ones become Phrase.
    """
    head = ["Type", "Status", "Id", "Parent Id", "Campaign", "Ad Group", "Keyword", "Match Type", "Bid", "Name"]
    head.append("Final Url")
    campaign, page = _name(plan.campaign, "Campaign"), _address(plan.page)
    kept = _keywords(plan.rows, "microsoft")
    groups = {name: -1 - n for n, name in enumerate(dict.fromkeys(_group(row) for row, _ in kept))}
    rows: list[list[Any]] = [["Format Version", "", "", "", "", "", "", "", "", "6.0", ""]]
    rows += [["Ad Group", "Active", n, "", campaign, name, "", "", "", "", ""] for name, n in groups.items()]
    for row, keyword in kept:
        group, match = _group(row), row.match.capitalize()
        rows.append(["Keyword", "Active", "", groups[group], campaign, group, keyword, match, _bid(row), "", page])
    for match, keyword in _negatives(plan.negatives, "microsoft"):
        kind = "Exact" if match == "exact" else "Phrase"
        rows.append(["Campaign Negative Keyword", "Active", "", "", campaign, "", keyword, kind, "", "", ""])
    return _csv([head, *rows])


FORMATS = {
    "csv": PlanFormat(b"text/csv; charset=utf-8", write_csv),
    "xlsx": PlanFormat(b"application/vnd.openxmlformats-officedocument.spreadsheetml.sheet", write_xlsx),
    "google": PlanFormat(b"text/csv; charset=utf-8", write_google),
    "microsoft": PlanFormat(b"text/csv; charset=utf-8", write_microsoft),
}


class Exporting:
    """Writes plans as files."""

    def __init__(self, work: StudioWork) -> None:
        self._work = work

    def endpoints(self) -> list[Endpoint]:
        """One for each kind of file."""
        return [self._endpoint(name, kind) for name, kind in FORMATS.items()]

    def _endpoint(self, name: str, kind: PlanFormat) -> Endpoint:
        async def export(request: ExportRequest) -> bytes:
            return await self._work.run(_written, kind, request)

        about = f"A plan as a file: {name}."
        return Endpoint(
            f"studio_export_{name}", "POST", f"/v1/studio/export/{name}", "serve", about, export, ExportRequest,
            bytes, 8 * _MB, kind.media, problems=(501, 503),
        )  # fmt: skip


def _written(kind: PlanFormat, request: ExportRequest) -> bytes:
    if not request.rows:
        raise Problem(422, "The plan has no phrases; choose some.")
    return kind.write(request)


def plain_text(value: Any) -> Any:
    """A value that no spreadsheet computes with: before what would be a formula stands an apostrophe.

    >>> plain_text("=1+1"), plain_text("+pizza"), plain_text("pizza"), plain_text(2.5), plain_text(None)
    ("'=1+1", "'+pizza", 'pizza', 2.5, None)
    """
    if not isinstance(value, str):
        return value
    text = _CONTROL.sub(" ", value)
    return f"'{text}" if _FORMULA.match(value) or _FORMULA.match(text) else text


def keyword_text(phrase: str) -> str:
    """A phrase as platforms take it for a keyword.

    >>> keyword_text('=HYPERLINK("x")'), keyword_text("-free +pizza!"), keyword_text("o'neill's 50% t-shirt")
    ('HYPERLINK x', 'free pizza', "o'neill's 50 t-shirt")
    """
    words = _NO_KEYWORD.sub(" ", _CONTROL.sub(" ", phrase)).split()
    return " ".join(stripped for word in words if (stripped := word.strip(_EDGES)))


def _keywords(rows: Iterable[PlanRow], platform: str) -> list[tuple[PlanRow, str]]:
    """The rows whose phrases are keywords of a platform, each keyword of a match type once in its group."""
    found: dict[tuple[str, str, str], tuple[PlanRow, str]] = {}
    for row in rows:
        keyword = keyword_text(row.phrase)
        if _fits(keyword, platform):
            found.setdefault((_group(row), keyword.lower(), row.match), (row, keyword))
    return list(found.values())


def _negatives(phrases: Iterable[str], platform: str) -> list[tuple[str, str]]:
    """Match types and keywords of negatives, as `free`, `"free pizza"` and `[free pizza]` are written."""
    marks = {'"': "phrase", "[": "exact"}
    found = dict.fromkeys((marks.get(one.strip()[:1], "broad"), keyword_text(one)) for one in phrases)
    return [(match, keyword) for match, keyword in found if _fits(keyword, platform)]


def _fits(keyword: str, platform: str) -> bool:
    letters, words = _LONGEST[platform]
    return 0 < len(keyword) <= letters and (words is None or len(keyword.split()) <= words)


def _group(row: PlanRow) -> str:
    return _name(row.theme, "Other phrases")


def _name(text: str, otherwise: str) -> str:
    """The name of a campaign or an ad group, of letters that every spreadsheet leaves alone."""
    return _CONTROL.sub(" ", text).strip().lstrip("=+-@|%＝＋－＠ \t")[:128].strip() or otherwise


def _address(page: str) -> str:
    """The address of a page, if it is one of the web."""
    clean = _CONTROL.sub("", page).strip()
    return clean if re.match(r"https?://[^\s]+$", clean) else ""


def _bid(row: PlanRow) -> str:
    return "" if row.bid is None else f"{row.bid:.2f}"


def _csv(rows: Sequence[Sequence[Any]]) -> bytes:
    out = io.StringIO(newline="")
    csv.writer(out, lineterminator="\r\n").writerows(rows)
    return out.getvalue().encode("utf-8", "replace")
