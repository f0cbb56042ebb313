"""`recommend`: phrases for a page, in a small pool of threads; who finds it full comes again."""

import asyncio
import html
from collections.abc import Collection
from concurrent.futures import Executor
from typing import Any

from broadmatch.io import Page
from broadmatch.labels import KEX
from broadmatch.labels.recommender import Recommendation
from broadmatch.serve.excluded import excluded_on
from broadmatch.serve.messages import PageRequest, RecommendReply, RecommendRequest, ScoredPhrase
from broadmatch.serve.problems import Problem
from broadmatch.serve.service import LiveService, Service

_MOST_WAITING = 8
_SEEDS = 100
"""Phrases that are expanded, at least."""
_EXPLAINED = 10
"""Phrases that are explained, at most."""


class Recommending:
    """Recommends phrases for pages."""

    def __init__(self, live: LiveService, pool: Executor) -> None:
        self._live, self._pool, self.waiting = live, pool, 0

    async def answer(self, request: RecommendRequest) -> RecommendReply:
        """The phrases of a page."""
        if self.waiting >= _MOST_WAITING:
            raise Problem(503, "Too many pages wait for phrases; try again in a second.", [(b"retry-after", b"1")])
        self.waiting += 1
        try:
            loop = asyncio.get_running_loop()
            return await loop.run_in_executor(self._pool, recommend, self._live.current, request)
        finally:
            self.waiting -= 1


def recommend(service: Service, request: RecommendRequest) -> RecommendReply:
    """The phrases of a page by what is in service."""
    model: Any = service.recommender
    if model is None:
        raise Problem(404, "No phrase model is served here; put one in the folder's recommender/, and reload.")
    page = page_of(service, request)
    how: dict[str, Any] = {}
    if request.revealed:
        if isinstance(model, KEX):
            raise Problem(422, "The phrase model looks at the page alone; leave revealed out.")
        how["revealed"] = [request.revealed]
    _check(service, request)
    left_out = excluded_on(service.excluded, request.address)
    k = None if request.set else max(request.k, _SEEDS) if request.expand else request.k
    found = recommended(model, page, k, left_out, **how)
    phrases = _expanded(service, request, found, left_out) if request.expand else [
        ScoredPhrase(phrase=phrase, score=score) for phrase, score in found.phrases
    ]  # fmt: skip
    version = str(service.recommender_version)
    if request.explain is False:
        return RecommendReply(version=version, phrases=phrases)
    asked = [one.phrase for one in found.phrases[: min(request.k, _EXPLAINED)]]
    asked = asked if request.explain is True else [str(request.explain)]
    return RecommendReply(version=version, phrases=phrases, explanations=[_why(model, page, one) for one in asked])


def recommended(model: Any, page: Page, k: int | None, left_out: Collection[str], **how: Any) -> Recommendation:
    """The `k` best phrases of a page, or its set, without those that are left out; as many more are looked at."""
    (found,) = model.recommend([page], None if k is None else k + len(left_out), **how)
    return Recommendation(found.name, [one for one in found.phrases if one.phrase not in left_out][:k])


def _check(service: Service, request: RecommendRequest) -> None:
    """Refuse what the models in service cannot do."""
    model = getattr(service.recommender, "model", None)
    if request.set and (model is None or not model.sized):
        raise Problem(422, "The phrase model ranks, and answers with no set; give k.")
    if request.set and (request.revealed or request.expand):
        raise Problem(422, "A set takes neither revealed phrases nor expand; give k.")
    if request.expand and service.expansion is None:
        raise Problem(404, "No expansion of phrases is served here; put one in the folder's ksp/, and reload.")


def page_of(service: Service, request: PageRequest) -> Page:
    """The page that is given, or known by its address."""
    given = [one for one in (request.html, request.text, request.address) if one is not None]
    if len(given) != 1:
        raise Problem(422, "Give a page by exactly one of html, text and address.")
    if request.address is not None:
        if service.pages is None:
            raise Problem(404, "No pages are known here; send the html, or put pages.parquet in the folder.")
        return service.pages.get(request.address)
    text = request.html if request.html is not None else html.escape(str(request.text))
    return Page("page", str(text).encode("utf-8", "replace"))


def _expanded(
    service: Service, request: RecommendRequest, found: Recommendation, left_out: Collection[str]
) -> list[ScoredPhrase]:
    assert service.expansion is not None  # noqa: S101
    expanded = service.expansion.expand(found.phrases, request.k + len(left_out))
    return [
        ScoredPhrase(phrase=one.phrase, score=one.score, sources=[source._asdict() for source in one.sources])
        for one in expanded
        if one.phrase not in left_out
    ][: request.k]


def _why(model: Any, page: Page, phrase: str) -> dict[str, Any]:
    why: dict[str, Any] = model.explain(page, phrase).to_dict()
    return why
