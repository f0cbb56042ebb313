"""Files in buckets of S3-compatible stores: who works on them has copies of his own, plain files in a plain folder.

While a command runs, `s3://bucket/pages` stands at `FOLDER/bucket/pages` on every host that takes part. FOLDER is new
for each command, below `BROADMATCH_COPIES` (the same on all hosts; `/var/tmp` unless set), and goes when it ends.
Whoever reads calls `fetch` before, whoever has written calls `send` after; other paths are none of their business.
Credentials, region and endpoint are those that AWS's own tools take from the environment.
"""

import atexit
import contextlib
import errno
import fcntl
import fnmatch
import functools
import os
import re
import secrets
import shutil
import stat
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from broadmatch import progress
from broadmatch.errors import BadInput, BadParameter, BroadmatchError, CannotWrite

SCHEME = "s3://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_FOLDER = re.compile(r"broadmatch-copies-[0-9a-f]{32}")
_WILD = frozenset("*?[")
_LAST = "manifest.json"  # with it a folder is whole: it comes after all else, and leaves before
_AT_ONCE = 8
_CONNECT, _REQUEST = 10.0, 60.0  # seconds
_SAID = re.compile(r"AWS Error (\w+) during \w+ operation: (.*?)(?: \(Request ID.*)?$", re.DOTALL)
Stamp = tuple[int, int]  # size, and time in nanoseconds; that of what came from a store is a whole second


class Copies:
    """What a process knows of its copies: where they stand, how the store has each file, and which places are whole."""

    def __init__(self) -> None:
        self.folder: Path | None = None
        self.stamps: dict[Path, Stamp] = {}
        self.places: set[Path] = set()

    def remove(self) -> None:
        """Remove the folder, if this process made one."""
        if self.folder is not None:
            shutil.rmtree(self.folder, ignore_errors=True)


_copies = Copies()
atexit.register(lambda: _copies.remove())


@contextlib.contextmanager
def own_copies() -> Iterator[None]:
    """A folder of its own for what is done within; it stays only if what was made could not be sent."""
    global _copies
    before, _copies = _copies, Copies()
    try:
        yield
        _copies.remove()
    except BaseException as error:
        if not isinstance(error, NotSent):
            _copies.remove()
        raise
    finally:
        _copies = before


class NotSent(CannotWrite):
    """What was made stands on this host, and did not reach the store."""


def copies_root() -> Path:
    """The folder below which the copies of each command stand."""
    return Path(os.environ.get("BROADMATCH_COPIES") or "/var/tmp").resolve()  # noqa: S108


def is_address(text: str) -> bool:
    """Whether a text names a place in a bucket."""
    return text.startswith(SCHEME)


def here(path: str | os.PathLike[str]) -> Path:
    """A path as it is, of an address its place in this process's folder, whether anything is there or not."""
    if not isinstance(path, str) or not is_address(path):
        return Path(path)
    bucket, *rest = path.removeprefix(SCHEME).rstrip("/").split("/")
    if not _BUCKET.fullmatch(bucket) or not _is_plain("/".join([bucket, *rest])):
        raise BadParameter(f"An address is s3://BUCKET or s3://BUCKET/FOLDER, but it is {path!r}.")
    if _copies.folder is None:
        _copies.folder = copies_root() / f"broadmatch-copies-{secrets.token_hex(16)}"
        _check_own(_copies.folder)
    return _copies.folder.joinpath(bucket, *rest)


def address_of(path: str | os.PathLike[str]) -> str | None:
    """The address of what a path is the copy of; None elsewhere.

    >>> address_of(here("s3://ads/logs")), address_of("logs")
    ('s3://ads/logs', None)
    """
    place, root = Path(os.path.abspath(path)), copies_root()  # noqa: PTH100
    if not place.is_relative_to(root):
        return None
    folder, *rest = place.relative_to(root).parts or ("",)
    return SCHEME + "/".join(rest) if rest and _FOLDER.fullmatch(folder) and _BUCKET.fullmatch(rest[0]) else None


def exists(path: str | os.PathLike[str]) -> bool:
    """Whether there is anything of that name, here or in the store."""
    place = here(path)
    address = address_of(place)
    if address is None or place.exists():
        return place.exists()
    with _store_of(address) as store:
        return bool(_listed(store, _key(place)))


