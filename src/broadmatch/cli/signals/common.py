"""Options that the commands of `broadmatch signals` share."""

import getpass
import os
import shlex
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import output
from broadmatch.serve.config import SIGNALS

if TYPE_CHECKING:
    from broadmatch.registry import SignalIndex

Name = Annotated[str, typer.Argument(metavar="NAME", help="The signal, price or price@2.")]
Index = Annotated[
    str | None,
    typer.Option("--signals", metavar="INDEX", envvar=SIGNALS, show_envvar=False, help="The signal index."),
]
Who = Annotated[str | None, typer.Option("--who", metavar="NAME", help="Who changes it; if not given, the user.")]
Revision = Annotated[
    int | None, typer.Option("--revision", metavar="N", help="Refuse if it was changed since this revision.")
]
Reason = Annotated[str, typer.Option("--reason", metavar="TEXT", help="Why.")]
Webhook = Annotated[
    str | None,
    typer.Option(
        "--webhook", metavar="URL", envvar="BROADMATCH_NOTICE_WEBHOOK", show_envvar=False, help="Where notices go."
    ),
]
Command = Annotated[
    str | None,
    typer.Option(
        "--command", metavar="WORDS", envvar="BROADMATCH_NOTICE_COMMAND", show_envvar=False,
        help="Or a command that gets them on standard input.",
    ),
]  # fmt: skip


def who_is(given: str | None) -> str:
    """Who changes the index: as given, BROADMATCH_CONTACT, or the name of the user."""
    return given or os.environ.get("BROADMATCH_CONTACT") or getpass.getuser()


def send_waiting(index: "SignalIndex", webhook: str | None, command: str | None) -> tuple[int, int]:
    """Send the notices that wait, if it is said where to; gives how many were sent, and how many wait on."""
    if webhook is None and command is None:
        return 0, len(index.notices(waiting=True))
    n_sent, _ = index.send_notices(webhook=webhook, command=None if command is None else shlex.split(command))
    return n_sent, len(index.notices(waiting=True))


def print_sent(n_sent: int, n_waiting: int) -> None:
    """Say what became of the notices."""
    if n_sent or n_waiting:
        how = "" if not n_waiting else "; `broadmatch signals alerts --send` with --webhook or --command sends them"
        output.print_text(f"{n_sent:,} notices sent, {n_waiting:,} wait{how}.")
