"""Fewer rows to learn from: every query with a click, and a share of the others, weighted so that nothing is biased."""

from typing import Annotated

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Batch
from broadmatch.errors import BadInput
from broadmatch.kernels.hashing import keys_of_integers, seed_of
from broadmatch.layout import require
from broadmatch.params import Number, Whole, learned
from broadmatch.state import Online

_MOST_ROWS = 1 << 62


class Subsampler(Online):
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

    kind = "subsampler"

    rate: Annotated[float, Number(0, 1, above=True), "share of the queries without a click that is kept"] = 0.1
    seed: Annotated[int, Whole(0), "decides which"] = 0

    held_: Batch = learned()  # the rows of one query, whose end has not been seen
    rows_: int = learned()  # rows that were decided

    def _start(self) -> None:
        self.held_, self.rows_ = Batch.concatenate([]), 0

    def _restored(self) -> None:
        require(0 <= self.rows_ <= _MOST_ROWS, "it has decided on more rows than there can be")

    def take(self, batch: Batch) -> Batch:
        """What is kept of the queries that end here; the last is held back, for its end may be in the next batch."""
        self._ready()
        n = len(batch)
        if n == 0:
            return batch
        self._check(batch)
        last = 0 if len(batch.query) else n
        if last == 0:
            others = np.flatnonzero(batch.query != batch.query[-1])
            last = int(others[-1]) + 1 if len(others) else 0
        if last == 0 and len(self.held_) and self.held_.query[0] == batch.query[0]:
            self.held_ = Batch.concatenate([self.held_, batch])
            return batch.between(0, 0)
        ended = Batch.concatenate([self.held_, batch.between(0, last)])
        self.held_ = batch.between(last, n)
        return self._sampled(ended)

    def finish(self) -> Batch:
        """What is kept of the query that was held back."""
        self._ready()
        held, self.held_ = self.held_, Batch.concatenate([])
        return self._sampled(held)

    def _check(self, batch: Batch) -> None:
        if len(self.held_) and not len(batch.query):
            raise BadInput("The first batches have query ids and this one has none: use one description for all.")
        unknown = np.flatnonzero(np.isnan(batch.impressions.clicked))
        if len(unknown):
            row = self.rows_ + len(self.held_) + int(unknown[0])
            raise BadInput(
                f"Impression {row} has no label, so it cannot be subsampled: say which column has the clicks."
            )

    def _sampled(self, batch: Batch) -> Batch:
        """The rows of whole queries that are kept, with their weights."""
        n = len(batch)
        if n == 0:
            return batch
        numbers = np.arange(self.rows_, self.rows_ + n).view(np.uint64)
        self.rows_ += n
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
