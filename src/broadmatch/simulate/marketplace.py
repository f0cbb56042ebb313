"""A marketplace with known truth, written as a folder: pages, bids, impressions, clicks, and the truth apart."""

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.errors import BadArtifact, CannotWrite, MissingFile
from broadmatch.io.artifacts import replacing
from broadmatch.io.files import replacing_file
from broadmatch.parallel import blocks
from broadmatch.params import Whole
from broadmatch.simulate.bids import bids_table
from broadmatch.simulate.campaigns import describe_ads
from broadmatch.simulate.landing import landing_page
from broadmatch.simulate.matching import ShownAds, find_candidates, run_auctions
from broadmatch.simulate.queries import Queries, texts
from broadmatch.simulate.relevance import PageSide, QuerySide, grades
from broadmatch.simulate.sessions import Searches, draw_searches
from broadmatch.simulate.truth import best_grades, generic_table, pages_table, queries_table, relevant_pairs
from broadmatch.simulate.world import Ints, World, make_world

MARKET = "market.json"
BEGIN = np.datetime64("2024-03-01T00:00:00", "ms")
LABEL_CLICKS = 5
"""Queries with so many clicks are labels for the paper, and have their relevant pages written out."""


@dataclass(frozen=True)
class Marketplace:
    """A simulated marketplace on disk: what made it, and what is in it."""

    folder: Path
    n_pages: int
    n_sessions: int
    days: int
    seed: int
    n_searches: int
    n_queries: int
    n_impressions: int
    n_clicks: int
    n_wrong_pairs: int
    n_bids: int

    @classmethod
    def open(cls, path: str | os.PathLike[str]) -> "Marketplace":
        """Read what the folder `path` says of itself."""
        file = Path(path) / MARKET
        if not file.is_file():
            raise MissingFile(f"{path} is not a marketplace: it has no {MARKET}; write one with simulate_marketplace.")
        try:
            return cls(Path(path), **json.loads(file.read_bytes()))
        except (ValueError, TypeError, RecursionError) as error:
            raise BadArtifact(f"{file} is damaged: simulate the marketplace again.") from error

    @property
    def pages(self) -> Path:
        """Landing pages: page (its address), html."""
        return self.folder / "pages.parquet"

    @property
    def bids(self) -> Path:
        """Phrases that ads bid on, with the campaign, its budget, and the wording of the ad."""
        return self.folder / "bids.parquet"

    @property
    def negatives(self) -> Path:
        """Negatives of campaigns: advertiser, campaign, phrase, match."""
        return self.folder / "negatives.parquet"

    @property
    def ads(self) -> list[Path]:
        """What advertisers have, for `read_inventory`: bids and negatives."""
        return [self.bids, self.negatives]

    @property
    def impressions(self) -> Path:
        """Every ad shown: time, session, query, page, position, bid, price, clicked."""
        return self.folder / "impressions.parquet"

    @property
    def clicks(self) -> Path:
        """Every click: time, session, query, page."""
        return self.folder / "clicks.parquet"

    @property
    def truth(self) -> Path:
        """What no learner may see: pages, queries, generic phrases, relevant and wrong pairs."""
        return self.folder / "truth"

    def world(self) -> World:
        """The advertisers and pages behind it, made again from its seed: for `Users` and `MarketTraffic`."""
        return make_world(self.n_pages, _generators(self.seed)[0])


