"""Clicks over expected clicks: label weights that know where a page was shown, and how often nobody clicked it there.

A place further down is looked at less, so its clicks say more. With n shows and c clicks of a pair of query and page at
each position k, the examination hypothesis has E[c] = n · r · θ_k: r is of the pair, θ_k of the place (Richardson,
Dominowska and Ragno, "Predicting clicks", WWW 2007; Zhang and Jones, "Comparing click logs and editorial labels for
training query rewriting", 2007, for COEC). Pairs that were shown at several places tell the θ_k, by maximum likelihood.
"""

import logging
from collections.abc import Sequence
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, as_labels
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

log = logging.getLogger("broadmatch")

SKIPPED = 0.5
"""A label with less than this of the clicks that its places let expect was skipped."""
_PRIOR = 1.0
_SCALE, _ITERATIONS, _CLOSE = 10_000, 100, 1e-6


def place_effects(
    pair: NDArray[np.int64], position: NDArray[np.int64], shows: NDArray[np.int64], clicks: NDArray[np.int64]
) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The positions, and θ_k of each: how much a place is looked at, the best known one 1.

    Each row is one pair (by number) at one position. The likelihood of Poisson clicks with mean n · r · θ is climbed by
    setting r and θ in turn. A place that no pair shares with another has the effect 1.

    >>> shows = np.full(4, 1000)
    >>> place_effects(np.array([0, 0, 1, 1]), np.array([1, 2, 1, 2]), shows, np.array([100, 50, 20, 10]))[1].round(2)
    array([1. , 0.5])
    """
    positions, place = np.unique(position, return_inverse=True)
    effects = np.ones(len(positions))
    of_pair = np.bincount(pair, clicks)
    telling = (of_pair > 0) & (np.bincount(pair) > 1)
    rows = telling[pair]
    pair, place, shows, clicks = pair[rows], place[rows], shows[rows], clicks[rows]
    seen = np.bincount(place, minlength=len(positions)) > 0
    if not seen.any():
        return positions, effects
    observed = np.bincount(place, clicks, len(positions))
    for _ in range(_ITERATIONS):
        rate = of_pair / np.maximum(np.bincount(pair, shows * effects[place], len(of_pair)), 1e-12)
        expected = np.bincount(place, shows * rate[pair], len(positions))
        new = np.where(seen, observed / np.maximum(expected, 1e-12), 1.0)
        usual = new[np.argmax(np.bincount(place, shows, len(positions)))]
        new = np.where(seen, new / (usual or new[seen].max()), 1.0)
        done = np.abs(new - effects).max() < _CLOSE
        effects = new
        if done:
            break
    return positions, np.where(seen, effects / effects[seen].max(), 1.0)


def coec(counts: CSR, expected: CSR) -> CSR:
    """Weigh labels by clicks over expected clicks, (c + 1) / (e + 1), at most 1; those below `SKIPPED` are dropped.

    `expected` has the clicks that each entry of `counts` would have at its places if it were like the average. The 1s
    keep a pair that was shown a few times near the weight 1. A page that would lose all its labels keeps them.

    >>> counts = CSR.from_rows([[0, 1, 2]], n_cols=3)
    >>> expected = counts._replace(data=np.array([0.2, 1.5, 9.0], np.float32))
    >>> coec(counts, expected).row(0)
    (array([0, 1], dtype=int32), array([1. , 0.8], dtype=float32))
    """
    clicks, _ = as_labels(counts)
    weights = (clicks.data + _PRIOR) / (expected.data + _PRIOR)
    rows = np.repeat(np.arange(clicks.n_rows), np.diff(clicks.indptr))
    kept = weights >= SKIPPED
    lost = (np.bincount(rows, kept, clicks.n_rows) == 0)[rows]
    skipped = int((~kept & ~lost).sum())
    log.info("%s labels were shown and skipped; they are dropped.", f"{skipped:,}")
    return clicks._replace(data=np.minimum(weights, 1.0).astype(np.float32)).where(kept | lost)


class ShownPairs(NamedTuple):
    """Pairs of query and page that were clicked, by their hashes, at each position: shows and clicks there.

    Beside them `totals`: position, clicks and shows of all pairs.
    """

    pair: NDArray[np.uint64]
    position: NDArray[np.int64]
    shows: NDArray[np.int64]
    clicks: NDArray[np.int64]
    totals: NDArray[np.int64]

    @classmethod
    def fetch(cls, db: "DuckDBPyConnection") -> "ShownPairs":
        """What the table `shown` has, before the split by time."""
        # Pairs are known by their hashes here: what is fetched is as large as the clicked pairs are many.
        found = db.execute("""
            FROM (FROM shown SELECT hash(query, shown_page) AS pair, position, n_rows AS shows, clicks,
                    sum(clicks) OVER (PARTITION BY query, shown_page) AS total WHERE NOT late)
            SELECT pair, position, shows, clicks WHERE total > 0""").fetchnumpy()
        position, shows, clicks = (np.asarray(found[name]).astype(np.int64) for name in ("position", "shows", "clicks"))
        totals = "FROM shown SELECT position, sum(clicks)::BIGINT, sum(n_rows)::BIGINT WHERE NOT late GROUP BY position"
        rows = np.array(db.execute(totals).fetchall(), np.int64).reshape(-1, 3)
        return cls(np.asarray(found["pair"]).astype(np.uint64), position, shows, clicks, rows)


class PlaceLooks(NamedTuple):
    """How much places are looked at, in whole numbers, and how often a look of the average user is a click."""

    positions: list[int]
    effects: list[int]
    rate: float

    @classmethod
    def of(cls, parts: Sequence[ShownPairs]) -> "PlaceLooks":
        """The effects of all pairs, which stand in parts; of no place if none was clicked, which `check` refuses."""
        pair, position, shows, clicks, totals = (np.concatenate(part) for part in zip(*parts, strict=True))
        if not len(pair):
            return cls([], [], 0.0)
        order = np.lexsort((position, pair))
        _, number = np.unique(pair[order], return_inverse=True)
        positions, found = place_effects(number, position[order], shows[order], clicks[order])
        said = (f"{k}: {x:.3f}" for k, x in zip(positions, found, strict=True))
        log.info("Places are looked at as %s.", ", ".join(said))
        # Whole numbers: their sums are the same for every order of rows.
        effects = {int(k): round(x * _SCALE) for k, x in zip(positions, found, strict=True)}
        known = [row for row in totals.tolist() if row[0] in effects]
        # What is shown to the average user's eyes is clicked at this rate; one number, from whole ones.
        rate = sum(clicked for _, clicked, _ in known) / sum(shown * effects[k] for k, _, shown in known)
        return cls(list(effects), list(effects.values()), rate)

    def check(self) -> None:
        """Refuse a log that tells nothing of places."""
        if not self.positions:
            raise BadInput("No row of the log that was shown has a click; clicks over expected clicks need some.")

    def expected(self, looks: NDArray[np.int64]) -> NDArray[np.float32]:
        """The clicks that so many looks let expect."""
        return (looks * self.rate).astype(np.float32)


def create_expected(db: "DuckDBPyConnection", plain: str, effects: PlaceLooks) -> None:
    """Make the table `expected` (page, label, looks) from `shown`, `spellings` and `labels`.

    `plain` is SQL that makes a page's name of its address {0}. Clicks before the split by time are looked at only.
    """
    rows = ", ".join(f"({k}, {x})" for k, x in zip(effects.positions, effects.effects, strict=True))
    db.execute(f"CREATE TABLE effects AS FROM (VALUES {rows}) AS t(position, effect)")
    db.execute(f"""
        CREATE TABLE expected AS
        FROM (FROM shown JOIN effects USING (position)
                SELECT query, {plain.format("shown_page")} AS page, n_rows * effect AS looks WHERE NOT late)
            JOIN (FROM spellings JOIN labels USING (label) SELECT query, number AS label) USING (query)
        SELECT page, label, CAST(sum(looks) AS BIGINT) AS looks GROUP BY ALL""")
    db.execute("DROP TABLE shown; DROP TABLE effects")
