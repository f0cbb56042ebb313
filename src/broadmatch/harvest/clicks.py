"""Click log to labelled pages: which queries led to clicks on which page, from logs larger than memory.

Agrawal et al., "Multi-label learning with millions of labels" (MLRF), WWW 2013, §3.1: a query is a label of a page if
it led to a click on it in the time window; rare queries are dropped; test pages have enough queries.
"""

import logging
import os
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np

from broadmatch.data import CSR, Names
from broadmatch.errors import BadInput
from broadmatch.harvest.coec import PlaceLooks, ShownPairs, create_expected
from broadmatch.harvest.counts import LabelCounts
from broadmatch.harvest.gather import Gathering, Moment, Window
from broadmatch.harvest.label_stages import (
    check_labels,
    choose_labels,
    choose_pages,
    count_merged,
    create_entries,
    spell,
)
from broadmatch.harvest.page_names import PLAIN_PAGE
from broadmatch.harvest.query_counts import query_tables, write_query_tables
from broadmatch.harvest.split import none_left, split_counts
from broadmatch.io import ClickLog
from broadmatch.io.duck import clear_errors, connect, fetch_names
from broadmatch.params import Flag, Number, OneOf, Whole

log = logging.getLogger("broadmatch")


@dataclass(frozen=True)
class Harvest:
    """Click counts of labels (queries) on training and test pages, names sorted, and what was left out on the way."""

    train_counts: CSR
    test_counts: CSR
    labels: Names
    train_pages: Names
    test_pages: Names
    facts: Mapping[str, int]
    exact_pages: bool = False
    train_expected: CSR | None = None
    """The clicks that the places of each entry of `train_counts` let expect, if positions were asked for."""
    split: str = "page"
    """What was split by: page or time."""


class HarvestSettings(NamedTuple):
    """What `harvest` is asked for, but for the log and what is known of its pages; see there."""

    since: Moment | None = None
    until: Moment | None = None
    min_clicks: int = 5
    min_test_queries: int | None = None
    split: str = "page"
    test_share: float = 0.1
    split_time: Moment | None = None
    normalise: bool = True
    seed: int = 0
    exact_pages: bool = False
    positions: bool = False

    def gathering(self, clicks: ClickLog, queries: bool) -> Gathering:
        """What to gather from the log; settings that cannot be are refused."""
        Whole(1).check("min_clicks", self.min_clicks)
        if self.min_test_queries is not None:
            Whole(0).check("min_test_queries", self.min_test_queries)
        OneOf(("page", "time")).check("split", self.split)
        Number(0, 1).check("test_share", self.test_share)
        Flag().check("normalise", self.normalise)
        Flag().check("exact_pages", self.exact_pages)
        Whole().check("seed", self.seed)
        Flag().check("positions", self.positions)
        for name in ("position", "clicked") if self.positions else ():
            if name not in clicks.columns:
                raise BadInput(
                    f"positions need what was shown where, but {clicks.files[0]} has no column for our {name!r}."
                )
        window = Window.of(clicks, self.since, self.until, self.split, self.split_time)
        return Gathering(tuple(clicks.columns), window, queries=queries, shown=self.positions)


