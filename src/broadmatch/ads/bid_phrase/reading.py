"""What the model learns from, read from a log and an inventory or a table of bids: clicks, impressions and phrases."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from broadmatch.ads.expansion.bids import BidTable
from broadmatch.ads.inventory import Inventory
from broadmatch.data import CSR, Names
from broadmatch.data.csr import gathered
from broadmatch.errors import BadInput
from broadmatch.harvest.page_names import plain_page, register_plain_page
from broadmatch.harvest.queries import normalise_query, register_normalise
from broadmatch.io import ClickLog
from broadmatch.io.duck import clear_errors, connect, create_from, fetch_arrays, fetch_names
from broadmatch.io.files import Source
from broadmatch.kernels import F32, I64

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class ClickGraph:
    """Clicks of queries × ads, how often each pair was shown (None: only clicks are known), and the ads' phrases."""

    queries: Names
    clicks: CSR
    shown: CSR | None
    phrases: Names
    bids: CSR


NO_BIDS = CSR(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), 0)


def read_click_graph(
    log: ClickLog | Source,
    bids: Inventory | ClickLog | Source,
    *,
    without: Iterable[str] = (),
    memory_limit: str = "2GB",
    n_jobs: int | None = None,
) -> ClickGraph:
    """Read a click or impression log, and the phrases of the ads or pages that it names; those `without` are left out.

    A log names the ads of an inventory by page or by name. Ads of one page are one.
    """
    searches = log if isinstance(log, ClickLog) else ClickLog(log)
    queries, ads, clicks, shown = _read_log(searches, set(map(plain_page, without)), memory_limit, n_jobs)
    if isinstance(bids, Inventory):
        phrases, rows = bids.phrases, _of_inventory(bids, ads)
    else:
        phrases, rows = _of_table(bids if isinstance(bids, ClickLog) else BidTable(bids), ads, n_jobs)
    if not rows.nnz:
        raise BadInput(
            f"None of the {len(ads):,} ads of the log has a bid phrase, the first is {ads[0]!r}; name ads or pages "
            "in the log as in the bids."
        )
    return ClickGraph(queries, clicks, shown if "clicked" in searches.columns else None, phrases, rows)


def _read_log(
    log: ClickLog, left_out: set[str], memory_limit: str, n_jobs: int | None
) -> tuple[Names, Names, CSR, CSR]:
    import pyarrow as pa

    kinds = {"query": pa.string(), "page": pa.string(), "time": pa.int64(), "clicks": pa.int64()}
    with connect(memory_limit, None, n_jobs) as db, clear_errors():
        sql = "CREATE TABLE rows AS FROM batches SELECT query, page, sum(clicks) AS clicks, count(*) AS shown"
        rows = log.read(n_jobs, times=False)
        create_from(db, rows, pa.schema(list(kinds.items())), f"{sql} WHERE page IS NOT NULL GROUP BY ALL")
        spelled, plain = register_normalise(db).format("query"), register_plain_page(db).format("page")
        db.execute(f"""
            CREATE TABLE pairs AS
            FROM rows SELECT {spelled} AS query, {plain} AS page, CAST(sum(clicks) AS FLOAT) AS clicks,
                CAST(sum(shown) AS FLOAT) AS shown GROUP BY ALL HAVING query != ''""")
        gone = pa.table({"page": pa.array(sorted(left_out), pa.string())})
        create_from(db, gone.to_batches(), gone.schema, "DELETE FROM pairs WHERE page IN (FROM batches)")
        queries, ads = _number(db, "query"), _number(db, "page")
        if not len(ads):
            raise BadInput("The log has no row with a query and a page; check its columns.")
        query, ad, clicks, shown = fetch_arrays(
            db,
            """FROM pairs JOIN numbered_query USING (query) JOIN numbered_page USING (page)
               SELECT query_number, page_number, clicks, shown ORDER BY ALL""",
            *(np.int32, np.int32, np.float32, np.float32),
        )
    shape = (len(queries), len(ads))
    return queries, ads, _matrix(query, ad, clicks, shape), _matrix(query, ad, shown, shape)


def _number(db: "DuckDBPyConnection", what: str) -> Names:
    db.execute(f"""
        CREATE TABLE numbered_{what} AS
        FROM (FROM pairs SELECT DISTINCT {what} ORDER BY {what})
        SELECT {what}, CAST(row_number() OVER () - 1 AS INTEGER) AS {what}_number""")
    return fetch_names(db, f"FROM numbered_{what} SELECT {what} ORDER BY {what}_number")


def _of_inventory(inventory: Inventory, ads: Names) -> CSR:
    """Ads of the log × phrases of the inventory."""
    groups = np.argsort(inventory.phrase_group, kind="stable")
    ptr: I64 = np.searchsorted(inventory.phrase_group[groups], np.arange(len(inventory.groups) + 1))
    by_page = ads.places(plain_page(page) for page in inventory.pages)
    unit = np.where(by_page >= 0, by_page, ads.places(inventory.ads))
    known = np.flatnonzero(unit >= 0)
    starts, where = gathered(ptr, inventory.ad_group[known])
    row = np.repeat(unit[known], np.diff(starts))
    return ones(row, groups[where], (len(ads), len(inventory.phrases)))


def _of_table(table: ClickLog, ads: Names, n_jobs: int | None) -> tuple[Names, CSR]:
    """The phrases of a table, spelled alike, and ads of the log × these."""
    numbers: dict[str, int] = {}
    row: list[Any] = []
    column: list[int] = []
    for batch in table.read(n_jobs, times=False):
        phrases, pages = (batch.column(name).to_pylist() for name in ("query", "page"))
        row.append(ads.places("" if page is None else plain_page(page) for page in pages))
        column += [numbers.setdefault(normalise_query(phrase), len(numbers)) for phrase in phrases]
    rows, columns = np.concatenate([np.empty(0, np.int64), *row]), np.array(column, np.int64)
    empty = numbers.get("", -1)
    kept = (rows >= 0) & (columns != empty)
    return Names.of(numbers), ones(rows[kept], columns[kept], (len(ads), len(numbers)))


def ones(row: I64, column: I64, shape: tuple[int, int]) -> CSR:
    """A matrix with ones in these places."""
    found = _matrix(row, column, np.ones(len(row), np.float32), shape)
    return found._replace(data=np.ones_like(found.data))


def _matrix(row: Any, column: Any, data: F32, shape: tuple[int, int]) -> CSR:
    import scipy.sparse as sp

    return CSR.from_scipy(sp.csr_matrix((data, (row, column)), shape=shape))
