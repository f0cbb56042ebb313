"""From a page to bid phrases: a page vectorizer and a label model that were trained together and are kept together."""

import itertools
import logging
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from broadmatch.data import CSR, Names
from broadmatch.errors import BadArtifact, BadInput
from broadmatch.evaluate.ranking import as_scores
from broadmatch.io import artifacts
from broadmatch.labels.explanation import Explanation
from broadmatch.state import State, restore

log = logging.getLogger("broadmatch")
_BATCH = 1024


class Phrase(NamedTuple):
    """A recommended bid phrase and its score."""

    phrase: str
    score: float


def ranked(scores: CSR, row: int, names: Names) -> list[Phrase]:
    """The labels of a row of scores, best first; of equal scores the lower number comes first."""
    found = sorted(zip(*scores.row(row), strict=True), key=lambda pair: (-pair[1], pair[0]))
    return [Phrase(names[int(label)], float(score)) for label, score in found]


class Recommender:
    """Bid phrases for landing pages.

    `vectorizer` turns pages (HTML as bytes or str) into rows, `model` is any label model of this package, or one of
    those of `broadmatch.sets` that make sets of its ranking.
    """

    def __init__(self, vectorizer: Any, model: Any) -> None:
        self.vectorizer = vectorizer
        self.model = model

    def recommend(
        self, pages: Iterable[bytes | str], k: int = 10, *, revealed: Iterable[Iterable[str]] | None = None
    ) -> Iterator[list[Phrase]]:
        """The `k` best phrases of each page, best first; pages are read in batches, so any number may come.

        `revealed` are the phrases that each page is known to have, [] for none. They are not recommended again, and
        a model for warm starts (`SwiftXML`) learns from them. Those that the model does not know are counted.
        """
        known, ranking = self.model.label_names_, self._ranking()
        source, told = iter(pages), None if revealed is None else iter(revealed)
        unknown = 0
        while batch := list(itertools.islice(source, _BATCH)):
            given: dict[str, Any] = {}
            if told is not None:
                named = [list(phrases) for phrases in itertools.islice(told, len(batch))]
                if len(named) < len(batch):
                    raise BadInput("There are more pages than revealed lists; give one for each page, [] for none.")
                unknown += sum(phrase not in known for phrases in named for phrase in phrases)
                rows = [[known.index(phrase) for phrase in phrases if phrase in known] for phrases in named]
                given["revealed"] = CSR.from_rows(rows, len(known))
            best = CSR.from_scipy(ranking.predict_topk(self.vectorizer.transform(batch), k=k, **given).to_csr())
            for i in range(best.n_rows):
                yield ranked(best, i, known)
        if unknown:
            log.warning("%d revealed phrases are unknown to the model.", unknown)

    def sets(self, pages: Iterable[bytes | str]) -> Iterator[list[Phrase]]:
        """As many phrases as the model says that each page has, best first, of a model that answers with sets."""
        if not hasattr(self.model, "predict"):
            raise BadInput(f"A {type(self.model).__name__} only ranks; wrap it in one of those of broadmatch.sets.")
        source = iter(pages)
        while batch := list(itertools.islice(source, _BATCH)):
            chosen = as_scores(self.model.predict(self.vectorizer.transform(batch)))
            for i in range(chosen.n_rows):
                yield ranked(chosen, i, self.model.label_names_)

    def _ranking(self) -> Any:
        """What ranks the labels: the model, or the one inside it."""
        found = self.model if hasattr(self.model, "predict_topk") else getattr(self.model, "model_", None)
        if found is None:
            raise BadInput(f"A {type(self.model).__name__} has sets and no ranking; ask it for sets.")
        return found

    def explain(self, page: bytes | str, phrase: str, **how: Any) -> Explanation:
        """Why `phrase` is recommended for `page`; `how` is what the model's `explain` takes besides."""
        why: Explanation = self._ranking().explain(self.vectorizer.transform([page]), phrase, **how)
        return why

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write both parts as one folder; `broadmatch.load` opens it again."""
        artifacts.save(self, path)

    def to_state(self) -> State:
        """Give both parts to `broadmatch.io.artifacts.save`."""
        parts = {"vectorizer": self.vectorizer.to_state(), "model": self.model.to_state()}
        return State("recommender", {}, {}, {}, parts)

    @classmethod
    def from_state(cls, state: State) -> "Recommender":
        """The recommender that was saved."""
        if set(state.parts) != {"vectorizer", "model"}:
            raise BadArtifact(f"A recommender has a vectorizer and a model, but this one has {sorted(state.parts)}.")
        return cls(restore(state.parts["vectorizer"]), restore(state.parts["model"]))
