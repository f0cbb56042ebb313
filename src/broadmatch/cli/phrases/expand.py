"""`broadmatch expand`: phrases from phrases."""

import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.output import Column

if TYPE_CHECKING:
    from broadmatch.ads import Expanded


def command(
    model: Annotated[Path, typer.Argument(metavar="KSP", help="Trained with `train --model ksp`.")],
    phrases: Annotated[
        list[str] | None,
        typer.Argument(metavar="PHRASE...", help="What to expand; if not given, lines of standard input."),
    ] = None,
    k: Annotated[int, typer.Option("-k", help="Phrases in the answer.")] = 20,
    negatives: Annotated[
        list[str] | None,
        typer.Option(
            "--not", metavar="PHRASE", help='Never recommend; pizza, "pizza" or [pizza] as in ads. Repeatable.'
        ),
    ] = None,
    group: Annotated[bool, typer.Option("--group", help="Near-duplicates are one phrase.")] = False,
    json: options.Json = False,
) -> None:
    """Expand a list of phrases by what people search, click and bid on together.

    Each phrase of the answer says where it came from: the phrase that led to it, and by which arm: rewrites (people
    searched for one after the other), walk and simrank (they clicked on the same pages), co_bid (ads bid on both).
    Phrases of one's own that are good stay in the answer.

    \b
    Example:
      broadmatch expand ksp/ "thai food"
      broadmatch expand ksp/ "thai food" "pad thai" -k 50 --not free --group --json
      broadmatch expand ksp/ < phrases.txt
    """
    given = phrases or [line.strip() for line in sys.stdin if line.strip()]
    if not given:
        raise typer.BadParameter("name a phrase, or give phrases as lines of standard input.")
    import broadmatch
    from broadmatch.ads import KSP

    found = broadmatch.load(model, KSP).expand(given, k, negatives=negatives or (), group=group)
    if json:
        for one in found:
            sources = [source._asdict() for source in one.sources]
            output.print_json(one._asdict() | {"sources": sources})
        return
    _print(found, given)


def _print(found: "Sequence[Expanded]", given: Sequence[str]) -> None:
    rows = []
    for rank, one in enumerate(found, 1):
        because = "; ".join(f"{source.share:.0%} {source.arm} of {source.seed}" for source in one.sources[:2])
        phrase = f"{one.phrase} (also {', '.join(one.variants)})" if one.variants else one.phrase
        rows.append((str(rank), phrase, f"{one.score:.3g}", because))
    columns = [Column("", right=True), Column("phrase"), Column("score", right=True), Column("from", spare="shorten")]
    output.print_table(columns, rows)
    if not found:
        output.print_text(f"Nothing is known of {', '.join(given)}.")
