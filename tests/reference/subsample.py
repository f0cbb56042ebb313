"""Subsampling (§4.6 of McMahan et al., KDD 2013) over lists, query after query."""

from collections.abc import Callable
from itertools import groupby


def subsample(
    queries: list[int], clicked: list[int], rate: float, draw: Callable[[int], float]
) -> list[tuple[int, float]]:
    """(row, weight) of every impression that is kept; `draw` gives a query's number in [0, 1)."""
    kept = []
    for query, group in groupby(range(len(queries)), key=lambda row: queries[row]):
        rows = list(group)
        if any(clicked[row] for row in rows):
            kept += [(row, 1.0) for row in rows]
        elif draw(query) < rate:
            kept += [(row, 1 / rate) for row in rows]
    return kept


def draw(seed_key: int, query: int) -> float:
    """The upper 53 bits of splitmix64's finaliser of query xor seed, as a fraction."""
    z = query ^ seed_key
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 % 2**64
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB % 2**64
    z = z ^ (z >> 31)
    return ((z or 1) >> 11) / 2**53