def simulate_marketplace(
    path: str | os.PathLike[str],
    *,
    n_pages: int = 2500,
    n_sessions: int = 250_000,
    days: int = 30,
    seed: int = 0,
) -> Marketplace:
    """Write a marketplace with known truth to the folder `path`; the same arguments give the same files.

    Advertisers of some two dozen trades have landing pages and bid on phrases for them; users with needs type queries
    and rewrite them; auctions show ads, some of them irrelevant; users click by relevance and position, and sometimes
    by mistake. The log covers `days`, so most relevant pairs of page and query never get a click in it, and a few
    clicked pairs are wrong.
    An older marketplace at `path` is replaced; any other folder that is not empty is refused.
    """
    Whole(100, 1_000_000).check("n_pages", n_pages)
    Whole(1, 100_000_000).check("n_sessions", n_sessions)
    Whole(1, 3650).check("days", days)
    Whole(0, 2**31 - 1).check("seed", seed)
    of_world, of_users, of_ads, of_bids, of_campaigns = _generators(seed)
    _check_place(Path(path))
    with replacing(path, ours=_is_market) as folder:
        world = make_world(n_pages, of_world)
        _write_pages(folder / "pages.parquet", world, seed)
        searches = draw_searches(world, n_sessions, days, of_users)
        codes, query_of = np.unique(searches.queries.codes(), return_inverse=True)
        queries = Queries.from_codes(codes)
        candidates = find_candidates(world, queries, of_ads)
        shown = run_auctions(world, searches, query_of, candidates, of_ads)
        text = texts(queries, world.brands)
        names = list(dict.fromkeys(text))
        number = {name: i for i, name in enumerate(names)}
        text_of = np.array([number[t] for t in text])
        bids = bids_table(world, queries, candidates, names, text_of, np.bincount(query_of), of_bids)
        bids, negatives = describe_ads(bids, world, shown, days, seed, of_campaigns)
        _write_table(folder / "bids.parquet", bids)
        _write_table(folder / "negatives.parquet", negatives)
        _write_log(folder, world, searches, shown, names, text_of[query_of], of_ads)
        n_wrong = _write_truth(folder / "truth", world, queries, text, text_of, query_of, shown)
        market = Marketplace(
            Path(path),
            n_pages,
            n_sessions,
            days,
            seed,
            len(query_of),
            len(names),
            len(shown),
            int(shown.clicked.sum()),
            n_wrong,
            bids.num_rows,
        )
        facts = {key: value for key, value in asdict(market).items() if key != "folder"}
        with replacing_file(folder / MARKET) as out:
            out.write(json.dumps(facts, indent=1).encode())
    return market


def _generators(seed: int) -> list[np.random.Generator]:
    """Random numbers for the world, its users, its auctions, its bids and its campaigns."""
    return [np.random.default_rng(s) for s in np.random.SeedSequence(seed).spawn(5)]


def _write_pages(file: Path, world: World, seed: int) -> None:
    import pyarrow as pa
    import pyarrow.parquet as pq

    schema = pa.schema([("page", pa.string()), ("html", pa.string())])
    n = len(world.pages)
    with (
        progress.task("Writing landing pages", total=n, unit="pages") as task,
        replacing_file(file) as out,
        pq.ParquetWriter(out, schema, compression="zstd") as writer,
    ):
        for start, stop in blocks(n, 2000):
            html = [landing_page(world, i, seed) for i in range(start, stop)]
            writer.write_table(pa.table({"page": world.pages.urls[start:stop], "html": html}, schema=schema))
            task.advance(stop - start)


def _write_log(
    folder: Path,
    world: World,
    searches: Searches,
    shown: ShownAds,
    names: list[str],
    text_of: Ints,
    rng: np.random.Generator,
) -> None:
    """Write both logs, each in order of time."""
    import pyarrow as pa

    seconds = searches.seconds[shown.search]
    order = np.lexsort((shown.position, shown.search, seconds))
    query, page = text_of[shown.search], shown.page

    def named(values: Ints, words: list[str]) -> Any:
        return pa.DictionaryArray.from_arrays(pa.array(values, pa.int32()), pa.array(words))

    columns = {
        "time": _times(seconds[order]),
        "session": searches.session[shown.search][order],
        "query": named(query[order], names),
        "page": named(page[order], world.pages.urls),
        "position": shown.position[order].astype(np.int8),
        "bid": shown.bid[order],
        "price": shown.price[order],
        "clicked": shown.clicked[order].astype(np.int8),
    }
    _write_table(folder / "impressions.parquet", pa.table(columns))
    clicked = np.flatnonzero(shown.clicked)
    later = seconds[clicked] + 1.0 + rng.exponential(8.0, len(clicked))
    clicked, later = clicked[np.argsort(later, kind="stable")], np.sort(later)
    columns = {
        "time": _times(later),
        "session": searches.session[shown.search][clicked],
        "query": named(query[clicked], names),
        "page": named(page[clicked], world.pages.urls),
    }
    _write_table(folder / "clicks.parquet", pa.table(columns))


