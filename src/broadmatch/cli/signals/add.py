"""`broadmatch signals add`: a signal, or the next version of one."""

from typing import Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.consumption import open_index
from broadmatch.cli.settings import split_settings
from broadmatch.cli.signals.common import Command, Index, Name, Webhook, Who, print_sent, send_waiting, who_is
from broadmatch.errors import BadParameter


def _many(flag: str, what: str) -> Any:
    return typer.Option(flag, metavar="NAME", help=f"{what}; may be repeated.")


def command(
    name: Name,
    kind: Annotated[str | None, typer.Option(metavar="KIND", help="As in a description, cross, or features.")] = None,
    signals: Index = None,
    owner: Annotated[str | None, typer.Option(metavar="NAME", help="Whose it is; who adds it if not given.")] = None,
    description: Annotated[str, typer.Option(metavar="TEXT", help="What it is.")] = "",
    made_by: Annotated[str, typer.Option(metavar="TEXT", help="How it is made.")] = "",
    settings: Annotated[
        list[str] | None, typer.Option("--set", metavar="NAME=VALUE", help="buckets=log, buckets=0,1,5, cross=a,b.")
    ] = None,
    files: Annotated[list[str] | None, _many("--file", "A file behind it")] = None,
    tables: Annotated[list[str] | None, _many("--table", "A table behind it")] = None,
    columns: Annotated[list[str] | None, _many("--column", "A column behind it")] = None,
    platforms: Annotated[list[str] | None, _many("--platform", "Where it is available; all if not given")] = None,
    domains: Annotated[list[str] | None, _many("--domain", "Problems it is for; all if not given")] = None,
    new_version: Annotated[
        bool, typer.Option("--new-version", help="The next version; what is not given is as in the last.")
    ] = False,
    webhook: Webhook = None,
    notice_command: Command = None,
    who: Who = None,
    json: options.Json = False,
) -> None:
    """Add a signal to the index, as proposed, or a new version of one, which its consumers are told of.

    \b
    Example:
      broadmatch signals add price --kind number --set buckets=log --owner anna --column price
      broadmatch signals add price --new-version --set buckets=0,1,5
    """
    given = _settings(settings)
    lists = {"files": files, "tables": tables, "columns": columns}
    data = {what: listed for what, listed in lists.items() if listed}
    by = who_is(who)
    if new_version and (owner or description or made_by):
        raise BadParameter("--owner, --description and --made-by are those of the signal, not of a new version.")
    if not new_version and kind is None:
        raise BadParameter(
            "--kind must say what the signal is: categorical, number, text, hour, weekday, cross, features."
        )
    with open_index(signals, make=True) as index:
        if new_version:
            added = index.add_version(
                name, by=by, kind=kind, settings=given, data=data or None, platforms=platforms, domains=domains
            )
        else:
            added = index.add(
                name,
                kind=str(kind),
                owner=owner or by,
                by=by,
                settings=given,
                description=description,
                made_by=made_by,
                data=data,
                platforms=platforms or (),
                domains=domains or (),
            )
        sent = send_waiting(index, webhook, notice_command) if new_version else (0, 0)
    if json:
        output.print_json(added.to_dict())
    else:
        output.print_text(f"{added.full_name} is {added.status}; `broadmatch signals vet` is next.")
        print_sent(*sent)


def _settings(given: list[str] | None) -> dict[str, Any] | None:
    """What --set says, as a description has it."""
    found: dict[str, Any] = {}
    for name, text in split_settings(given)[""].items():
        if name == "buckets" and text != "log":
            try:
                found[name] = [float(word) for word in text.split(",")]
            except ValueError:
                raise BadParameter(
                    f"--set buckets is log or numbers with commas between, but it is {text!r}."
                ) from None
        else:
            found[name] = [word.strip() for word in text.split(",")] if name == "cross" else text
    return found or None
