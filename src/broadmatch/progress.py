"""Progress of long work: a bar with rate and ETA on a terminal, one line a minute elsewhere.

Silent until `show()` is called: the command line calls it, a library user may.
"""

import logging
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager

log = logging.getLogger("broadmatch")
_shown = False
_EVERY_SECONDS = 60.0


def show(on: bool = True) -> None:
    """Switch progress on or off for this process."""
    global _shown
    _shown = on


@contextmanager
def hidden() -> Iterator[None]:
    """Show no progress of what the block runs."""
    shown = _shown
    show(False)
    try:
        yield
    finally:
        show(shown)


class Task:
    """One piece of long work, of `total` steps if that is known."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self.started = self._told = time.monotonic()

    def advance(self, steps: int = 1) -> None:
        """Count `steps` more as done."""
        self.done += steps
        now = time.monotonic()
        if now - self._told >= _EVERY_SECONDS:
            self._told = now
            self.tell(now)

    def tell(self, now: float) -> None:
        """Write one line about where the work stands."""
        rate = self.done / max(now - self.started, 1e-9)
        line = f"{self.what}: {self.done:,}"
        if self.total:
            left = (self.total - self.done) / rate if rate > 0 else float("inf")
            line += f" of {self.total:,} {self.unit}, {rate:,.1f}/s, {left:,.0f} s left"
        else:
            line += f" {self.unit}, {rate:,.1f}/s"
        log.info(line)


class _Silent(Task):
    def tell(self, now: float) -> None:
        pass


@contextmanager
def task(what: str, total: int | None = None, unit: str = "steps") -> Iterator[Task]:
    """Show `what` while the block runs; the block calls `advance`.

    >>> with task("Growing trees", total=3, unit="trees") as t:
    ...     t.advance(3)
    >>> t.done
    3
    """
    if not _shown:
        yield _Silent(what, total, unit)
    elif sys.stderr.isatty():
        with _bar(what, total, unit) as bar:
            yield bar
    else:
        yield Task(what, total, unit)


@contextmanager
def _bar(what: str, total: int | None, unit: str) -> Iterator[Task]:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}, {task.fields[rate]:,.1f}/s"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=Console(stderr=True), transient=True) as shown:
        number = shown.add_task(what, total=total, unit=unit, rate=0.0)

        class Bar(Task):
            def advance(self, steps: int = 1) -> None:
                self.done += steps
                rate = self.done / max(time.monotonic() - self.started, 1e-9)
                shown.update(number, advance=steps, rate=rate)

        yield Bar(what, total, unit)
