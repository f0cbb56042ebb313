"""What every click learner does: learn from a stream, predict, say how sure it is, keep and restore what it knows."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks._bloom import CURRENT
from broadmatch.clicks._hogwild import learn_beside
from broadmatch.clicks._learners import BLOCK, learn_rows, score_rows, weights_and_rates
from broadmatch.clicks._record import COUNTS, GLOBAL, GRADIENTS, RecordColumns, Settings
from broadmatch.clicks._table import STEP, USED, Admission, Table
from broadmatch.clicks.hogwild import Threads
from broadmatch.clicks.inclusion import Bloom, Inclusion, InclusionRule, empty_filters, filter_size, kind_and_chance
from broadmatch.clicks.serving import Coefficients, ServingModel, keys_from, not_zero, sigmoids
from broadmatch.clicks.table import ENCODINGS, FeatureTable
from broadmatch.data import Impressions
from broadmatch.errors import BadParameter
from broadmatch.io.artifacts import Artifact
from broadmatch.layout import require
from broadmatch.parallel import blocks
from broadmatch.params import Among, Number, OneOf, Whole, learned
from broadmatch.state import Online, State

_SERVED_AT_ONCE = 1 << 14
"""Features of which the coefficients are computed at a time when a model to serve is made."""
RATES = {"gradients": GRADIENTS, "counts": COUNTS, "global": GLOBAL}


class TableLearner(Artifact, Online):
    """Base of what learns numbers of features, in a table that grows with the stream."""

    encoding: Annotated[
        str, OneOf(tuple(ENCODINGS)), "how numbers are held: 8, 4 or, with randomised rounding, 2 bytes each (§4.2)"
    ] = "float64"
    inclusion: Annotated[Inclusion, InclusionRule(), "keeps rare features out (§4.1)"] = None
    seed: Annotated[int, Whole(0, 2**63 - 1), "of randomised rounding and of Poisson inclusion"] = 0

    table_: FeatureTable = learned()
    streams_: NDArray[np.uint64] = learned()
    filters_: NDArray[np.uint8] = learned()
    rolling_: NDArray[np.int64] = learned()

    def _start(self) -> None:
        self.filters_, self.rolling_ = empty_filters(self.inclusion)
        self.streams_ = np.array([int(self.seed), int(self.seed) + (1 << 63)], np.uint64)
        self.table_ = self._empty_table()

    def _empty_table(self) -> FeatureTable:
        raise NotImplementedError

    @property
    def n_features(self) -> int:
        """How many features the model holds, those with a coefficient of 0 too."""
        self._ready()
        return len(self.table_)

    @property
    def n_learned(self) -> int:
        """How many impressions were learned."""
        self._ready()
        return int(self.table_.state[STEP])

    @property
    def nbytes(self) -> int:
        """Bytes that the table and the filters take in memory."""
        self._ready()
        return self.table_.nbytes + (self.filters_.nbytes if isinstance(self.inclusion, Bloom) else 0)

    def _learn(self, impressions: Impressions, out: NDArray[np.float64]) -> NDArray[np.float64]:
        """Learn from all rows; the table grows where it has to."""
        row, table = 0, self.table_
        while True:
            row = self._learn_from(impressions, row, out)
            if row == impressions.n_rows:
                return out
            table.reserve(max(table.room + 1, len(table) + _most_features(impressions.indptr, row)))

    def _learn_from(self, impressions: Impressions, row: int, out: NDArray[np.float64]) -> int:
        """Learn from `row` on until the table has to grow; gives the row where to go on."""
        raise NotImplementedError

    def _admission(self) -> Admission:
        return Admission(*kind_and_chance(self.inclusion), self.filters_, self.rolling_, self.streams_[1:2])

    def to_state(self) -> State:
        """Everything that is known; the same whatever batches it came in.

        Written out, because the slots of a table depend on how it grew: features are kept in the order of their keys.
        """
        self._ready()
        keys, slots = self.table_.sorted()
        arrays: dict[str, NDArray[Any]] = {
            "keys": keys,
            "numbers": self._numbers(slots),
            "state": self.table_.state.copy(),
            **{name.rstrip("_"): getattr(self, name).copy() for name in self._beside_the_table()},
        }
        return State(self.kind, {name: rule.to_plain(getattr(self, name)) for name, rule in self.rules.items()}, arrays)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Restore a learner; it goes on as if it had never stopped."""
        learner, given = (
            cls(**{name: rule.from_plain(state.params[name]) for name, rule in cls.rules.items()}),
            state.arrays,
        )
        learner.check_params()
        require(given["filters"].size == filter_size(learner.inclusion), "its filters are of another size")
        fresh = learner.to_state().arrays
        keys, numbers, beside = given["keys"], given["numbers"], cls._beside_the_table()
        fits = all(given[name].dtype == fresh[name].dtype for name in fresh) and all(
            given[name].shape == fresh[name].shape for name in fresh if name not in ("keys", "numbers")
        )
        require(fits, "its keys and numbers do not fit")
        for name in beside:
            getattr(learner, name)[:] = given[name.rstrip("_")]
        learner._resumed(given)
        fits = (
            numbers.shape == (len(keys), learner._numbers(np.empty(0, np.int64)).shape[1])
            and bool(np.all(keys[:-1] < keys[1:]))
            and not (len(keys) and keys[0] == 0)
            and int(given["state"][USED]) == len(keys)
            and given["rolling"][CURRENT] in (0, 1)
        )
        require(fits, "its keys and numbers do not fit")
        learner.table_.fill(keys, np.ascontiguousarray(numbers).view(learner.table_.cells.dtype))
        learner.table_.state[:] = given["state"]
        return learner

    def _resumed(self, given: Mapping[str, NDArray[Any]]) -> None:
        """Refuse what was restored if it does not fit, and make the table that belongs to it."""

    def _numbers(self, slots: NDArray[np.int64]) -> NDArray[Any]:
        """What stands behind the keys of these slots."""
        return self.table_.cells.take(slots, axis=0)[:, self.table_.first :]

    @classmethod
    def _beside_the_table(cls) -> list[str]:
        return [name for name in cls.learned_fields if name != "table_"]


