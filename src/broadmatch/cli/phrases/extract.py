"""`broadmatch extract`: the phrases that stand on a page."""

from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options
from broadmatch.cli.common import check_not_addresses
from broadmatch.cli.phrases.answers import Format, Out, Wording, chosen_format, emit


def command(
    pages: Annotated[
        list[Path] | None,
        typer.Argument(metavar="PAGES...", help="HTML or text files, a folder, a pages file; - (the default)."),
    ] = None,
    model: Annotated[
        Path | None,
        typer.Option("--model", metavar="KEX", help="Trained with `train --model kex`; if not given, untrained."),
    ] = None,
    k: Annotated[int | None, typer.Option("-k", help="Phrases for each page.", show_default="10")] = None,
    sets: Annotated[
        bool, typer.Option("--sets", help="As many phrases as are likely to be chosen, instead of -k.")
    ] = False,
    format: Annotated[
        Format | None, typer.Option("--format", help="If not given: by the name of --out, or a table.")
    ] = None,
    out: Out = None,
    page_columns: options.PageColumns = None,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON lines; short for --format jsonl.")] = False,
) -> None:
    """Extract the phrases of a page that are worth a bid.

    Looks at phrases of up to five words in title, headings, links, bold and plain text, meta tags, the address, and
    names of images, and ranks them. A model that was trained on clicks or on given phrases knows what people choose,
    and its scores are probabilities; without one, the scores only rank.

    \b
    Example:
      broadmatch extract landing.html
      curl -s https://example.com/ | broadmatch extract -k 20 --json
      broadmatch extract pages/ --model kex/ --sets --out phrases.html
    """
    columns = options.parse_columns(page_columns, "--page-columns")
    if sets and (k is not None or model is None):
        raise typer.BadParameter("--sets needs a --model, which learned how many, and goes without -k.")
    check_not_addresses(pages or ())
    chosen = chosen_format(out, "jsonl" if json else format)
    import broadmatch
    from broadmatch.io import PageSource, Rejects
    from broadmatch.labels import KEX

    kex = KEX.untrained() if model is None else broadmatch.load(model, KEX)
    with Rejects(rejects, max_bad_rows=max_bad_rows) as bad:
        source = PageSource(pages or "-", columns=columns, rejects=bad)
        answers = kex.recommend(source, None if sets else 10 if k is None else k)
        emit(answers, chosen, Wording("page", "phrase", "phrases", sets), out)
