"""Why KEX recommends a phrase for a page: what each group of features adds, and where the phrase stands."""

from collections import defaultdict
from dataclasses import replace
from typing import Any

import numpy as np

from broadmatch.errors import BadInput
from broadmatch.harvest import normalise_query
from broadmatch.kernels.isotonic import probability_of
from broadmatch.labels.explanation import Explanation, linear_explanation
from broadmatch.labels.kex._candidates import SHOWN
from broadmatch.labels.kex._features import BINS, GROUPS, MOST, N_ZONES, WORD_ZONES, ZONE, Known, write_features
from broadmatch.labels.kex.reading import ReadPages
from broadmatch.labels.kex.tables import keys_of

ZONES = (
    "title", "heading", "link", "meta keywords", "meta description", "address", "alternative text", "file name", "bold",
    "address or file name only",
)  # fmt: skip


def explain(read: ReadPages, phrase: str, known: Known, weights: Any, knots: Any, shape: bool) -> Explanation:
    """The explanation of one phrase of a page that was read."""
    (key,) = keys_of([normalise_query(phrase)])
    candidates = np.flatnonzero(read.key == key)
    if not key or not len(candidates):
        raise BadInput(f"{phrase!r} is none of the {len(read.key):,} phrases of this page that KEX can recommend.")
    (c,) = candidates.tolist()
    wanted = np.zeros(len(read.key), np.bool_)
    wanted[c] = True
    code, group = np.empty(MOST, np.int32), np.empty(MOST, np.int32)
    ptr = np.zeros(len(read.key) + 1, np.int64)
    write_features(*read.arrays(), known, len(weights) - 1, shape, wanted, ptr, code, group)
    amounts: dict[str, float] = defaultdict(float)
    for k in range(int(ptr[-1])):
        name = GROUPS[group[k]]
        if group[k] in (ZONE, WORD_ZONES):
            name += f": {ZONES[(code[k] - group[k] * BINS) // 3]}"
        amounts[name] += float(weights[code[k]])
    why = linear_explanation(phrase, float(weights[-1]), amounts.items())
    return replace(why, factors={"probability": probability_of(why.score, *knots), **_places(read, c)})


def _places(read: ReadPages, c: int) -> dict[str, float]:
    """How often a candidate stands on its page, where first, and how often in each zone."""
    stems, length = read.stem_of[read.tokens.word], int(read.candidates.length[c])
    first = int(read.candidates.shown[SHOWN * c])
    runs = np.lib.stride_tricks.sliding_window_view(stems, length)
    same = np.flatnonzero((runs == stems[first : first + length]).all(axis=1))
    zones = np.bitwise_and.reduce(np.lib.stride_tricks.sliding_window_view(read.tokens.bits, length)[same], axis=1)
    found = {"times": float(read.candidates.times[c]), "first word": float(first - read.tokens.starts[0] + 1)}
    for zone in range(N_ZONES):
        if read.candidates.zones[c] >> zone & 1:
            found[f"in {ZONES[zone]}"] = float((zones >> zone & 1).sum())
    return found
