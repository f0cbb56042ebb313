"""Answers of several recommenders, whose phrases are texts: each may know phrases that the others do not."""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np

from broadmatch.data import CSR, Names, Ranking
from broadmatch.errors import BadInput
from broadmatch.evaluate.report import Report, ranking_report

Answer = Sequence[tuple[str, float]]
"""The phrases of a page with their scores, best first."""


class PhraseNumbers:
    """Numbers for all phrases that are asked about, so that texts become the matrices of the metrics."""

    def __init__(self, phrases: Iterable[str]) -> None:
        self.names = Names.of(sorted(set(phrases)))
        self._number = {name: i for i, name in enumerate(self.names)}

    def matrix(self, rows: Iterable[Iterable[str]]) -> CSR:
        """Which phrases each page has."""
        return CSR.from_rows([sorted({self._number[phrase] for phrase in row}) for row in rows], len(self.names))

    def ranking(self, answers: Sequence[Answer]) -> Ranking:
        """The phrases of each page in the order of the answer; one that is there twice counts where it is first."""
        kept = [_once(row) for row in answers]
        lengths = np.array([len(row) for row in kept], np.int64)
        labels = np.array([self._number[phrase] for row in kept for phrase in row], np.int32)
        scores = np.array([score for row in kept for score in row.values()], np.float32)
        return Ranking.of(lengths, labels, scores, self.names)


def _once(row: Answer) -> dict[str, float]:
    found: dict[str, float] = {}
    for phrase, score in row:
        found.setdefault(phrase, score)
    return found


def answer_reports(
    y_true: Sequence[Iterable[str]], answers: Mapping[str, Sequence[Answer]], *, ks: Sequence[int] = (10,)
) -> dict[str, Report]:
    """The ranking metrics of several recommenders on the same pages, by the phrases that are true for each page.

    >>> answers = {"page": [[("pizza", 0.9), ("call ahead", 0.8)]], "log": [[("pizza near me", 0.5), ("pizza", 0.4)]]}
    >>> found = answer_reports([["pizza", "pizza near me"]], answers, ks=(2,))
    >>> found["page"]["P@2"].value, found["log"]["P@2"].value
    (0.5, 1.0)
    """
    truth = [list(row) for row in y_true]
    for name, rows in answers.items():
        if len(rows) != len(truth):
            raise BadInput(f"{name} answers for {len(rows):,} pages, but y_true is of {len(truth):,}.")
    numbers = PhraseNumbers(_all_phrases(truth, answers))
    matrix = numbers.matrix(truth)
    return {
        name: ranking_report(matrix, numbers.ranking(rows), ks=ks, phrases=numbers.names)
        for name, rows in answers.items()
    }


def _all_phrases(truth: Sequence[Iterable[str]], answers: Mapping[str, Sequence[Answer]]) -> Iterable[str]:
    yield from (phrase for row in truth for phrase in row)
    yield from (phrase for rows in answers.values() for row in rows for phrase, _ in row)
