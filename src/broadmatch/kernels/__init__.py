"""Compiled inner loops: arrays in, arrays out; no validation, no input or output, no Python objects.

`kernel` is the one way a function becomes a kernel: it releases the GIL and caches its machine code on disk.
"""

from collections.abc import Callable
from typing import Any, TypeVar, cast

import numba

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` with numba, without the GIL, cached."""
    return cast(Function, numba.njit(nogil=True, cache=True)(function))