def fetch(path: str | os.PathLike[str], *, again: bool = False) -> Path:
    """Have a file, a folder with all below it, or what a pattern means; gives the place, which may stay empty.

    A place that this process has fetched is its own from then on. `again` looks once more, at a place that other hosts
    write to as well: what the store has not, or not whole, is then not there either.
    """
    place = here(path)
    address = address_of(place)
    if address is None or (not again and not _copies.places.isdisjoint([place, *place.parents])):
        return place
    with _store_of(address) as store, _alone(place):
        found = _listed(store, _key(place), wild=True)
        if not found:
            _check_bucket(store, _key(place).partition("/")[0])
        if again:
            found = _whole(found, _key(place))
        wanted = [info for key, info in found.items() if not _is_copy(_folder_of(place) / key, info)]
        _check_room(address, sum(info.size for info in wanted))
        _transfer(f"Fetching {address}", partial(_bring, store, _folder_of(place)), wanted)
        if again:
            _keep_only(place, found)
        else:
            _copies.places.add(place)
    return place


def fetch_all(paths: Iterable[Path]) -> None:
    """`fetch` of many files, several at a time."""
    places = [path for path in paths if address_of(path) is not None]
    missing = [one for one in places if _copies.places.isdisjoint([one, *one.parents])]
    for bucket, files in _by_bucket(missing).items():
        with _store_of(bucket) as store, _alone(files[0]):
            found = [info for info in store.get_file_info([_key(file) for file in files]) if info.is_file]
            folder = _folder_of(files[0])
            wanted = [info for info in found if not _is_copy(folder / info.path, info)]
            _transfer(f"Fetching from {bucket}", partial(_bring, store, folder), wanted)
            _copies.places.update(files)


def send(path: str | os.PathLike[str] | None = None) -> int:
    """Send what this process has made or changed at a place, by default everywhere, and remove what it has removed.

    What makes a folder whole is removed first and comes last, so that nobody takes half a folder for a whole one. Gives
    how many files were changed in the store.
    """
    place = here(path) if path is not None else _copies.folder
    if place is None or (path is not None and address_of(place) is None):
        return 0
    now = {file: _stamp(file) for file in _files(place)}
    changed = [file for file, stamp in now.items() if _copies.stamps.get(file) != stamp]
    gone = [file for file in _copies.stamps if file not in now and file.is_relative_to(place)]
    for bucket, files in _by_bucket([*changed, *gone]).items():
        _change(bucket, [file for file in files if file in now], [file for file in files if file not in now])
    return len(changed) + len(gone)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file or folder, if there is one; of a copy, in the store too."""
    place = Path(path)
    address = address_of(place)
    if address is not None:
        with _store_of(address) as store:
            found = _listed(store, _key(place))
            for key in found:
                if key.rpartition("/")[2] == _LAST or key == _key(place):
                    store.delete_file(key)
            if found.keys() - {_key(place)}:
                store.delete_dir(_key(place))
        for file in [file for file in _copies.stamps if file.is_relative_to(place)]:
            del _copies.stamps[file]
    shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)


def forget(path: str) -> None:
    """Remove the folder that a place stands in from this host, unless the host's own command made it."""
    if address_of(path) is not None and not (_folder_of(Path(path)) / ".made-here").exists():
        shutil.rmtree(_folder_of(Path(path)), ignore_errors=True)


def in_addresses(text: str) -> str:
    """A text in which copies have their addresses.

    >>> in_addresses(f"There is no file {here('s3://ads/logs')}.")
    'There is no file s3://ads/logs.'
    """
    return re.sub(rf"{re.escape(str(copies_root()))}/{_FOLDER.pattern}/(?=[a-z0-9])", SCHEME, text)


def _folder_of(place: Path) -> Path:
    """The folder of all copies that a place is among."""
    root = copies_root()
    return root / Path(os.path.abspath(place)).relative_to(root).parts[0]  # noqa: PTH100


def _key(place: Path) -> str:
    """The name of a place among all buckets."""
    return Path(os.path.abspath(place)).relative_to(_folder_of(place)).as_posix()  # noqa: PTH100


def _is_plain(key: str) -> bool:
    """Whether a name stays where it belongs as a path of this host."""
    return all(part not in ("", ".", "..") and "\0" not in part for part in key.split("/"))


