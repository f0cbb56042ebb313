"""The auction of the places beside an answer: generalised second price, VCG, first price."""

import math
import operator
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import ArrayLike

from broadmatch.ads import _auction as kernels
from broadmatch.ads.columns import auction_keys, auction_offsets, flags, numbers, whole_numbers
from broadmatch.errors import BadInput, BadParameter
from broadmatch.kernels import F64, I64, Bytes, Flags
from broadmatch.kernels.hashing import seed_of
from broadmatch.params import Number, OneOf, Rule, Whole
from broadmatch.state import Saved

_RULES = {"gsp": kernels.GSP, "vcg": kernels.VCG, "first": kernels.FIRST}
_EXPLORE = {None: 0, "ucb": kernels.UCB, "thompson": kernels.THOMPSON}
OUTCOMES = (
    "shown",
    "not a valid bid, probability or uncertainty",
    "kept back by its budget",
    "probability below the floor",
    "score below the reserve",
    "another ad of its advertiser is shown",
    "outranked",
)
"""What became of a candidate, by the numbers of `AuctionResult.outcome`."""
_NONE, _NO_FLAGS, _NO_IDS = np.empty(0), np.empty(0, np.bool_), np.empty(0, np.int64)


class PlaceEffects(Rule):
    """A rule: None, or numbers above 0 that do not rise, the first 1."""

    def holds(self, value: object) -> bool:
        """Say whether `value` can be the effects of places."""
        if value is None:
            return True
        if not isinstance(value, tuple) or not value or value[0] != 1 or isinstance(value[0], bool):
            return False
        return all(map(Number(0, 1, above=True).holds, value)) and sorted(value, reverse=True) == list(value)

    def text(self) -> str:
        """Name the rule."""
        return "a tuple of numbers above 0 that do not rise, the first of them 1, or None"

    def to_plain(self, value: Any) -> Any:
        """A list of numbers, or None."""
        return value if value is None else [float(effect) for effect in value]

    def from_plain(self, plain: Any) -> Any:
        """The effects as they are given to the constructor."""
        return tuple(plain) if isinstance(plain, list) else plain


class _Settings(NamedTuple):
    rule: int
    explore: int
    scoring: tuple[float, float, float, float]
    effects: F64
    seed: np.uint64


class Verdict(NamedTuple):
    """What became of one candidate.

    `row` is that of the arrays given, `place` counts from 1 and is 0 for who is not shown. `needed` is the score that
    was missing: the reserve, that of the last place, or that of the advertiser's other ad; NaN where no score helps.
    """

    row: int
    outcome: str
    place: int
    score: float
    price: float
    needed: float


@dataclass(frozen=True)
class AuctionResult:
    """Who stands in each place, and what became of every candidate.

    `row` is auctions × places: the row of the winner in the arrays given, −1 for an empty place; `price` is that of a
    click there, 0 in empty places. By candidate: `score` is r = bid·q^s (0 where it was not asked for) and `outcome` a
    number of `OUTCOMES`.
    """

    row: I64
    price: F64
    score: F64
    outcome: Bytes
    offsets: I64
    advertiser: I64
    reserve: float

    def __len__(self) -> int:
        return len(self.row)

    @property
    def shown(self) -> Flags:
        """Which places are taken, auctions × places."""
        return self.row >= 0

    @property
    def counts(self) -> dict[str, int]:
        """How many candidates had each outcome."""
        found = np.bincount(self.outcome, minlength=len(OUTCOMES))
        return dict(zip(OUTCOMES, found.tolist(), strict=True))

    def why(self, auction: int = 0) -> list[Verdict]:
        """What became of each candidate of one auction, in the order given."""
        taken = self.row[auction][self.row[auction] >= 0]
        last = float(self.score[taken[-1]]) if len(taken) else math.nan
        verdicts = []
        for i in range(int(self.offsets[auction]), int(self.offsets[auction + 1])):
            code, needed, place, price = int(self.outcome[i]), math.nan, 0, 0.0
            if code == kernels.SHOWN:
                place = 1 + int(np.flatnonzero(self.row[auction] == i)[0])
                price = float(self.price[auction, place - 1])
            elif code == kernels.BELOW_RESERVE:
                needed = self.reserve
            elif code == kernels.OUTRANKED:
                needed = last
            elif code == kernels.SIBLING:
                needed = float(self.score[taken[self.advertiser[taken] == self.advertiser[i]][0]])
            verdicts.append(Verdict(i, OUTCOMES[code], place, float(self.score[i]), price, needed))
        return verdicts


