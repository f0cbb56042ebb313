"""What the estimators have in common that turn data into features."""

import os
from typing import Any

from broadmatch.io import artifacts
from broadmatch.state import Saved


class Transformer(Saved):
    """An estimator with `fit` and `transform` that is a step of scikit-learn's pipelines, and can be saved."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as the folder `path`; `broadmatch.load` opens it."""
        artifacts.save(self, path)

    def __sklearn_tags__(self) -> Any:
        """What scikit-learn may expect of a transformer of sparse data."""
        from sklearn.utils import TransformerTags

        tags = super().__sklearn_tags__()
        tags.transformer_tags = TransformerTags(preserves_dtype=["float32"])
        return tags
