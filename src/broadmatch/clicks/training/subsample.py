"""Fewer rows to learn from: every query with a click, and a share of the others, weighted so that nothing is biased."""

from collections.abc import Mapping
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Batch
from broadmatch.errors import BadInput
from broadmatch.kernels.hashing import keys_of_integers, seed_of
from broadmatch.params import Number, Parameters, Rule, Whole
from broadmatch.state import State


class Subsampler(Parameters):
    """Keeps the queries with a click, and each of the others with probability `rate`, then with weight × 1/rate.

    Section 4.6 of McMahan et al. (KDD 2013): with s the probability that an impression is kept and ω = 1/s its
    weight, the expected loss s·ω·ℓ is that of the full data.

    The draw is a hash of the query's id and the seed: the same query is decided alike everywhere and always. The rows
    of a query have to stand next to each other. Where there are no query ids, each impression is its own query.

    >>> from broadmatch.clicks import Subsampler
    >>> from broadmatch.data import Batch, Impressions
    >>> rows = Impressions.from_rows([[7]] * 6, clicked=[0, 1, 0, 0, 0, 0])
    >>> batch = Batch(rows, query=np.array([1, 1, 2, 2, 3, 3], np.uint64))
    >>> sampler = Subsampler(rate=0.5, seed=8)
    >>> kept = Batch.concatenate([sampler.take(batch), sampler.finish()])
    >>> kept.query.tolist(), kept.impressions.weight.tolist()
    ([1, 1, 2, 2], [1.0, 1.0, 2.0, 2.0])
    """

    rules: ClassVar[Mapping[str, Rule]] = {"rate": Number(0, 1, above=True), "seed": Whole(0)}

    def __init__(self, *, rate: float = 0.1, seed: int = 0) -> None:
        self.rate = rate
        self.seed = seed
        self.check_params()
        self._held: list[Batch] = []  # the rows of one query, whose end has not been seen
        self._rows = 0  # rows that were decided

    def take(self, batch: Batch) -> Batch:
        """What is kept of the queries that end here; the last is held back, for its end may be in the next batch."""
        n = len(batch)
        if n == 0:
            return batch
        self._check(batch)
        last = 0 if len(batch.query) else n
        if last == 0:
            others = np.flatnonzero(batch.query != batch.query[-1])
            last = int(others[-1]) + 1 if len(others) else 0
        if last == 0 and self._held and self._held[0].query[0] == batch.query[0]:
            self._held.append(batch)
            return batch.between(0, 0)
        ended = Batch.concatenate([*self._held, batch.between(0, last)])
        self._held = [batch.between(last, n)] if last < n else []
        return self._sampled(ended)

    def finish(self) -> Batch:
        """What is kept of the query that was held back."""
        held, self._held = Batch.concatenate(self._held), []
        return self._sampled(held)

    def to_state(self) -> State:
        """Give the rows that are held back and the number of rows so far."""
        held = Batch.concatenate(self._held)
        params = {"rate": self.rate, "seed": self.seed}
        return State("subsampler", params, {}, {"rows": self._rows}, {"held": held.to_state()})

    @classmethod
    def from_state(cls, state: State) -> "Subsampler":
        """The subsampler as it was saved."""
        self = cls(**state.params)
        held = Batch.from_state(state.parts["held"])
        self._held = [held] if len(held) else []
        self._rows = int(state.facts["rows"])
        return self

    def _check(self, batch: Batch) -> None:
        if self._held and not len(batch.query):
            raise BadInput("The first batches have query ids and this one has none: use one description for all.")
        unknown = np.flatnonzero(np.isnan(batch.impressions.clicked))
        if len(unknown):
            row = self._rows + sum(map(len, self._held)) + int(unknown[0])
            raise BadInput(
                f"Impression {row} has no label, so it cannot be subsampled: say which column has the clicks."
            )

    def _sampled(self, batch: Batch) -> Batch:
        """The rows of whole queries that are kept, with their weights."""
        n = len(batch)
        if n == 0:
            return batch
        numbers = np.arange(self._rows, self._rows + n).view(np.uint64)
        self._rows += n
        queries = batch.query if len(batch.query) else batch.id if len(batch.id) else numbers
        first = np.ones(n, np.bool_)
        if len(batch.query):
            first[1:] = queries[1:] != queries[:-1]
        starts = np.flatnonzero(first)
        clicked = np.maximum.reduceat(batch.impressions.clicked, starts) > 0
        kept = clicked | (self._draws(queries[starts]) < self.rate)
        factors = np.where(clicked, 1.0, 1.0 / self.rate).astype(np.float32)
        lengths = np.diff(np.append(starts, n))
        sample = batch if kept.all() else batch.take(np.flatnonzero(np.repeat(kept, lengths)))
        weight = sample.impressions.weight * np.repeat(factors[kept], lengths[kept])
        return Batch(sample.impressions._replace(weight=weight), sample.time, sample.query, sample.id, sample.slices)

    def _draws(self, queries: NDArray[np.uint64]) -> NDArray[np.float64]:
        """One number in [0, 1) for each query, always the same: the upper 53 bits of its hash."""
        keys = keys_of_integers(
            seed_of(f"subsample {self.seed}"), np.require(queries, np.uint64, ["C", "W"]).view(np.int64)
        )
        return (keys >> np.uint64(11)).astype(np.float64) * 2.0**-53