def _times(seconds: NDArray[np.float64]) -> NDArray[np.datetime64]:
    return BEGIN + (seconds * 1000).astype("timedelta64[ms]")


def _write_truth(
    folder: Path, world: World, queries: Queries, text: list[str], text_of: Ints, query_of: Ints, shown: ShownAds
) -> int:
    """Write what the log does not say; gives the number of clicked pairs that are wrong."""
    import pyarrow as pa

    folder.mkdir()
    urls = pa.array(world.pages.urls)
    names = pa.array(list(dict.fromkeys(text)))
    clicked_query, clicked_page = text_of[query_of[shown.search[shown.clicked]]], shown.page[shown.clicked]
    searches = np.bincount(text_of[query_of], minlength=len(names))[text_of]
    clicks = np.bincount(clicked_query, minlength=len(names))[text_of]
    _write_table(folder / "pages.parquet", pages_table(world))
    _write_table(folder / "queries.parquet", queries_table(world, queries, text, searches, clicks))

    _write_table(folder / "generic.parquet", generic_table())

    page_side, query_side = PageSide.of(world.pages, world.brands), QuerySide.of(queries, world.brands)
    labels = np.flatnonzero(clicks >= LABEL_CLICKS)
    page, query, grade = relevant_pairs(page_side, query_side.take(labels))
    relevant = best_grades(page, text_of[labels[query]], grade, len(urls), len(names))
    page = np.repeat(np.arange(len(urls)), np.diff(relevant.indptr))
    columns = {
        "page": urls.take(page),
        "query": names.take(relevant.indices),
        "grade": relevant.data.astype(np.int8),
    }
    _write_table(folder / "relevant.parquet", pa.table(columns))

    pairs, times = np.unique(clicked_page * len(names) + clicked_query, return_counts=True)
    wrong = _wrong(pairs, len(names), text_of, page_side, query_side)
    page, query = np.divmod(pairs[wrong], len(names))
    _write_table(
        folder / "wrong.parquet",
        pa.table({"page": urls.take(page), "query": names.take(query), "clicks": times[wrong]}),
    )
    return int(wrong.sum())


def _wrong(pairs: Ints, n_texts: int, text_of: Ints, pages: PageSide, queries: QuerySide) -> NDArray[np.bool_]:
    """Which pairs of page and text have no meaning of the text with a grade above 0."""
    page, text = np.divmod(pairs, n_texts)
    by_text = np.argsort(text_of, kind="stable")
    first = np.searchsorted(text_of[by_text], np.arange(n_texts + 1))
    right = np.zeros(len(pairs), bool)
    for meaning in range(int(np.diff(first).max(initial=0))):
        rows = np.flatnonzero(first[text] + meaning < first[text + 1])
        query = by_text[first[text[rows]] + meaning]
        right[rows] |= grades(pages.take(page[rows]), queries.take(query)) > 0
    return ~right


def _write_table(file: Path, table: Any) -> None:
    import pyarrow.parquet as pq

    with replacing_file(file) as out:
        # Without the Arrow schema, dictionary columns read back as plain strings everywhere.
        pq.write_table(table, out, compression="zstd", store_schema=False)


def _check_place(target: Path) -> None:
    """Refuse, before long work, a name that holds something else than a marketplace."""
    if target.exists() and not _is_market(target) and not (target.is_dir() and not any(target.iterdir())):
        raise CannotWrite(f"{target} exists and is not a marketplace; choose another name or remove it.")


def _is_market(folder: Path) -> bool:
    return (folder / MARKET).is_file()
