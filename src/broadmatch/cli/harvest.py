"""`broadmatch harvest`: from a click log and pages to labelled rows."""

import contextlib
import logging
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from broadmatch.cli import options, output
from broadmatch.cli.cluster.nodes import joined
from broadmatch.cli.consumption import consumption, reports_signals
from broadmatch.errors import CannotWrite

_LEFT_OUT = {
    "bad_rows": "rows of the log that cannot be read",
    "rows_of_totals": "rows of totals",
    "rows_not_clicked": "rows that are no click",
    "rows_outside_window": "rows outside the time window",
    "queries_without_letters": "queries without a letter or digit",
    "queries_too_rare": "queries with too few clicks",
    "pairs_excluded": "pairs of page and phrase that were to be excluded",
    "times_unread": "times that cannot be read from the counts by month "
    "(say how they are written: --time-format %d.%m.%Y)",
    "amounts_unread": "bids and prices that are no numbers",
    "test_pages_too_small": "test pages with too few queries",
    "test_labels_outside": "test labels that no training page has",
    "bad_pages": "pages that cannot be used",
    "pages_without_html": "clicked pages that are not among the pages",
}


@contextlib.contextmanager
def _folder_for_queries(out: Path) -> Iterator[str]:
    """Where the table of queries is until the whole folder is written; what fails there is said of the folder."""
    with tempfile.TemporaryDirectory(prefix="broadmatch-") as folder:
        try:
            yield folder
        except CannotWrite as error:
            raise CannotWrite(str(error).replace(folder, str(out))) from error


@reports_signals
def command(
    clicks: Annotated[Path, typer.Option("--clicks", metavar="LOG", help="Log: CSV, TSV, JSON lines, Parquet.")],
    pages: Annotated[
        Path, typer.Option("--pages", metavar="PAGES", help="Folder of .html files, JSON lines, or Parquet.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="DATA", help="Folder to write.")],
    columns: Annotated[
        str | None,
        typer.Option(metavar="OURS=YOURS", help="Columns of the log; without a header, all of them: query,page,time."),
    ] = None,
    page_columns: options.PageColumns = None,
    time_format: Annotated[
        str | None, typer.Option(metavar="FORMAT", help="How times are written, as '%d.%m.%Y %H:%M'.")
    ] = None,
    exact_pages: Annotated[bool, typer.Option("--exact-pages", help="Tracking parameters and slashes count.")] = False,
    window: Annotated[
        str | None,
        typer.Option(metavar="FROM..UNTIL", help="Of the clicks, as 2024-03-01..2024-04-01."),
    ] = None,
    exclude: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Table of pages and phrases: wrong pairs.")
    ] = None,
    min_clicks: Annotated[int, typer.Option(help="A query needs so many clicks in all.")] = 5,
    min_test_queries: Annotated[
        int | None,
        typer.Option(help="A test page needs more queries.", show_default="5, or less if few pages have more"),
    ] = None,
    test_share: Annotated[float, typer.Option(help="Share of the pages that are for testing.")] = 0.1,
    split_time: Annotated[str | None, typer.Option(metavar="TIME", help="Test on clicks from then on instead.")] = None,
    labels: Annotated[
        Literal["plain", "npmi", "beliefs", "coec"],
        typer.Option(help="Weigh 1 each, by nPMI, as beliefs (often best), or by places."),
    ] = "plain",
    min_pages: Annotated[
        int | None,
        typer.Option(help="Words on fewer pages are dropped.", show_default="10, or 1 % of the pages if less"),
    ] = None,
    rejects: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Bad rows; bad pages go to FILE.pages.jsonl."),
    ] = None,
    max_bad_rows: options.MaxBadRows = None,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = None,
    cluster: options.Cluster = None,
    json: options.Json = False,
) -> None:
    """Turn a click log and pages into a folder to train on.

    A query is a label of a page if it led to a click on it. The pages must have the names that the log has. Columns
    of the log are query, page, time, clicks and clicked, or called as in exports of Google Ads and the like. A
    table of all queries is written too.

    \b
    Example:
      broadmatch harvest --clicks 'logs/*.csv.gz' --columns query=search_term,page=url,time=ts \\
          --pages pages.parquet --out data/ --labels beliefs --rejects rejects.jsonl
    """
    names = None if columns is None or "=" in columns else [name.strip() for name in columns.split(",")]
    mapping = options.parse_columns(columns, "--columns") if names is None else None
    page_mapping = options.parse_columns(page_columns, "--page-columns")
    since, until = _parse_window(window)
    from broadmatch.harvest.harvested import check_place, summarise, write_harvested

    check_place(out)
    consumption().take(_consumed(window, split_time, labels), out)
    from broadmatch.features import PageVectorizer
    from broadmatch.harvest import build_datasets, harvest
    from broadmatch.harvest.clicks import HarvestSettings
    from broadmatch.io import ClickLog, PageSource, Rejects, read_pairs
    from broadmatch.io.tables import REVEALED

    wrong = None if exclude is None else read_pairs(exclude, REVEALED)
    of_pages = None if rejects is None else rejects.with_name(f"{rejects.name}.pages.jsonl")
    with (
        Rejects(rejects, max_bad_rows=max_bad_rows) as bad_rows,
        Rejects(of_pages, max_bad_rows=max_bad_rows) as bad_pages,
        _folder_for_queries(out) as queries,
    ):
        source = PageSource(pages, columns=page_mapping, rejects=bad_pages)
        log = ClickLog(clicks, columns=mapping, names=names, time_format=time_format, rejects=bad_rows)
        split = "page" if split_time is None else "time"
        settings = HarvestSettings(since, until, min_clicks, min_test_queries, split, test_share, split_time, seed=seed,
                                   exact_pages=exact_pages, positions=labels == "coec")  # fmt: skip
        vectorizer = PageVectorizer(min_pages=min_pages, n_jobs=n_jobs)
        with joined(cluster, out) as nodes:
            if nodes is not None:
                kept = nodes.harvest(log, source, out, settings, labels=labels, vectorizer=vectorizer, exclude=wrong)
            else:
                with output.at_least(logging.WARNING):
                    found = harvest(log, **settings._asdict(), exclude=wrong, queries=queries, n_jobs=n_jobs)
                train, test = build_datasets(found, source, vectorizer, weights=labels, n_jobs=n_jobs)
                kept = summarise(found, log, train, test, labels) | {"bad_pages": bad_pages.count}
                write_harvested(out, train, test, vectorizer, kept, queries=queries)
    said = kept | {"bad_reasons": dict(bad_rows.reasons), "out": str(out)}
    output.print_json(said) if json else _print(out, kept, bad_rows.summary(), min_test_queries)


