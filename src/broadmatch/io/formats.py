"""The formats of files: names, suffixes, packings, and "-" for standard input. There is no other such table."""

from collections.abc import Iterable
from pathlib import Path
from typing import Literal, NamedTuple, TypeAlias, get_args

from broadmatch.errors import BadInput

STANDARD_INPUT = "-"

LogFormat: TypeAlias = Literal["parquet", "csv", "tsv", "jsonl", "criteo", "avazu", "vw"]

LOGS: tuple[LogFormat, ...] = get_args(LogFormat)
"""Formats of impressions; lines of "vw" are features already, the others have columns."""
MATRICES = ("xmc", "svmlight", "fasttext", "npz", "folder")
COLUMNS = LOGS[:-1]
"""Formats of rows with named columns."""
TABLES = COLUMNS[:4]
"""Those of them that a suffix tells."""
TEXTS = COLUMNS[1:]
PAGES = ("html", "jsonl", "parquet", "csv", "tsv")

SUFFIXES = {
    ".parquet": "parquet",
    ".csv": "csv",
    ".tsv": "tsv",
    ".tab": "tsv",
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "jsonl",
    ".html": "html",
    ".htm": "html",
    ".xlsx": "xlsx",
    ".vw": "vw",
    ".npz": "npz",
    ".svm": "svmlight",
    ".svmlight": "svmlight",
    ".libsvm": "svmlight",
    ".ft": "fasttext",
    ".fasttext": "fasttext",
}


class Packing(NamedTuple):
    """How a file is packed: the name of the method, and the bytes that such a file begins with."""

    name: str
    magic: bytes


PACKINGS = {".gz": Packing("gzip", b"\x1f\x8b"), ".zst": Packing("zstd", b"\x28\xb5\x2f\xfd")}
"""By the suffix that stands after the one of the format."""


class Dialect(NamedTuple):
    """How the fields of a text stand: delimiter, quote ("" for none), whether the first line names the columns."""

    delimiter: str
    quote: str
    header: bool


DIALECTS = {
    "csv": Dialect(",", '"', header=True),
    "tsv": Dialect("\t", '"', header=True),
    "avazu": Dialect(",", '"', header=True),
    "criteo": Dialect("\t", "", header=False),
    "jsonl": Dialect("", "", header=False),
}


def base_name(path: Path) -> str:
    """The name in lower case without the suffix of a packing.

    >>> base_name(Path("logs/Monday.CSV.gz"))
    'monday.csv'
    """
    name = path.name.lower()
    for suffix in PACKINGS:
        name = name.removesuffix(suffix)
    return name


def format_of(path: Path, among: Iterable[str] = SUFFIXES.values()) -> str | None:
    """The format that the suffix tells, packed or not; None if it tells none of those wanted.

    >>> format_of(Path("log.TSV.gz")), format_of(Path("log.txt")), format_of(Path("page.html"), TABLES)
    ('tsv', None, None)
    """
    found = SUFFIXES.get(Path(base_name(path)).suffix)
    return found if found in tuple(among) else None


def known_format(path: Path, among: Iterable[str], what: str) -> str:
    """The format that the suffix tells; `BadInput` if it tells none of those wanted."""
    found = format_of(path, among)
    if found is None:
        raise BadInput(f"{path} has no suffix of {what} ({', '.join(suffixes(among))}); rename it or give the format.")
    return found


def suffixes(among: Iterable[str], *, packed: bool = False) -> list[str]:
    """The suffixes of some formats; with `packed`, also those of packed files."""
    wanted = tuple(among)
    plain = [suffix for suffix, format in SUFFIXES.items() if format in wanted]
    return [suffix + packing for suffix in plain for packing in ("", *PACKINGS)] if packed else plain


def packing_of(head: bytes) -> str | None:
    """The packing that the first bytes of a file tell."""
    return next((name for name, magic in PACKINGS.values() if head.startswith(magic)), None)
