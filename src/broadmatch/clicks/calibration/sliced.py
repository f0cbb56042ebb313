"""A calibration for every slice of the traffic, with the parent slice to fall back on."""

import os
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.clicks.calibration import _slices as kernels
from broadmatch.clicks.calibration.base import COARSE, HALF_LIFE, Sums, checked_probability, judged
from broadmatch.clicks.calibration.isotonic import MIN_CLICKS, IsotonicCalibration
from broadmatch.clicks.calibration.poisson import PoissonCalibration
from broadmatch.clicks.calibration.slice_table import SliceTable
from broadmatch.io import artifacts
from broadmatch.kernels import isotonic as maps
from broadmatch.params import Number, OneOf, Parameters, Rule
from broadmatch.state import State, restore


class ColumnNames(Rule):
    """One or more distinct names of columns."""

    def holds(self, value: object) -> bool:
        """Say whether `value` keeps the rule."""
        if not isinstance(value, list | tuple):
            return False
        return 0 < len(value) == len(set(map(str, value))) and all(isinstance(v, str) and v for v in value)

    def text(self) -> str:
        """Name the rule."""
        return 'a tuple of distinct column names, the widest slice first, such as ("country", "city")'

    def to_plain(self, value: Any) -> Any:
        """The names as a list."""
        return list(value)


