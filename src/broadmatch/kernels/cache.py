"""Where the machine code of kernels is kept between runs, and what a run says that has to compile.

Code is written to the first of these that can be written to: `NUMBA_CACHE_DIR`, if that is set; beside the source; the
user's cache folder; a folder of the user's among the temporary files. What was compiled beside the source, as in the
image of a container, is used also where it cannot be written to. A cache is code that will be run: the last two folders
are used only if they belong to this user and nobody else may write there.
"""

import contextlib
import functools
import hashlib
import logging
import os
import re
import stat
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numba as untyped_numba
from llvmlite.binding import add_symbol

numba: Any = untyped_numba
log = logging.getLogger("broadmatch")
_PACKAGE = Path(__file__).parents[1]
_PATIENCE = 1.0
"""Seconds of compiling after which it is spoken of."""


class Places(NamedTuple):
    """Where code is looked for, the first place to which it is written, if any, and what is said of that."""

    read: list[Path]
    write: Path | None
    note: str = ""


class KernelCache:
    """What numba asks for the machine code of one kernel, and hands what it compiled."""

    def __init__(self, function: Callable[..., Any]) -> None:
        self.source = Path(function.__code__.co_filename)
        self.name = f"{self.source.stem}.{function.__qualname__}"

    @functools.cached_property
    def _files(self) -> dict[Path, Any]:
        """The index and the code of this kernel in each place where they may be."""
        if not self.source.is_file():  # typed in at a prompt
            return {}
        make = numba.core.caching.IndexDataCacheFile
        return {place: make(place, self.name, source_stamp(self.source)) for place in places(self.source.parent).read}

    def load_overload(self, signature: Any, context: Any) -> Any:
        """The machine code for arguments of these types, if there is any; else numba compiles."""
        _add_runtime()
        for file in self._files.values():
            with contextlib.suppress(Exception):  # what cannot be read is compiled again
                found = file.load((signature, context.codegen().magic_tuple()))
                if found is not None:
                    return numba.core.compiler.CompileResult._rebuild(context, *found)
        waiting.begin()
        return None

    def save_overload(self, signature: Any, result: Any) -> None:
        """Keep what was compiled."""
        waiting.end()
        for environment in result._find_referenced_environments():  # those of the parts, too
            result.codegen.set_env(environment.env_name, environment)
        if not self._files or result.library.has_dynamic_globals:
            return
        write, note = places(self.source.parent)[1:]
        say_once(note)
        if write is not None:
            try:
                kept = result._replace(type_annotation="")  # the source with types, of which nobody asks
                *kept_parts, environments = kept._reduce()
                # The modules of numba in which its parts stand, as np.empty, are imported with their environments.
                needed = tuple(environment for environment in environments if environment.consts)
                self._keep(self._files[write], (signature, result.codegen.magic_tuple()), (*kept_parts, needed))
            except OSError as error:
                say_once(f"Compiled kernels are not kept in {write}: {error.strerror}.")

    @staticmethod
    def _keep(file: Any, key: Any, code: Any) -> None:
        try:
            file.save(key, code)
        except OSError:
            raise
        except Exception:  # the index is of older code, with types that are no more: it begins anew
            file.flush()
            file.save(key, code)


@functools.cache
def _add_runtime() -> None:
    """Let code in a cache find the functions that count references to arrays: all of numba that it needs.

    What numba does here itself, before it looks into a cache, is made to compile: imports, and code of its own that it
    compiles in every process.
    """
    for name, address in numba.core.runtime._nrt_python.c_helpers.items():
        add_symbol(name if name.startswith("_") else f"NRT_{name}", address)


@functools.cache
def places(folder: Path) -> Places:
    """Where the code of the kernels in `folder` is."""
    beside, name = folder / "__pycache__", hashlib.sha256(str(folder).encode()).hexdigest()[:16]
    chosen: str = numba.config.CACHE_DIR
    first = [Path(chosen, name)] if chosen else [beside]
    if _writable(first[0]):
        return Places(first, first[0])
    why = f"{chosen or _PACKAGE} cannot be written to"
    for own in _own_folders():
        if _is_ours(own) and _writable(own / name):
            return Places([own / name, *first, beside], own / name, f"Compiled kernels are kept in {own}, as {why}.")
    advice = "set NUMBA_CACHE_DIR to a folder that can be"
    return Places([*first, beside], None, f"Compiled kernels are not kept, as {why}; {advice}.")


def _own_folders() -> Iterator[Path]:
    """The folders for the cache of this user."""
    folder = Path(numba.misc.appdirs.AppDirs("broadmatch", appauthor=False).user_cache_dir)
    if folder.is_absolute():  # the home of a user without a name is not known
        yield folder
    with contextlib.suppress(FileNotFoundError):
        yield Path(tempfile.gettempdir(), f"broadmatch-{os.geteuid()}")


def _is_ours(folder: Path) -> bool:
    """Make the folder if need be; whether it belongs to this user, and no other may write there."""
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            folder.mkdir(mode=0o700)
        found = folder.lstat()
    except OSError:
        return False
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.geteuid() and not found.st_mode & 0o022


def _writable(folder: Path) -> bool:
    """Make the folder if need be; whether files can be written there."""
    with contextlib.suppress(OSError):
        folder.mkdir(parents=True, exist_ok=True)
    return os.access(folder, os.W_OK | os.X_OK)


@functools.cache
def source_stamp(source: Path) -> str:
    """What changes when a kernel's file or `jit.py` does, or one with kernels that it imports, also by way of others.

    numba looks at the file of a kernel only: a kernel whose callee in another file was changed would go on as it was.
    Kernels stand in `kernels/` and in files `_name.py`.
    """
    found, unread = {source, Path(__file__).with_name("jit.py")}, [source]
    while unread:
        new = _imported_kernels(unread.pop()) - found
        found |= new
        unread += new
    return hashlib.sha256(b"".join(sorted(hashlib.sha256(file.read_bytes()).digest() for file in found))).hexdigest()


@functools.cache
def _imported_kernels(source: Path) -> set[Path]:
    """The files with kernels that a file imports."""
    found = set()
    for module, names in re.findall(r"(?m)^from broadmatch\.([\w.]+) import (\([^)]*\)|.*)", source.read_text("utf-8")):
        folder = _PACKAGE.joinpath(*module.split("."))
        found |= {folder.with_suffix(".py"), *(folder / f"{name}.py" for name in re.findall(r"\w+", names))}
    return {file for file in found if (file.parent.name == "kernels" or file.name.startswith("_")) and file.is_file()}


@functools.cache
def say_once(note: str) -> None:
    """Log a note that is no warning, but to be seen where nobody has set up logging."""
    if note:
        log.warning(note, extra={"note": True})


class _Waiting:
    """How long this process has compiled; it says so once, after a while. One kernel is compiled at a time."""

    def __init__(self) -> None:
        self.seconds, self.started, self.announced = 0.0, 0.0, False
        self.timer = threading.Timer(0.0, self.announce)

    def begin(self) -> None:
        """A kernel has to be compiled."""
        self.started = time.monotonic()
        self.timer = threading.Timer(max(0.0, _PATIENCE - self.seconds), self.announce)
        self.timer.daemon = True
        self.timer.start()

    def announce(self) -> None:
        """Say what this process waits for, unless it was said."""
        if not self.announced:
            self.announced = True
            say_once(_COMPILING)

    def end(self) -> None:
        """It is compiled."""
        self.timer.cancel()
        self.seconds += time.monotonic() - self.started


_COMPILING = "Compiling kernels, once: about 20 s for a first answer. `broadmatch warmup` compiles ahead of time."
waiting = _Waiting()
