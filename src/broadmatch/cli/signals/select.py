"""`broadmatch signals select`: which signals to train with."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.clicks.common import prepare, source_of
from broadmatch.cli.output import Column
from broadmatch.cli.signals.common import Index
from broadmatch.cli.signals.vet import Learning, learner_settings, write_text
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.registry import SignalSelection
    from broadmatch.signals import Description


def command(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Files, folders or patterns.")],
    describe: Annotated[Path, typer.Option("--description", metavar="TOML", help="What the columns are.")],
    signals: Index = None,
    only: Annotated[list[str] | None, typer.Option(metavar="NAME,...", help="Candidates; all if not given.")] = None,
    direction: Annotated[str, typer.Option(metavar="WAY", help="forward, backward or both.")] = "both",
    most: Annotated[int | None, typer.Option(metavar="N", help="Signals to take forward at most.")] = None,
    out: Annotated[
        Path | None, typer.Option("--out", metavar="TOML", help="Write the description to train with.")
    ] = None,
    settings: Learning = None,
    format: options.Format = None,
    json: options.Json = False,
) -> None:
    """Choose the signals that lower the progressive log loss beyond chance, forward and backward.

    Candidates are the signals of the description; with an index, those that are white-listed there, also if the
    description does not have them. Each round is one pass over the data, with a variant for each candidate.

    \b
    Example:
      broadmatch signals select 'logs/*.parquet' --description clicks.toml --out chosen.toml
      broadmatch signals select logs/ --description clicks.toml --signals signals/ --direction backward
    """
    prepare()
    from broadmatch.registry.described import only_signals
    from broadmatch.registry.selection import select_signals
    from broadmatch.signals import Description

    description = Description.read(describe)
    description.format = format or description.format
    if signals is not None:
        description = _white_listed(description, signals)
    names = options.parse_names(only)
    if names is not None:
        if unknown := set(names) - {signal.name for signal in description.signals}:
            raise BadInput(f"There is no signal {min(unknown)!r} among the candidates; correct --only.")
        description = only_signals(description, names)
    found = select_signals(
        source_of(data), description, direction=direction, most=most, settings=learner_settings(settings)
    )
    if out is not None:
        write_text(out, found.description.to_toml())
    output.print_json(found.to_dict()) if json else _print(found, out)


def _white_listed(description: "Description", signals: str) -> "Description":
    """The description with exactly the signals that are white-listed, and the parts of crosses."""
    from broadmatch.registry import SignalIndex
    from broadmatch.registry.described import only_signals, with_versions

    with SignalIndex.open(signals, make=False) as index:
        allowed = index.signals(status="white-listed")
    if not allowed:
        raise BadInput(f"No signal is white-listed in {signals}; `broadmatch signals allow` does that.")
    names = [version.described_as for version in allowed]
    if others := sorted({signal.name for signal in description.signals} - set(names)):
        output.log.info("Not white-listed, and no candidates: %s.", ", ".join(others))
    return only_signals(with_versions(description, allowed), names)


def _print(found: "SignalSelection", out: Path | None) -> None:
    heads = [Column("round", right=True), Column("step"), Column("signal", spare="shorten")]
    heads += [Column("adds in %", right=True), Column("95 % interval", right=True, spare="drop"), Column("")]
    marks = {"add": "taken", "remove": "left out"}
    rows = [
        (
            str(one.round), one.step, one.signal, f"{100 * one.gain.value:+.3f}",
            f"{100 * one.gain.low:+.3f} – {100 * one.gain.high:+.3f}", marks[one.step] if one.chosen else "",
        )
        for one in found.steps
    ]  # fmt: skip
    output.print_table(heads, rows)
    text = f"{', '.join(found.signals)}; {found.passes} passes"
    if found.loss is not None and found.change is not None:
        text += f"; progressive log loss {found.loss.value:.5f} ({found.loss.low:.5f} – {found.loss.high:.5f}), "
        text += f"{-100 * found.change.value:+.3f} % against all ({-100 * found.change.high:+.3f} – "
        text += f"{-100 * found.change.low:+.3f})"
    output.print_text(f"{text}.")
    if out is None:
        output.print_text(found.description.to_toml())
