"""`trace`: from a bad phrase to the training pages that brought it (MLRF §5.5), and phrases that are left out since."""

from collections.abc import Iterable
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from broadmatch.io import Page
from broadmatch.labels import KEX, MLRF
from broadmatch.labels.explanation import Explanation, Leaf, name_of
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.endpoints.recommending import page_of
from broadmatch.serve.excluded import ExcludedPhrase, ExcludedPhrases, excluded_on
from broadmatch.serve.messages import PageAddress, PageRequest, PhraseText, Reply, Request
from broadmatch.serve.problems import Problem
from broadmatch.serve.service import LiveService, Service
from broadmatch.serve.studio.work import StudioWork

_LARGEST, _SMALL = 1 << 22, 1 << 14
_VOTERS, _PAGES, _LABELS, _LEAVES, _WORDS = 1_000, 30, 20, 100, 20
"""Training pages of a leaf that are looked at; and pages, labels of each, leaves and words that are answered."""


class TraceRequest(PageRequest, frozen=True, kw_only=True):
    """A page and a phrase that is, or is not, recommended for it."""

    phrase: PhraseText


class TrainingPage(Reply, frozen=True):
    """A training page behind a phrase.

    `share` is its part of the trees' vote for the phrase, `trees` in how many of them it stands in the same leaf and
    has the phrase; `labels` are phrases that it was labelled with, the strongest first, of `n_labels`. `known` says
    whether the server has the page.
    """

    page: str
    value: float
    share: float
    trees: int
    labels: list[str]
    n_labels: int
    known: bool


class TracedLeaf(Reply, frozen=True):
    """A leaf that the page fell into: the tests on the way, its training pages, and its vote for the phrase.

    A test stands with whether it was taken to the left: in a forest of thresholds, whether the page lacks the word.
    """

    tree: int
    vote: float
    share: float
    n_pages: int
    path: list[tuple[str, bool]]
    pages: list[str]


class TraceReply(Reply, frozen=True):
    """What is behind a phrase: words of the page, leaves, training pages; `place` is its rank, if it is among 100."""

    version: str
    model: str
    phrase: str
    score: float
    place: int | None
    excluded: bool
    words: list[tuple[str, float]]
    factors: dict[str, float]
    n_trees: int
    leaves: list[TracedLeaf]
    pages: list[TrainingPage]


class ExcludeRequest(Request, frozen=True):
    """A phrase that is to be recommended no more: on one page, or without an address on all."""

    phrase: PhraseText
    address: PageAddress | None = None
    reason: Annotated[str, Meta(max_length=1_000)] = ""


class IncludeRequest(Request, frozen=True):
    """A phrase that may be recommended again."""

    phrase: PhraseText
    address: PageAddress | None = None


class ExcludedReply(Reply, frozen=True):
    """All phrases that are left out, the oldest first, and whether the request changed that."""

    changed: bool
    excluded: list[ExcludedPhrase]


class Tracing:
    """Follows phrases to what brought them, and leaves some out."""

    def __init__(self, live: LiveService, work: StudioWork) -> None:
        self._live, self._work = live, work
        self._excluded = ExcludedPhrases(live.folder.excluded)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """Trace, exclude, include, and the list."""
        listed = "/v1/studio/excluded"
        return (
            Endpoint(
                "studio", "POST", "/v1/studio/trace", "serve", "The training pages behind a phrase.",
                self.trace, TraceRequest, TraceReply, _LARGEST, problems=(404, 503),
            ),
            Endpoint(
                "studio", "GET", listed, "read", "Phrases that are not recommended.", self.excluded, None, ExcludedReply
            ),
            Endpoint(
                "studio", "POST", listed, "admin", "Recommend a phrase no more.", self.exclude, ExcludeRequest,
                ExcludedReply, _SMALL, problems=(503,),
            ),
            Endpoint(
                "studio", "POST", "/v1/studio/excluded/undo", "admin", "Let a phrase be recommended again.",
                self.include, IncludeRequest, ExcludedReply, _SMALL, problems=(503,),
            ),
        )  # fmt: skip

    async def trace(self, request: TraceRequest) -> TraceReply:
        """What is behind a phrase."""
        return await self._work.run(trace, self._live.current, request)

    async def excluded(self) -> ExcludedReply:
        """What is left out."""
        return ExcludedReply(changed=False, excluded=await self._work.run(self._excluded.read))

    async def exclude(self, request: ExcludeRequest) -> ExcludedReply:
        """Leave a phrase out; who asks from now on does not get it."""
        one = ExcludedPhrase(request.phrase, request.address, request.reason)
        return await self._work.run(self._change, lambda: self._excluded.add(one))

    async def include(self, request: IncludeRequest) -> ExcludedReply:
        """Undo that."""
        return await self._work.run(self._change, lambda: self._excluded.remove(request.phrase, request.address))

    def _change(self, change: Any) -> ExcludedReply:
        changed = change()
        self._live.reload()
        return ExcludedReply(changed=changed, excluded=self._excluded.read())


