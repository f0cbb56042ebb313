"""Options that several commands share."""

from pathlib import Path
from typing import Annotated, Literal

import typer

Json = Annotated[bool, typer.Option("--json", help="Print JSON on standard output, for machines.")]
Seed = Annotated[int, typer.Option("--seed", help="Another number gives another draw; the same gives the same.")]
Jobs = Annotated[
    int | None, typer.Option("--n-jobs", help="Threads to use; all cores if not given. It changes no result.")
]
PageColumns = Annotated[
    str | None,
    typer.Option(
        "--page-columns",
        metavar="OURS=YOURS,...",
        help="Columns of a pages file, such as name=url,html=body; the usual names are found without.",
    ),
]
MaxBadRows = Annotated[
    int | None,
    typer.Option("--max-bad-rows", help="Stop after so many bad rows; if not given, when more are bad than good."),
]
LabelsFile = Annotated[
    Path | None,
    typer.Option("--labels-file", metavar="FILE", help="The labels, where DATA is the features of a pair of files."),
]
RejectsFile = Annotated[
    Path | None, typer.Option("--rejects", metavar="FILE", help="Write what was rejected here, with the reason.")
]
Format = Annotated[
    Literal["parquet", "csv", "tsv", "jsonl", "criteo", "avazu", "vw", "svmlight"] | None,
    typer.Option(
        "--format", help="Of DATA; if not given: as described, or told by the suffix. Standard input is JSON lines."
    ),
]
ModelName = Annotated[
    str | None, typer.Option("--model", metavar="NAME", help="One of several models; if not given, the first.")
]
Slicings = Annotated[
    list[str] | None,
    typer.Option("--by", metavar="SLICE,...", help="Slices, as the description names them; may be repeated."),
]


def parse_names(given: list[str] | None) -> list[str] | None:
    """Names that were given one by one, or with commas between.

    >>> parse_names(["country,device", "hour"])
    ['country', 'device', 'hour']
    """
    return None if given is None else [name.strip() for one in given for name in one.split(",") if name.strip()]


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
