"""From a page to bid phrases: a page vectorizer and a label model that were trained together and are kept together."""

import itertools
import logging
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, cast

import numpy as np

from broadmatch.data import CSR, Names, Ranking
from broadmatch.errors import BadArtifact, BadInput
from broadmatch.features import PageVectorizer
from broadmatch.features.word_counts import columns_of, is_table, listed, texts_of
from broadmatch.io.artifacts import Artifact
from broadmatch.io.pages import USUAL, Page
from broadmatch.labels.explanation import Explanation
from broadmatch.labels.predictor import LabelPredictor, NamedLabels
from broadmatch.layout import require
from broadmatch.state import State, pack, unpack

log = logging.getLogger("broadmatch")
_BATCH = 1024
AnyPage = tuple[str, bytes | str] | bytes | str
"""A `broadmatch.io.Page`, or another pair of a name and HTML; or HTML or text alone, whose name is its number."""


class SomeRecommender(Protocol):
    """What recommends phrases for pages."""

    def recommend(self, pages: Iterable[AnyPage] | bytes | str, k: int | None = 10) -> Iterator["Recommendation"]:
        """The `k` best phrases of each page."""
        ...


class Phrase(NamedTuple):
    """A recommended bid phrase and its score."""

    phrase: str
    score: float


class Recommendation(NamedTuple):
    """The phrases that are recommended for a page, best first."""

    name: str
    phrases: list[Phrase]


class Answered(NamedTuple):
    """The answers for some pages; how many pages have no word that is known, and how many revealed phrases are not."""

    found: list[Recommendation]
    n_empty: int
    n_unknown: int


def named_pages(pages: Sequence[AnyPage], first: int) -> list[tuple[str, Any]]:
    """Pages with their names; one without has its number, counted from `first`."""
    return [page if isinstance(page, tuple) else (str(first + i), page) for i, page in enumerate(pages)]


def warn_of_unknown(n_empty: int, n_unknown: int) -> None:
    """Say what the answers could not go by."""
    if n_unknown:
        log.warning("%d revealed phrases are unknown to the model.", n_unknown)
    if n_empty:
        log.warning("Pages without a word that the model knows: %d; their phrases are a guess.", n_empty)


def recommendations(names: Iterable[str], ranking: Ranking) -> Iterator[Recommendation]:
    """The labels of each point of a ranking by name, beside the name of the point."""
    for name, phrases, (_, scores) in zip(names, ranking.names(), ranking, strict=True):
        yield Recommendation(name, [Phrase(*pair) for pair in zip(phrases, scores.tolist(), strict=True)])


