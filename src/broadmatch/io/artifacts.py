"""Saved models and data sets: a folder with `manifest.json` and `.npy` files that open memory-mapped.

Nothing is pickled. A folder is written under a temporary name, synced, then renamed, so that a name either
holds a whole artifact or none. Every array's size, type and sha256 stand in the manifest, and the manifest
carries a checksum of itself: a damaged folder is refused with the name of the file that is wrong.
"""

import contextlib
import errno
import hashlib
import json
import math
import os
import re
import secrets
import shutil
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, Protocol

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadArtifact, CannotWrite, MissingFile
from broadmatch.io import buckets
from broadmatch.layout import Damage
from broadmatch.state import KINDS, State, restore

FORMAT_VERSION = 1
MANIFEST = "manifest.json"
_MOST_MANIFEST = 1 << 24
_AGAIN = "copy or train the folder again"
_PLAIN_NAME = re.compile(r"[a-z0-9_]+")
_NAME = re.compile(r"[a-z0-9_]+(\.[a-z0-9_]+)*")
_HEADER = re.compile(
    rb"\{'descr': '([<>|][a-zA-Z]\d{1,9}(?:\[\w{1,9}\])?)', 'fortran_order': False, "
    rb"'shape': \((|\d{1,18}(?:, \d{1,18}){0,31},?)\), \} *\n"
)


class Saveable(Protocol):
    """What `save` takes; its class also has `from_state(state)`, which `load` calls."""

    def to_state(self) -> State:
        """Give everything that has to be kept."""
        ...


def save(thing: Saveable | State, path: str | os.PathLike[str]) -> None:
    """Write `thing` as the folder `path`; an older artifact of that name is replaced, anything else is not."""
    state = thing if isinstance(thing, State) else thing.to_state()
    distant = buckets.is_address(os.fspath(path))
    with replacing(buckets.fetch(path) if distant else path) as folder:
        files: dict[str, Any] = {}
        tree = _describe(state, "", folder, files)
        # As it will be read back: numpy numbers become plain, keys become strings; the checksum is of that.
        manifest = json.loads(json.dumps({"format": FORMAT_VERSION, **tree, "arrays": files}, default=_plain))
        manifest["checksum"] = _checksum(manifest)
        _write_synced(folder / MANIFEST, json.dumps(manifest, indent=1, sort_keys=True).encode())
    if distant:
        buckets.send(path)


class Artifact:
    """What can be written as a folder: base of models and of what they are made with."""

    def save(self: Saveable, path: str | os.PathLike[str]) -> None:
        """Write it as the folder `path`; `broadmatch.load` opens it again."""
        save(self, path)


def load(path: str | os.PathLike[str], kind: type = object, *, verify: bool = True) -> Any:
    """Open the artifact `path`, which has to hold a `kind`; see `broadmatch.load`."""
    state = load_state(path, verify=verify)
    with opening(path):
        found = restore(state)
    if not isinstance(found, kind):
        raise BadArtifact(f"{path} holds a {type(found).__name__}, but a {kind.__name__} is asked for.")
    return found


def load_state(path: str | os.PathLike[str], *, verify: bool = True) -> State:
    """Open the folder `path` as a `State`, checked."""
    folder = buckets.fetch(path)
    manifest = read_manifest(folder)
    with opening(folder / MANIFEST):
        arrays = {name: _open(folder, name, entry, verify) for name, entry in manifest["arrays"].items()}
        return _assemble(manifest, "", arrays, folder)


@contextlib.contextmanager
def opening(path: str | os.PathLike[str]) -> Iterator[None]:
    """Whatever goes wrong while what `path` holds is put together is the fault of `path`: raise `BadArtifact`."""
    try:
        yield
    except Exception as error:
        if isinstance(error, ImportError) or (isinstance(error, BadArtifact) and not isinstance(error, Damage)):
            raise
        what = f"it has no {error}" if isinstance(error, KeyError) else str(error).rstrip(".") or type(error).__name__
        what = error.reason if isinstance(error, Damage) else what
        raise BadArtifact(f"{path} is damaged: {what}; {_AGAIN}.") from error


