"""A saved model as commands see it: for pages or for rows, what ranks, and what answers with sets."""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import Hierarchy, Names
    from broadmatch.labels.base import LabelModel


@dataclass(frozen=True)
class Opened:
    """A model from a folder.

    `vectorizer` turns pages into rows; None if the model takes rows. `ranking` gives the k best labels; None if the
    model only has sets. `sets` says how many labels a point has; None if the model only ranks.
    """

    place: Path
    vectorizer: Any | None
    ranking: "LabelModel | None"
    sets: Any | None

    @property
    def label_names(self) -> "Names":
        """The names of the labels."""
        found: Names = self._whole.label_names_
        return found

    @property
    def feature_names(self) -> "Names | None":
        """The names of the features that were learned from, if they are known."""
        found: Names | None = self._whole.feature_names_
        return found

    @property
    def hierarchy(self) -> "Hierarchy | None":
        """The hierarchy that the model goes down; None if it knows of none."""
        return getattr(self.sets, "hierarchy_", None)

    def ranks(self, why: str) -> "LabelModel":
        """What ranks, for something that needs a ranking."""
        if self.ranking is None:
            raise BadInput(f"{self.place} holds a {type(self.sets).__name__}, which has sets and no ranking; {why}.")
        return self.ranking

    @property
    def _whole(self) -> Any:
        """What knows the names."""
        return self.sets if self.ranking is None else self.ranking


def open_model(path: Path) -> Opened:
    """The model at `path`."""
    import broadmatch
    from broadmatch.labels import AdaBoostLC, Recommender
    from broadmatch.labels.base import LabelModel
    from broadmatch.sets import HierarchicalLabels
    from broadmatch.sets.base import SetModel

    model = broadmatch.load(path)
    vectorizer, inside = (model.vectorizer, model.model) if isinstance(model, Recommender) else (None, model)
    if isinstance(inside, SetModel):
        return Opened(path, vectorizer, inside.model_, inside)
    if isinstance(inside, HierarchicalLabels):
        return Opened(path, vectorizer, None, inside)
    if not isinstance(inside, LabelModel):
        raise BadInput(f"{path} holds a {type(model).__name__}, not a model; train one with `broadmatch train`.")
    return Opened(path, vectorizer, inside, inside if isinstance(inside, AdaBoostLC) else None)
