"""`broadmatch signals alerts`: the board of what is still to be replaced, and the notices that wait."""

from typing import Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.consumption import open_index
from broadmatch.cli.output import Column
from broadmatch.cli.signals.common import Command, Index, Webhook, print_sent, send_waiting
from broadmatch.errors import BadParameter


def command(
    signals: Index = None,
    send: Annotated[bool, typer.Option("--send", help="Send the notices that wait, once each.")] = False,
    all_notices: Annotated[bool, typer.Option("--all", help="Show also the notices that were sent.")] = False,
    webhook: Webhook = None,
    notice_command: Command = None,
    json: options.Json = False,
) -> None:
    """Show which deprecated signals are still consumed, the most urgent first, and the notices to owners that wait.

    \b
    Example:
      broadmatch signals alerts --signals signals/
      broadmatch signals alerts --send --webhook https://chat.example.org/hooks/ads
    """
    if send and webhook is None and notice_command is None:
        raise BadParameter("--send needs --webhook or --command, which say where notices go.")
    with open_index(signals) as index:
        sent = send_waiting(index, webhook, notice_command) if send else (0, 0)
        board, notices = index.board(), index.notices(waiting=not all_notices)
    if json:
        plain = {"board": [one.to_dict() for one in board], "notices": [one.to_dict() for one in notices]}
        output.print_json({**plain, "sent": sent[0]})
        return
    columns = [
        Column("signal", spare="shorten"),
        Column("status"),
        Column("use instead"),
        Column("by"),
        Column("owner"),
    ]
    rows = [
        (one.signal, one.status, one.replacement or "", f"{one.by_date or ''}{' (overdue)' * one.overdue}", one.owner,
         f"{one.open:,}", f"{one.done:,}")
        for one in board
    ]  # fmt: skip
    output.print_table([*columns, Column("open", right=True), Column("done", right=True)], rows)
    if notices:
        typer.echo()
        shown = [(one.kind, one.recipient, str(one.message.get("text", ""))) for one in notices]
        output.print_table([Column("notice"), Column("to", spare="shorten"), Column("text", spare="shorten")], shown)
    print_sent(sent[0], sum(one.sent is None for one in notices))