def read_manifest(path: str | os.PathLike[str]) -> dict[str, Any]:
    """Read and check only the manifest of the artifact `path`."""
    folder = Path(path)
    file = folder / MANIFEST
    if not folder.exists():
        raise MissingFile(f"There is no model or data set at {folder}.")
    if not file.is_file():
        raise BadArtifact(f"{folder} is not a broadmatch folder: it has no {MANIFEST}.")
    _check_place(folder, file)
    if file.stat().st_size > _MOST_MANIFEST:
        raise BadArtifact(f"{file} is damaged: a manifest has at most {_MOST_MANIFEST:,} bytes; {_AGAIN}.")
    try:
        manifest = json.loads(file.read_bytes())
        version, claimed = manifest["format"], manifest.pop("checksum", None)
        checksum = _checksum(manifest)
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadArtifact(f"{file} is damaged: it is not a manifest; {_AGAIN}.") from error
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise BadArtifact(
            f"{folder} was written by a newer broadmatch (format {version}, this one reads up to {FORMAT_VERSION}): "
            "upgrade broadmatch."
        )
    if claimed != checksum:
        raise BadArtifact(f"{file} was altered: its checksum does not fit; {_AGAIN}.")
    _check_kind(manifest.get("kind"), folder)
    return dict(manifest)


@contextlib.contextmanager
def replacing(path: str | os.PathLike[str], ours: Callable[[Path], bool] | None = None) -> Iterator[Path]:
    """Give a temporary folder that takes the name `path` if the block ends well, and vanishes if not.

    What is there already is replaced if `save` wrote it, or if `ours` says so.
    """
    target = Path(path)
    if target.is_symlink():  # replace what the link points to, and keep the link
        target = target.resolve()
    if not (ours is not None and ours(target)) and not _replaceable(target):
        raise CannotWrite(f"{target} exists and is not a broadmatch folder; choose another name or remove it.")
    folder = target.with_name(f".{target.name}.{secrets.token_hex(6)}.tmp")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        folder.mkdir()
    except OSError as error:
        raise CannotWrite(f"Cannot write {target}: {error.strerror}.") from error
    try:
        yield folder
        sync_folder(folder)
        _take_name(folder, target)
        sync_folder(target.parent)
    except OSError as error:
        if isinstance(error, CannotWrite | MissingFile):
            raise
        raise CannotWrite(f"Cannot write {target}: {error.strerror or error}; nothing was left there.") from error
    finally:
        if folder.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _take_name(folder: Path, target: Path) -> None:
    """Rename `folder` to `target` and remove what had that name; if several processes do it, the last one wins."""
    old = folder.with_suffix(".old")
    while True:
        try:
            folder.rename(target)
            break
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                if old.exists():
                    old.rename(target)
                raise
        if old.exists():  # another process took the name meanwhile, so the one put aside is not needed
            shutil.rmtree(old)
        with contextlib.suppress(FileNotFoundError):
            target.rename(old)
    if old.exists():
        shutil.rmtree(old, ignore_errors=True)


def _replaceable(target: Path) -> bool:
    """Whether `target` may be replaced; asked again before a no, for another process may be replacing it right now."""
    for _ in range(5):
        if _ours_or_empty(target):
            return True
        time.sleep(0.01)
    return False


def _ours_or_empty(target: Path) -> bool:
    """Whether `target` is not there, an empty folder, or one that `save` wrote, even if it is damaged."""
    try:
        names = {entry.name for entry in target.iterdir()}
    except OSError:
        return not target.exists()
    if not names:
        return True
    if MANIFEST not in names:
        return False
    try:
        manifest = json.loads((target / MANIFEST).read_bytes())
    except (OSError, ValueError, RecursionError):
        return all(name == MANIFEST or name.endswith(".npy") for name in names)
    return isinstance(manifest, dict) and {"format", "kind", "checksum"} <= manifest.keys()


def _describe(state: State, prefix: str, folder: Path, files: dict[str, Any]) -> dict[str, Any]:
    for name in (*state.arrays, *state.parts):
        if not _PLAIN_NAME.fullmatch(name):
            raise ValueError(f"{name!r} cannot name an array or a part: only a-z, 0-9 and _ can.")
    for name, array in state.arrays.items():
        files[prefix + name] = _write_array(folder / f"{prefix}{name}.npy", array)
    parts = {key: _describe(part, f"{prefix}{key}.", folder, files) for key, part in state.parts.items()}
    return {"kind": state.kind, "params": dict(state.params), "facts": dict(state.facts), "parts": parts}


def _assemble(tree: Mapping[str, Any], prefix: str, arrays: Mapping[str, NDArray[Any]], folder: Path) -> State:
    _check_kind(tree["kind"], folder)
    for part in ("params", "facts", "parts"):
        if not isinstance(tree[part], dict):
            raise TypeError(f"{part} is not a mapping")
    own = {n[len(prefix) :]: a for n, a in arrays.items() if n.startswith(prefix) and "." not in n[len(prefix) :]}
    parts = {key: _assemble(part, f"{prefix}{key}.", arrays, folder) for key, part in tree["parts"].items()}
    return State(tree["kind"], tree["params"], own, tree["facts"], parts)


