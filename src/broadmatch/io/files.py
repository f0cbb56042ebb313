"""Files as they come: plain, gzip or zstd; named one by one, by folder, by pattern, or in a list."""

import contextlib
import gzip
import io
import json
import os
import tempfile
import zlib
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import IO, TYPE_CHECKING, Any, BinaryIO, Protocol, TypeAlias, cast

from broadmatch.errors import BadInput, CannotWrite, MissingFile
from broadmatch.io import buckets
from broadmatch.io.formats import PACKINGS, STANDARD_INPUT, packing_of

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

PathLike: TypeAlias = str | os.PathLike[str]
Source: TypeAlias = PathLike | Iterable[PathLike]


class Readable(Protocol):
    """What bytes are read from."""

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""
        ...


LARGEST_WHOLE, LARGEST_RATIO = 1 << 24, 50
"""Bytes that a packed file which is held whole may have unpacked, or if more, how many times its packed size."""
_BUFFER, _MOST_VALUES = 1 << 20, 1 << 22
_WILD = frozenset("*?[")


def expand(source: Source, suffixes: Iterable[str] | None = None, *, empty: bool = False) -> list[Path]:
    """List the files that `source` names: a file, a folder, a pattern such as `logs/**/*.csv.gz`, or a list of these.

    A folder stands for the files below it, sorted, hidden ones left out; with `suffixes`, only those whose names end
    in one of them, whatever the case. A file that is named by itself is taken whatever its suffix, and "-", standard
    input, as it is. An address (`buckets`) is fetched. A file that is named twice is listed once. `MissingFile` if
    anything that was named is not there, or, unless it may be `empty`, if a folder or a pattern stands for no file.
    """
    wanted = None if suffixes is None else tuple(s.lower() for s in suffixes)
    named = [source] if isinstance(source, str | os.PathLike) else list(source)
    if not named:
        raise MissingFile("No file was named; name at least one file, folder or pattern.")
    return list(dict.fromkeys(file for one in named for file in _expand_one(buckets.fetch(one), wanted, empty)))


def open_binary(path: PathLike) -> io.BufferedReader:
    """Open a file for reading, unpacked on the way if its first bytes are those of gzip or zstd.

    A packed stream that is cut off or damaged raises `BadInput` with the name of the file when reading gets there.
    """
    file = Path(path)
    packing = packing_of_file(file)
    if packing is None:
        return io.BufferedReader(_Unpacked(file, file.open("rb"), ""), _BUFFER)
    if packing == "gzip":
        return io.BufferedReader(_Unpacked(file, cast(BinaryIO, gzip.open(file, "rb")), packing), _BUFFER)
    import pyarrow as pa

    return io.BufferedReader(_Unpacked(file, cast(BinaryIO, pa.input_stream(str(file), "zstd")), packing), _BUFFER)


def open_whole(path: PathLike) -> io.BufferedReader:
    """Open a file as `open_binary` does, for what is held in memory as a whole.

    A packed file that unpacks to more than `LARGEST_WHOLE`, and than `LARGEST_RATIO` times its size, is refused there.
    """
    stream = open_binary(path)
    if packing_of_file(Path(path)) is not None:
        cast(_Unpacked, stream.raw).limit = largest_whole(Path(path))
    return stream


def largest_whole(file: Path) -> int:
    """How many bytes a packed file may have unpacked where it is held whole."""
    return max(LARGEST_WHOLE, LARGEST_RATIO * file.stat().st_size)


def read_text(path: PathLike) -> str:
    """The whole of a text, for what is held in memory anyway."""
    file = Path(path)
    with open_whole(file) as stream:
        content = stream.read()
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise BadInput(f"{file} is not UTF-8 (byte {error.start:,}); convert it.") from error


def json_line(line: bytes) -> Any:
    """What a line of JSON holds; ValueError also if it has so many values that they would take far more memory."""
    if len(line) > _MOST_VALUES and line.count(b",") + line.count(b"[") + line.count(b"{") > _MOST_VALUES:
        raise ValueError("more values than a record has")
    return json.loads(line)


@contextlib.contextmanager
def naming(file: PathLike) -> Iterator[None]:
    """Errors inside the block about what a file holds get its name."""
    try:
        yield
    except BadInput as error:
        raise BadInput(f"{file}: {error}") from error


def packing_of_file(file: Path) -> str | None:
    """How a file is packed, by its first bytes, which must be those that its suffix says."""
    try:
        with file.open("rb") as stream:
            packing = packing_of(stream.read(4))
    except FileNotFoundError as error:
        raise MissingFile(f"There is no file {file}.") from error
    except OSError as error:
        raise BadInput(f"Cannot read {file}: {error.strerror}.") from error
    claimed = PACKINGS.get(file.suffix.lower())
    if claimed is not None and packing != claimed.name:
        raise BadInput(f"{file} is not {claimed.name}, though its name says so; pack it again or take the suffix away.")
    return packing


def open_at(path: PathLike, offset: int) -> io.BufferedReader:
    """Open a file for reading as `open_binary` does, `offset` bytes of the unpacked content on.

    What is packed has to be read up to there. `BadInput` if the file is shorter than that.
    """
    file = Path(path)
    packed = packing_of_file(file) is not None
    if not packed and (size := file.stat().st_size) < offset:
        raise _shorter(file, offset, size)
    stream = open_binary(file)
    try:
        if packed:
            skip(stream, offset, file)
        elif offset:
            stream.seek(offset)
    except BaseException:
        stream.close()
        raise
    return stream


