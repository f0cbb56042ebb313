"""How a function becomes a kernel: it releases the GIL, and its machine code is kept on disk."""

import functools
import gc
from collections.abc import Callable, Sequence
from typing import Any, TypeVar, cast

import numba as untyped_numba
import numpy as np
from numba.core import codegen, compiler, typed_passes, types, untyped_passes
from numba.core import compiler_machinery as untyped_machinery
from numpy.typing import NDArray

from broadmatch.kernels.cache import KernelCache

numba: Any = untyped_numba
machinery: Any = untyped_machinery
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

    What another kernel calls is a part of that one. It is compiled apart, since much of what Python needs is not
    wanted: no wrapper that takes Python's objects and no machine code of its own. And it is compiled once for all kinds
    of integers that are passed for an `int`.
    """
    options: dict[str, Any] = {"nogil": True, "error_model": "numpy", "no_cfunc_wrapper": True}
    made: Any = numba.njit(**options, pipeline_class=_KernelCompiler)(function)
    if made is not function:  # numba can be switched off, to debug
        made._cache = KernelCache(function)
        kinds = list(function.__annotations__.values())

        @functools.cache
        def part() -> Any:
            return numba.njit(**options, no_cpython_wrapper=True, pipeline_class=_PartCompiler)(function)

        def call_template(arguments: Sequence[Any], by_name: dict[str, Any]) -> Any:
            return part().get_call_template(tuple(map(_wide, arguments, kinds)), by_name)

        made.get_call_template, made.get_overload = call_template, lambda signature: part().get_overload(signature)
    return cast(Function, made)


def _wide(kind: Any, wanted: Any) -> Any:
    """The type as which an argument of this type is passed."""
    plain = numba.types.unliteral(kind)
    is_whole = isinstance(plain, types.Integer) and plain != types.uint64
    return types.int64 if wanted is int and is_whole else plain


class _Library(codegen.JITCodeLibrary):
    """LLVM's code of a function."""

    def _optimize_functions(self, module: Any) -> None:
        """Optimise each function by itself; numba does so also for the many that are only declared."""
        machine: Any = self._codegen
        module.data_layout = machine._data_layout
        for function in module.functions:
            if not function.is_declaration:
                passes, builder = machine._function_pass_manager()
                passes.run(function, builder)


class _KernelLibrary(_Library):
    """The code of a kernel with its parts."""

    def _optimize_final_module(self) -> None:
        for function in self._final_module.functions:
            if not function.is_declaration and function.linkage.name == "linkonce_odr":
                function.linkage = "internal"
        cast(Any, super())._optimize_final_module()


@machinery.register_pass(mutates_CFG=True, analysis_only=False)
class _FuseArrays(typed_passes.NopythonRewrites):
    """numba's search for expressions of whole arrays, only in functions that have one."""

    def run_pass(self, state: Any) -> bool:
        for expression, signature in state.calltypes.items():
            computed = getattr(expression, "op", "") in ("binop", "inplace_binop", "unary", "call")
            if computed and isinstance(signature.return_type, types.Array):
                return cast(bool, cast(Any, super()).run_pass(state))
        return False


def _with_room(function: Function) -> Function:
    """Let what a function calls find room for its frames.

    Python keeps frames in pieces of 16 KB. It asks the system for a piece each time that a call passes the end of one,
    and gives it back on return: a tenth of the time of a compiler that loops there. A function with a large frame gets
    a large piece, of which those that it calls use the rest.
    """
    some: Any = function
    some.__code__ = some.__code__.replace(co_stacksize=(1 << 16) + 1)  # 512 KB and a bit, in a piece of 1 MB
    return function


class _KernelCompiler(compiler.CompilerBase):
    """Compiles a kernel.

    numba's other passes are for what kernels do not have: functions within functions, comprehensions, `with`, errors
    with arguments, loops over tuples of different types.
    """

    library: Any = _KernelLibrary

    def define_pipelines(self) -> list[Any]:
        passes = machinery.PassManager("kernel")
        for step in (
            untyped_passes.TranslateByteCode, untyped_passes.FixupArgs, untyped_passes.IRProcessing,
            untyped_passes.DeadBranchPrune, untyped_passes.GenericRewrites, untyped_passes.ReconstructSSA,
            typed_passes.NopythonTypeInference, typed_passes.PreLowerStripPhis, typed_passes.InlineOverloads,
            _FuseArrays, typed_passes.IRLegalization, typed_passes.AnnotateTypes, typed_passes.NativeLowering,
            typed_passes.NoPythonBackend,
        ):  # fmt: skip
            passes.add_pass(step, step.__name__)
        passes.finalize()
        return [passes]

    @_with_room
    def compile_extra(self, function: Any) -> Any:
        self.state.library = self.library(self.state.targetctx.codegen(), function.__qualname__)
        self.state.library.enable_object_caching()
        collects = gc.isenabled()
        gc.disable()  # what numba builds is alive until the kernel is done; looking for garbage is a tenth of the time
        try:
            return cast(Any, super()).compile_extra(function)
        finally:
            if collects:
                gc.enable()


class _PartLibrary(_Library):
    """LLVM's code of a function and of those that it calls: it is optimised with what it becomes a part of."""

    class _NoMachine:
        """In place of the code generator, where numba would enter what a function that can be run refers to."""

        def set_env(self, name: str, environment: Any) -> None:
            pass

    codegen = _NoMachine()

    def finalize(self) -> None:
        for library in dict.fromkeys(self._linking_libraries):
            self._reload_init.update(library._reload_init)
            self._final_module.link_in(library._get_module_for_linking(), preserve=True)
        cast(Any, self)._finalize_dynamic_globals()
        self._finalized = True

    def get_pointer_to_function(self, name: str) -> int:
        cast(Any, self)._ensure_finalized()
        return 0


class _PartCompiler(_KernelCompiler):
    """Compiles a function only so far that it can become a part of kernels."""

    library = _PartLibrary