@dataclass
class Recommender(Artifact):
    """Bid phrases for landing pages.

    `vectorizer` turns pages (HTML as bytes or str) into rows, `model` is any label model of this package, or one of
    those of `broadmatch.sets` that make sets of its ranking; both are fitted.
    """

    vectorizer: Any
    model: LabelPredictor

    def recommend(
        self,
        pages: Iterable[AnyPage] | bytes | str,
        k: int | None = 10,
        *,
        revealed: Mapping[str, Iterable[str]] | Iterable[Iterable[str]] | None = None,
    ) -> Iterator[Recommendation]:
        """The `k` best phrases of each page, or with None the set that the model predicts, best first.

        Pages are read in batches, so any number may come; one text is one page, a mapping is pages by name, and of a
        table the columns are taken that `broadmatch.io.PageSource` takes. `revealed` are the phrases that pages
        are known to have, by the name of the page, or for each page in turn. They are not recommended again, and a
        model for warm starts (`SwiftXML`) learns from them, also from those that are no labels, by their words. Those
        that it cannot use are counted.
        """
        if k is None and not self.model.pointwise:
            name = type(self.model).__name__
            raise BadInput(f"The sets of {name} depend on all pages together, but pages come in batches; give a k.")
        return self._answers(iter(one_by_one(pages)), k, revealed)

    def answered(self, named: Sequence[tuple[str, Any]], k: int | None, revealed: Any = None) -> "Answered":
        """The phrases of some pages with their names; see `recommend`, which asks for batch after batch."""
        given: dict[str, Any] = {}
        unknown = 0
        if revealed is not None:
            given["revealed"], unknown = self._known([name for name, _ in named], revealed)
        rows, model = self.vectorizer.transform([html for _, html in named]), self.model
        if rows.shape[1] != model.n_features_in_:
            raise BadInput(
                f"The vectorizer knows {rows.shape[1]:,} words, but the model was fitted on {model.n_features_in_:,}; "
                "take the vectorizer the model was trained with."
            )
        best = model.predict_sets(rows, **given) if k is None else model.predict_topk(rows, k, **given)
        found = list(recommendations([name for name, _ in named], best))
        return Answered(found, int((np.diff(rows.indptr) == 0).sum()), unknown)

    def _answers(self, pages: Iterator[AnyPage], k: int | None, revealed: Any) -> Iterator[Recommendation]:
        lists = None if revealed is None or isinstance(revealed, Mapping) else iter(revealed)
        n, empty, unknown = 0, 0, 0
        while batch := list(itertools.islice(pages, _BATCH)):
            answer = self.answered(named_pages(batch, n), k, revealed if lists is None else lists)
            n, empty, unknown = n + len(batch), empty + answer.n_empty, unknown + answer.n_unknown
            yield from answer.found
        warn_of_unknown(empty, unknown)

    def _known(self, pages: list[str], revealed: Any) -> tuple[CSR | NamedLabels, int]:
        """The revealed phrases of pages in the model's numbers, or by name, and how many it does not know."""
        if isinstance(revealed, Mapping):
            given = [list(revealed.get(page, ())) for page in pages]
        else:
            given = [list(phrases) for phrases in itertools.islice(revealed, len(pages))]
        if len(given) < len(pages):
            raise BadInput("There are more pages than revealed lists; give one for each page, [] for none.")
        names = self.model.label_names_
        outside = [phrase for phrases in given for phrase in phrases if phrase not in names]
        described = self.model.describe(outside) if outside else None
        if described is not None:
            lost = {phrase for phrase, size in zip(outside, np.diff(described.indptr), strict=True) if not size}
            number: dict[str, int] = {}
            rows = [[number.setdefault(p, len(number)) for p in phrases if p not in lost] for phrases in given]
            shown = NamedLabels(CSR.from_rows(rows, len(number)), Names.of(number))
            return shown, sum(map(len, given)) - sum(map(len, rows))
        rows = [[names.index(phrase) for phrase in phrases if phrase in names] for phrases in given]
        return CSR.from_rows(rows, len(names)), sum(map(len, given)) - sum(map(len, rows))

    def explain(self, page: AnyPage, phrase: str, **how: Any) -> Explanation:
        """Why `phrase` is recommended for `page`; `how` is what the model's `explain` takes besides."""
        html = page[1] if isinstance(page, tuple) else page
        model: Any = self.model
        why: Explanation = model.explain(self.vectorizer.transform([html]), phrase, **how)
        return why

    def to_state(self) -> State:
        """Give both parts to `broadmatch.io.artifacts.save`."""
        return pack("recommender", {"vectorizer": self.vectorizer, "model": self.model})

    @classmethod
    def from_state(cls, state: State) -> "Recommender":
        """The recommender that was saved."""
        if set(state.parts) != {"vectorizer", "model"}:
            raise BadArtifact(f"A recommender has a vectorizer and a model, but this one has {sorted(state.parts)}.")
        vectorizer, model = unpack({"vectorizer": PageVectorizer, "model": LabelPredictor}, state).values()
        require(len(vectorizer.vocabulary_) == model.n_features_in_, "its model has other words than its vectorizer")
        return cls(vectorizer, model)


def recommend_together(
    recommenders: Sequence[SomeRecommender], pages: Iterable[AnyPage] | bytes | str, k: int = 10
) -> Iterator[Recommendation]:
    """The `k` best phrases of each page by several recommenders, such as a `Recommender` and a `KEX`.

    Scores are taken for the probability that a phrase is right, and recommenders for independent witnesses: a phrase
    has 1 − Π (1 − p). With one recommender, the answers are its own.
    """
    if len(recommenders) == 1:
        yield from recommenders[0].recommend(pages, k)
        return
    given, n = iter(one_by_one(pages)), 0
    while batch := list(itertools.islice(given, _BATCH)):
        named = named_pages(batch, n)
        n += len(batch)
        for answers in zip(*(one.recommend(named, 2 * k) for one in recommenders), strict=True):
            doubt: dict[str, float] = {}
            for answer in answers:
                for phrase, score in answer.phrases:
                    doubt[phrase] = doubt.get(phrase, 1.0) * (1.0 - min(max(score, 0.0), 1.0))
            best = sorted(doubt.items(), key=lambda pair: (pair[1], pair[0]))[:k]
            yield Recommendation(answers[0].name, [Phrase(phrase, 1.0 - left) for phrase, left in best])


def one_by_one(pages: Any) -> Iterable[AnyPage]:
    """Pages, with their names where they have them, from whatever holds them."""
    if isinstance(pages, bytes | str | Page):
        return [pages]
    if isinstance(pages, Mapping):
        return pages.items()
    if not is_table(pages):
        return cast(Iterable[AnyPage], pages)
    lower = {str(name).lower(): name for name in columns_of(pages)}
    names = [listed(pages, lower[known]) for known in USUAL["name"] if known in lower]
    return zip(map(str, names[0]), texts_of(pages), strict=True) if names else texts_of(pages)