def skip(stream: Readable, offset: int, file: Path) -> None:
    """Read `offset` bytes and let them go."""
    left = offset
    while left:
        got = len(stream.read(min(left, _BUFFER)))
        if not got:
            raise _shorter(file, offset, offset - left)
        left -= got


def too_large(file: Path, limit: int) -> BadInput:
    """The error for a packed file that unpacks to more than what may be held."""
    return BadInput(
        f"{file} unpacks to more than {limit >> 20:,} megabytes, over {LARGEST_RATIO} times its size; "
        "unpack it first if that is right."
    )


def _shorter(file: Path, done: int, size: int) -> BadInput:
    return BadInput(
        f"{file} has become shorter: {done:,} bytes of it are done and it has {size:,}; "
        "bring the old file back, or start anew."
    )


@contextlib.contextmanager
def replacing_file(path: PathLike) -> Iterator[IO[bytes]]:
    """Give a file to write, packed if `path` ends in .gz or .zst, that takes the name `path` if the block ends well.

    It is written under a temporary name, synced, then renamed: the name holds the old file or the whole new one.
    """
    target = Path(path)
    if target.is_dir():
        raise CannotWrite(f"Cannot write {target}: it is a folder; give the name of a file.")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        descriptor, name = tempfile.mkstemp(prefix=f".{target.name}.", suffix=".tmp", dir=target.parent)
    except OSError as error:
        raise CannotWrite(f"Cannot write {target}: {error.strerror}.") from error
    temporary = Path(name)
    try:
        os.close(descriptor)
        with _create(temporary, target.suffix.lower()) as out:
            yield out
        with temporary.open("rb+") as written:
            os.fsync(written.fileno())
        temporary.chmod(0o644)
        temporary.replace(target)
    except OSError as error:
        if isinstance(error, CannotWrite | MissingFile):
            raise
        raise CannotWrite(f"Cannot write {target}: {error.strerror or error}; nothing was left there.") from error
    finally:
        temporary.unlink(missing_ok=True)


def _expand_one(path: Path, suffixes: tuple[str, ...] | None, empty: bool = False) -> list[Path]:
    if path.is_dir():
        files = sorted(f for f in path.rglob("*") if _listed(f.relative_to(path), suffixes) and f.is_file())
        if not files and not empty:
            kind = "files" if suffixes is None else f"files whose names end in {', '.join(suffixes)}"
            raise MissingFile(f"The folder {path} holds no {kind}.")
        return files
    if path.exists() or str(path) == STANDARD_INPUT:
        return [path]
    if not _WILD.intersection(str(path)):
        raise MissingFile(f"There is no file {path}.")
    wild = next(i for i, part in enumerate(path.parts) if _WILD.intersection(part))
    # As in a shell, * passes hidden files over. A folder that is met counts only if it holds something wanted.
    found: list[Path] = []
    for match in sorted(Path(*path.parts[:wild]).glob(str(Path(*path.parts[wild:])))):
        if match.name.startswith(".") and not path.name.startswith("."):
            continue
        with contextlib.suppress(MissingFile):
            found += _expand_one(match, suffixes)
    if not found and not empty:
        raise MissingFile(f"No file matches the pattern {path}.")
    return found


def _listed(relative: Path, suffixes: tuple[str, ...] | None) -> bool:
    hidden = any(part.startswith(".") for part in relative.parts)
    return not hidden and (suffixes is None or relative.name.lower().endswith(suffixes))


@contextlib.contextmanager
def _create(file: Path, suffix: str) -> Iterator[IO[bytes]]:
    if suffix == ".zst":
        import pyarrow as pa

        with pa.output_stream(str(file), "zstd") as out:
            yield out
        return
    with file.open("wb") as raw:
        if suffix == ".gz":
            # No time of writing inside, so that the same content gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=raw, compresslevel=6, mtime=0) as out:
                yield cast(IO[bytes], out)
        else:
            yield raw


class _Unpacked(io.RawIOBase):
    """A stream whose errors name the file."""

    def __init__(self, file: Path, stream: BinaryIO, packing: str) -> None:
        self._file, self._stream, self._packing, self._seen = file, stream, packing, 0
        self.limit: int | None = None

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return not self._packing

    def seek(self, offset: int, whence: int = os.SEEK_SET, /) -> int:
        return self._stream.seek(offset, whence)

    def tell(self) -> int:
        return self._stream.tell()

    def readinto(self, buffer: "WriteableBuffer") -> int:
        view = memoryview(buffer).cast("B")
        try:
            piece = self._stream.read(len(view))
        except (OSError, EOFError, zlib.error) as error:
            what = f"is truncated or damaged {self._packing}" if self._packing else "cannot be read"
            raise BadInput(f"{self._file} {what} after {self._seen:,} bytes ({error}); fetch it again.") from error
        view[: len(piece)] = piece
        self._seen += len(piece)
        if self.limit is not None and self._seen > self.limit:
            raise too_large(self._file, self.limit)
        return len(piece)

    def close(self) -> None:
        if not self.closed:
            self._stream.close()
        super().close()
