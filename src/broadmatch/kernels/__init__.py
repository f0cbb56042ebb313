"""Compiled inner loops: arrays in, arrays out; no validation, no input or output, no Python objects.

`kernel` is the one way a function becomes a kernel: it releases the GIL and caches its machine code on disk.
"""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numpy.typing import NDArray

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` with numba, without the GIL, cached."""
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def forget_stale_code(folder: Path) -> None:
    """Drop cached machine code when any kernel's source has changed.

    numba looks at the file of a kernel only, not at those of the kernels that it calls: without this, a kernel whose
    callee in another file was changed would go on as it was.
    """
    cache = folder / "__pycache__"
    stamp = cache / "kernels.stamp"
    sources = repr([(f.name, f.stat().st_mtime_ns, f.stat().st_size) for f in sorted(folder.glob("*.py"))])
    with contextlib.suppress(OSError):  # an installation that cannot be written to does not change either
        if stamp.exists() and stamp.read_text() == sources:
            return
        for code in cache.glob("*.nb[ic]"):
            code.unlink(missing_ok=True)
        cache.mkdir(exist_ok=True)
        stamp.write_text(sources)


forget_stale_code(Path(__file__).parent)