def trace(service: Service, request: TraceRequest) -> TraceReply:
    """Follow a phrase through the phrase model in service."""
    recommender: Any = service.recommender
    if recommender is None:
        raise Problem(404, "No phrase model is served here; put one in the folder's recommender/, and reload.")
    page = page_of(service, request)
    model = _innermost(recommender)
    how = {"n_voters": _VOTERS} if isinstance(model, MLRF) else {}
    why: Explanation = recommender.explain(page, request.phrase, **how)
    return TraceReply(
        version=str(service.recommender_version),
        model=type(model).__name__,
        phrase=why.label,
        score=why.score,
        place=_place(recommender, page, why.label),
        excluded=why.label in excluded_on(service.excluded, request.address),
        words=[(one.feature, one.amount) for one in why.contributions if one.kind == "feature"][:_WORDS],
        factors=why.factors,
        n_trees=len(why.leaves),
        leaves=[_leaf(leaf) for leaf in sorted(why.leaves, key=lambda leaf: -leaf.value)[:_LEAVES]],
        pages=list(_pages(service, model, why)),
    )


def _innermost(recommender: Any) -> Any:
    """The model of scores: that of a recommender, without what makes sets of it."""
    model = recommender if isinstance(recommender, KEX) else recommender.model
    while hasattr(model, "model_"):
        model = model.model_
    return model


def _place(recommender: Any, page: Page, phrase: str) -> int | None:
    (found,) = recommender.recommend([page], 100)
    return next((i for i, one in enumerate(found.phrases, 1) if one.phrase == phrase), None)


def _leaf(leaf: Leaf) -> TracedLeaf:
    return TracedLeaf(
        tree=leaf.tree,
        vote=leaf.value,
        share=leaf.share,
        n_pages=leaf.n_points,
        path=[(str(step), step.went_left) for step in leaf.path],
        pages=[one.feature for one in leaf.voters[:_PAGES]],
    )


def _pages(service: Service, model: Any, why: Explanation) -> Iterable[TrainingPage]:
    """The training pages that voted for the phrase, those that gave most first; or neighbours that have it."""
    value: dict[str, float] = {}
    share: dict[str, float] = {}
    trees: dict[str, int] = {}
    for leaf in why.leaves:
        total = sum(one.amount for one in leaf.voters)
        for one in leaf.voters:
            value[one.feature] = one.amount
            share[one.feature] = share.get(one.feature, 0.0) + leaf.share * one.amount / total
            trees[one.feature] = trees.get(one.feature, 0) + 1
    if not value:
        near = [one for one in why.neighbours if one.value > 0]
        value, share = {one.point: one.value for one in near}, {one.point: one.weight for one in near}
    for name in sorted(value, key=lambda one: (-share[one], one))[:_PAGES]:
        labels = _labels_of(model, name)
        yield TrainingPage(
            page=name, value=value[name], share=share[name], trees=trees.get(name, 0),
            labels=labels[:_LABELS], n_labels=len(labels), known=service.pages is not None and name in service.pages,
        )  # fmt: skip


def _labels_of(model: Any, name: str) -> list[str]:
    """The phrases that a training page was labelled with, the strongest first, where the model keeps them."""
    known = getattr(model, "train_labels_", None)
    if known is None:
        return []
    names = model.point_names_
    point = int(name) if names is None else names.index(name)
    labels, values = known.row(point)
    return [name_of(model.label_names_, label) for label in labels[np.argsort(-values, kind="stable")].tolist()]
