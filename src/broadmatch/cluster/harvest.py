"""A click log harvested in shards: what each gathers is dealt out by ranges of labels, then by ranges of pages.

1. Every shard of the log is gathered as a whole log is (`harvest.gather`), and its tables are dealt out by label;
2. a range of labels puts together what all shards have of it, counts its queries, and chooses and numbers its labels;
3. a range of pages takes the entries of its pages from all labels and puts them in order.

Ranges are of names, so that what they give stands behind each other in the order of the whole: nothing is sorted in one
place. The steps are those of one machine, and whole numbers are added up, so the result is the same bits.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from broadmatch.cluster.engine import Engine, Ref
from broadmatch.cluster.inputs import log_shards
from broadmatch.data import Names
from broadmatch.data.csr import offsets
from broadmatch.data.names import joined_names
from broadmatch.harvest import Harvest
from broadmatch.harvest.clicks import HarvestSettings, split_harvest
from broadmatch.harvest.coec import PlaceLooks, ShownPairs, create_expected
from broadmatch.harvest.counts import LabelCounts
from broadmatch.harvest.gather import Gathering
from broadmatch.harvest.gather_parts import (
    Tables,
    TextSample,
    bounds_of,
    by_part,
    create_merged,
    dealt_tables,
    gathered_tables,
    range_of,
    sample_texts,
)
from broadmatch.harvest.label_stages import (
    check_labels,
    choose_labels,
    choose_pages,
    count_merged,
    create_entries,
    spell,
)
from broadmatch.harvest.page_names import PLAIN_PAGE, plain_page
from broadmatch.harvest.query_counts import BY_MONTH, QUERIES, query_tables, write_query_tables
from broadmatch.io import ClickLog
from broadmatch.io.duck import clear_errors, connect, create_from, fetch_names
from broadmatch.io.files import PathLike
from broadmatch.io.rejects import PartRejects, Rejected

MEMORY = 1 << 30
"""Bytes that a task may take, unless another number is given."""


class GatheredPart(NamedTuple):
    """What a shard of the log tells of itself: counts of rows, bad ones, and some of its texts."""

    facts: dict[str, int]
    rejected: Rejected
    sample: TextSample


class LabelPart(NamedTuple):
    """The labels of a range, by name, and what was left out."""

    labels: Names
    facts: dict[str, int]


class HarvestTask(NamedTuple):
    """What every task of a harvest is told."""

    gathering: Gathering
    settings: HarvestSettings
    memory: int

    def connect(self) -> Any:
        """A database within the memory of the task."""
        return connect(f"{max(self.memory * 2 // 3 >> 20, 64)}MB", threads=1)


def harvest_in_shards(
    engine: Engine,
    clicks: ClickLog,
    settings: HarvestSettings,
    *,
    pages: Iterable[str] | None = None,
    exclude: Iterable[tuple[str, str]] | None = None,
    queries: PathLike | None = None,
    n_shards: int = 2,
    memory: int = MEMORY,
) -> Harvest:
    """`harvest.harvest` over `n_shards` shards of the log, and as many ranges of labels and of pages: the same bits.

    All hosts see the files of the log. `queries` is the folder for the table of queries, of this process.

    >>> from broadmatch.cluster import ThreadEngine
    >>> rows = [f"{query},page{p}.html" for query in ("pizza", "Pizza!", "tea") for p in range(3)]
    >>> _ = Path("clicks.csv").write_text("\\n".join(["query,page", *rows]))
    >>> list(harvest_in_shards(ThreadEngine(), ClickLog("clicks.csv"), HarvestSettings(min_clicks=4)).labels)
    ['pizza']
    """
    job = _HarvestJob(engine, HarvestTask(settings.gathering(clicks, queries is not None), settings, memory), n_shards)
    gathered, tables = job.gather(clicks)
    known = None if pages is None else Names.of(pages)
    effects, parts = job.choose(gathered, tables, known)
    if queries is not None:
        write_query_tables(job.query_tables(parts[1]), Path(queries))
    found: list[LabelPart] = engine.get(parts[0])
    facts = _sums(part.facts for part in gathered)
    chosen = _sums(part.facts for part in found)
    unknown = {"rows_on_unknown_pages": chosen.pop("rows_on_unknown_pages")}
    check_labels(chosen, settings.min_clicks)
    if effects is not None:
        effects.check()
    starts = offsets([len(part.labels) for part in found])
    counted = job.count(starts, parts[2:])
    merged = {"pages_merged": sum(merged for _, merged in counted)}
    counts, labels = LabelCounts.joined([part for part, _ in counted]), joined_names([part.labels for part in found])
    return split_harvest(counts, labels, facts | unknown | merged | chosen, settings, exclude, effects)


class _HarvestJob:
    """A harvest on an engine."""

    def __init__(self, engine: Engine, task: HarvestTask, n_shards: int) -> None:
        self.engine, self.task, self.n_shards = engine, task, n_shards

    def gather(self, clicks: ClickLog) -> tuple[list[GatheredPart], list[Ref]]:
        """Read the log; bad rows go to its rejects."""
        rejects, title = clicks.rejects, "Reading the log"
        read = partial(_gather, keep=rejects.path is not None, most=rejects.max_bad_rows)
        items = [(self.task, shard) for shard in log_shards(clicks, self.n_shards)]
        found, tables = self.engine.shuffle(read, items, 2, memory=self.task.memory, title=title)
        self.engine.progress(found, title=title, unit="shards")
        gathered: list[GatheredPart] = self.engine.get(found)
        for part in gathered:
            rejects.take_over(part.rejected)
        read_rows = _sums(part.facts for part in gathered)
        rejects.finish(read_rows["rows"] - read_rows["bad_rows"] - read_rows["rows_of_totals"])
        return gathered, tables

    def choose(
        self, gathered: list[GatheredPart], tables: list[Ref], known: Names | None
    ) -> tuple[PlaceLooks | None, list[list[Ref]]]:
        """For each range of labels what was chosen, its tables of queries, and its entries by ranges of pages."""
        how: dict[str, Any] = {"memory": self.task.memory, "title": "Choosing labels"}
        n, settings = self.n_shards, self.task.settings
        labels = bounds_of([label for part in gathered for label in part.sample.labels], n)
        pages = [page for part in gathered for page in part.sample.pages]
        of_pages = bounds_of(pages if settings.exact_pages else [plain_page(page) for page in pages], n)
        dealt = self.engine.shuffle(_deal, [(self.task, one, labels) for one in tables], 2 * n, **how)
        effects = None
        if settings.positions:
            shown = self.engine.map(_shown, [(self.task, *pieces) for pieces in dealt[n:]], **how)
            effects = PlaceLooks.of(self.engine.get(shown))
        choose = partial(_choose, task=self.task, known=known, effects=effects, bounds=of_pages)
        items = [(*rest, *shown) for rest, shown in zip(dealt[:n], dealt[n:], strict=True)]
        parts = self.engine.shuffle(choose, items, n + 2, **how)
        self.engine.progress(parts[0], title="Choosing labels", unit="ranges")
        return effects, parts

    def query_tables(self, refs: list[Ref]) -> Iterator[tuple[str, Iterator[Any]]]:
        """The tables of queries, a range of labels at a time."""
        for name in (QUERIES, *([BY_MONTH] if self.task.gathering.months else [])):
            yield name, (self.engine.get([ref])[0][name] for ref in refs)

    def count(self, starts: Any, entries: list[list[Ref]]) -> list[tuple[LabelCounts, int]]:
        """The counts of each range of pages, and how many addresses are those of other pages."""
        items = [(self.task, starts, *pieces) for pieces in entries]
        refs = self.engine.map(_count_pages, items, memory=self.task.memory, title="Counting clicks of pages")
        self.engine.progress(refs, title="Counting clicks of pages", unit="ranges")
        return self.engine.get(refs)


def _sums(parts: Iterable[Mapping[str, int]]) -> dict[str, int]:
    """Numbers of the same names, added up."""
    added: dict[str, int] = {}
    for part in parts:
        added |= {name: added.get(name, 0) + n for name, n in part.items()}
    return added


# Tasks.


def _gather(task: HarvestTask, shard: ClickLog, *, keep: bool, most: int | None) -> tuple[GatheredPart, Tables]:
    """What a shard of the log has."""
    rejects = PartRejects(keep=keep, max_bad_rows=most)
    with task.connect() as db, clear_errors():
        facts = task.gathering.run(db, shard.reopen(rejects), 1)
        spell(db, task.settings.normalise)
        return GatheredPart(facts, rejects.rejected, sample_texts(db)), gathered_tables(db, task.gathering)


def _deal(task: HarvestTask, tables: Tables, bounds: list[str]) -> list[Tables]:
    """The tables by ranges of labels; then, in the same order, what they say of places, which is looked at before."""
    with task.connect() as db, clear_errors():
        dealt = dealt_tables(db, tables, bounds)
    shown = [{"shown": part.pop("shown")} if "shown" in part else {} for part in dealt]
    return [*dealt, *shown]


def _shown(task: HarvestTask, *pieces: Tables) -> ShownPairs:
    """What a range of labels says of places."""
    with task.connect() as db, clear_errors():
        create_merged(db, task.gathering, pieces)
        return ShownPairs.fetch(db)


def _choose(
    *pieces: Tables, task: HarvestTask, known: Names | None, effects: PlaceLooks | None, bounds: list[str]
) -> list[Any]:
    """The labels of a range, their tables of queries, and their entries by ranges of pages."""
    settings, half = task.settings, len(pieces) // 2
    with task.connect() as db, clear_errors():
        create_merged(db, task.gathering, pieces[:half])
        tables = {}
        if task.gathering.queries:
            tables = {name: _joined(batches) for name, batches in query_tables(db, task.gathering)}
        facts = choose_pages(db, known, settings.exact_pages)
        facts |= choose_labels(db, settings.min_clicks)
        placed = effects is not None and len(effects.positions) > 0
        if effects is not None and placed:
            create_merged(db, task.gathering, pieces[half:])
            create_expected(db, "{0}" if settings.exact_pages else PLAIN_PAGE, effects)
        create_entries(db, looks=placed)
        labels = fetch_names(db, "FROM labels SELECT label ORDER BY number")
        entries = _by_page(db, "entries", "page", bounds)
        if settings.exact_pages:
            return [LabelPart(labels, facts), tables, *({"entries": part} for part in entries)]
        addresses = _by_page(db, "addresses", "plain", bounds)
        pages = [{"entries": part, "addresses": more} for part, more in zip(entries, addresses, strict=True)]
        return [LabelPart(labels, facts), tables, *pages]


def _joined(tables: Iterable[Any]) -> Any:
    import pyarrow as pa

    return pa.concat_tables(tables)


def _by_page(db: Any, table: str, page: str, bounds: list[str]) -> list[Any]:
    """The rows of a table by ranges of pages."""
    rows = f"FROM {table} SELECT *, {range_of(page, len(bounds))} AS part"
    return by_part(db, rows, len(bounds) + 1, bounds)


def _count_pages(task: HarvestTask, starts: Any, *pieces: Tables) -> tuple[LabelCounts, int]:
    """The counts of a range of pages, with labels by their numbers among all; and how many addresses were merged."""
    exact = task.settings.exact_pages
    with task.connect() as db, clear_errors():
        for number, (piece, start) in enumerate(zip(pieces, starts[:-1].tolist(), strict=True)):
            columns = f"page, CAST(label + {start} AS INTEGER) AS label, late, clicks, looks"
            made = "CREATE TABLE entries AS" if number == 0 else "INSERT INTO entries"
            rows = piece["entries"]
            create_from(db, rows.to_batches(), rows.schema, f"{made} FROM batches SELECT {columns}")
        if not exact:
            batches = (batch for piece in pieces for batch in piece["addresses"].to_batches())
            distinct = "CREATE TABLE addresses AS FROM batches SELECT DISTINCT page, plain"
            create_from(db, batches, pieces[0]["addresses"].schema, distinct)
        merged = count_merged(db, exact)["pages_merged"]
        return LabelCounts.fetch(db, task.settings.seed), merged