class Auction(Saved):
    """Rank by r = bid·q^s and price by GSP, VCG or first price; one place an advertiser.

    q is the calibrated click probability at the first place. GSP: the bid that just keeps the place (Edelman, Ostrovsky
    and Schwarz, AER 2007; Varian, IJIO 2007; squashing: Lahaie and Pennock, EC 2007). VCG: what the others lose.
    Exploring puts σ(logit q + c·u(x)) (UCB) or a draw of the logit with spread c·u(x) (Thompson) in the place of q, in
    rank and in price; the floor is for q itself. A draw is a hash of the seed, the auction's key and the candidate's
    number, so the same auction comes out alike in any batch.

    >>> result = Auction(places=2).run(bid=[2.0, 1.0, 4.0], probability=[0.1, 0.3, 0.02])
    >>> result.row.tolist(), result.price.round(2).tolist()
    ([[1, 0]], [[0.67, 0.8]])
    >>> result.why()[2].outcome
    'outranked'
    """

    rule: Annotated[str, OneOf(tuple(_RULES)), "what a click costs"] = "gsp"
    places: Annotated[int, Whole(1, 1000), "places to give away"] = 4
    effects: Annotated[
        tuple[float, ...] | None,
        PlaceEffects(),
        "clicks in each place relative to the first, for VCG; see `learn_place_effects`; None is 1/log₂(1 + place)",
    ] = None
    squashing: Annotated[float, Number(0), "s: 1 ranks by expected revenue, 0 by bid alone"] = 1.0
    reserve: Annotated[float, Number(0), "score below which no ad is shown"] = 0.0
    floor: Annotated[float, Number(0, 1), "click probability below which no ad is shown"] = 0.0
    explore: Annotated[str | None, OneOf(tuple(_EXPLORE)), "how ads of uncertain probability get a chance"] = None
    scale: Annotated[float, Number(0), "c: how much of the uncertainty is added or drawn"] = 1.0
    seed: Annotated[int, Whole(0), "of the draws"] = 0
    kind: ClassVar[str] = "auction"

    def run(
        self,
        bid: ArrayLike,
        probability: ArrayLike,
        *,
        offsets: ArrayLike | None = None,
        advertiser: ArrayLike | None = None,
        uncertainty: ArrayLike | None = None,
        in_budget: ArrayLike | None = None,
        key: ArrayLike | None = None,
    ) -> AuctionResult:
        """Run one auction, or many: the candidates of auction a are the rows offsets[a] to offsets[a + 1].

        `advertiser` are whole numbers; without them every ad is its own. `in_budget` are flags, as by `Budgets.admit`.
        `key` names each auction where draws are made; without it they are numbered from 0. A candidate whose numbers
        cannot be used (NaN, negative, a probability above 1) takes no part, and is counted.
        """
        settings = self._settings()
        bids = numbers(bid, "bid")
        n = len(bids)
        starts = auction_offsets(offsets, n)
        if settings.explore and uncertainty is None:
            raise BadInput(f"An auction that explores by {self.explore} needs the uncertainty of every candidate.")
        owner = _NO_IDS if advertiser is None else whole_numbers(advertiser, "advertiser", n)
        score, outcome = np.empty(n), np.empty(n, np.uint8)
        kernels.score_candidates(
            starts,
            bids,
            numbers(probability, "probability", n),
            _NONE if uncertainty is None else numbers(uncertainty, "uncertainty", n),
            _NO_FLAGS if in_budget is None else flags(in_budget, "in_budget", n),
            auction_keys(key, len(starts) - 1),
            settings.scoring,
            settings.explore,
            settings.seed,
            score,
            outcome,
        )
        row = np.empty((len(starts) - 1, self.places), np.int64)
        price, reserve = np.empty(row.shape), settings.scoring[1]
        kernels.allot_places(
            starts, bids, owner, settings.effects, reserve, settings.rule, score, outcome, row.ravel(), price.ravel()
        )
        return AuctionResult(row, price, score, outcome, starts, owner, reserve)

    def _settings(self) -> "_Settings":
        """The parameters as the kernels take them, checked once: a single auction takes less time than the check."""
        given = tuple(getattr(self, name) for name in self.rules)
        known: tuple[Any, _Settings] | None = self.__dict__.get("_known")
        if known is None or not all(map(operator.is_, known[0], given)):
            self.check_params()
            scoring = (float(self.squashing), float(self.reserve), float(self.floor), float(self.scale))
            seed = seed_of(f"auction {self.seed}")
            known = given, _Settings(_RULES[self.rule], _EXPLORE[self.explore], scoring, self._effects(), seed)
            self._known = known
        return known[1]

    def _effects(self) -> F64:
        if self.effects is None:
            return np.array([1.0 / math.log2(2 + t) for t in range(self.places)])
        if len(self.effects) < self.places:
            raise BadParameter(f"There are {self.places} places, but effects of {len(self.effects)}; give one each.")
        return np.array(self.effects[: self.places], np.float64)