def _check_kind(kind: object, folder: Path) -> None:
    if not isinstance(kind, str) or kind not in KINDS:
        raise BadArtifact(f"{folder} holds a {kind!r}, which this broadmatch does not know.")


def _check_place(folder: Path, file: Path) -> None:
    if file.resolve().parent != folder.resolve():
        raise BadArtifact(f"{file} is a link that leads out of the folder; copy the file itself.")


def _write_array(file: Path, array: NDArray[Any]) -> dict[str, Any]:
    plain = np.asarray(array, order="C")
    if plain.dtype.hasobject:
        raise TypeError(f"{file.name}: arrays of Python objects are never saved.")
    content = plain.reshape(-1).view(np.uint8).data if plain.size else b""
    with file.open("wb") as out:
        np.lib.format.write_array_header_1_0(out, np.lib.format.header_data_from_array_1_0(plain))
        out.write(content)
        out.flush()
        os.fsync(out.fileno())
        size = out.tell()
    digest = hashlib.sha256(content).hexdigest()
    return {"sha256": digest, "bytes": size, "dtype": plain.dtype.str, "shape": list(plain.shape)}


def _open(folder: Path, name: str, entry: Mapping[str, Any], verify: bool) -> NDArray[Any]:
    if not _NAME.fullmatch(name):
        raise BadArtifact(f"{folder / MANIFEST} is damaged: {name!r} is not the name of an array.")
    file = folder / f"{name}.npy"
    if not file.is_file():
        raise BadArtifact(f"{file} is missing; {_AGAIN}.")
    _check_place(folder, file)
    size = file.stat().st_size
    if size != entry["bytes"]:
        raise BadArtifact(f"{file} is truncated or altered: {size:,} bytes instead of {entry['bytes']:,}; {_AGAIN}.")
    try:
        with file.open("rb") as raw:
            shape, dtype, start = _read_header(raw)
    except (ValueError, TypeError) as error:
        raise BadArtifact(f"{file} is damaged: {error}; {_AGAIN}.") from error
    if dtype.str != entry["dtype"] or list(shape) != entry["shape"]:
        raise BadArtifact(f"{file} is altered: its type or shape is not the manifest's; {_AGAIN}.")
    if start + dtype.itemsize * math.prod(shape) != size:  # before there is an array of that size
        raise BadArtifact(f"{file} is altered: it has not as many bytes as its shape says; {_AGAIN}.")
    if not math.prod(shape):
        return np.empty(shape, dtype)
    # Copy-on-write: the file never changes, and kernels see the same array type as for arrays in memory. A
    # read-only map is another type to numba, and every kernel would be compiled a second time.
    array = np.memmap(file, dtype, "c", start, shape)
    if verify and hashlib.sha256(array.reshape(-1).view(np.uint8).data).hexdigest() != entry["sha256"]:
        raise BadArtifact(f"{file} is altered: its sha256 is not the manifest's; {_AGAIN}.")
    # A plain view: the memory map stays its base, without memmap's cost on every slice.
    return np.asarray(array)


def _read_header(raw: BinaryIO) -> tuple[tuple[int, ...], np.dtype[Any], int]:
    """Shape, type and first byte of the array in an .npy file, as `_write_array` wrote it.

    Not by numpy, which parses the header as Python: when several threads do that, CPython 3.11 may raise SystemError
    (python/cpython#106905).
    """
    start = raw.read(10)
    if len(start) < 10 or start[:8] != b"\x93NUMPY\x01\x00":
        raise ValueError("it does not begin as an .npy file of version 1.0")
    length = int.from_bytes(start[8:], "little")
    found = _HEADER.fullmatch(raw.read(length))
    if found is None:
        raise ValueError("its header is not that of an array of numbers or texts in C order")
    dtype = np.dtype(found[1].decode())
    if dtype.hasobject:
        raise ValueError("it holds Python objects")
    return tuple(int(side) for side in found[2].split(b",") if side.strip()), dtype, 10 + length


def _plain(value: object) -> Any:
    """What JSON lacks: numpy's numbers."""
    if isinstance(value, np.generic):
        return value.item()
    raise TypeError(f"A {type(value).__name__} cannot be saved in a manifest.")


def _checksum(manifest: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()


def _write_synced(file: Path, content: bytes) -> None:
    with file.open("wb") as out:
        out.write(content)
        out.flush()
        os.fsync(out.fileno())


def sync_folder(folder: Path) -> None:
    """Make sure that the names in a folder survive a power cut."""
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
