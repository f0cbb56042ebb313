"""From a page to bid phrases: a page vectorizer and a label model that were trained together and are kept together."""

import itertools
import os
from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from broadmatch import artifacts
from broadmatch.data import CSR
from broadmatch.errors import BadArtifact

_BATCH = 1024


class Phrase(NamedTuple):
    """A recommended bid phrase and its score."""

    phrase: str
    score: float


class Recommender:
    """Bid phrases for landing pages.

    `vectorizer` turns pages (HTML as bytes or str) into rows, `model` is any label model of this package.
    """

    def __init__(self, vectorizer: Any, model: Any) -> None:
        self.vectorizer = vectorizer
        self.model = model

    def recommend(self, pages: Iterable[bytes | str], k: int = 10) -> Iterator[list[Phrase]]:
        """The `k` best phrases of each page, best first; pages are read in batches, so any number may come."""
        names = self.model.label_names_
        source = iter(pages)
        while batch := list(itertools.islice(source, _BATCH)):
            rows = CSR.from_scipy(self.model.predict_topk(self.vectorizer.transform(batch), k=k))
            for i in range(rows.n_rows):
                found = sorted(zip(*rows.row(i), strict=True), key=lambda pair: (-pair[1], pair[0]))
                yield [Phrase(names[int(label)], float(score)) for label, score in found]

    def explain(self, page: bytes | str, phrase: str, n_voters: int = 5) -> Any:
        """Why `phrase` is recommended for `page`; see the model's `explain`."""
        return self.model.explain(self.vectorizer.transform([page]), phrase, n_voters)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write both parts as one folder; `broadmatch.load` opens it again."""
        artifacts.save(self, path)

    def to_state(self) -> artifacts.State:
        """Give both parts to `broadmatch.artifacts.save`."""
        parts = {"vectorizer": self.vectorizer.to_state(), "model": self.model.to_state()}
        return artifacts.State("recommender", {}, {}, {}, parts)

    @classmethod
    def from_state(cls, state: artifacts.State) -> "Recommender":
        """The recommender that was saved."""
        if set(state.parts) != {"vectorizer", "model"}:
            raise BadArtifact(f"A recommender has a vectorizer and a model, but this one has {sorted(state.parts)}.")
        return cls(artifacts.restore(state.parts["vectorizer"]), artifacts.restore(state.parts["model"]))
