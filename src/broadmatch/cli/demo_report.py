"""How the demo's report looks, and which pages it shows."""

from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from rich.console import Console

    from broadmatch.cli.demo import Sample
    from broadmatch.data import Dataset
    from broadmatch.evaluate import Estimate, Report
    from broadmatch.simulate import Marketplace

_OWN_DATA = """\
broadmatch harvest --clicks clicks.csv --columns query=q,page=url \\
    --pages pages/ --out data/ --labels beliefs
broadmatch train data/ --out model/
broadmatch evaluate model/ data/
broadmatch recommend model/ landing.html
broadmatch explain model/ landing.html "a phrase"
"""


class Shown(NamedTuple):
    """A page of the marketplace and what it is about."""

    name: str
    html: bytes
    about: str


def opening(console: "Console") -> None:
    """Say what is to come."""
    console.print(
        "broadmatch learns from a click log which bid phrases fit a landing page. Real logs are private and nobody "
        "knows how wrong they are, so this demo simulates one, and holds the result against the truth behind it."
    )


def heading(console: "Console", number: int, title: str, command: str) -> None:
    """Head a step; below, the command that does the same."""
    from rich.rule import Rule
    from rich.text import Text

    console.print()
    console.print(Rule(Text(f"{number}  {title}", "bold"), align="left", style="cyan"))
    if command:
        console.print(Text(f"$ {command}", "dim"), soft_wrap=True)  # one line, so that it can be copied


def metrics(console: "Console", reports: "dict[str, dict[str, Report]]") -> None:
    """A table of precisions, and whether beliefs help."""
    from rich.table import Table

    from broadmatch.evaluate import paired_difference

    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column("share of the first k that are right, in %")
    sides = {"log": "clicked", "truth": "true"}
    for word in sides.values():
        for k in (1, 10):
            table.add_column(f"{word}\nk = {k}", justify="right", no_wrap=True)
    for name, report in reports.items():
        table.add_row(name, *(_percent(report[side][f"P@{k}"]) for side in sides for k in (1, 10)))
    console.print(table)
    n = next(iter(reports.values()))["log"].n_points
    console.print(
        f"On {n:,} pages; in brackets, where 95 % of the bootstrap samples lie. 'Clicked' asks whether a phrase led "
        "to a click in the log, which knows only some of the right phrases; 'true' asks the simulator.",
        style="dim",
    )
    plain, beliefs = reports["MLRF on plain labels"], reports["MLRF on beliefs"]
    for side, against in (("log", "in the log"), ("truth", "in truth")):
        gain = paired_difference(beliefs[side], plain[side], "P@10")
        verdict = "better" if gain.low > 0 else "worse" if gain.high < 0 else "no clear difference"
        console.print(
            f"Beliefs against plain labels, first 10, {against}: {100 * gain.value:+.1f} points "
            f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f}): {verdict}."
        )


def _percent(estimate: "Estimate") -> str:
    return f"{100 * estimate.value:.0f} [dim]({100 * estimate.low:.0f}–{100 * estimate.high:.0f})[/dim]"


def pages_to_show(market: "Marketplace", test: "Dataset") -> list[Shown]:
    """Three pages that were held back: two with text, of different trades, and one that is almost all images."""
    import pyarrow.parquet as pq

    from broadmatch.io import read_pages

    held_back = set(test.points or ())
    rows = [row for row in pq.read_table(market.truth / "pages.parquet").to_pylist() if row["page"] in held_back]
    rows.sort(key=lambda row: str(row["page"]))
    chosen: list[dict[str, Any]] = []
    for wanted in (False, False, True):
        trades = {row["vertical"] for row in chosen}
        fitting = [r for r in rows if r["is_image_page"] == wanted and r["vertical"] not in trades and r not in chosen]
        fitting = fitting or [r for r in rows if r not in chosen]
        chosen += fitting[:1]
    contents = {page.name: page.html for page in read_pages(market.pages) if page.name in {r["page"] for r in chosen}}
    return [Shown(row["page"], contents[row["page"]], _about(row)) for row in chosen]


def _about(row: dict[str, Any]) -> str:
    """What the simulator knows of a page, in words."""
    what = f"{row['brand']}, {row['vertical']}"
    where = f", {row['city']}" if row["city"] else ""
    products = f"; sells {', '.join(row['products'][:3])}" if row["products"] else ""
    return what + where + products + ("; almost all images" if row["is_image_page"] else "")


def truly_relevant(market: "Marketplace", page: str, phrases: list[str]) -> list[bool]:
    """What the simulator says of each phrase for the page."""
    from broadmatch.data import Names
    from broadmatch.simulate import truth_matrix

    right, _ = truth_matrix(market.folder, Names.of([page]), Names.of(phrases)).row(0)
    return [i in set(right.tolist()) for i in range(len(phrases))]


def recommendations(console: "Console", sample: "Sample") -> None:
    """One page's phrases, in two columns."""
    from rich.panel import Panel
    from rich.table import Table
    from rich.text import Text

    table = Table.grid(padding=(0, 2, 0, 0), expand=True)
    for _ in range(2):
        table.add_column(ratio=1)
    half = (len(sample.phrases) + 1) // 2
    for row in range(half):
        cells = [_phrase(*sample.phrases[i]) for i in (row, row + half) if i < len(sample.phrases)]
        table.add_row(*cells)
    about = Text(f"{sample.about} · {sample.words:,} words, {sample.known:,} known to the model", "dim")
    grid = Table.grid(expand=True)
    grid.add_row(about)
    grid.add_row(table)
    console.print(Panel(grid, title=Text(sample.page), title_align="left", border_style="cyan"))


def _phrase(phrase: str, score: float, right: bool) -> Any:
    from rich.text import Text

    mark = ("✓ ", "green") if right else ("· ", "red")
    return Text.assemble(mark, phrase, (f"  {score:.2f}", "dim"))


def closing(console: "Console", out: Path, seconds: float) -> None:
    """How to go on."""
    from rich.panel import Panel
    from rich.text import Text

    console.print()
    console.print(Panel(Text(_OWN_DATA.strip()), title="The same with your own data", title_align="left"))
    console.print(f"Done in {seconds:.0f} s. The marketplace, the data and the model are in {out}.")
