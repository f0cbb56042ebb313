"""`plan`: phrases for a page with all that a marketer asks of them, and why each is there."""

import html
import time
from pathlib import Path
from typing import Annotated, Any

from msgspec import Meta, field

import broadmatch
from broadmatch.errors import BadInput, BroadmatchError
from broadmatch.harvest import normalise_query
from broadmatch.io import Page
from broadmatch.labels import KEX, SwiftXML
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import Reply, Request
from broadmatch.serve.problems import Problem
from broadmatch.serve.service import LiveService, Service
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.planner.page_text import TextBlock, text_blocks
from broadmatch.serve.studio.planner.phrases import FoundPhrase, find_phrases
from broadmatch.serve.studio.planner.query_facts import QueryFactsTable
from broadmatch.serve.studio.planner.themes import themes
from broadmatch.serve.studio.work import StudioWork

LARGEST_PAGE, _MOST_PHRASES = 6_000_000, 300
_MB = 1 << 20
_WORDS, _PAGES = 20, 5
_PageText = Annotated[str, Meta(max_length=LARGEST_PAGE)] | None
_OnePhrase = Annotated[str, Meta(min_length=1, max_length=1_000)]
_Phrases = Annotated[list[_OnePhrase], Meta(max_length=1_000)]


class PlanRequest(Request, frozen=True):
    """A page, by at most one of `html`, `text` and `address`; phrases that one has, and those that one never wants."""

    html: _PageText = None
    text: _PageText = None
    address: Annotated[str, Meta(max_length=2_000, description="Of a page that the server knows.")] | None = None
    revealed: _Phrases = field(default_factory=list)
    negatives: _Phrases = field(default_factory=list)
    """What contains them goes away: words, "words side by side", [exactly]."""
    k: Annotated[int, Meta(ge=1, le=_MOST_PHRASES)] = 100


class WhyRequest(PlanRequest, frozen=True, kw_only=True):
    """A phrase of a plan, with what the plan was asked by."""

    phrase: _OnePhrase


class PhraseFacts(Reply, frozen=True):
    """What the log says of a phrase; null is not known.

    `searches` are of a month, `series` by the plan's unit, `competition` is from 0 to 100, bids are the 20th and 80th
    percentile of those in the first place, `price` is the mean of a click. `ladder` has rising bids, each with the
    clicks and the cost of a month that any higher bid would bring, at least.
    """

    searches: float | None
    series: list[float] | None
    competition: float | None
    bid_low: float | None
    bid_high: float | None
    price: float | None
    ladder: list[tuple[float, float, float]] | None


class PlannedPhrase(Reply, frozen=True):
    """A phrase, its score from 0 to 1, what found it, its theme, and what the log says of it."""

    phrase: str
    score: float
    sources: list[str]
    theme: str
    in_set: bool
    seeds: list[tuple[str, str, float]]
    facts: PhraseFacts | None


class PlanReply(Reply, frozen=True):
    """The phrases of a page, best first, with the page's text."""

    version: str | None
    calibrated: bool
    """Whether scores of learned phrases are probabilities."""
    phrases: list[PlannedPhrase]
    has_set: bool
    """Whether a model says which phrases are right (`in_set`)."""
    ruled_out: int
    blocks: list[TextBlock]
    cut: bool
    """Whether the page's text goes on."""
    unit: str | None
    """Of the series: month or day; null if the server has no facts of queries."""
    first: str | None
    milliseconds: float
    """That the server took."""


class WhyReply(Reply, frozen=True):
    """What is behind a phrase: words of the page, training pages that are like it, and what extraction says."""

    phrase: str
    words: list[tuple[str, float]]
    pages: list[tuple[str, float, float]]
    """Address, likeness from 0 to 1, and what the page says of the phrase."""
    factors: dict[str, float]
    extracted: list[tuple[str, float]]
    """What speaks for and against a phrase that stands on the page, in log-odds."""


