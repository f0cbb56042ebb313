"""`broadmatch clicks follow`: learn from an event log while it is written, and publish what was learned."""

import contextlib
import signal
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.clicks.common import prepare
from broadmatch.cli.consumption import consumption, reports_signals
from broadmatch.cli.settings import parse_values, rules_of, split_settings


@reports_signals
def command(
    events: Annotated[
        str, typer.Argument(metavar="EVENTS", help="An event log: a folder, or kafka://SERVER[,SERVER]/TOPIC.")
    ],
    publish: Annotated[Path, typer.Option("--publish", metavar="FOLDER", help="The folder of the server.")],
    every_minutes: Annotated[
        int, typer.Option(metavar="N", help="Publish when the log's time has gone on by so much.")
    ] = 15,
    window: Annotated[float, typer.Option(metavar="S", help="How long after an impression clicks count.")] = 1800.0,
    describe: Annotated[
        Path | None, typer.Option(metavar="TOML", help="What the columns are, if not as in the model in service.")
    ] = None,
    calibrate_by: Annotated[
        str | None, typer.Option(metavar="SLICE", help="Calibrate by slices, the widest first.")
    ] = None,
    arm: Annotated[str, typer.Option(help="The arm whose model is learned.")] = "main",
    once: Annotated[bool, typer.Option("--once", help="Stop at the end of the log.")] = False,
    from_begin: Annotated[
        bool,
        typer.Option("--from-begin", help="If the log lost the place of the checkpoint, take its begin."),
    ] = False,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any parameter; see `broadmatch models ftrl`."),
    ] = None,
    rejects: options.RejectsFile = None,
    json: options.Json = False,
) -> None:
    """Learn from events while they are logged, and publish a click model every few minutes.

    Impressions are joined with their clicks and learned from when no click can count any more; time is that of the
    events. A model that does worse than the one in service, in log loss or in calibration beyond chance, is kept but
    held back. Ctrl-C or SIGTERM end it; started again, it goes on where it was, with the same bits.

    \b
    Example:
      broadmatch clicks follow server/events --publish server/
      broadmatch clicks follow kafka://localhost:9092/events --publish server/ --every-minutes 60
    """
    prepare()
    from broadmatch.clicks import FTRL
    from broadmatch.io import Rejects
    from broadmatch.io.event_log.opening import open_event_log
    from broadmatch.serve.learning import ServerLearning
    from broadmatch.signals import Description

    given = parse_values(split_settings(settings)[""], rules_of(FTRL), "ftrl")
    by = options.parse_names(None if calibrate_by is None else [calibrate_by])
    description = None if describe is None else Description.read(describe)
    learning = ServerLearning(publish, arm, description, given, None if by is None else tuple(by))
    stop = threading.Event()
    with (
        _stopping(stop),
        Rejects(rejects) as own,
        open_event_log(events) as log,
        learning.training(
            log, window=window, every_minutes=every_minutes, from_begin=from_begin, rejects=own
        ) as training,
    ):
        before = training.counts()
        consumption().check(training.description, f"{publish.resolve().name}/{arm}")
        consumption().report(one.name for one in training.description.signals)
        output.log.info("Learning from %s; what is published goes to %s.", events, publish)
        training.run(follow=not once, stop=stop)
        counts = training.counts()
    facts = {
        **counts,
        "learned_now": counts["learned"] - before["learned"],
        "read_now": counts["read"] - before["read"],
    }
    output.print_json(facts) if json else output.print_text(
        f"{facts['read_now']:,} events read, {facts['learned_now']:,} impressions learned; "
        f"{facts['learned']:,} in all, {facts['rejected']:,} events rejected."
    )


@contextlib.contextmanager
def _stopping(stop: threading.Event) -> Iterator[None]:
    """Ctrl-C and SIGTERM end the run where it can be ended; a second one ends it at once."""

    def ask(number: int, frame: Any) -> None:
        output.log.info("Stopping: what was read is learned and kept.")
        for one in before:
            signal.signal(one, before[one])
        stop.set()

    before: dict[int, Any] = {one: signal.getsignal(one) for one in (signal.SIGINT, signal.SIGTERM)}
    try:
        for one in before:
            signal.signal(one, ask)
        yield
    finally:
        for one, handler in before.items():
            signal.signal(one, handler)
