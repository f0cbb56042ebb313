"""Files in buckets of S3-compatible stores: each host works on copies in its cache, plain files in a plain folder.

`s3://bucket/pages` has one place in the cache (`BROADMATCH_CACHE`, the same path on all hosts). Whoever reads there
calls `fetch` before, whoever has written there calls `send` after; paths outside the cache are none of their business.
What the store has counts: a copy that the store does not have is removed when it is fetched. Credentials, region and
endpoint are those that AWS's own tools take from the environment.
"""

import contextlib
import errno
import fnmatch
import functools
import os
import re
import secrets
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any

from broadmatch import progress
from broadmatch.errors import BadInput, BadParameter, BroadmatchError, CannotWrite

SCHEME = "s3://"
_BUCKET = re.compile(r"[a-z0-9][a-z0-9.-]{1,61}[a-z0-9]")
_WILD = frozenset("*?[")
_LAST = ("manifest.json", "harvest.json")  # with these a folder is whole: they come after all else, and leave before
_AT_ONCE = 8
_CONNECT, _REQUEST = 10.0, 60.0  # seconds
_SAID = re.compile(r"AWS Error (\w+) during \w+ operation: (.*?)(?: \(Request ID.*)?$", re.DOTALL)


def cache_root() -> Path:
    """The folder of this host's copies."""
    return Path(os.environ.get("BROADMATCH_CACHE") or f"/var/tmp/broadmatch-{os.getuid()}").resolve()  # noqa: S108


def is_address(text: str) -> bool:
    """Whether a text names a place in a bucket."""
    return text.startswith(SCHEME)


def cached(address: str) -> Path:
    """The place in the cache of what an address names, whether there is a copy or not.

    >>> cached("s3://ads/logs/2024-*.csv").relative_to(cache_root()).as_posix()
    'ads/logs/2024-*.csv'
    """
    bucket, *rest = address.removeprefix(SCHEME).rstrip("/").split("/")
    if not is_address(address) or not _BUCKET.fullmatch(bucket) or not _is_plain("/".join([bucket, *rest])):
        raise BadParameter(f"An address is s3://BUCKET or s3://BUCKET/FOLDER, but it is {address!r}.")
    return cache_root().joinpath(bucket, *rest)


def local(path: str | os.PathLike[str]) -> Path:
    """A path as it is, of an address the place in the cache."""
    return cached(path) if isinstance(path, str) and is_address(path) else Path(path)


def address_of(path: str | os.PathLike[str]) -> str | None:
    """The address of a place in the cache; None elsewhere.

    >>> address_of(cached("s3://ads/logs")), address_of("logs")
    ('s3://ads/logs', None)
    """
    place, root = Path(os.path.abspath(path)), cache_root()  # noqa: PTH100
    return SCHEME + _key(place) if place != root and place.is_relative_to(root) else None


def fetch(path: str | os.PathLike[str]) -> Path:
    """Bring a place in the cache up to date: a file, a folder with all below it, or what a pattern means."""
    place = local(path)
    address = address_of(place)
    if address is None:
        return place
    with _store_of(address) as store:
        _check_own(cache_root())
        found = _listed(store, _key(place))
        wanted = [info for key, info in found.items() if not _is_copy(cache_root() / key, info)]
        _check_room(address, sum(info.size for info in wanted))
        _transfer(f"Fetching {address}", partial(_bring, store), wanted, [info.size for info in wanted])
        if not _WILD.intersection(address):
            for file in _files(place):
                if _key(file) not in found:
                    file.unlink(missing_ok=True)
            if not found:
                shutil.rmtree(place, ignore_errors=True)
    return place


def fetch_all(paths: Iterable[Path]) -> None:
    """`fetch` of many files, several at a time."""
    from broadmatch.parallel import map_threads  # here, since numpy takes long to import

    for _ in map_threads(fetch, [path for path in paths if address_of(path) is not None], _AT_ONCE):
        pass