def _files(place: Path) -> list[Path]:
    """The files at a place, without what is being written."""
    below = place.rglob("*") if place.is_dir() else [place]
    found = [file for file in below if file.is_file() and address_of(file) is not None]
    return sorted(file for file in found if not any(_is_temporary(part) for part in file.relative_to(place).parts))


def _is_temporary(name: str) -> bool:
    return name.startswith(".") and name.endswith((".tmp", ".old"))


def _listed(store: Any, key: str, *, wild: bool = False) -> dict[str, Any]:
    """What the store has at a name, file by file; where it has nothing of just that name, the name may be a pattern."""
    from pyarrow import fs

    (found,) = store.get_file_info([key])
    if found.type == fs.FileType.File:
        return {key: found}
    parts = key.split("/")
    at = next((i for i, part in enumerate(parts) if _WILD.intersection(part)), None)
    pattern = wild and found.type == fs.FileType.NotFound and at is not None
    below = store.get_file_info(
        fs.FileSelector("/".join(parts[:at]) if pattern else key, recursive=True, allow_not_found=True)
    )
    files = {one.path: one for one in below if one.type == fs.FileType.File and _is_plain(one.path)}
    if not pattern:
        return files
    # An asterisk passes slashes here: more than the pattern means may come, and `expand` looks again.
    means = re.compile("|".join(map(fnmatch.translate, (key.replace("**/", "*"), f"{key}/*"))))
    return {path: one for path, one in files.items() if means.match(path)}


def _whole(found: dict[str, Any], key: str) -> dict[str, Any]:
    """What of it is in folders that are whole."""
    at = len(key.split("/"))
    folders = {name.rpartition("/")[0] for name in found if name.rpartition("/")[2] == _LAST}
    return {
        name: info
        for name, info in found.items()
        if any("/".join(name.split("/")[:n]) in folders for n in range(at, name.count("/") + 1))
    }


def _keep_only(place: Path, found: dict[str, Any]) -> None:
    """Remove here what the store does not have."""
    for file in _files(place):
        if _key(file) not in found:
            file.unlink(missing_ok=True)
            _copies.stamps.pop(file, None)
    if place.is_dir():
        for folder in sorted((one for one in place.rglob("*") if one.is_dir()), reverse=True):
            with contextlib.suppress(OSError):  # it holds something
                folder.rmdir()
        with contextlib.suppress(OSError):
            place.rmdir()


def _stamp(file: Path) -> Stamp:
    found = file.stat()
    return found.st_size, found.st_mtime_ns


def _stamp_of(info: Any) -> Stamp:
    """How a copy looks; a listing may tell a time more closely than a question about one file, so of whole seconds."""
    return info.size, info.mtime_ns // 10**9 * 10**9


def _is_copy(file: Path, info: Any) -> bool:
    try:
        return _stamp(file) == _stamp_of(info)
    except OSError:
        return False


def _transfer(title: str, move: Callable[[Any], None], items: list[Any]) -> None:
    from broadmatch.parallel import map_threads  # here, since numpy takes long to import

    with progress.task(title, total=len(items), unit="files") as bar:
        for _ in map_threads(move, items, _AT_ONCE):
            bar.advance(1)


def _bring(store: Any, folder: Path, info: Any) -> None:
    """Copy a file from the store: under another name first, so that nobody sees half of it."""
    from pyarrow import fs

    file = folder / info.path
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{secrets.token_hex(8)}.tmp")
    try:
        # By Arrow as a whole: a stream of it that is closed by an error would end as if it were complete.
        fs.copy_files(info.path, str(temporary), source_filesystem=store, destination_filesystem=fs.LocalFileSystem())
        if temporary.stat().st_size != info.size:
            raise BadInput(f"{SCHEME}{info.path} changed while it was fetched; start again.")
        _mark(temporary, _stamp_of(info))
        temporary.replace(file)
        _copies.stamps[file] = _stamp_of(info)
    finally:
        temporary.unlink(missing_ok=True)


def _by_bucket(files: Iterable[Path]) -> dict[str, list[Path]]:
    """Files by the address of the bucket that they are in."""
    found: dict[str, list[Path]] = {}
    for file in files:
        found.setdefault(SCHEME + _key(file).partition("/")[0], []).append(file)
    return found


