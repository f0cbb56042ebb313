"""The truth beside a simulated log: written apart from it, and read back as a matrix for evaluation."""

import os
from dataclasses import fields
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import CSR, offsets
from broadmatch.data.names import Names
from broadmatch.errors import BadInput, MissingFile
from broadmatch.harvest.page_names import plain_page
from broadmatch.parallel import blocks
from broadmatch.simulate.kinds import IMAGE_KINDS, Kind
from broadmatch.simulate.queries import Intent, Queries
from broadmatch.simulate.relevance import PageSide, QuerySide, grades
from broadmatch.simulate.verticals import CITIES, MENU, STATES, VERTICALS
from broadmatch.simulate.world import Ints, World, members

_BLOCK = 4_000_000
"""Pairs graded at a time."""


def truth_matrix(path: str | os.PathLike[str], pages: Names, labels: Names, *, graded: bool = False) -> CSR:
    """Which of `labels` (queries) are truly relevant to each of `pages`, in the marketplace folder `path`.

    A relevant pair is 1, or with `graded` its grade: 1 acceptable, 2 good, 3 the very thing.
    """
    folder = Path(path) / "truth"
    page_names, page_side = _read_side(folder / "pages.parquet", "page", PageSide)
    query_names, query_side = read_queries(Path(path))
    page_rows, wanted_pages = _positions(page_names, pages, "page", folder)
    query_rows, wanted_labels = _positions(query_names, labels, "query", folder)
    rows, columns, grade = relevant_pairs(page_side.take(page_rows), query_side.take(query_rows))
    truth = best_grades(wanted_pages[rows], wanted_labels[columns], grade, len(pages), len(labels))
    return truth if graded else truth._replace(data=np.ones_like(truth.data))


def read_queries(path: Path) -> tuple[list[str], QuerySide]:
    """The queries of the marketplace folder `path` and what each means; a text that means two things has two rows."""
    names, side = _read_side(path / "truth" / "queries.parquet", "query", QuerySide)
    return names, side


def generic_phrases(path: str | os.PathLike[str]) -> frozenset[str]:
    """Phrases of the marketplace folder `path` that fit too many pages to be worth a bid, in lower case (MLRF §5.4).

    They are places, what menus say, and phrases such as "apparel" or "call ahead"; users type some of them.
    """
    import pyarrow.parquet as pq

    file = Path(path) / "truth" / "generic.parquet"
    _check_there(file)
    return frozenset(pq.read_table(file)["phrase"].to_pylist())


