"""Compiled inner loops: arrays in, arrays out; no validation, no input or output, no Python objects.

`kernel` is the one way a function becomes a kernel: it releases the GIL and caches its machine code on disk.
"""

from collections.abc import Callable
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
    return cast(Function, numba.njit(nogil=True, cache=True)(function))
