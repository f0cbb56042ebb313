"""How a function becomes a kernel: it releases the GIL and caches its machine code on disk."""

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
    """Drop cached machine code below `folder` when the source of any kernel there has changed.

    numba looks at the file of a kernel only, not at those of the kernels that it calls: without this, a kernel whose
    callee in another file was changed would go on as it was. Kernels stand in `kernels/` and in files `_name.py`.
    """
    stamp = folder / "__pycache__" / "kernels.stamp"
    files = sorted(f for f in folder.rglob("*.py") if f.name.startswith("_") or f.parent.name == "kernels")
    sources = repr([(f.relative_to(folder).as_posix(), f.stat().st_mtime_ns, f.stat().st_size) for f in files])
    with contextlib.suppress(OSError):  # an installation that cannot be written to does not change either
        if stamp.exists() and stamp.read_text() == sources:
            return
        for code in folder.rglob("__pycache__/*.nb[ic]"):
            code.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(sources)


forget_stale_code(Path(__file__).parent.parent)