def harvest(
    clicks: ClickLog,
    *,
    since: Moment | None = None,
    until: Moment | None = None,
    min_clicks: int = 5,
    min_test_queries: int | None = None,
    split: str = "page",
    test_share: float = 0.1,
    split_time: Moment | None = None,
    normalise: bool = True,
    seed: int = 0,
    pages: Iterable[str] | None = None,
    exact_pages: bool = False,
    exclude: Iterable[tuple[str, str]] | None = None,
    queries: str | os.PathLike[str] | None = None,
    positions: bool = False,
    memory_limit: str = "2GB",
    temp_directory: str | os.PathLike[str] | None = None,
    n_jobs: int | None = None,
) -> Harvest:
    """Gather the labels of pages from a click log.

    Clicks at `since` or later and before `until` count, on the known `pages` if these are given. Pages whose addresses
    differ only in tracking parameters or in slashes at the end are one (`plain_page`), unless `exact_pages`. Queries
    are spelled alike (`normalise_query`), and those with fewer than `min_clicks` clicks in all are dropped.

    With split "page", a page is for testing if a hash of its name and `seed` falls into `test_share` and it has more
    than `min_test_queries` queries; one that has too few stays in training. If that is not given it is 5, or less where
    too few pages have so many, and where the hash draws no page that can be tested, one that shares a query with
    another page is: on any log that has two such pages, one is left to test on. Queries clicked on no training page are
    no labels; they are dropped from the test pages and counted. With split "time", clicks before `split_time` train
    (`min_clicks` counts these only), and the labels clicked from then on are the truth of every page with more than
    `min_test_queries` of them, whether or not it was in training.

    Pairs of page and phrase to `exclude` are no labels, in training and in test; pages and phrases match as above, and
    a query keeps its other pages, and its clicks for `min_clicks`. The table of all queries of the log (`QueryTable`)
    is written to the folder `queries`, if one is given. With `positions`, an impression log that has them also tells
    how many clicks a pair would have at its places if it were like the average (`train_expected`; see `coec`).

    The result is the same for every `n_jobs` and order of the rows. `facts` counts what was left out.
    """
    settings = HarvestSettings(
        since,
        until,
        min_clicks,
        min_test_queries,
        split,
        test_share,
        split_time,
        normalise,
        seed,
        exact_pages,
        positions,
    )
    gathering = settings.gathering(clicks, queries=queries is not None)
    with connect(memory_limit, temp_directory, n_jobs) as db, clear_errors():
        facts = gathering.run(db, clicks, n_jobs)
        spell(db, normalise)
        effects = PlaceLooks.of([ShownPairs.fetch(db)]) if positions else None
        if queries is not None:
            write_query_tables(query_tables(db, gathering), Path(queries))
        facts |= choose_pages(db, pages, exact_pages)
        facts |= count_merged(db, exact_pages)
        facts |= choose_labels(db, min_clicks)
        check_labels(facts, min_clicks)
        if effects is not None:
            effects.check()
            create_expected(db, "{0}" if exact_pages else PLAIN_PAGE, effects)
        create_entries(db, looks=positions)
        labels = fetch_names(db, "FROM labels SELECT label ORDER BY number")
        counts = LabelCounts.fetch(db, seed)
    return split_harvest(counts, labels, facts, settings, exclude, effects)


def split_harvest(
    counts: LabelCounts,
    labels: Names,
    facts: dict[str, int],
    settings: HarvestSettings,
    exclude: Iterable[tuple[str, str]] | None,
    effects: PlaceLooks | None,
) -> Harvest:
    """Training and test pages of all counts; what was left out is added to the facts."""
    counts, left_out = counts.without(exclude, labels, settings.normalise, settings.exact_pages)
    train, test, more = split_counts(counts, settings)
    facts = facts | left_out | more
    kept = np.flatnonzero(np.bincount(counts.label[train], minlength=len(labels)))
    train_counts, train_pages = counts.matrix(train, kept)
    test_counts, test_pages = counts.matrix(test, kept)
    expected = None if effects is None else train_counts._replace(data=effects.expected(counts.looks[train]))
    names, exact = labels.take(kept), settings.exact_pages
    found = Harvest(train_counts, test_counts, names, train_pages, test_pages, facts, exact, expected, settings.split)
    _report(found)
    if not len(found.test_pages):
        log.warning("No page is left for testing; %s.", none_left(counts, settings))
    return found


def _report(found: Harvest) -> None:
    log.info(
        "Harvested %d labels on %d training pages and %d test pages (%s).",
        len(found.labels),
        len(found.train_pages),
        len(found.test_pages),
        ", ".join(f"{name.replace('_', ' ')}: {n:,}" for name, n in found.facts.items()),
    )
