"""What every click learner does: learn from a stream, predict, say how sure it is, keep and restore what it knows."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._hogwild import learn_beside
from broadmatch.clicks._learners import BLOCK, COUNTS, GLOBAL, GRADIENTS, learn_rows, score_rows, weights_and_rates
from broadmatch.clicks._table import STEP, USED
from broadmatch.clicks.hogwild import Copies, Crew
from broadmatch.clicks.inclusion import (
    Bloom,
    Inclusion,
    Poisson,
    empty_filters,
    facts_of,
    inclusion_from,
    kind_and_chance,
)
from broadmatch.clicks.serving import ServingModel, sigmoids
from broadmatch.clicks.table import ENCODINGS, FeatureTable
from broadmatch.clicks.validation import check_impressions
from broadmatch.data import Impressions
from broadmatch.errors import BadArtifact, BadParameter
from broadmatch.io.artifacts import save
from broadmatch.params import Number, OneOf, Parameters, Rule, Whole
from broadmatch.state import State

RATES = {"gradients": GRADIENTS, "counts": COUNTS, "global": GLOBAL}


class ClickLearner(Parameters):
    """Base of the learners; `FTRL` is the one to use, the others are what the paper compares it with."""

    kind: ClassVar[str]
    number: ClassVar[int]
    """Which update the kernel does."""
    rules: ClassVar[Mapping[str, Rule]] = {
        "alpha": Number(0, above=True),
        "beta": Number(0),
        "l1": Number(0),
        "l2": Number(0),
        "rates": OneOf(tuple(RATES)),
        "encoding": OneOf(tuple(ENCODINGS)),
        "seed": Whole(0, 2**63 - 1),
    }
    min_count: int = 0

    def __init__(
        self,
        *,
        alpha: float = 0.1,
        beta: float = 1.0,
        l1: float = 0.0,
        l2: float = 0.0,
        rates: str = "gradients",
        encoding: str = "float64",
        inclusion: Inclusion = None,
        seed: int = 0,
    ) -> None:
        self.alpha = alpha
        self.beta = beta
        self.l1 = l1
        self.l2 = l2
        self.rates = rates
        self.encoding = encoding
        self.inclusion = inclusion
        self.seed = seed
        self.check_params()
        if not (inclusion is None or isinstance(inclusion, Poisson | Bloom)):
            raise BadParameter(f"inclusion must be None, Poisson(p) or Bloom(n), but it is {inclusion!r}.")
        self.table = FeatureTable(self.encoding, 3 if self.rates == "counts" else 2)
        self._filters, self._rolling = empty_filters(self.inclusion)
        self._streams = np.array([int(self.seed), int(self.seed) + (1 << 63)], np.uint64)
        self._crew = Crew()

    @property
    def n_features(self) -> int:
        """How many features the model holds, those with a coefficient of 0 too."""
        return len(self.table)

    @property
    def n_learned(self) -> int:
        """How many impressions were learned."""
        return int(self.table.state[STEP])

    @property
    def nbytes(self) -> int:
        """Bytes that the table and the filters take in memory."""
        return self.table.nbytes + (self._filters.nbytes if isinstance(self.inclusion, Bloom) else 0)

    def get_params(self) -> dict[str, Any]:
        """The parameters by name."""
        return {name: getattr(self, name) for name in (*self.rules, "inclusion")}

    def learn_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """Learn from each impression in turn, and give its probability as it was before that (progressive)."""
        check_impressions(impressions, labelled=True)
        out = np.empty(impressions.n_rows)
        row, table = np.int64(0), self.table
        kind, chance = kind_and_chance(self.inclusion)
        while True:
            row = learn_rows(
                table.words,
                table.cells,
                table.first,
                table.room,
                impressions.indptr,
                impressions.keys,
                impressions.values,
                impressions.clicked,
                impressions.weight,
                int(row),
                out,
                *self._update(),
                kind,
                chance,
                self._filters,
                self._rolling,
                table.state,
                self._streams,
            )
            if row == impressions.n_rows:
                return out
            table.reserve(max(table.room + 1, len(table) + _most_features(impressions.indptr, int(row))))

    def learn_one(
        self, keys: Sequence[int] | NDArray[np.uint64], clicked: float, *, values: Any = None, weight: float = 1.0
    ) -> float:
        """Learn from one impression; gives its probability before that."""
        row = _one(keys, values)
        given = row._replace(clicked=np.array([clicked], np.float32), weight=np.array([weight], np.float32))
        return float(self.learn_many(given)[0])

    def learn_shared(self, impressions: Impressions) -> NDArray[np.float64]:
        """Like `learn_many`, but several threads may call it at once, and none waits for another's numbers.

        Common features are learned on copies, of which each thread has its own, and what changed is added after a
        block; rare ones in place, where now and then an update is lost (kernels/click_shared.py). So two runs do not
        give the same bits, and the loss is a little higher than with one thread.
        """
        check_impressions(impressions, labelled=True)
        if self.encoding == "q2.13" or self.rates == "global" or self.min_count:
            raise BadParameter("Several threads cannot learn with encoding='q2.13', rates='global' or min_count.")
        out = np.empty(impressions.n_rows)
        with self._crew.joined(self.table) as copies:
            row = 0
            while row < impressions.n_rows:
                with self._crew.passing():
                    stop = self._learn_beside(impressions, row, out, copies)
                with self._crew.counting:
                    self.table.state[STEP] += stop - row
                if stop < impressions.n_rows:
                    with self._crew.alone():
                        self.table.reserve(len(self.table) + _most_features(impressions.indptr, stop))
                row = stop
        return out

    def _learn_beside(self, impressions: Impressions, row: int, out: NDArray[np.float64], copies: Copies) -> int:
        """Learn from `row` on beside other threads, until the table has to grow; gives the row to go on from."""
        indptr, keys, values, _, clicked, weight = impressions
        table = self.table
        kind, chance = kind_and_chance(self.inclusion)
        copies.free()
        return int(
            learn_beside(
                table.words, table.cells, table.first, table.room, indptr, keys, values, clicked, weight, row, out,
                *self._update(), kind, chance, self._filters, self._rolling, table.state, self._streams[1:2],
                self._crew.lock, copies.state, copies.stream, copies.base(table), copies.owners, copies.owned,
                copies.before, copies.largest,
            )
        )  # fmt: skip

    def predict_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """The click probability of each impression; the model does not change."""
        return sigmoids(self._scores(impressions)[0])

    def predict_one(self, keys: Sequence[int] | NDArray[np.uint64], values: Any = None) -> float:
        """The click probability of one impression, given the keys of its features; `ServingModel` is faster at it."""
        return float(self.predict_many(_one(keys, values))[0])

    def uncertainty_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """u(x) = Σ |x_i| η_i: how far one more example could move the log-odds of each impression at most (§6)."""
        return self._scores(impressions)[1]

    def weights(self) -> tuple[NDArray[np.uint64], NDArray[np.float64], NDArray[np.float64]]:
        """Every feature's key, ascending, with its coefficient and its learning rate."""
        keys, slots = self.table.sorted()
        weights, rates = np.empty(len(keys)), np.empty(len(keys))
        weights_and_rates(self.table.cells, self.table.first, slots, *self._shape(), weights, rates)
        return keys, weights, rates

    def to_serving(self, *, uncertainty: bool = True) -> ServingModel:
        """What serving needs: the coefficients that are not 0 and, for the uncertainty, every feature's rate."""
        keys, weights, rates = self.weights()
        kept = np.ones(len(keys), bool) if uncertainty else weights != 0
        unseen, unseen_rate = np.empty(1), np.empty(1)
        weights_and_rates(self.table.cells, self.table.first, np.full(1, -1), *self._shape(), unseen, unseen_rate)
        return ServingModel.of(keys[kept], weights[kept], rates[kept], float(unseen_rate[0]))

    def to_state(self) -> State:
        """Everything that the learner knows; the same whatever batches it came in."""
        keys, slots = self.table.sorted()
        arrays = {
            "keys": keys,
            "numbers": self.table.cells[slots, self.table.first :],
            "state": self.table.state.copy(),
            "streams": self._streams.copy(),
            "filters": self._filters.copy(),
            "rolling": self._rolling.copy(),
        }
        params = {name: getattr(self, name) for name in self.rules}
        return State(self.kind, params, arrays, {"inclusion": facts_of(self.inclusion)})

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Restore a learner; it goes on as if it had never stopped."""
        learner = cls(**state.params, inclusion=inclusion_from(state.facts["inclusion"]))
        fresh = learner.to_state().arrays
        keys, numbers = state.arrays["keys"], state.arrays["numbers"]
        fits = (
            all(state.arrays[name].dtype == fresh[name].dtype for name in fresh)
            and all(state.arrays[name].shape == fresh[name].shape for name in fresh if name not in ("keys", "numbers"))
            and numbers.shape == (len(keys), fresh["numbers"].shape[1])
            and bool(np.all(keys[:-1] < keys[1:]))
            and not (len(keys) and keys[0] == 0)
            and int(state.arrays["state"][USED]) == len(keys)
        )
        if not fits:
            raise BadArtifact(f"The saved {cls.kind} is damaged: its keys and numbers do not fit; train it again.")
        learner.table.fill(keys, numbers)
        learner.table.state[:] = state.arrays["state"]
        learner._streams[:] = state.arrays["streams"]
        learner._filters[:] = state.arrays["filters"]
        learner._rolling[:] = state.arrays["rolling"]
        return learner

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the learner to a folder, from which `broadmatch.load` restores it to go on learning."""
        save(self, path)

    def _scores(self, impressions: Impressions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        check_impressions(impressions)
        scores, spread = np.empty(impressions.n_rows), np.empty(impressions.n_rows)
        table = self.table
        score_rows(
            table.words,
            table.cells,
            table.first,
            impressions.indptr,
            impressions.keys,
            impressions.values,
            *self._shape(),
            scores,
            spread,
        )
        return scores, spread

    def _update(self) -> tuple[int, int, float, float, float, float, float]:
        return (
            self.number,
            RATES[self.rates],
            float(self.min_count),
            float(self.alpha),
            float(self.beta),
            float(self.l1),
            float(self.l2),
        )

    def _shape(self) -> tuple[int, int, float, float, float, float, float]:
        learner, rates, _, alpha, beta, l1, l2 = self._update()
        return learner, rates, alpha, beta, l1, l2, float(self.n_learned)


def _one(keys: Sequence[int] | NDArray[np.uint64], values: Any) -> Impressions:
    """One impression that has no label yet."""
    keys = np.asarray(keys, np.uint64)
    given = np.empty(0, np.float32) if values is None else np.asarray(values, np.float32)
    indptr = np.array([0, len(keys)], np.int64)
    return Impressions(indptr, keys, given, np.empty(0, np.int16), np.empty(0, np.float32), np.empty(0, np.float32))


def _most_features(indptr: NDArray[np.int64], row: int) -> int:
    """How many features the next block has."""
    return int(indptr[min(row + BLOCK, len(indptr) - 1)] - indptr[row])
