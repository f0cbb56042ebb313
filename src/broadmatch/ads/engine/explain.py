"""Why a query was answered as it was: every step of every candidate, from the phrase that matched to the price."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from broadmatch.ads._auction import OUTRANKED
from broadmatch.ads.auction import Auction, AuctionResult, Verdict
from broadmatch.ads.engine.answers import AdAnswers
from broadmatch.ads.engine.tables import AdTables
from broadmatch.ads.index.why import WhyMatched
from broadmatch.ads.match_types import MATCH_TYPES
from broadmatch.clicks import ClickModel
from broadmatch.data import Impressions
from broadmatch.signals import Description, Encoder, FeatureNames

MOST_FEATURES, _PRINTED = 10, 5
"""Features of a candidate, those that count most, unless more are asked for; and of these, what people read."""


@dataclass(frozen=True)
class FeatureShare:
    """What one feature adds to the log-odds of a click, and to the uncertainty."""

    signal: str
    value: str
    amount: float
    uncertainty: float


@dataclass(frozen=True)
class ExplainedCandidate:
    """The steps of one candidate.

    `matched` is the step of the index; `features` those that count most in the log-odds, of `n_features`; `raw` is the
    click probability before calibration; `price` is that of a click, with the `formula` that it comes from. `outcome`,
    `place` (0: not shown), `score` and `needed` are those of `AuctionResult.why`.
    """

    ad: str
    phrase: str
    match: str
    bid: float
    features: list[FeatureShare]
    n_features: int
    log_odds: float
    raw: float
    probability: float
    uncertainty: float
    outcome: str
    place: int
    score: float
    needed: float | None
    price: float
    formula: str

    def lines(self) -> list[str]:
        """The steps as people read them."""
        strong = [one for one in self.features[:_PRINTED] if one.amount]
        shares = ", ".join(f"{one.signal} = {one.value} {one.amount:+.3g}" for one in strong)
        fate = f"place {self.place} at {self.price:.4g} a click: {self.formula}" if self.place else self.outcome
        if self.needed is not None:
            fate += f"; a score above {self.needed:.4g} was needed"
        calibrated = "" if self.raw == self.probability else f", {self.probability:.4g} calibrated"
        return [
            f"matched by the {self.match} match {self.phrase!r}, bid {self.bid:g}",
            f"log-odds {self.log_odds:+.4g} of {self.n_features} features: {shares}",
            f"click probability {self.raw:.4g}{calibrated}, uncertainty {self.uncertainty:.3g}",
            f"score {self.score:.4g}, {fate}",
        ]


@dataclass(frozen=True)
class AdExplanation:
    """The answer to `AdEngine.explain`: the candidates by score, or what kept the one asked for from being one."""

    query: str
    context: dict[str, Any]
    n_candidates: int
    candidates: list[ExplainedCandidate]
    not_matched: WhyMatched | None = None

    def to_dict(self) -> dict[str, Any]:
        """The answer as plain values."""
        return asdict(self)

    def __str__(self) -> str:
        if self.not_matched is not None:
            return f"{self.not_matched.ad}: {self.not_matched.reason}."
        found = [f"{self.n_candidates} candidates for {self.query!r}."]
        for one in self.candidates:
            found += [f"{one.ad}:", *(f"  {line}." for line in one.lines())]
        return "\n".join(found)


def explain_rows(
    clicks: ClickModel,
    auction: Auction,
    answers: AdAnswers,
    tables: AdTables,
    given: Mapping[str, Any],
    rows: Sequence[int],
    most: int = MOST_FEATURES,
) -> list[ExplainedCandidate]:
    """Explain candidates of the only query of some answers, by their rows, with up to `most` features each.

    `given` is what the query gives.
    """
    if not rows:
        return []
    found, verdicts = answers.candidates, answers.result.why()
    columns = [_columns(answers, tables, given, row) for row in rows]
    impressions, names = _named(clicks.description_to_predict(), columns)
    serving, explained = clicks.variant(), []
    for i, row in enumerate(rows):
        one = impressions.row(i)
        shares = serving.contributions(one.keys, one.values)
        named = names.lookup(one.keys)
        order = np.argsort(-np.abs(shares[:, 0]), kind="stable")[:most].tolist()
        verdict = verdicts[row]
        explained.append(
            ExplainedCandidate(
                columns[i]["ad"],
                columns[i]["phrase"],
                columns[i]["match"],
                found.bid.item(row),
                [FeatureShare(*named[j], *shares[j].tolist()) for j in order],
                len(shares),
                float(shares[:, 0].sum()),
                float(serving.predict_many(one, encoded=True)[0]),
                answers.probability.item(row),
                answers.uncertainty.item(row),
                verdict.outcome,
                verdict.place,
                verdict.score,
                None if np.isnan(verdict.needed) else verdict.needed,
                verdict.price,
                _formula(auction, answers.result, verdict, found.bid.item(row)) if verdict.place else "",
            )
        )
    return explained


def _columns(answers: AdAnswers, tables: AdTables, given: Mapping[str, Any], row: int) -> dict[str, Any]:
    """A candidate as the row of a log that the click model would read."""
    found = answers.candidates
    phrase, match = tables.phrase(found.phrase.item(row)), MATCH_TYPES[found.match.item(row)]
    return {**given, **tables.columns(found.ad.item(row)), "phrase": phrase, "match": match, "position": 1}


def _named(description: Any, rows: Sequence[Mapping[str, Any]]) -> tuple[Impressions, FeatureNames]:
    """The features of rows, and their names."""
    names = FeatureNames()
    if not isinstance(description, Description):
        raise TypeError("A model of vw text has no columns.")
    table = pa.Table.from_pylist(list(rows)).combine_chunks().to_batches()[0]
    for column in description.columns_needed:
        if column not in table.schema.names:
            table = table.append_column(column, pa.nulls(len(rows), pa.string()))
    return Encoder(description, names=names).encode(table, labelled=False).impressions, names


def _formula(auction: Auction, result: AuctionResult, verdict: Verdict, bid: float) -> str:
    """Where a price comes from, in numbers."""
    if auction.rule == "first":
        return "the bid"
    taken = result.row[0][result.row[0] >= 0]
    behind = [*result.score[taken[verdict.place :]].tolist()]
    behind += result.score[result.outcome == OUTRANKED].tolist()
    if auction.rule == "gsp":
        next_score = max(behind, default=result.reserve)
        what = "the score behind it" if behind else "the reserve"
        return f"bid {bid:g} × {what} {next_score:.4g} / its score {verdict.score:.4g}"
    lost = verdict.price * verdict.score / bid if bid else 0.0
    return f"bid {bid:g} × what others lose by it {lost:.4g} / its score {verdict.score:.4g}"
