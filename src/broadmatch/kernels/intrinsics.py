"""What numba does not offer by itself: cache hints, an atomic exchange, sums in registers, arrays from addresses.

By addresses one kernel takes any number of columns of several types, without a copy: numba compiles a kernel for each
number and type of its arguments, and a list of addresses is one argument, whatever it leads to. The caller keeps the
arrays alive during the call: an address does not.
"""

from typing import Any

import numba
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


def _prefetch_at(typing_context: Any, address: Any) -> Any:
    """Ask for the cache line at an address, to read it, without waiting for it."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        byte, number = ir.IntType(8).as_pointer(), ir.IntType(32)
        shape = ir.FunctionType(ir.VoidType(), [byte, number, number, number])
        function = cgutils.get_or_insert_function(builder.module, shape, "llvm.prefetch.p0i8")
        builder.call(function, [builder.inttoptr(arguments[0], byte), number(0), number(3), number(1)])
        return context.get_dummy_value()

    return types.void(types.int64), generate


prefetch_at: Any = intrinsic(_prefetch_at)


def _exchange(typing_context: Any, array: Any, index: Any, value: Any) -> Any:
    """Write `value` to element `index` of a flat int64 array and give what was there, in one step for all threads."""

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        data = context.make_array(signature.args[0])(context, builder, arguments[0]).data
        place = builder.gep(data, [context.cast(builder, arguments[1], signature.args[1], types.int64)])
        new = context.cast(builder, arguments[2], signature.args[2], types.int64)
        return builder.atomic_rmw("xchg", place, new, "seq_cst")

    return types.int64(array, index, value), generate


exchange: Any = intrinsic(_exchange)


LANES = 32
"""Columns that `add_rows` adds up at once: so many that sums need not wait for each other, and fit the registers."""


def _add_rows(
    typing_context: Any, target: Any, at: Any, source: Any, index: Any, value: Any, start: Any, stop: Any
) -> Any:
    """target[at : at + 32] += Σ_e value[e]·source[32·index[e] : 32·index[e] + 32] for e from start to stop.

    All arrays are flat; target, source and value float32, index int32. numba keeps the sums of such a loop in memory
    and adds them one by one; here they stay in registers, and are added as vectors.
    """

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        def data(number: int) -> Any:
            return context.make_array(signature.args[number])(context, builder, arguments[number]).data

        def whole(number: int) -> Any:
            return context.cast(builder, arguments[number], signature.args[number], types.int64)

        vector = ir.VectorType(ir.FloatType(), LANES)
        into = builder.bitcast(builder.gep(data(0), [whole(1)]), vector.as_pointer())
        rows = builder.bitcast(data(2), vector.as_pointer())
        sums = cgutils.alloca_once_value(builder, builder.load(into, align=4))
        with cgutils.for_range_slice(builder, whole(5), whole(6), ir.IntType(64)(1)) as (entry, _):
            row = builder.sext(builder.load(builder.gep(data(3), [entry])), ir.IntType(64))
            weight = builder.load(builder.gep(data(4), [entry]))
            one = builder.insert_element(ir.Constant(vector, ir.Undefined), weight, ir.IntType(32)(0))
            spread = builder.shuffle_vector(
                one, ir.Constant(vector, ir.Undefined), ir.Constant(ir.VectorType(ir.IntType(32), LANES), [0] * LANES)
            )
            product = builder.fmul(builder.load(builder.gep(rows, [row]), align=4), spread, flags=("contract",))
            builder.store(builder.fadd(builder.load(sums), product, flags=("contract",)), sums)
        builder.store(builder.load(sums), into, align=4)
        return context.get_dummy_value()

    return types.void(target, at, source, index, value, start, stop), generate


add_rows: Any = intrinsic(_add_rows)


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