class ClickLearner(TableLearner):
    """Base of the learners of one model; `FTRL` is the one to use, the others are what the paper compares it with."""

    alpha: Annotated[float | None, Number(0, above=True), "α of the learning rates α / (β + √n)"] = 0.1
    beta: Annotated[float, Number(0), Among(1.0, 0.3), "β of the learning rates"] = 1.0
    l1: Annotated[float, Number(0), Among(0.0, 0.5), "makes coefficients exactly 0"] = 0.0
    l2: Annotated[float, Number(0), "shrinks coefficients"] = 0.0
    rates: Annotated[
        str | None,
        OneOf(tuple(RATES)),
        "what n is: the squared gradients of the feature, its clicked and unclicked impressions (§4.5), "
        "or the number of examples, alike for all",
    ] = "gradients"
    power: Annotated[float, Number(0, 1, above=True), "of n in the learning rates, √n unless told (§3.1)"] = 0.5

    number: ClassVar[int]
    """Which update the kernel does."""

    def _start(self) -> None:
        self._threads = Threads()
        super()._start()

    def _empty_table(self) -> FeatureTable:
        return FeatureTable(self.encoding, 3 if self._rates()[1] == COUNTS else 2)

    def learn_many(self, impressions: Impressions, *, encoded: bool = False) -> NDArray[np.float64]:
        """Learn from each impression in turn, and give its probability as it was before that (progressive).

        Rows are checked first; with `encoded` their features come from an encoder or a reader of broadmatch.
        """
        self._ready()
        Impressions.of(impressions).check(labelled=True, encoded=encoded)
        return self._learn(impressions, np.empty(impressions.n_rows))

    def learn_one(
        self,
        keys: Sequence[int] | NDArray[np.uint64],
        clicked: float,
        *,
        values: Any = None,
        weight: float = 1.0,
        offset: float = 0.0,
    ) -> float:
        """Learn from one impression; gives its probability before that."""
        row = _one(keys, values, offset)
        given = row._replace(clicked=np.array([clicked], np.float32), weight=np.array([weight], np.float32))
        return float(self.learn_many(given)[0])

    def learn_shared(self, impressions: Impressions, *, encoded: bool = False) -> NDArray[np.float64]:
        """Like `learn_many`, but several threads may call it at once, and none waits for another's numbers.

        Common features are learned on copies, of which each thread has its own, and what changed is added after a
        block; rare ones in place, where now and then an update is lost (`_hogwild`). So two runs do not give the same
        bits, and the loss is a little higher than with one thread.
        """
        self._ready()
        Impressions.of(impressions).check(labelled=True, encoded=encoded)
        self._check_shared()
        out = np.empty(impressions.n_rows)
        row, table, threads = 0, self.table_, self._threads
        with threads.joined(table) as cache:
            while row < impressions.n_rows:
                with threads.reading():
                    hot = cache.emptied(table)
                    stop = int(
                        learn_beside(
                            self._table(), impressions, row, out, self._settings(), self._admission(), threads.lock, hot
                        )
                    )
                with threads.counting:
                    table.state[STEP] += stop - row
                if stop < impressions.n_rows:
                    with threads.alone():
                        table.reserve(len(table) + _most_features(impressions.indptr, stop))
                row = stop
        return out

    def _check_shared(self) -> None:
        if self.encoding == "q2.13" or self.rates == "global" or self._settings().min_count:
            raise BadParameter("Several threads cannot learn with encoding='q2.13', rates='global' or min_count.")

    def predict_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """The click probability of each impression; the model does not change."""
        return sigmoids(self._scores(impressions)[0])

    def predict_one(
        self, keys: Sequence[int] | NDArray[np.uint64], values: Any = None, *, offset: float = 0.0
    ) -> float:
        """The click probability of one impression, given the keys of its features; `ServingModel` is faster at it."""
        return float(self.predict_many(_one(keys, values, offset))[0])

    def uncertainty_many(self, impressions: Impressions) -> NDArray[np.float64]:
        """u(x) = Σ |x_i| η_i: how far one more example could move the log-odds of each impression at most (§6).

        η_i = α / (β + √n_i) is the feature's learning rate (equation 2). The paper prints α Σ x_i / √(β + n_i), with β
        inside the root: the same bound on a step, for x of at least 0.
        """
        return self._scores(impressions)[1]

    def coefficients(self) -> Coefficients:
        """Every feature's key, ascending, with its coefficient and its learning rate."""
        self._ready()
        return self._coefficients(*self.table_.sorted())

    def to_serving(self, *, uncertainty: bool = True) -> ServingModel:
        """What serving needs: the coefficients that are not 0 and, for the uncertainty, every feature's rate."""
        self._ready()
        _, _, unseen = self._coefficients(np.zeros(1, np.uint64), np.full(1, -1))
        if not uncertainty:
            kept = not_zero(self.coefficients())
            return ServingModel.of(len(kept[0]), [kept], float(unseen[0]))
        keys, slots = self.table_.sorted()
        found = (self._coefficients(keys[a:b], slots[a:b]) for a, b in blocks(len(keys), _SERVED_AT_ONCE))
        return ServingModel.of(len(keys), found, float(unseen[0]))

    def _coefficients(self, keys: NDArray[np.uint64], slots: NDArray[np.int64]) -> Coefficients:
        weights, rates = np.empty(len(keys)), np.empty(len(keys))
        weights_and_rates(self._table(), self._columns(), slots, self._settings(), weights, rates)
        return keys, weights, rates

    def _learn_from(self, impressions: Impressions, row: int, out: NDArray[np.float64]) -> int:
        given = self._table(), impressions, row, out, self._settings(), self._admission(), self.streams_[:1]
        return int(learn_rows(*given))

    def _scores(self, impressions: Impressions) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        self._ready()
        Impressions.of(impressions).check()
        scores, spread = np.empty(impressions.n_rows), np.empty(impressions.n_rows)
        score_rows(self._table(), self._columns(), impressions, self._settings(), scores, spread)
        return scores, spread

    def _table(self) -> Table:
        table = self.table_
        return Table(table.words, table.cells, table.first, table.room, table.state)

    def _settings(self) -> Settings:
        alpha, rates = self._rates()
        numbers = (float(value) for value in (self.beta, self.l1, self.l2, self.power))
        return Settings(self.number, rates, 0.0, alpha, *numbers)

    def _rates(self) -> tuple[float, int]:
        """α, and what n is."""
        return float(self.alpha or 0.0), RATES[self.rates or "gradients"]

    def _columns(self) -> RecordColumns:
        first = self.table_.first
        return RecordColumns(first, first + 1, first + 2)


def _one(keys: Sequence[int] | NDArray[np.uint64], values: Any, offset: float) -> Impressions:
    """One impression that has no label yet."""
    keys = keys_from(keys)
    given = np.empty(0, np.float32) if values is None else np.asarray(values, np.float32)
    indptr = np.array([0, len(keys)], np.int64)
    none = np.empty(0, np.float32)
    return Impressions(indptr, keys, given, np.empty(0, np.int16), none, none, np.array([offset], np.float32))


def _most_features(indptr: NDArray[np.int64], row: int) -> int:
    """How many features the next block has."""
    return int(indptr[min(row + BLOCK, len(indptr) - 1)] - indptr[row])
