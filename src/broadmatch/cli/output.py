"""What the commands say: results on standard output, everything else on standard error."""

import contextlib
import json
import logging
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

import typer

from broadmatch import progress

if TYPE_CHECKING:
    from rich.console import Console

log = logging.getLogger("broadmatch")


class _Lines(logging.Handler):
    """The library's messages as lines on standard error, in the words of the command line."""

    def __init__(self, in_options: Callable[[str], str]) -> None:
        super().__init__(logging.INFO)
        self.in_options = in_options

    def emit(self, record: logging.LogRecord) -> None:
        mark = "Warning: " if record.levelno >= logging.WARNING else ""
        typer.echo(mark + self.in_options(record.getMessage()), err=True)


@contextlib.contextmanager
def speaking(in_options: Callable[[str], str]) -> Iterator[None]:
    """Show progress and the library's messages while the block runs."""
    handler, level = _Lines(in_options), log.level
    log.addHandler(handler)
    log.setLevel(logging.INFO)
    progress.show()
    try:
        yield
    finally:
        progress.show(False)
        log.setLevel(level)
        log.removeHandler(handler)


@contextlib.contextmanager
def warnings_only() -> Iterator[None]:
    """Leave out what the command itself is going to say."""
    level = log.level
    log.setLevel(logging.WARNING)
    try:
        yield
    finally:
        log.setLevel(level)


def announce_compiling() -> None:
    """Say so when the first kernel has to be compiled; one that is in the cache is not."""
    from numba.core import event as numba_events

    events: Any = numba_events  # numba's functions have no types

    class Listener(numba_events.Listener):
        told = False

        def on_start(self, event: Any) -> None:
            if not Listener.told:
                Listener.told = True
                typer.echo("Compiling kernels, once on this machine: about a minute in all.", err=True)

        def on_end(self, event: Any) -> None:
            pass

    if not _listening:
        _listening.append(Listener())
        events.register("numba:compile", _listening[0])


_listening: list[Any] = []


def console(**options: Any) -> "Console":
    """Standard output with tables and, on a terminal, colours."""
    from rich.console import Console

    return Console(highlight=False, **options)


def emit(data: Any) -> None:
    """Print one line of JSON."""
    typer.echo(json.dumps(data, ensure_ascii=False))
