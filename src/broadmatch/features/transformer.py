"""What the estimators have in common that turn data into features."""

from typing import Any

from broadmatch.io.artifacts import Artifact
from broadmatch.state import Saved


class Transformer(Artifact, Saved):
    """An estimator with `fit` and `transform` that is a step of scikit-learn's pipelines, and can be saved."""

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect of a transformer of sparse data."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags
