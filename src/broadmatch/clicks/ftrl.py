"""FTRL-Proximal: the accuracy of gradient descent and the sparsity of dual averaging."""

import math
from collections.abc import Mapping
from typing import Annotated, Any, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks import _record
from broadmatch.clicks._record import GRADIENTS, RecordColumns, Settings
from broadmatch.clicks._table import STEP
from broadmatch.clicks.learner import RATES, ClickLearner
from broadmatch.clicks.serving import ServingModel
from broadmatch.clicks.table import FeatureTable
from broadmatch.clicks.variants import race
from broadmatch.clicks.variants._learn import learn_variants
from broadmatch.clicks.variants.race import ChosenRates
from broadmatch.clicks.variants.variant_models import Variant, column_settings, columns_of, places_of, width_of
from broadmatch.data import Impressions
from broadmatch.errors import BadParameter
from broadmatch.layout import require
from broadmatch.params import Among, Number, OneOf, Range, learned


class FTRL(ClickLearner):
    """Follow the (proximally) regularised leader, per coordinate, for logistic loss (Algorithm 1 of the paper).

    Unless `alpha` is given, the learning rates are chosen by a race over the first 2¹⁸ rows (`clicks.variants.race`):
    candidates learn side by side, the model is that of the one which leads, and in the end bit for bit what the winner
    would be alone. `chosen` tells how it stands.

    >>> from broadmatch.data import Impressions
    >>> model = FTRL(alpha=0.5, l1=0.1)
    >>> batch = Impressions.from_rows([[7, 8], [8]], clicked=[1, 0])
    >>> model.learn_many(batch).round(4).tolist()  # before each update: progressive
    [0.5, 0.5333]
    """

    kind = "ftrl"
    number = _record.FTRL

    alpha: Annotated[
        float | None,
        Number(0, above=True, none=True),
        Range(0.01, 2.0, by=1.8),
        "α of the learning rates α / (β + √n); None lets a race choose",
    ] = None
    rates: Annotated[
        str | None,
        OneOf((None, *RATES)),
        Among("gradients", "counts"),
        "what n is: the squared gradients of the feature, its clicked and unclicked impressions (§4.5), or the number "
        "of examples, alike for all; None lets the race choose, and is gradients where there is none",
    ] = None

    race_: NDArray[np.float64] = learned()
    chosen_: NDArray[np.float64] = learned()

    def check_params(self) -> None:
        """Check every parameter, and which go together."""
        super().check_params()
        if self.alpha is None and self.rates == "global":
            raise BadParameter("rates='global' needs a number as alpha: a race is of gradients and of counts.")

    def _start(self) -> None:
        self._field = () if self.alpha is not None else race.candidates(self.rates)
        self.race_ = race.start(self._field)
        self.chosen_ = np.zeros(2) if self.alpha is None else np.array([self.alpha, RATES[self.rates or "gradients"]])
        self._line_up()
        super()._start()

    @property
    def chosen(self) -> ChosenRates:
        """The learning rates that the model has, and how far the race for them is."""
        self._ready()
        if len(race.running(self.race_)):
            return race.chosen(self._field, self.race_)
        return ChosenRates(float(self.chosen_[0]), list(RATES)[int(self.chosen_[1])])

    @property
    def _racing(self) -> bool:
        return bool(self.chosen_[0] == 0.0)

    def _line_up(self) -> None:
        """Make columns of the candidates that are left."""
        shared: dict[str, Any] = {name: float(getattr(self, name)) for name in ("beta", "l1", "l2", "power")}
        left = [self._field[k] for k in race.running(self.race_)] if self._racing else []
        self._variants = columns_of([Variant(**shared, **candidate._asdict()) for candidate in left])

    def _empty_table(self) -> FeatureTable:
        if self._racing:
            return FeatureTable(self.encoding, width_of(self._variants))
        return super()._empty_table()

    def _learn(self, impressions: Impressions, out: NDArray[np.float64]) -> NDArray[np.float64]:
        row, n = 0, impressions.n_rows
        while self._racing and row < n:
            rows = impressions.between(row, min(n, row + race.rows_left(self.n_learned)))
            found = super()._learn(rows, np.empty((rows.n_rows, len(self._variants.alphas))))
            race.run(self.race_, found, rows, out[row : row + rows.n_rows])
            row += rows.n_rows
            if self.n_learned in race.HEATS:
                self._end_heat()
        if row < n:
            super()._learn(impressions.between(row, n) if row else impressions, out[row:])
        return out

    def _learn_from(self, impressions: Impressions, row: int, out: NDArray[np.float64]) -> int:
        if not self._racing:
            return super()._learn_from(impressions, row, out)
        given = self._table(), impressions, row, out, self._variants, None, self._admission(), self.streams_[:1]
        return int(learn_variants(*given))

    def learn_shared(self, impressions: Impressions, *, encoded: bool = False) -> NDArray[np.float64]:
        """Like `learn_many`, but several threads may call it at once, and none waits for another's numbers.

        Common features are learned on copies, of which each thread has its own, and what changed is added after a
        block; rare ones in place, where now and then an update is lost (`_hogwild`). So two runs do not give the same
        bits, and the loss is a little higher than with one thread. While there is a race, threads take turns.
        """
        self._ready()
        self._check_shared()
        if self._racing:
            with self._threads.alone():
                if self._racing:
                    return self.learn_many(impressions, encoded=encoded)
        return super().learn_shared(impressions, encoded=encoded)

    def _end_heat(self) -> None:
        """Keep the numbers of the candidates that stay."""
        variants, stay = self._variants, race.cut(self.race_, self.n_learned)
        if len(stay) == 1:
            settings, at = column_settings(variants, int(stay[0])), places_of(variants, int(stay[0]), 0)
            self.chosen_[:] = settings.alpha, settings.rates
            columns = [at.kept, at.counter, at.clicks][: 2 if settings.rates == GRADIENTS else 3]
        else:
            own = 2 + len(variants.alphas)
            columns = [0, 1, *(2 + k for k in stay), *(own + k for k in stay if k < variants.gradients)]
        self.table_ = self.table_.keeping(columns)
        self._line_up()

    def _resumed(self, given: Mapping[str, NDArray[Any]]) -> None:
        alpha, rates = self.chosen_.tolist()
        if self.alpha is not None:
            require([alpha, rates] == [self.alpha, RATES[self.rates or "gradients"]], "its rates are not those given")
        elif alpha == 0:
            race.check(self.race_, int(given["state"][STEP]))
        else:
            require(0 < alpha < math.inf and rates in RATES.values(), "its rates cannot be")
            require(len(race.running(self.race_)) < 2, "its race is decided, and goes on")
        self._line_up()
        self.table_ = self._empty_table()

    def _settings(self) -> Settings:
        if self._racing:
            return column_settings(self._variants, race.leader(self.race_))
        return super()._settings()

    def _columns(self) -> RecordColumns:
        if self._racing:
            return places_of(self._variants, race.leader(self.race_), self.table_.first)
        return super()._columns()

    def _rates(self) -> tuple[float, int]:
        return float(self.chosen_[0]), int(self.chosen_[1])

    def continues(self, model: ServingModel) -> bool:
        """Whether `take_over` can begin with a model: its rates are of the same α and β, as those of the unseen say."""
        if self.encoding == "q2.13" or self.beta <= 0 or self.power != 0.5 or self.rates not in (None, "gradients"):
            return False
        if self.alpha is None:
            return 0 < model.unseen < math.inf
        return math.isclose(model.unseen, self.alpha / self.beta, rel_tol=1e-6)

    def take_over(self, model: ServingModel) -> Self:
        """Begin with the coefficients and learning rates of a model that serves, before anything is learned.

        Algorithm 1 backwards: √n = α / η − β, and z = −w ((β + √n) / α + λ₂) − sgn(w) λ₁. Of a coefficient of 0, z is
        not known, and taken as 0. Without an `alpha`, that of the model is taken over too, and there is no race.

        >>> from broadmatch.data import Impressions
        >>> first = FTRL()
        >>> _ = first.learn_many(Impressions.from_rows([[7, 8], [8]] * 9, clicked=[1, 0] * 9))
        >>> FTRL().take_over(first.to_serving()).predict_one([7]) > 0.5
        True
        """
        self._ready()
        if self.n_features or not self.continues(model):
            raise BadParameter("take_over is for a learner that has learned nothing, with α and β as the model's.")
        if self.alpha is None:
            self.race_[:, race.STANDING] = np.inf
            self.chosen_[:] = model.unseen * self.beta, GRADIENTS
            self._line_up()
            self.table_ = self._empty_table()
        alpha, _ = self._rates()
        keys, weight, rate = model.items()
        root = np.maximum(alpha / rate - self.beta, 0.0)
        kept = -weight * ((self.beta + root) / alpha + self.l2) - np.sign(weight) * self.l1
        self.table_.reserve(len(keys))
        self.table_.fill(keys, np.stack([kept, root * root], axis=1).astype(self.table_.cells.dtype))
        return self