def held(path: str | os.PathLike[str]) -> dict[Path, tuple[int, int]]:
    """The files at a place in the cache, with size and time, for `send` to see what has changed; elsewhere none."""
    place = Path(path)
    wild = next((i for i, part in enumerate(place.parts) if _WILD.intersection(part)), None)
    files = [] if address_of(place) is None else _files(Path(*place.parts[:wild]))
    return {file: (found.st_size, found.st_mtime_ns) for file in files if (found := file.stat())}


def send(path: str | os.PathLike[str], before: Mapping[Path, tuple[int, int]] = MappingProxyType({})) -> int:
    """Send what is not as it was `held` before, and remove in the store what was held and is gone; gives how many.

    What makes a folder whole is removed first and comes last, so that nobody takes half a folder for a whole one.
    """
    place = local(path)
    address = address_of(place)
    if address is None:
        return 0
    now = held(place)
    changed, gone = (
        [file for file in now if before.get(file) != now[file]],
        [_key(file) for file in before.keys() - now.keys()],
    )
    if not changed and not gone:
        return 0
    with _store_of(address, f"{place} is whole on this host, and can be copied from there") as store:
        there = _listed(store, _key(place))
        wanted = [file for file in changed if not (_key(file) in there and _is_copy(file, there[_key(file)]))]
        last = sorted((file for file in wanted if file.name in _LAST), key=lambda file: -len(file.parts))
        for key in {*map(_key, last), *gone} & there.keys():
            store.delete_file(key)
        first = [file for file in wanted if file.name not in _LAST]
        _transfer(f"Sending to {address}", partial(_put, store), first, [now[file][0] for file in first])
        for file in last:
            _put(store, file)
    return len(wanted) + len(gone)


def remove(path: str | os.PathLike[str]) -> None:
    """Remove a file or folder, if there is one; if it is in the cache, in the store too."""
    address = address_of(path)
    if address is not None:
        with _store_of(address) as store:
            found = _listed(store, _key(Path(path)))
            for key in found:
                if key.rpartition("/")[2] in _LAST or key == _key(Path(path)):
                    store.delete_file(key)
            if found.keys() - {_key(Path(path))}:
                store.delete_dir(_key(Path(path)))
    place = Path(path)
    shutil.rmtree(place, ignore_errors=True) if place.is_dir() else place.unlink(missing_ok=True)


def in_addresses(text: str) -> str:
    """A text in which places in the cache have their addresses.

    >>> in_addresses(f"There is no file {cached('s3://ads/logs')}.")
    'There is no file s3://ads/logs.'
    """
    return text.replace(f"{cache_root()}/", SCHEME)


def _key(place: Path) -> str:
    """The name of a place among all buckets."""
    return Path(os.path.abspath(place)).relative_to(cache_root()).as_posix()  # noqa: PTH100


def _bucket(address: str) -> str:
    return address.removeprefix(SCHEME).partition("/")[0]


def _is_plain(key: str) -> bool:
    """Whether a name stays where it belongs as a path of this host."""
    return all(part not in ("", ".", "..") and "\0" not in part for part in key.split("/"))


def _files(place: Path) -> list[Path]:
    """The files at a place, without what is being written."""
    below = place.rglob("*") if place.is_dir() else [place]
    return sorted(file for file in below if file.is_file() and not _is_temporary(file.relative_to(place)))


def _is_temporary(file: Path) -> bool:
    return any(part.startswith(".") and part.endswith((".tmp", ".old")) for part in file.parts)


def _listed(store: Any, key: str) -> dict[str, Any]:
    """What the store has at a name, file by file."""
    from pyarrow import fs

    parts = key.split("/")
    wild = next((i for i, part in enumerate(parts) if _WILD.intersection(part)), None)
    base = "/".join(parts[:wild])
    (found,) = store.get_file_info([base])
    if found.type == fs.FileType.File:
        return {base: found}
    below = store.get_file_info(fs.FileSelector(base, recursive=True, allow_not_found=True))
    files = {one.path: one for one in below if one.type == fs.FileType.File and _is_plain(one.path)}
    if wild is None:
        return files
    # An asterisk passes slashes here: more than the pattern means may come, and `expand` looks again.
    wide = re.compile("|".join(map(fnmatch.translate, (key.replace("**/", "*"), f"{key}/*"))))
    return {path: one for path, one in files.items() if wide.match(path)}