def _consumed(window: str | None, split_time: str | None, labels: str) -> list[str]:
    """The signals that a harvest makes its data of, by the file and the column that has them."""
    timed, placed = window is not None or split_time is not None, labels == "coec"
    more = ["clicks.time"] * timed + ["clicks.position"] * placed
    return ["clicks.query", "clicks.page", "pages.html", *more]


def _parse_window(given: str | None) -> tuple[str | None, str | None]:
    """The two ends of a window, None where it is open.

    >>> _parse_window("2024-03-01..")
    ('2024-03-01', None)
    """
    since, dots, until = (given or "..").partition("..")
    if not dots:
        raise typer.BadParameter(
            f"--window is two times as 2024-03-01..2024-04-01, either may be absent, but it is {given!r}."
        )
    return since.strip() or None, until.strip() or None


def _split(kept: dict[str, Any], asked: int | None) -> str:
    """What was split by, and why so."""
    from broadmatch.harvest.split import QUERIES

    least = kept["min_test_queries"]
    lower = f", as too few have more than {QUERIES}" if asked is None and least < QUERIES else ""
    if kept["split"] == "time":
        return f"Split by time: tested are pages with later clicks for more than {least} labels{lower}."
    if kept["test_pages_added"]:
        return "Split by page: the hash draws none that can be tested, so one that shares a query with another is."
    return f"Split by page: {kept['test_pages_drawn']:,} drawn, tested are those with more than {least} queries{lower}."


def _print(out: Path, kept: dict[str, Any], reasons: str, asked: int | None) -> None:
    output.print_text(
        f"{out}: {kept['labels']:,} labels and {kept['words']:,} words on {kept['train_pages']:,} pages to train and "
        f"{kept['test_pages']:,} to test, from {kept['rows']:,} rows of the log."
    )
    if kept["test_pages"]:
        output.print_text(_split(kept, asked))
    if kept["pages_merged"]:
        merged = f"{kept['pages_merged']:,} addresses differ from another only in tracking parameters or slashes"
        output.print_text(f"Merged: {merged}; --exact-pages keeps them apart.")
    if kept["exclusions_unmatched"]:
        output.print_text(f"Pairs to exclude that match no label: {kept['exclusions_unmatched']:,}.")
    left_out = [f"{kept[name]:,} {what}" for name, what in _LEFT_OUT.items() if kept[name]]
    if left_out:
        output.print_text(f"Left out: {'; '.join(left_out)}.")
    if reasons:
        output.print_text(f"Bad rows: {reasons}.")
