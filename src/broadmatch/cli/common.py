"""What the commands that use a trained label model share."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import Names
    from broadmatch.labels.predictor import LabelPredictor


def load_model(path: Path) -> "tuple[Any | None, LabelPredictor]":
    """What turns pages into rows, None for a model of rows; and the model."""
    import broadmatch
    from broadmatch.labels import Recommender
    from broadmatch.labels.predictor import LabelPredictor

    found = broadmatch.load(path)
    vectorizer, model = (found.vectorizer, found.model) if isinstance(found, Recommender) else (None, found)
    if not isinstance(model, LabelPredictor):
        raise BadInput(f"{path} holds a {type(found).__name__}, not a model; train one with `broadmatch train`.")
    return vectorizer, model


def check_ranks(model: "LabelPredictor", path: Path, instead: str) -> None:
    """Refuse a model that has sets only."""
    if hasattr(model, "hierarchy_"):
        raise BadInput(f"{path} holds a {type(model).__name__}, which has sets and no ranking; {instead}.")


def check_features(model: "LabelPredictor", given: "Names | None", path: Path) -> None:
    """Refuse rows whose features are not those that the model learned from, if both have names."""
    known = model.feature_names_
    if known is not None and given is not None and known != given:
        raise BadInput(
            f"The words of {path} are not those that the model was trained on; "
            "take those that were made together with the training data."
        )
