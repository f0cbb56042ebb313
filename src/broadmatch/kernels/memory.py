"""Memory hints inside kernels."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils as untyped_cgutils
from numba.extending import intrinsic

cgutils: Any = untyped_cgutils


def _prefetch(typing_context: Any, array: Any, index: Any) -> Any:
    """Ask for the cache line of element `index` of a flat array, without waiting for it.

    Lookups in a table that is larger than the caches wait for memory most of the time. With the lines of a whole block
    of lookups on their way, the waits overlap.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        byte = ir.IntType(8).as_pointer()
        address = builder.bitcast(builder.gep(data, [arguments[1]]), byte)
        number = ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0i8")
        # for writing, as near as possible, data
        builder.call(function, [address, number(1), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(array, index), generate


prefetch: Any = intrinsic(_prefetch)
