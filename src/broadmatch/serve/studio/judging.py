"""`sheets`: blind sheets of pages and phrases that people grade, each grade on disk before it is acknowledged."""

import re
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from broadmatch.errors import BadInput, MissingFile
from broadmatch.evaluate import JudgementReport, Judgements, SheetKey, judgement_report
from broadmatch.io.columns import ColumnMap
from broadmatch.io.tables import read_texts
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import Reply, Request
from broadmatch.serve.problems import Problem
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.grades import GRADES, RELEVANT, GradeFile, Pair
from broadmatch.serve.studio.planner.page_text import TextBlock, text_blocks
from broadmatch.serve.studio.work import StudioWork

_KEY, _GRADES = ".key.json", ".grades.csv"
_NAME = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]{0,63}")
_ROWS = ColumnMap({"page": ("page",), "phrase": ("phrase",)})
_SMALL, _DRAWS, _LETTERS = 1 << 16, 200, 5_000
_CSV = b"text/csv; charset=utf-8"
SheetName = Annotated[str, Meta(min_length=1, max_length=64)]
JudgeName = Annotated[str, Meta(min_length=1, max_length=64, pattern=r"^[^\x00-\x1f\x7f]+$")]
Cell = Annotated[str, Meta(min_length=1, max_length=20_000)]


class SheetState(Reply, frozen=True):
    """A sheet: how much there is to judge, and how many rows each judge has graded."""

    name: str
    n_pages: int
    n_rows: int
    judges: dict[str, int]


class SheetsReply(Reply, frozen=True):
    """All sheets; `grades` are what they are graded with, and from `relevant` on a phrase counts as relevant."""

    sheets: list[SheetState]
    grades: dict[int, str]
    relevant: int


class SheetRequest(Request, frozen=True):
    """A sheet, and who judges."""

    sheet: SheetName
    judge: JudgeName


class SheetPage(Reply, frozen=True):
    """A page with its phrases, in the order of the sheet, and the grades that this judge has given so far."""

    page: str
    phrases: list[str]
    grades: list[int | None]


class SheetReply(Reply, frozen=True):
    """The rows of a sheet; nothing says which model gave which phrase, nor what others said."""

    sheet: str
    judge: str
    pages: list[SheetPage]


class GradeRequest(Request, frozen=True):
    """A grade of a phrase of a page; null takes it back."""

    sheet: SheetName
    judge: JudgeName
    page: Cell
    phrase: Cell
    grade: Annotated[int, Meta(ge=1, le=4)] | None


class GradeReply(Reply, frozen=True):
    """The grade is on disk; how many rows this judge has graded by now."""

    graded: int
    n_rows: int


class KnownPageRequest(Request, frozen=True):
    """The address of a page."""

    page: Cell


class KnownPageReply(Reply, frozen=True):
    """The first blocks of a page's text; none if the server does not know it."""

    known: bool
    blocks: list[TextBlock]


class AgreementRequest(Request, frozen=True):
    """Of which sheet."""

    sheet: SheetName


class AgreementReply(Reply, frozen=True):
    """How far judges agree on what is relevant: value, from, to; null where no row has two judges.

    `agreement` is the share of pairs of judges who agree, `kappa` what is left of it without chance.
    """

    judges: dict[str, int]
    n_rows: int
    n_unjudged: int
    agreement: dict[str, float] | None
    kappa: dict[str, float] | None
    kappa_name: str


class PrecisionReply(Reply, frozen=True):
    """What the judges say of each model: its precision, with an interval. It ends the blindness."""

    models: dict[str, dict[str, Any]]


