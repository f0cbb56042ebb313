"""What the commands of `broadmatch clicks` share."""

import contextlib
import ctypes
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broadmatch.errors import BadInput
from broadmatch.io.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from broadmatch.clicks import ClickModel
    from broadmatch.io.files import Source


_MMAP_THRESHOLD = -3
"""The number that mallopt(3) has for the size from which memory is asked of the system and given back."""


def prepare() -> None:
    """What comes before the first import that takes long: memory that is freed goes back to the system."""
    import pyarrow as pa

    # Arrow's own pool keeps what was freed for later, some 40 MB; these commands go through small batches. The C
    # library keeps ever larger arrays that were freed, some 10 MB, unless it is given a limit.
    pa.set_memory_pool(pa.system_memory_pool())
    with contextlib.suppress(OSError, AttributeError, TypeError):  # another C library
        ctypes.CDLL(None).mallopt(_MMAP_THRESHOLD, 1 << 17)


def open_model(path: Path) -> "ClickModel":
    """The model at `path`, if it is one for clicks."""
    import broadmatch
    from broadmatch.clicks import ClickModel
    from broadmatch.io.artifacts import read_manifest

    kind = read_manifest(path)["kind"]
    model: Any = broadmatch.load(path) if kind == "click_model" else None
    if not isinstance(model, ClickModel):
        raise BadInput(f"{path} holds a {kind}, not a click model; train one with `broadmatch clicks train`.")
    return model


def source_of(data: Sequence[str]) -> "Source":
    """Files, folders and patterns, or standard input by itself."""
    if STANDARD_INPUT not in data:
        return list(data)
    if len(data) > 1:
        raise BadInput("Standard input (-) stands by itself; name the files in another call.")
    return STANDARD_INPUT
