"""What the tables of the paper say of answers: precision, edit distance, coverage; and what phrases are like."""

import itertools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from benchmarks.mlrf_paper.systems import SYSTEMS, Answers
from broadmatch.evaluate import Estimate, Report, paired_difference, phrase_report
from broadmatch.labels import PhraseNumbers, answer_reports

ENOUGH = 10
"""The paper's figures are over pages for which KEX+KSP has so many."""


@dataclass(frozen=True)
class Judged:
    """Test pages, of one draw or of several, with what is right for them and what each system answers."""

    clicked: list[list[str]]
    true: list[list[str]] | None
    answers: Mapping[str, Answers]
    popularity: Mapping[str, float]
    """The share of all searches, or pages, that a phrase has."""
    generic: frozenset[str]

    @classmethod
    def together(cls, parts: "Sequence[Judged]") -> "Judged":
        """The pages of all draws."""
        first = parts[0]
        return cls(
            [row for part in parts for row in part.clicked],
            None if first.true is None else [row for part in parts for row in part.true or ()],
            {name: [row for part in parts for row in part.answers[name]] for name in first.answers},
            {phrase: share for part in parts for phrase, share in part.popularity.items()},
            frozenset().union(*(part.generic for part in parts)),
        )

    def only(self, rows: Iterable[int]) -> "Judged":
        """Some of the pages."""
        kept = list(rows)
        answers = {name: [found[i] for i in kept] for name, found in self.answers.items()}
        true = None if self.true is None else [self.true[i] for i in kept]
        return Judged([self.clicked[i] for i in kept], true, answers, self.popularity, self.generic)

    def with_enough(self) -> "Judged":
        """The pages for which KEX+KSP has at least ten phrases."""
        return self.only(i for i, row in enumerate(self.answers["KEX+KSP"]) if len(row) >= ENOUGH)


@dataclass(frozen=True)
class Measured:
    """Reports of every system: by clicks, by the truth, and of the phrases alone."""

    clicked: dict[str, Report]
    true: dict[str, Report]
    phrases: dict[str, Report]
    n_pages: int

    def gain(self, side: str, better: str, worse: str, metric: str) -> Estimate:
        """How much more of a metric one system has, on the same pages."""
        reports = self.clicked if side == "clicked" else self.true
        return paired_difference(reports[better], reports[worse], metric)


def measure(judged: Judged) -> Measured:
    """All metrics of all systems."""
    phrases = {phrase for found in judged.answers.values() for row in found for phrase, _ in row}
    numbers = PhraseNumbers(phrases)
    rarest = min(judged.popularity.values(), default=1.0)
    how: dict[str, Any] = {
        "ks": (10,),
        "phrases": numbers.names,
        "popularity": np.array([judged.popularity.get(name, rarest) for name in numbers.names]),
        "generic": np.array([name in judged.generic for name in numbers.names]),
    }
    return Measured(
        answer_reports(judged.clicked, judged.answers),
        {} if judged.true is None else answer_reports(judged.true, judged.answers),
        {name: phrase_report(numbers.ranking(found), **how) for name, found in judged.answers.items()},
        len(judged.clicked),
    )


def order_of(measured: Measured, side: str, metric: str) -> list[dict[str, Any]]:
    """Each system beside the one before it in the paper's order: the gain, and whether it is certain."""
    found = []
    for worse, better in itertools.pairwise(SYSTEMS):
        gain = measured.gain(side, better, worse, metric)
        sign = -1 if metric.startswith("edit") else 1
        low, high = sorted((sign * gain.low, sign * gain.high))
        verdict = "better" if low > 0 else "worse" if high < 0 else "tie"
        found.append({"better": better, "worse": worse, "gain": 100 * sign * gain.value, "low": 100 * low,
                      "high": 100 * high, "verdict": verdict})  # fmt: skip
    return found
