"""Options that several commands share."""

from pathlib import Path
from typing import Annotated

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