def relevant_pairs(pages: PageSide, queries: QuerySide) -> tuple[Ints, Ints, NDArray[np.int8]]:
    """Every pair of page and query with a grade above 0, as rows of the two sides."""
    found_pages, found_queries, found_grades = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)], [np.zeros(0, np.int8)]
    for vertical in np.unique(queries.vertical):
        rows = np.flatnonzero((pages.vertical == vertical) | (pages.second == vertical))
        asked = np.flatnonzero(queries.vertical == vertical)
        sellers = pages.take(rows)
        for start, stop in blocks(len(asked), max(1, _BLOCK // max(1, len(rows)))):
            grade = grades(sellers, queries.take(asked[start:stop]).as_column())
            query, page = np.nonzero(grade)
            found_pages.append(rows[page])
            found_queries.append(asked[start:stop][query])
            found_grades.append(grade[query, page])
    return np.concatenate(found_pages), np.concatenate(found_queries), np.concatenate(found_grades)


def pages_table(world: World) -> Any:
    """Each page with what it is about, in words; columns ending in _id hold what `grades` takes."""
    import pyarrow as pa

    pages = world.pages
    vertical = pages.vertical.tolist()
    products = [
        members(int(bits), VERTICALS[v].products) + (members(int(more), VERTICALS[s].products) if s >= 0 else [])
        for v, bits, s, more in zip(vertical, pages.products, pages.second, pages.second_products, strict=True)
    ]
    attributes = [members(int(b), VERTICALS[v].attributes) for v, b in zip(vertical, pages.attributes, strict=True)]
    return pa.table(
        {
            "page": pages.urls,
            "vertical": [VERTICALS[v].name for v in vertical],
            "second_vertical": [VERTICALS[s].name if s >= 0 else None for s in pages.second],
            "brand": [world.brands.names[b] for b in pages.brand],
            "city": [CITIES[c] if c >= 0 else None for c in pages.city],
            "products": products,
            "attributes": attributes,
            "is_product_page": pages.focus,
            "is_image_page": np.isin(pages.kind, IMAGE_KINDS),
            "kind": [Kind(k).title for k in pages.kind],
            "taken_for": [VERTICALS[t].name if t >= 0 else None for t in pages.taken_for],
            **_ids(PageSide.of(pages, world.brands)),
        }
    )


def queries_table(world: World, queries: Queries, texts: list[str], searches: Ints, clicks: Ints) -> Any:
    """Each query with what it means; a text that means two things has two rows."""
    import pyarrow as pa

    q = queries
    trades = [VERTICALS[v] for v in q.vertical]
    return pa.table(
        {
            "query": texts,
            "intent": [Intent(i).name.lower() for i in q.intent],
            "vertical": [trade.name for trade in trades],
            "brand": [world.brands.names[b] if b >= 0 else None for b in q.brand],
            "city": [CITIES[c] if c >= 0 else None for c in q.city],
            "product": [t.products[p] if p >= 0 else None for t, p in zip(trades, q.product, strict=True)],
            "attribute": [t.attributes[a] if a >= 0 else None for t, a in zip(trades, q.attribute, strict=True)],
            "is_misspelled": q.spelling > 0,
            "is_generic": q.intent == Intent.VAGUE,
            "searches": searches,
            "clicks": clicks,
            **_ids(QuerySide.of(queries, world.brands)),
        }
    )


def generic_table() -> Any:
    """Generic phrases, in lower case."""
    import pyarrow as pa

    phrases = {*STATES, *CITIES, *MENU, *(phrase for trade in VERTICALS for phrase in trade.generic)}
    return pa.table({"phrase": sorted(phrase.lower() for phrase in phrases)})


def _ids(side: PageSide | QuerySide) -> dict[str, NDArray[Any]]:
    return {f"{name}_id": np.asarray(column, np.int32) for name, column in vars(side).items()}


def _read_side(file: Path, name: str, kind: Any) -> tuple[list[str], Any]:
    import pyarrow.parquet as pq

    _check_there(file)
    columns = [f.name for f in fields(kind)]
    table = pq.read_table(file, columns=[name, *(f"{c}_id" for c in columns)])
    side = kind(*(table[f"{c}_id"].to_numpy().astype(np.int64) for c in columns))
    return table[name].to_pylist(), side


def _check_there(file: Path) -> None:
    if not file.is_file():
        raise MissingFile(f"There is no {file}: name a folder that `simulate_marketplace` wrote.")


def _positions(known: list[str], wanted: Names, what: str, folder: Path) -> tuple[Ints, Ints]:
    """Rows of `known` that are wanted, and where each stands in `wanted`; a name may have several rows."""
    place = {name: i for i, name in enumerate(wanted)}
    short = plain_page if what == "page" else str  # a harvest merges addresses, unless it takes them as they are
    found = np.array([place.get(name, place.get(short(name), -1)) for name in known], np.int64)
    rows = np.flatnonzero(found >= 0)
    missing = np.ones(len(wanted), bool)
    missing[found[rows]] = False
    if missing.any():
        first = wanted[int(missing.argmax())]
        raise BadInput(
            f"{int(missing.sum()):,} of {len(wanted):,} names are not a {what} of {folder}, the first is {first!r}: "
            "use the names of a log from the same folder."
        )
    return rows, found[rows]


def best_grades(rows: Ints, columns: Ints, grade: NDArray[np.int8], n_rows: int, n_cols: int) -> CSR:
    """Graded pairs as a matrix; a pair that occurs twice, by two meanings of a text, keeps its better grade."""
    key = rows * n_cols + columns
    order = np.argsort(key, kind="stable")
    key = key[order]
    starts = np.flatnonzero(np.diff(key, prepend=-1))
    best = np.maximum.reduceat(grade[order], starts) if len(key) else grade
    row, column = np.divmod(key[starts], max(1, n_cols))
    return CSR(offsets(np.bincount(row, minlength=n_rows)), column.astype(np.int32), best.astype(np.float32), n_cols)
