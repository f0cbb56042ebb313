"""broadmatch: open sponsored-search learning."""

import os
from typing import Any, TypeVar, overload

__version__: str
__all__ = ["__version__", "load"]

Kind = TypeVar("Kind")


@overload
def load(path: str | os.PathLike[str], *, verify: bool = True) -> Any: ...
@overload
def load(path: str | os.PathLike[str], kind: type[Kind], *, verify: bool = True) -> Kind: ...
def load(path: str | os.PathLike[str], kind: Any = object, *, verify: bool = True) -> Any:
    """Open a saved model, vectorizer or data set; its arrays stay on disk, memory-mapped.

    With a class, such as `load("model/", MLRF)`, the folder must hold one of these, and type checkers know it. A folder
    is not trusted: one that is damaged or forged raises `BadArtifact` (docs/trust.md). `verify=False` leaves out the
    comparison with the sha256 of each file, and nothing else.
    """
    from broadmatch.io.artifacts import load as open_artifact

    return open_artifact(path, kind, verify=verify)


def __getattr__(name: str) -> Any:
    """The version is looked up when it is asked for: that takes longer than `broadmatch --help` may."""
    if name != "__version__":
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib.metadata import version

    return version("broadmatch")
