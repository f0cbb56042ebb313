"""broadmatch: open sponsored-search learning."""

import os
from importlib.metadata import version as _version
from typing import Any

__version__ = _version("broadmatch")
__all__ = ["__version__", "load"]


def load(path: str | os.PathLike[str], *, verify: bool = True) -> Any:
    """Open a saved model, vectorizer or data set; see `broadmatch.io.artifacts.load`."""
    from broadmatch.io.artifacts import load as open_artifact

    return open_artifact(path, verify=verify)
