"""Memory inside kernels: hints to the caches, and a number that several threads may change at once."""

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


def _exchange(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Write `value` to element `index` of a flat int64 array and give what was there, in one step for all threads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [context.cast(builder, arguments[1], signature.args[1], types.int64)])
        new = context.cast(builder, arguments[2], signature.args[2], types.int64)
        return builder.atomic_rmw("xchg", place, new, "seq_cst")

    return types.int64(array, index, value), generate


exchange: Any = intrinsic(_exchange)
