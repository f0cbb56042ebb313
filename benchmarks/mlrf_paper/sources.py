"""Where the pages come from: simulated marketplaces, whose truth is known, and real pages with keywords."""

from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from benchmarks.common import lines
from benchmarks.mlrf_paper.measure import Judged
from benchmarks.mlrf_paper.systems import Answered, Pages, phrases_of
from broadmatch.ads import KSP
from broadmatch.data import CSR, Dataset, Names
from broadmatch.features import PageVectorizer
from broadmatch.harvest import QueryTable, build_datasets, harvest, normalise_query
from broadmatch.io import ClickLog, PageSource, read_pages
from broadmatch.simulate import Marketplace, generic_phrases, truth_matrix

MIN_TEST_QUERIES = 10
"""The paper takes pages with more than 25 queries; on this scale hardly any has so many."""


def market_pages(market: Marketplace) -> Pages:
    """The pages of a marketplace, split by page, with what its log tells of queries."""
    found = harvest(ClickLog(market.impressions), min_test_queries=MIN_TEST_QUERIES, test_share=0.2, exact_pages=True)
    train, test = build_datasets(found, PageSource(market.pages), PageVectorizer())
    html = {page.name: page.html for page in read_pages(market.pages)}

    def expansion(left_out: Iterable[str]) -> KSP:
        return KSP().fit(market.impressions, bids=market.bids, without=left_out)

    queries = market.folder / "queries-of-others"
    harvest(ClickLog(_without(market.impressions, test.points or ())), queries=queries)
    return Pages(train, test, html, QueryTable.read(queries / "queries.parquet"), expansion)


def _without(table: Path, pages: Iterable[str]) -> Path:
    """The same table without the rows of some pages."""
    rows, place = pq.read_table(table), table.with_name(f"others-{table.name}")
    pq.write_table(rows.filter(pc.invert(pc.is_in(rows["page"], pa.array(sorted(pages))))), place)
    return place


def judged_by_market(market: Marketplace, pages: Pages, answered: Answered) -> Judged:
    """What the log and the truth say of the answers for the test pages."""
    answers = answered.answers | answered.others
    known = pq.read_table(market.truth / "queries.parquet", columns=["query", "searches"]).to_pydict()
    searches: Counter[str] = Counter()
    for query, n in zip(known["query"], known["searches"], strict=True):
        searches[query] = max(searches[query], n)  # a text with several meanings has all of its searches in each
    asked = {phrase for found in answers.values() for row in found for phrase, _ in row} | set(pages.test.labels)
    names = Names.of(sorted(asked & searches.keys()))
    truth = truth_matrix(market.folder, pages.test.points or Names.of([]), names)
    true = [[names[j] for j in truth.row(i)[0].tolist()] for i in range(truth.n_rows)]
    total = sum(searches.values())
    popularity = {query: max(n, 1) / total for query, n in searches.items()}
    return Judged(phrases_of(pages.test), true, answers, popularity, frozenset(generic_phrases(market.folder)))


def help_pages(seed: int) -> Pages:
    """The pages of libreoffice-help that have keywords, a fifth of them to test on; there is no log beside them.

    Keywords that training pages share take the place of bids on phrases.
    """
    rows = [row for row in lines("libreoffice-help/pages.jsonl.gz") if row["keywords"]]
    keywords = [_keywords(row) for row in rows]
    html = {row["path"]: row["html"].encode() for row in rows}
    order = np.random.default_rng(seed).permutation(len(rows))
    cut = len(rows) * 4 // 5
    names = sorted({word for i in order[:cut] for word in keywords[i]})
    number = {name: i for i, name in enumerate(names)}
    vectorizer = PageVectorizer()
    parts = []
    for chosen, make in ((order[:cut], vectorizer.fit_transform), (order[cut:], vectorizer.transform)):
        contents: Any = make([html[rows[i]["path"]] for i in chosen])
        labels = CSR.from_rows([[number[w] for w in keywords[i] if w in number] for i in chosen], len(names))
        points = Names.of([rows[i]["path"] for i in chosen])
        parts.append(Dataset(CSR.from_scipy(contents), labels, Names.of(names), points=points))
    train, test = parts

    def expansion(left_out: Iterable[str]) -> KSP:
        gone = set(left_out)
        kept = np.array([i for i, name in enumerate(train.points or ()) if name not in gone])
        return KSP().fit_graphs(names, bids=train.Y.take(kept).transposed())

    return Pages(train, test, html, None, expansion)


def _keywords(row: dict[str, Any]) -> list[str]:
    """The entries of a page in the index of the help, cut at commas ("tables, deleting"), as `benchmarks.kex` does."""
    return sorted({normalise_query(part) for entry in row["keywords"] for part in entry.split(",")} - {""})


def judged_by_keywords(pages: Pages, answered: Answered) -> Judged:
    """All keywords of a page count, also those that no training page has."""
    by_path = {row["path"]: row for row in lines("libreoffice-help/pages.jsonl.gz")}
    given = [_keywords(by_path[name]) for name in pages.test.points or ()]
    counts = Counter(word for row in phrases_of(pages.train) for word in row)
    popularity = {word: n / len(pages.train) for word, n in counts.items()}
    return Judged(given, None, answered.answers | answered.others, popularity, frozenset())