class Planning:
    """Answers what the planner's page asks."""

    def __init__(self, live: LiveService, folder: StudioFolder, work: StudioWork) -> None:
        self._live, self._work = live, work
        self._facts, self._extractor = _Kept(folder.queries, QueryFactsTable.read), _Kept(folder.extractor, _kex)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Plans, and why."""
        size = 2 * LARGEST_PAGE
        return (
            Endpoint(
                "studio_plan", "POST", "/v1/studio/plan", "serve", "Phrases for a page, and what the log says of them.",
                self.answer, PlanRequest, PlanReply, size, problems=(404, 503),
            ),
            Endpoint(
                "studio_why", "POST", "/v1/studio/why", "serve", "Why a phrase is in a plan.",
                self.why, WhyRequest, WhyReply, size, problems=(404, 503),
            ),
        )  # fmt: skip

    async def answer(self, request: PlanRequest) -> PlanReply:
        """The plan of a page."""
        return await self._work.run(self._plan, request)

    async def why(self, request: WhyRequest) -> WhyReply:
        """What is behind a phrase of a plan."""
        return await self._work.run(self._explain, request)

    def _plan(self, request: PlanRequest) -> PlanReply:
        started, service = time.perf_counter(), self._live.current
        page = _page_of(service, request)
        if page is None and service.expansion is None and request.revealed:
            raise Problem(404, "Without a page, phrases are expanded, but no expansion is served; give a page too.")
        found = find_phrases(service, self._extract_by(service), page, request.revealed, request.negatives, request.k)
        blocks, cut = ([], False) if page is None else text_blocks(page.html)
        facts = self._facts.get()
        known = [None] * len(found.phrases) if facts is None else facts.of(
            normalise_query(one.phrase) for one in found.phrases
        )  # fmt: skip
        of_themes = themes([one.phrase for one in found.phrases])
        phrases = [_planned(*row) for row in zip(found.phrases, of_themes, known, strict=True)]
        return PlanReply(
            version=service.recommender_version,
            calibrated=_calibrated(service),
            phrases=phrases,
            has_set=found.has_set,
            ruled_out=found.ruled_out,
            blocks=blocks,
            cut=cut,
            unit=None if facts is None else facts.unit,
            first=None if facts is None else facts.first,
            milliseconds=round(1e3 * (time.perf_counter() - started), 1),
        )

    def _explain(self, request: WhyRequest) -> WhyReply:
        service = self._live.current
        page = _page_of(service, request)
        words: list[tuple[str, float]] = []
        pages: list[tuple[str, float, float]] = []
        factors: dict[str, float] = {}
        extracted: list[tuple[str, float]] = []
        if page is not None:
            why = _learned_why(service, page, request.phrase, request.revealed)
            if why is not None:
                words = [(one.feature, one.amount) for one in why.of("feature") if one.amount > 0][:_WORDS]
                near = [one for one in why.neighbours if one.value > 0] or why.neighbours
                pages, factors = [(one.point, one.likeness, one.value) for one in near[:_PAGES]], why.factors
            try:
                stands = self._extract_by(service).explain(page, request.phrase)
                extracted = [(one.feature, one.amount) for one in stands.contributions if one.kind != "bias"][:_WORDS]
                factors = factors | stands.factors
            except BadInput:
                pass  # it does not stand on the page
        return WhyReply(phrase=request.phrase, words=words, pages=pages, factors=factors, extracted=extracted)

    def _extract_by(self, service: Service) -> KEX:
        model = service.recommender
        found: KEX = model if isinstance(model, KEX) else self._extractor.get() or _UNTRAINED
        return found


_UNTRAINED = KEX.untrained()


class _Kept:
    """What is read from a path, once and again when it is replaced; None if nothing is there."""

    def __init__(self, path: Path, read: Any) -> None:
        self._path, self._read = path, read
        self._seen: Any = None
        self._value: Any = None

    def get(self) -> Any:
        try:
            found = self._path.stat()
            sign = found.st_ino, found.st_mtime_ns
        except OSError:
            return None
        if sign != self._seen:
            self._value, self._seen = self._read(self._path), sign
        return self._value


def _kex(path: Path) -> KEX:
    found: KEX = broadmatch.load(path, KEX)
    return found


def _page_of(service: Service, request: PlanRequest) -> Page | None:
    """The page that a plan is asked for; None if there is none, or nothing on it."""
    given = [one for one in (request.html, request.text, request.address) if one]
    if len(given) > 1:
        raise Problem(422, "Give a page by one of html, text and address.")
    if request.address:
        if service.pages is None:
            raise Problem(404, "No pages are known here; paste the page, or put pages.parquet in the server's folder.")
        return service.pages.get(request.address)
    text = request.html or html.escape(request.text or "")
    return Page("page", text.encode("utf-8", "replace")) if text.strip() else None


def _calibrated(service: Service) -> bool:
    model: Any = service.recommender
    return isinstance(model, KEX) or getattr(getattr(model, "model", None), "calibration_", None) is not None


def _learned_why(service: Service, page: Page, phrase: str, revealed: list[str]) -> Any:
    """The explanation of the model in service; None if it does not know the phrase."""
    model: Any = service.recommender
    if model is None or isinstance(model, KEX) or phrase not in model.model.label_names_:
        return None
    known = [one for one in revealed if one in model.model.label_names_ and one != phrase]
    how: dict[str, Any] = {"revealed": known} if known and isinstance(model.model, SwiftXML) else {}
    try:
        return model.explain(page, phrase, **how)
    except BroadmatchError:
        return None


def _planned(one: FoundPhrase, theme: str, known: dict[str, Any] | None) -> PlannedPhrase:
    return PlannedPhrase(
        phrase=one.phrase,
        score=round(one.score, 4),
        sources=list(one.sources),
        theme=theme,
        in_set=one.in_set,
        seeds=one.seeds,
        facts=None if known is None else _facts_of(known),
    )


def _facts_of(known: dict[str, Any]) -> PhraseFacts:
    """What a row of the facts says, with the ladder in clicks and cost of a month."""
    searches, rate, rungs = known["searches"], known["click_rate"], known["ladder"]
    ladder = None
    if searches is not None and rate is not None and rungs:
        times = searches * rate
        ladder = [(_cents(rung["bid"]), _cents(times * rung["looks"]), _cents(times * rung["cost"])) for rung in rungs]
    return PhraseFacts(
        searches=known["searches"],
        series=known["series"],
        competition=known["competition"],
        bid_low=known["bid_low"],
        bid_high=known["bid_high"],
        price=known["price"],
        ladder=ladder,
    )


def _cents(value: float) -> float:
    return round(value, 4)
