"""`broadmatch publish rollback` and `release`: back to an earlier model, which then stays."""

from typing import Annotated, Literal

import typer

from broadmatch.cli import options, output
from broadmatch.cli.publish.models import Arm, Folder

_Kind = Annotated[
    Literal["clicks", "recommender"], typer.Option("--kind", metavar="KIND", help="clicks or recommender.")
]


def rollback_command(
    folder: Folder,
    to: Annotated[str | None, typer.Option("--to", metavar="VERSION", help="If not given, the one before.")] = None,
    arm: Arm = "main",
    kind: _Kind = "clicks",
    json: options.Json = False,
) -> None:
    """Serve an earlier model, and stay with it: models that are published later are not put in service.

    `broadmatch publish release` lets the arm take up new ones again.

    \b
    Example:
      broadmatch publish rollback server/
      broadmatch publish rollback server/ --to 20261118T020500.000000
    """
    from broadmatch.serve import PublishedModels

    version = PublishedModels(folder).roll_back(kind, to, arm)
    if json:
        output.print_json({"kind": kind, "arm": arm, "version": version, "pinned": True})
    else:
        output.print_text(f"{folder}: {arm} serves {kind} {version}, until `broadmatch publish release`.")


def release_command(folder: Folder, arm: Arm = "main", kind: _Kind = "clicks") -> None:
    """Let an arm that was rolled back take up the next model that is published.

    \b
    Example:
      broadmatch publish release server/
    """
    from broadmatch.serve import PublishedModels

    PublishedModels(folder).release(arm, kind)
    output.print_text(f"{folder}: {arm} takes up the next {kind} model that is published.")