class Judging:
    """Hands out sheets and takes grades."""

    def __init__(self, live: LiveService, folder: StudioFolder, work: StudioWork) -> None:
        self._live, self._sheets, self._work = live, _Sheets(folder.judgements), work

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Sheets, a sheet, a grade, agreement, the models, and the file."""
        base = "/v1/studio/sheets"
        return (
            Endpoint("studio", "GET", base, "read", "Sheets to judge.", self.sheets, None, SheetsReply),
            Endpoint(
                "studio", "POST", f"{base}/rows", "read", "The rows of a sheet, for a judge.", self.rows,
                SheetRequest, SheetReply, _SMALL, problems=(404, 503),
            ),
            Endpoint(
                "studio", "POST", f"{base}/page", "read", "The text of a page that the server knows.", self.page,
                KnownPageRequest, KnownPageReply, _SMALL, problems=(503,),
            ),
            Endpoint(
                "studio", "POST", f"{base}/grade", "admin", "Grade a phrase; it is on disk when this answers.",
                self.grade, GradeRequest, GradeReply, _SMALL, problems=(404, 503),
            ),
            Endpoint(
                "studio", "POST", f"{base}/agreement", "read", "How far the judges of a sheet agree.", self.agreement,
                AgreementRequest, AgreementReply, _SMALL, problems=(404, 503),
            ),
            Endpoint(
                "studio", "POST", f"{base}/models", "admin", "What the judges of a sheet say of each model.",
                self.models, AgreementRequest, PrecisionReply, _SMALL, problems=(404, 503),
            ),
            Endpoint(
                "studio", "GET", f"{base}/{{name}}.csv", "read", "All grades, to be read with evaluate --judgements.",
                self.file, None, None, media=_CSV, problems=(404,),
            ),
        )  # fmt: skip

    async def sheets(self) -> SheetsReply:
        """All sheets."""
        found = await self._work.run(self._sheets.states)
        return SheetsReply(sheets=found, grades=dict(GRADES), relevant=RELEVANT)

    async def rows(self, request: SheetRequest) -> SheetReply:
        """A sheet for a judge."""
        return await self._work.run(self._sheets.rows, request.sheet, request.judge.strip())

    async def page(self, request: KnownPageRequest) -> KnownPageReply:
        """A page to look at."""
        return await self._work.run(self._page, request.page)

    def _page(self, address: str) -> KnownPageReply:
        pages = self._live.current.pages
        if pages is None or address not in pages:
            return KnownPageReply(known=False, blocks=[])
        return KnownPageReply(known=True, blocks=text_blocks(pages.get(address).html, _LETTERS)[0])

    async def grade(self, request: GradeRequest) -> GradeReply:
        """Take a grade."""
        return await self._work.run(self._sheets.grade, request)

    async def agreement(self, request: AgreementRequest) -> AgreementReply:
        """How far judges agree."""
        return await self._work.run(self._agreement, request.sheet)

    async def models(self, request: AgreementRequest) -> PrecisionReply:
        """The models behind the sheet."""
        report = await self._work.run(self._sheets.report, request.sheet)
        if report is None:
            raise Problem(404, "Nobody has graded a row of this sheet yet.")
        made = {
            model: {name: asdict(value) for name, value in found.metrics.items()}
            for model, found in report.models.items()
        }
        return PrecisionReply(models=made)

    async def file(self, name: str) -> bytes:
        """The file of grades."""
        return await self._work.run(self._sheets.content, name)

    def _agreement(self, sheet: str) -> AgreementReply:
        report, state = self._sheets.report(sheet), self._sheets.state(sheet)
        of: Any = {"agreement": None, "kappa": None}
        if report is not None:
            of = {name: None if (value := getattr(report, name)) is None else asdict(value) for name in of}
        return AgreementReply(
            judges=state.judges,
            n_rows=state.n_rows,
            n_unjudged=state.n_rows if report is None else report.n_unjudged,
            kappa_name="Fleiss' kappa" if report is None else report.kappa_name,
            **of,
        )


class _Sheets:
    """The sheets of a folder, as `broadmatch judge make` writes them: NAME.csv, NAME.key.json, and NAME.grades.csv."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._files: dict[str, GradeFile] = {}

    def names(self) -> list[str]:
        found = (file.name.removesuffix(_KEY) for file in self._folder.glob(f"*{_KEY}"))
        return sorted(name for name in found if _NAME.fullmatch(name))

    def states(self) -> list[SheetState]:
        return [self.state(name) for name in self.names()]

    def state(self, name: str) -> SheetState:
        key = self._key(name)
        pairs = key.pairs()
        judges = {judge: sum(pair in pairs for pair in of) for judge, of in self._grades(name).read().items()}
        return SheetState(name=name, n_pages=len(key.pages), n_rows=len(pairs), judges=judges)

    def rows(self, name: str, judge: str) -> SheetReply:
        given = self._grades(name).read().get(judge, {})
        pages: dict[str, list[Pair]] = {}
        for pair in self._order(name):
            pages.setdefault(pair[0], []).append(pair)
        made = [
            SheetPage(page=page, phrases=[phrase for _, phrase in of], grades=[given.get(pair) for pair in of])
            for page, of in pages.items()
        ]
        return SheetReply(sheet=name, judge=judge, pages=made)

    def grade(self, request: GradeRequest) -> GradeReply:
        judge, pair = request.judge.strip(), (request.page, request.phrase)
        pairs, file = self._key(request.sheet).pairs(), self._grades(request.sheet)
        if pair not in pairs or not judge:
            raise BadInput("This row is not on the sheet, or nobody is named as judge; load the sheet again.")
        file.append(judge, pair, request.grade)
        given = file.read().get(judge, {})
        return GradeReply(graded=sum(one in pairs for one in given), n_rows=len(pairs))

    def report(self, name: str) -> JudgementReport | None:
        """What the judges say; None before the first grade."""
        key = self._key(name)
        pairs, grades = key.pairs(), self._grades(name).read()
        relevant = np.full((len(pairs), len(grades)), np.nan)
        for column, given in enumerate(grades.values()):
            for pair, grade in given.items():
                if pair in pairs:
                    relevant[pairs[pair], column] = grade >= RELEVANT
        judged = ~np.isnan(relevant).all(axis=0) if len(grades) else np.zeros(0, np.bool_)
        if not judged.any():
            return None
        judges = [judge for judge, one in zip(grades, judged.tolist(), strict=True) if one]
        return judgement_report(key, Judgements(judges, relevant[:, judged]), n_bootstrap=_DRAWS)

    def content(self, name: str) -> bytes:
        self._key(name)
        try:
            return self._grades(name).path.read_bytes()
        except FileNotFoundError:
            raise MissingFile("Nobody has graded a row of this sheet yet.") from None

    def _order(self, name: str) -> Iterator[Pair]:
        """The rows in the order of the sheet, those that it lacks at the end."""
        pairs = dict.fromkeys(self._key(name).pairs())
        sheet = self._folder / f"{name}.csv"
        rows = read_texts(sheet, _ROWS) if sheet.is_file() else ()
        for _, row in rows:
            pair = row["page"], row["phrase"]
            if pair in pairs:
                del pairs[pair]
                yield pair
        yield from sorted(pairs)

    def _key(self, name: str) -> SheetKey:
        return SheetKey.open(self._key_file(name))

    def _key_file(self, name: str) -> Path:
        """The file that a sheet has, for names of sheets that are there; no other name becomes a path."""
        if not _NAME.fullmatch(name) or not (file := self._folder / f"{name}{_KEY}").is_file():
            raise MissingFile(f"There is no sheet {name[:64]!r}; make one with `broadmatch judge make`.")
        return file

    def _grades(self, name: str) -> GradeFile:
        self._key_file(name)
        return self._files.setdefault(name, GradeFile(self._folder / f"{name}{_GRADES}"))