def _is_copy(file: Path, info: Any) -> bool:
    """Whether a file is as the store has it: of that size, and from that second."""
    try:
        stat = file.stat()
    except OSError:
        return False
    return bool(stat.st_size == info.size and stat.st_mtime_ns // 10**9 == info.mtime_ns // 10**9)


def _transfer(title: str, move: Callable[[Any], None], items: list[Any], sizes: list[int]) -> None:
    from broadmatch.parallel import map_threads

    with progress.task(title, total=sum(sizes), unit="bytes") as bar:
        for size, _ in zip(sizes, map_threads(move, items, _AT_ONCE), strict=True):
            bar.advance(size)


def _bring(store: Any, info: Any) -> None:
    """Copy a file from the store: under another name first, so that nobody sees half of it."""
    from pyarrow import fs

    file = cache_root() / info.path
    file.parent.mkdir(parents=True, exist_ok=True)
    temporary = file.with_name(f".{file.name}.{secrets.token_hex(6)}.tmp")
    try:
        # By Arrow as a whole: a stream of it that is closed by an error would end as if it were complete.
        fs.copy_files(info.path, str(temporary), source_filesystem=store, destination_filesystem=fs.LocalFileSystem())
        if temporary.stat().st_size != info.size:
            raise BadInput(f"{SCHEME}{info.path} changed while it was fetched; start again.")
        os.utime(temporary, ns=(info.mtime_ns, info.mtime_ns))
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)


def _put(store: Any, file: Path) -> None:
    """Copy a file to the store, where it appears whole; the copy here gets the time that it has there."""
    from pyarrow import fs

    key = _key(file)
    fs.copy_files(str(file), key, source_filesystem=fs.LocalFileSystem(), destination_filesystem=store)
    (there,) = store.get_file_info([key])
    os.utime(file, ns=(there.mtime_ns, there.mtime_ns))


def _check_own(root: Path) -> None:
    """Make the cache, and refuse one into which others can write."""
    try:
        root.mkdir(mode=0o700, parents=True, exist_ok=True)
        stat = root.stat()
    except OSError as error:
        raise CannotWrite(f"Cannot write {root}: {error.strerror}; BROADMATCH_CACHE names another folder.") from error
    if stat.st_uid != os.getuid() or stat.st_mode & 0o022:
        raise CannotWrite(f"Others can write into {root}: give it to its user alone, or name another BROADMATCH_CACHE.")


def _check_room(address: str, size: int) -> None:
    free = shutil.disk_usage(cache_root()).free
    if size > free:
        raise CannotWrite(
            f"{address} has {size / 1e9:,.1f} GB, and {cache_root()} has room for {free / 1e9:,.1f}: "
            "make room there, or name another BROADMATCH_CACHE."
        )


@contextlib.contextmanager
def _store_of(address: str, rescue: str = "") -> Iterator[Any]:
    """The store; what goes wrong with it is one sentence, with what of the work can be rescued."""
    try:
        yield _connected(_bucket(address))
    except OSError as error:
        if isinstance(error, BroadmatchError):
            raise
        if error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EACCES, errno.EROFS) and error.filename:
            raise CannotWrite(f"Cannot write {error.filename}: {error.strerror}; {rescue or 'make room'}.") from error
        found = _SAID.search(str(error))
        why = f"{found[1]}, {found[2].rstrip('. ')}" if found else str(error).split("\n")[0].rstrip(". ")
        how = "AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_REGION and AWS_ENDPOINT_URL say how it is reached"
        raise BadInput(f"{address} cannot be used: {why}; {rescue or how}.") from error


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
