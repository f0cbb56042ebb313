"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from broadmatch.errors import CannotWrite
from broadmatch.io.formats import LogFormat

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for machines.")]
Seed = Annotated[int, typer.Option("--seed", help="Another number gives another draw.")]
Jobs = Annotated[int | None, typer.Option("--n-jobs", help="Threads; all cores if not given.")]
Cluster = Annotated[
    str | None,
    typer.Option("--cluster", metavar="ADDRESS", help="A Ray cluster: HOST:PORT, or auto."),
]
PageColumns = Annotated[
    str | None,
    typer.Option("--page-columns", metavar="OURS=YOURS", help="Columns of a pages file, such as name=url,html=body."),
]
MaxBadRows = Annotated[
    int | None, typer.Option("--max-bad-rows", help="Stop after so many; if not given, when most are bad.")
]
Revealed = Annotated[
    Path | None,
    typer.Option(
        "--revealed",
        metavar="FILE",
        help="Labels known already: a table of pages and phrases; for rows also a data set or matrix of labels.",
    ),
]
RevealedColumns = Annotated[
    str | None,
    typer.Option(
        "--revealed-columns", metavar="OURS=YOURS", help="Columns of that table, such as page=url,phrase=bid."
    ),
]
LabelsFile = Annotated[
    Path | None, typer.Option("--labels-file", metavar="FILE", help="The labels, if DATA has features only.")
]
RejectsFile = Annotated[
    Path | None, typer.Option("--rejects", metavar="FILE", help="Write bad rows here, with the reason.")
]
Format = Annotated[
    LogFormat | None,
    typer.Option("--format", metavar="FORMAT", help="If no suffix: parquet csv tsv jsonl criteo avazu vw."),
]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="One of several models; if not given, the first.")
]
Slicings = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="SLICE,...", help="Slices, as the description names them; may be repeated."),
]


def check_free(out: Path) -> None:
    """Refuse, before long work, a name that holds something other than a model."""
    from broadmatch.io.artifacts import MANIFEST

    if out.exists() and not (out / MANIFEST).exists() and not (out.is_dir() and not any(out.iterdir())):
        raise CannotWrite(f"{out} exists and is not a broadmatch folder; choose another name or remove it.")


def parse_names(given: list[str] | None) -> list[str] | None:
    """Names that were given one by one, or with commas between.

    >>> parse_names(["country,device", "hour"])
    ['country', 'device', 'hour']
    """
    return None if given is None else [name.strip() for one in given for name in one.split(",") if name.strip()]


class RevealedFile(NamedTuple):
    """The file of --revealed, and how its columns are called."""

    path: Path
    columns: dict[str, str] | None


def parse_revealed(path: Path | None, columns: str | None) -> RevealedFile | None:
    """What --revealed and --revealed-columns say."""
    names = parse_columns(columns, "--revealed-columns")
    if names is not None and path is None:
        raise typer.BadParameter("--revealed-columns are those of a table; give it as --revealed.")
    return None if path is None else RevealedFile(path, names)


def parse_shares(given: str) -> list[float]:
    """Shares between 0 and 1 with commas between.

    >>> parse_shares("0.2, 0.8")
    [0.2, 0.8]
    """
    try:
        shares = [float(word) for word in given.split(",")]
    except ValueError:
        shares = []
    if not shares or not all(0 < share < 1 for share in shares) or len(set(shares)) < len(shares):
        raise typer.BadParameter(
            f"--reveal is a list of different shares above 0 and below 1, such as 0.2,0.8, but it is {given!r}."
        )
    return shares


def parse_columns(given: str | None, option: str) -> dict[str, str] | None:
    """`query=q,page=url` as a mapping of our names to the user's.

    >>> parse_columns("query=q, page=url", "--columns")
    {'query': 'q', 'page': 'url'}
    """
    if given is None:
        return None
    found: dict[str, str] = {}
    for pair in given.split(","):
        ours, equals, theirs = pair.partition("=")
        if not (equals and ours.strip() and theirs.strip()):
            raise typer.BadParameter(f"{option} is a list such as query=q,page=url, but it has {pair!r}.")
        found[ours.strip()] = theirs.strip()
    return found