class SlicedCalibration(Parameters):
    """τ_d(p) for every slice d of a hierarchy of columns, each fitted on top of its parent's.

    With `by=("country", "city")`, the slice (US, NYC) has the parent (US), whose parent is all traffic. All traffic
    is calibrated by `PoissonCalibration` or `IsotonicCalibration` (`kind`); a slice then corrects what its parent says.
    Where the parent expects E clicks and C came, the correction is the factor γ = (C + s)/(E + s), which is the mean of
    the posterior under a Gamma(s, s) prior: `strength` s is how many clicks the parent's word is worth. A slice with at
    least `min_clicks` clicks gets a shape of its own too, γ q^κ of the parent's q or an isotonic map, fitted to its
    clicks and s pseudo-clicks that fall as γ q says. A slice that was never seen takes its parent's map.

    >>> calibration = SlicedCalibration(by=("country",), strength=1)
    >>> calibration.learn_many([0.1] * 40, [1] * 8 + [0] * 32, {"country": ["FR"] * 20 + ["US"] * 20})
    >>> calibration.refresh()
    >>> calibration.apply([0.1] * 3, {"country": ["FR", "US", "never seen"]}).round(2).tolist()
    [0.36, 0.04, 0.2]
    """

    rules: ClassVar[Mapping[str, Rule]] = {
        "by": ColumnNames(),
        "kind": OneOf(("poisson", "isotonic")),
        "min_clicks": Number(1),
        "strength": Number(0, above=True),
        "half_life": HALF_LIFE,
    }

    def __init__(
        self,
        *,
        by: Sequence[str],
        kind: str = "poisson",
        min_clicks: float = 20,
        strength: float = 1,
        half_life: int | None = None,
    ) -> None:
        self.by = by
        self.kind = kind
        self.min_clicks = min_clicks
        self.strength = strength
        self.half_life = half_life
        self.check_params()
        whole = PoissonCalibration if kind == "poisson" else IsotonicCalibration
        self.whole: PoissonCalibration | IsotonicCalibration = whole(half_life=half_life)
        self._slices = SliceTable(by)
        self._sums = Sums(COARSE, half_life)
        self._maps: dict[str, NDArray[Any]] = {}
        self._fit()

    @property
    def n_slices(self) -> int:
        """How many slices were seen, at all levels."""
        return self._slices.n_slices - 1

    def learn_many(
        self,
        probability: ArrayLike,
        clicked: ArrayLike,
        slices: Mapping[str, Any],
        weight: ArrayLike | None = None,
    ) -> None:
        """Add impressions with the columns that say their slices (Arrow columns, or arrays of whole numbers)."""
        rows = judged(probability, clicked, weight)
        keys = self._slices.keys_of(slices, len(rows.clicked))
        self.whole.learn_many(*rows)
        slots = self._slices.number(keys)
        if self._slices.n_slices > len(self._sums.values):
            self._sums.grow(2 * self._slices.n_slices)
        self._sums.add(rows, slots)

    def refresh(self) -> None:
        """Fit all slices, parents first, to what was learned so far."""
        self.whole.refresh()
        self._fit()

    def _fit(self) -> None:
        n = self._slices.n_slices
        given = (self._sums.values[:n], self._slices.parents, self._sums.factor(), float(self.strength))
        if isinstance(self.whole, PoissonCalibration):
            log_factor, exponent = np.empty(n), np.empty(n)
            log_factor[0], exponent[0] = self.whole.log_factor, self.whole.exponent
            kernels.fit_power_slices(*given, float(self.min_clicks), log_factor, exponent)
            self._maps = {"log_factor": log_factor, "exponent": exponent}
            return
        clicks = self._sums.values[:n, :, maps.CLICKS].sum(1) * self._sums.factor()
        # one more than can be needed: the sum above may be rounded otherwise than in the kernel
        most = 1 + int((clicks >= 0.999 * self.min_clicks).sum())
        n_whole = len(self.whole.knots_x)
        x, y = np.zeros(n_whole + most * COARSE.n_bins), np.zeros(n_whole + most * COARSE.n_bins)
        x[:n_whole], y[:n_whole] = self.whole.knots_x, self.whole.knots_y
        factor, map_of, starts = np.ones(n), np.zeros(n, np.int32), np.zeros(most + 2, np.int64)
        starts[1] = n_whole
        n_maps = kernels.fit_knots_slices(*given, float(self.min_clicks), MIN_CLICKS, factor, map_of, starts, x, y)
        end = starts[n_maps]
        self._maps = {
            "factor": factor,
            "map_of": map_of,
            "starts": starts[: n_maps + 1].copy(),
            "knots_x": x[:end].copy(),
            "knots_y": y[:end].copy(),
        }

    def apply(self, probability: ArrayLike, slices: Mapping[str, Any]) -> NDArray[np.float64]:
        """Give τ_d(p) of each probability in its slice; before the first `refresh`, p itself."""
        p = checked_probability(probability)
        n_fitted = len(next(iter(self._maps.values())))
        slots = self._slices.deepest(self._slices.keys_of(slices, len(p)), n_fitted)
        if self.kind == "poisson":
            return maps.apply_power(p, slots, *self._maps.values())
        return maps.apply_knots(p, slots, *self._maps.values())

    def apply_one(self, probability: float, slices: Mapping[str, Any]) -> float:
        """Give τ_d(p) of one probability; `slices` gives one value for each column."""
        return float(self.apply([probability], {name: [value] for name, value in slices.items()})[0])

    def to_state(self) -> State:
        """Give everything that has to be kept, the sums included: a loaded calibration goes on learning."""
        params = {name: getattr(self, name) for name in self.rules}
        arrays = self._sums.to_arrays(self._slices.n_slices) | self._maps
        arrays |= {"slice_keys": self._slices.keys, "parents": self._slices.parents}
        return State(
            "sliced_calibration", params | {"by": list(self.by)}, arrays, parts={"whole": self.whole.to_state()}
        )

    @classmethod
    def from_state(cls, state: State) -> "SlicedCalibration":
        """Make the calibration that `state` describes."""
        calibration = cls(**state.params)
        calibration.whole = restore(state.parts["whole"])
        calibration._slices = SliceTable(calibration.by, state.arrays["slice_keys"], state.arrays["parents"])
        calibration._sums = Sums.from_arrays(COARSE, calibration.half_life, state.arrays)
        calibration._maps = {name: state.arrays[name] for name in calibration._maps}
        return calibration

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the calibration as a folder; `broadmatch.load` opens it."""
        artifacts.save(self, path)