def _change(bucket: str, changed: list[Path], gone: list[Path]) -> None:
    """Send files to a bucket, and remove others from it."""
    with _store_of(bucket, f"what was made is whole on this host, in {_folder_of((changed or gone)[0])}") as store:
        last = sorted((file for file in changed if file.name == _LAST), key=lambda file: -len(file.parts))
        there = {one.path: one for one in store.get_file_info([_key(file) for file in (*last, *gone)])}
        for file in last:
            if there[_key(file)].is_file:
                store.delete_file(_key(file))
        _transfer(f"Sending to {bucket}", partial(_put, store), [file for file in changed if file.name != _LAST])
        for file in gone:
            info = there[_key(file)]
            if info.is_file and _stamp_of(info) == _copies.stamps.pop(file):  # or it is somebody else's by now
                store.delete_file(_key(file))
        for file in last:
            _put(store, file)


def _put(store: Any, file: Path) -> None:
    """Copy a file to the store, where it appears whole; the copy here gets the time that it has there."""
    from pyarrow import fs

    fs.copy_files(str(file), _key(file), source_filesystem=fs.LocalFileSystem(), destination_filesystem=store)
    (there,) = store.get_file_info([_key(file)])
    _mark(file, _stamp_of(there))
    _copies.stamps[file] = _stamp_of(there)


def _mark(file: Path, stamp: Stamp) -> None:
    os.utime(file, ns=(stamp[1], stamp[1]))


@contextlib.contextmanager
def _alone(place: Path) -> Iterator[None]:
    """Let the processes of a host fetch one after the other, so that what several of them need comes once."""
    folder = _folder_of(place)
    if not folder.exists():
        _check_own(folder)
    with (folder / ".lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _check_own(folder: Path) -> None:
    """Make a folder of copies, and refuse one that somebody else made."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        found = folder.lstat()
        if folder == _copies.folder:
            (folder / ".made-here").touch()
    except OSError as error:
        raise CannotWrite(f"Cannot write {folder}: {error.strerror}; BROADMATCH_COPIES names another place.") from error
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & 0o022:
        raise CannotWrite(f"{folder} is not this user's alone: let BROADMATCH_COPIES name another place.")


def _check_bucket(store: Any, bucket: str) -> None:
    """Refuse a bucket that is not there, before work is done for it; who may not know is believed."""
    from pyarrow import fs

    with contextlib.suppress(OSError):
        (found,) = store.get_file_info([bucket])
        if found.type == fs.FileType.NotFound:
            raise BadInput(f"There is no bucket {SCHEME}{bucket}.")


def _check_room(address: str, size: int) -> None:
    free = shutil.disk_usage(copies_root()).free
    if size > free:
        raise CannotWrite(
            f"{address} has {size / 1e9:,.1f} GB, and {copies_root()} has room for {free / 1e9:,.1f}: "
            "make room there, or let BROADMATCH_COPIES name another place."
        )


@contextlib.contextmanager
def _store_of(address: str, rescue: str = "") -> Iterator[Any]:
    """The store; what goes wrong with it is one sentence, with what of the work can be rescued."""
    try:
        yield _connected(address.removeprefix(SCHEME).partition("/")[0])
    except KeyboardInterrupt:
        if rescue:
            raise NotSent(f"Interrupted while sending to {address}; {rescue}.") from None
        raise
    except OSError as error:
        if isinstance(error, BroadmatchError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS) and error.filename:
            raise CannotWrite(f"Cannot write {error.filename}: {error.strerror}.") from error
        found = _SAID.search(str(error))
        why = f"{found[1]}, {found[2].rstrip('. ')}" if found else str(error).split("\n")[0].rstrip(". ")
        if rescue:
            raise NotSent(f"{address} cannot be used: {why}; {rescue}.") from error
        how = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL say how it is reached"
        raise BadInput(f"{address} cannot be used: {why}; {how}.") from error


@functools.lru_cache(maxsize=16)
def _connected(bucket: str) -> Any:
    from pyarrow import fs

    endpoint = os.environ.get("AWS_ENDPOINT_URL_S3") or os.environ.get("AWS_ENDPOINT_URL")
    region = os.environ.get("AWS_REGION") or os.environ.get("AWS_DEFAULT_REGION")
    if region is None:
        region = "us-east-1" if endpoint else fs.resolve_s3_region(bucket)
    return fs.S3FileSystem(
        region=region, endpoint_override=endpoint, connect_timeout=_CONNECT, request_timeout=_REQUEST
    )
