"""How a function becomes a kernel: it releases the GIL, and its machine code is kept on disk."""

import functools
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numba
import numpy as np
from numba import types
from numpy.typing import NDArray

from broadmatch.kernels.cache import KernelCache

I32 = NDArray[np.int32]
I64 = NDArray[np.int64]
U64 = NDArray[np.uint64]
F32 = NDArray[np.float32]
F64 = NDArray[np.float64]
Flags = NDArray[np.bool_]
Bytes = NDArray[np.uint8]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` with numba when it is first called, without the GIL; its machine code is kept.

    What another kernel calls is compiled apart from what Python calls: without the wrapper that takes Python's objects,
    which is much of the time that a small kernel takes to compile, and once for all kinds of integers that are passed
    for an `int`.
    """
    made = _compiled(function)
    if made is not function:  # numba can be switched off, to debug
        kinds = list(function.__annotations__.values())
        part = functools.cache(lambda: _compiled(function, no_cpython_wrapper=True))

        def template(arguments: Sequence[Any], by_name: dict[str, Any]) -> Any:
            return part().get_call_template(tuple(map(_wide, arguments, kinds)), by_name)

        made.get_call_template, made.get_overload = template, lambda signature: part().get_overload(signature)
    return cast(Function, made)


def _compiled(function: Function, **options: Any) -> Any:
    decorate: Any = numba.njit
    made: Any = decorate(nogil=True, error_model="numpy", no_cfunc_wrapper=True, **options)(function)
    if made is not function:
        made._cache = KernelCache(function, "-part" if options else "")
    return made


def _wide(kind: Any, wanted: Any) -> Any:
    """The type as which an argument of this type is passed."""
    unliteral: Any = types.unliteral
    plain = unliteral(kind)
    is_whole = isinstance(plain, types.Integer) and plain != types.uint64
    return types.int64 if wanted is int and is_whole else plain
