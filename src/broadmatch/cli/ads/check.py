"""`broadmatch ads check`: everything that is wrong with an inventory."""

from typing import Annotated

import typer

from broadmatch.cli import options, output

Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="INVENTORY...", help="Tables, Google Ads Editor or Microsoft bulk files, folders, patterns."
    ),
]
Columns = Annotated[
    str | None, typer.Option("--columns", metavar="OURS=YOURS", help="Columns, such as phrase=term,bid=price.")
]


def command(sources: Sources, columns: Columns = None, json: options.Json = False) -> None:
    """Check an inventory as a whole: every kind of problem with its first lines, its column and what to do.

    Columns that are not used are named too, and --json has every problem. Ends with 1 if anything has to be corrected;
    warnings can be lived with.

    \b
    Example:
      broadmatch ads check ads.csv
      broadmatch ads check campaigns.csv keywords.csv --columns page=landing
    """
    from broadmatch.ads import check_inventory

    report = check_inventory(sources, columns=options.parse_columns(columns, "--columns"))
    found = report.inventory
    facts = {
        "campaigns": len(found.campaigns), "ads": len(found.ads), "phrases": len(found.phrases),
        "negatives": len(found.negatives), "paused": report.paused, "errors": len(report.errors),
    }  # fmt: skip
    if json:
        problems = [problem._asdict() for problem in report.problems]
        output.print_json(facts | {"problems": problems, "unused": report.unused})
    else:
        for sentence in report.summary():
            typer.echo(sentence)
        if report.unused:
            typer.echo(
                f"Columns that are not used: {', '.join(report.unused)}; --columns OURS=YOURS names one of ours."
            )
        typer.echo(", ".join(f"{n:,} {what}" for what, n in facts.items()) + ".")
    if report.errors:
        raise typer.Exit(1)
