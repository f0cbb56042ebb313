"""Arrays from their addresses: how one kernel takes any number of columns of several types, without a copy.

numba compiles a kernel for each number and type of its arguments; a list of addresses is one argument, whatever it
leads to. The caller keeps the arrays alive during the call: an address does not.
"""

from typing import Any

import numba
from numba.core import types
from numba.extending import intrinsic


def _pointer_to(kind: Any) -> Any:
    """What a kernel calls to take a number for the address of values of this kind."""

    made_of: Any = types.CPointer
    to: Any = made_of(kind)

    def pointer(typing: Any, address: Any) -> Any:
        def build(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(to))

        return to(types.int64), build

    return intrinsic(pointer)


to_int32 = _pointer_to(types.int32)
to_int64 = _pointer_to(types.int64)
to_uint64 = _pointer_to(types.uint64)
to_flags = _pointer_to(types.boolean)
carray: Any = vars(numba)["carray"]
"""The array of so many values that a pointer leads to."""
