"""How a function becomes a kernel: it releases the GIL and caches its machine code on disk."""

import contextlib
import json
import re
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
Bytes = NDArray[np.uint8]

Function = TypeVar("Function", bound=Callable[..., Any])


def kernel(function: Function) -> Function:
    """Compile `function` with numba, without the GIL, cached."""
    return cast(Function, numba.njit(nogil=True, cache=True, error_model="numpy")(function))


def forget_stale_code(folder: Path) -> None:
    """Drop the cached machine code of kernels below `folder` whose source, or that of a kernel they call, has changed.

    numba looks at the file of a kernel only, not at those of the kernels that it calls: without this, a kernel whose
    callee in another file was changed would go on as it was. Kernels stand in `kernels/` and in files `_name.py`.
    """
    stamp = folder / "__pycache__" / "kernels.json"
    files = {
        file.relative_to(folder).as_posix(): [file.stat().st_mtime_ns, file.stat().st_size]
        for file in sorted(folder.rglob("*.py"))
        if file.parent.name == "kernels" or (file.name.startswith("_") and file.name != "__init__.py")
    }
    with contextlib.suppress(OSError, ValueError):  # an installation that cannot be written to does not change either
        known = json.loads(stamp.read_text()) if stamp.exists() else {}
        if known == files:
            return
        changed = {name for name in files if known.get(name) != files[name]}
        for name in _callers(folder, list(files), changed):
            for code in (folder / name).parent.glob(f"__pycache__/{Path(name).stem}.*.nb[ic]"):
                code.unlink(missing_ok=True)
        stamp.parent.mkdir(exist_ok=True)
        stamp.write_text(json.dumps(files))


def _callers(folder: Path, files: list[str], changed: set[str]) -> set[str]:
    """The changed files, and all that import one of them, directly or by way of others."""
    imports = {name: _imports(folder / name) for name in files}
    module = {name: name.removesuffix(".py").removesuffix("/__init__").replace("/", ".") for name in files}
    found = set(changed)
    while more := {n for n in files if n not in found and imports[n] & {module[other] for other in found}}:
        found |= more
    return found


def _imports(file: Path) -> set[str]:
    """What a kernel's file imports of this package, as modules without its name."""
    found = set()
    for module, names in re.findall(r"(?m)^from broadmatch\.([\w.]+) import ([^\n]*)", file.read_text("utf-8")):
        found |= {module, *(f"{module}.{name.strip()}" for name in re.split(r",| as ", names))}
    return found


forget_stale_code(Path(__file__).parent.parent)
