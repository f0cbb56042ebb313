"""What the engine answers: places of one query, and the arrays of many."""

from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.ads.auction import AuctionResult
from broadmatch.ads.engine.tables import AdTables
from broadmatch.ads.index.ad_index import AdCandidates
from broadmatch.data import Impressions
from broadmatch.kernels import F64, I32, I64
from broadmatch.signals.joined import JoinedEncoder, SignalTable


class Place(NamedTuple):
    """An ad in a place, counted from 1: by which phrase and match type it came, its bid, and the price of a click.

    `probability` is that of a click in the first place, `uncertainty` u(x) in log-odds, `score` what it was ranked by.
    """

    ad: str
    phrase: str
    match: str
    bid: float
    price: float
    probability: float
    uncertainty: float
    score: float
    place: int


class CandidateRows(NamedTuple):
    """Candidates as rows joined from tables; `position` is the number of the table of positions."""

    encoder: JoinedEncoder
    tables: list[SignalTable]
    codes: I32
    position: int

    def encode(self) -> tuple[Impressions, dict[str, Any]]:
        """The features and the slices of all candidates, as if each stood in the first place."""
        return self.encoder.join_to_serve(self.tables, self.codes)

    def shown(self, rows: I64, places: NDArray[Any]) -> Impressions:
        """The features of some candidates, each in its place."""
        codes = np.take(self.codes, rows, axis=1)
        codes[self.position] = places
        return self.encoder.join(self.tables, codes)


@dataclass(frozen=True)
class AdAnswers:
    """The answers to many queries: those of query q are its candidates, and row q of the result.

    `probability` and `uncertainty` are those of the candidates in the first place. `result.row` are rows of these.
    `ads` knows the ads and phrases by their numbers, at the moment of the answer.
    """

    candidates: AdCandidates
    probability: F64
    uncertainty: F64
    result: AuctionResult
    rows: CandidateRows = field(repr=False)
    ads: AdTables = field(repr=False)

    def __len__(self) -> int:
        return len(self.result)

    def impressions(self) -> Impressions:
        """What was shown, by query and then by place, with its place as the position; no clicks are known yet."""
        row = self.result.row
        shown = row >= 0
        places = np.broadcast_to(np.arange(1, row.shape[1] + 1), row.shape)
        return self.rows.shown(row[shown], places[shown])
