"""Names beside a file that cannot hold them: `<file>.labels.txt`, `.features.txt`, `.points.txt`, a name a line."""

from pathlib import Path

from broadmatch.data.names import Names
from broadmatch.errors import BadInput
from broadmatch.io import buckets
from broadmatch.io.files import read_text, replacing_file


def beside(path: Path, kind: str) -> Path:
    """Where the names of `kind` go.

    >>> beside(Path("train.txt.gz"), "labels").name
    'train.txt.gz.labels.txt'
    """
    return path.with_name(f"{path.name}.{kind}.txt")


def read_names(path: Path, kind: str) -> Names | None:
    """The names beside `path`, or None if there are none."""
    file = buckets.fetch(beside(path, kind))
    if not file.is_file():
        return None
    lines = read_text(file).split("\n")
    if not lines[-1]:
        del lines[-1]
    return Names.of(line.removesuffix("\r") for line in lines)


def read_sized_names(path: Path, kind: str, expected: int) -> Names | None:
    """The names beside `path`, which have to be as many as there are labels, features or points."""
    names = read_names(path, kind)
    if names is not None and len(names) != expected:
        raise BadInput(
            f"{beside(path, kind)} holds {len(names):,} names, but {path} has {expected:,} {kind}; "
            "write one name a line, or remove it."
        )
    return names


def encode(path: Path, kind: str, names: Names | None) -> bytes | None:
    """What to write beside `path`; names that a line each cannot hold are refused."""
    if names is None:
        return None
    for i, name in enumerate(names):
        if "\n" in name or "\r" in name:
            raise BadInput(
                f"The name {name!r}, number {i} of the {kind}, has a line break, which {beside(path, kind)} cannot "
                "hold; write a folder (format='folder') instead."
            )
    try:
        return "".join(f"{name}\n" for name in names).encode()
    except UnicodeEncodeError as error:
        raise BadInput(f"The names of the {kind} are not Unicode text: {error.reason}.") from error


def write(path: Path, kind: str, content: bytes | None) -> None:
    """Write the names beside `path`; without any, those of an older file are taken away."""
    file = beside(path, kind)
    if content is None:
        file.unlink(missing_ok=True)
        return
    with replacing_file(file) as out:
        out.write(content)
