"""`broadmatch signals allow`, `deprecate` and `retire`: whether a signal may be consumed."""

from datetime import datetime
from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.consumption import open_index
from broadmatch.cli.signals.common import (
    Command,
    Index,
    Name,
    Reason,
    Revision,
    Webhook,
    Who,
    print_sent,
    send_waiting,
    who_is,
)
from broadmatch.cli.signals.consumers import print_consumers


def allow_command(
    name: Name, signals: Index = None, revision: Revision = None, who: Who = None, json: options.Json = False
) -> None:
    """White-list a signal whose last vetting passed, so that models may be trained with it.

    \b
    Example:
      broadmatch signals allow price@2 --signals signals/
    """
    with open_index(signals) as index:
        version = index.allow(name, by=who_is(who), revision=revision)
    output.print_json(version.to_dict()) if json else output.print_text(f"{version.full_name} is {version.status}.")


def deprecate_command(
    name: Name,
    signals: Index = None,
    use: Annotated[str | None, typer.Option(metavar="NAME", help="The signal to use instead.")] = None,
    by: Annotated[
        datetime | None, typer.Option(metavar="DATE", formats=["%Y-%m-%d"], help="The last day it may be consumed.")
    ] = None,
    reason: Reason = "",
    revision: Revision = None,
    webhook: Webhook = None,
    notice_command: Command = None,
    who: Who = None,
    json: options.Json = False,
) -> None:
    """Deprecate a signal: list every model that consumes it, and notify their owners, once.

    Nothing new is trained with it from now on; what is in service goes on. `signals alerts` shows what is still open.

    \b
    Example:
      broadmatch signals deprecate price --use price@2 --by 2030-01-31 --signals signals/ --command "mail-it ads"
    """
    with open_index(signals) as index:
        until = None if by is None else by.date()
        found = index.deprecate(name, by=who_is(who), use=use, by_date=until, reason=reason, revision=revision)
        sent = send_waiting(index, webhook, notice_command)
        version = index.get(name)
    if json:
        notices = {"sent": sent[0], "waiting": sent[1]}
        output.print_json({**version.to_dict(), "consumers": [one.to_dict() for one in found], "notices": notices})
        return
    output.print_text(f"{version.full_name} is deprecated; {len(found):,} models consume it.")
    if found:
        print_consumers(found)
    print_sent(*sent)


def retire_command(
    name: Name,
    signals: Index = None,
    reason: Reason = "",
    force: Annotated[bool, typer.Option("--force", help="Also if models still consume it.")] = False,
    revision: Revision = None,
    who: Who = None,
    json: options.Json = False,
) -> None:
    """Retire a signal that nobody consumes any more.

    \b
    Example:
      broadmatch signals retire price --signals signals/
    """
    with open_index(signals) as index:
        version = index.retire(name, by=who_is(who), reason=reason, force=force, revision=revision)
    output.print_json(version.to_dict()) if json else output.print_text(f"{version.full_name} is {version.status}.")
