"""Clicks of labels on pages as arrays, and what becomes of them: drawn pages, excluded pairs, matrices."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Names
from broadmatch.data.csr import offsets
from broadmatch.data.names import joined_names
from broadmatch.harvest.page_names import pages_of
from broadmatch.harvest.queries import normalise_query
from broadmatch.io.duck import fetch_arrays, fetch_names

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


@dataclass(frozen=True)
class LabelCounts:
    """Clicks of each label on each page, by rising page, label and lateness."""

    page: NDArray[np.int32]
    label: NDArray[np.int32]
    late: NDArray[np.bool_]
    clicks: NDArray[np.float32]
    looks: NDArray[np.int64]  # how they were looked at, 0 if positions are not asked for
    pages: Names
    hashes: NDArray[np.int64]  # of the pages: 32 bits, the lowest are drawn for testing

    @classmethod
    def fetch(cls, db: "DuckDBPyConnection", seed: int) -> "LabelCounts":
        """Number the pages of `entries` by name, and fetch all of them."""
        db.execute("""
            CREATE TABLE pages AS
            FROM (FROM entries SELECT DISTINCT page ORDER BY page)
            SELECT page, CAST(row_number() OVER () - 1 AS INTEGER) AS number""")
        page, label, late, clicks, looks = fetch_arrays(
            db,
            "FROM entries JOIN pages USING (page) SELECT number, label, late, clicks, looks ORDER BY 1, 2, 3",
            *(np.int32, np.int32, np.bool_, np.float32, np.int64),
        )
        pages = fetch_names(db, "FROM pages SELECT page ORDER BY number")
        # The first 32 bits of the MD5 of "seed:page": the same on every machine and for every order.
        hashed = f"CAST(concat('0x', substr(md5(concat('{int(seed)}:', page)), 1, 8)) AS BIGINT)"
        (hashes,) = fetch_arrays(db, f"FROM pages SELECT {hashed} ORDER BY number", np.int64)
        return cls(page, label, late, clicks, looks, pages, hashes)

    @classmethod
    def joined(cls, parts: "Sequence[LabelCounts]") -> "LabelCounts":
        """The counts of ranges of pages, in the order of their names."""
        starts = offsets([len(part.pages) for part in parts])
        page = np.concatenate(
            [part.page + start for part, start in zip(parts, starts[:-1].astype(np.int32), strict=True)]
        )
        rest = {
            name: np.concatenate([getattr(part, name) for part in parts])
            for name in ("label", "late", "clicks", "looks", "hashes")
        }
        return cls(page=page, pages=joined_names([part.pages for part in parts]), **rest)

    def drawn(self, test_share: float) -> NDArray[np.bool_]:
        """Which pages the hash draws for testing."""
        return self.hashes < round(test_share * 2**32)

    def without(
        self, exclude: Iterable[tuple[str, str]] | None, labels: Names, normalise: bool, exact_pages: bool
    ) -> tuple["LabelCounts", dict[str, int]]:
        """What remains without the excluded pairs; how many were there, and how many given ones match nothing."""
        given = set(exclude or ())
        if not given:
            return self, {"pairs_excluded": 0, "exclusions_unmatched": 0}
        pages = pages_of((page for page, _ in given), self.pages, exact_pages)
        phrases = (normalise_query(phrase) if normalise else phrase for _, phrase in given)
        numbers = labels.places(phrases)
        known = (pages >= 0) & (numbers >= 0)
        wrong = pages[known] * len(labels) + numbers[known]
        there = self.page.astype(np.int64) * len(labels) + self.label
        left = ~np.isin(there, wrong)
        matched = int(np.isin(wrong, there).sum())
        facts = {"pairs_excluded": len(np.unique(there[~left])), "exclusions_unmatched": len(given) - matched}
        columns = {name: getattr(self, name)[left] for name in ("page", "label", "late", "clicks", "looks")}
        return replace(self, **columns), facts

    def matrix(self, chosen: NDArray[np.bool_], labels: NDArray[np.int64]) -> tuple[CSR, Names]:
        """The chosen entries as rows of the pages that have any; `labels` are the columns, in their order."""
        columns = np.searchsorted(labels, self.label[chosen]).astype(np.int32)
        lengths = np.bincount(self.page[chosen], minlength=len(self.pages))
        kept = np.flatnonzero(lengths)
        return CSR(offsets(lengths[kept]), columns, self.clicks[chosen], len(labels)), self.pages.take(kept)
