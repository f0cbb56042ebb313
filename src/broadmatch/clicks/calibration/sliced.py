"""A calibration for every slice of the traffic, with the parent slice to fall back on."""

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from broadmatch.clicks.calibration._maps import CLICKS, apply_knots, apply_power
from broadmatch.clicks.calibration._slices import fit_knots_slices, fit_power_slices
from broadmatch.clicks.calibration.base import (
    COARSE,
    F64,
    HalfLife,
    Sums,
    WholeCalibration,
    checked_probability,
    judged,
)
from broadmatch.clicks.calibration.isotonic import MIN_CLICKS, IsotonicCalibration
from broadmatch.clicks.calibration.poisson import PoissonCalibration
from broadmatch.clicks.calibration.slice_table import SliceTable
from broadmatch.io.artifacts import Artifact
from broadmatch.layout import Axes, Within, require
from broadmatch.params import Number, OneOf, Rule, learned
from broadmatch.state import Online, State


class ColumnNames(Rule):
    """One or more distinct names of columns."""

    def holds(self, value: object) -> bool:
        if not isinstance(value, list | tuple):
            return False
        return 0 < len(value) == len(set(map(str, value))) and all(isinstance(v, str) and v for v in value)

    def text(self) -> str:
        return 'a tuple of distinct column names, the widest slice first, such as ("country", "city")'

    def to_plain(self, value: Any) -> Any:
        return list(value)


class SliceMaps(NamedTuple):
    """The map of each slice: γ and κ, or a factor and the piecewise linear map it multiplies; the others are empty."""

    log_factor: Annotated[F64, Axes(".powers")]
    exponent: Annotated[F64, Axes(".powers")]
    factor: Annotated[F64, Axes(".mapped")]
    map_of: Annotated[NDArray[np.int32], Axes(".mapped")]
    starts: Annotated[NDArray[np.int64], Axes(".starts")]
    knots_x: Annotated[F64, Axes(".knots"), Within()]
    knots_y: Annotated[F64, Axes(".knots"), Within()]

    def check(self, powers: bool, n_slices: int) -> None:
        """Refuse maps that are not those of the first of so many slices: powers, or piecewise linear ones."""
        fitted = len(self.log_factor if powers else self.factor)
        require(0 < fitted <= n_slices, "its maps are not those of its slices")
        if not powers:
            starts, last = self.starts, len(self.starts) - 2
            whole = last >= 0 and starts[0] == 0 and starts[-1] == len(self.knots_x) and (np.diff(starts) >= 0).all()
            require(bool(whole), "the maps of its slices do not follow each other")
            require(self.map_of.min() >= 0 and self.map_of.max() <= last, "a slice has a map that is not there")


_NONE = np.empty(0)
_NO_KNOTS = (_NONE, np.empty(0, np.int32), np.empty(0, np.int64), _NONE, _NONE)


class SlicedCalibration(Artifact, Online):
    """τ_d(p) for every slice d of a hierarchy of columns, each fitted on top of its parent's.

    With `by=("country", "city")`, the slice (US, NYC) has the parent (US), whose parent is all traffic. All traffic
    is calibrated by `PoissonCalibration` or `IsotonicCalibration`; a slice then corrects what its parent says.
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

    kind = "sliced_calibration"

    by: Annotated[Sequence[str], ColumnNames(), "the columns of the slices, the widest first"]
    method: Annotated[str, OneOf(("poisson", "isotonic")), "the form of the maps"] = "poisson"
    min_clicks: Annotated[float, Number(1), "clicks that a slice needs for a shape of its own"] = 20
    strength: Annotated[float, Number(0, above=True), "how many clicks the parent's word is worth"] = 1
    half_life: HalfLife = None

    whole_: WholeCalibration = learned()
    slices_: SliceTable = learned()
    sums_: Sums = learned()
    maps_: SliceMaps = learned()

    def _start(self) -> None:
        made = PoissonCalibration if self.method == "poisson" else IsotonicCalibration
        self.whole_ = made(half_life=self.half_life)
        self.whole_._ready()
        self.slices_ = SliceTable(self.by)
        self.sums_ = Sums.empty(COARSE)
        self._fit()

    @property
    def n_slices(self) -> int:
        """How many slices were seen, at all levels."""
        self._ready()
        return self.slices_.n_slices - 1

    def learn_many(
        self,
        probability: ArrayLike,
        clicked: ArrayLike,
        slices: Mapping[str, Any],
        weight: ArrayLike | None = None,
    ) -> None:
        """Add impressions with the columns that say their slices (Arrow columns, or arrays of whole numbers)."""
        self._ready()
        rows = judged(probability, clicked, weight)
        keys = self.slices_.keys_of(slices, len(rows.clicked))
        self.whole_.learn_many(*rows)
        slots = self.slices_.number(keys)
        if self.slices_.n_slices > len(self.sums_.values):
            self.sums_ = self.sums_.first(2 * self.slices_.n_slices)
        self.sums_.add(rows, slots, self.half_life)

    def refresh(self) -> None:
        """Fit all slices, parents first, to what was learned so far."""
        self._ready()
        self.whole_.refresh()
        self._fit()

    def _fit(self) -> None:
        n, whole, today = self.slices_.n_slices, self.whole_, self.sums_.factor(self.half_life)
        given = (self.sums_.values[:n], self.slices_.parents, today, float(self.strength), float(self.min_clicks))
        if isinstance(whole, PoissonCalibration):
            log_factor, exponent = np.empty(n), np.empty(n)
            log_factor[0], exponent[0] = whole.log_factor_, whole.exponent_
            fit_power_slices(*given, log_factor, exponent)
            self.maps_ = SliceMaps(log_factor, exponent, *_NO_KNOTS)
        elif isinstance(whole, IsotonicCalibration):
            clicks = self.sums_.values[:n, :, CLICKS].sum(1) * today
            # one more than can be needed: the sum above may be rounded otherwise than in the kernel
            most = 1 + int((clicks >= 0.999 * self.min_clicks).sum())
            n_whole = len(whole.knots_x_)
            x, y = np.zeros(n_whole + most * COARSE.n_bins), np.zeros(n_whole + most * COARSE.n_bins)
            x[:n_whole], y[:n_whole] = whole.knots_x_, whole.knots_y_
            factor, map_of, starts = np.ones(n), np.zeros(n, np.int32), np.zeros(most + 2, np.int64)
            starts[1] = n_whole
            n_maps = fit_knots_slices(*given, MIN_CLICKS, factor, map_of, starts, x, y)
            end = starts[n_maps]
            knots = starts[: n_maps + 1].copy(), x[:end].copy(), y[:end].copy()
            self.maps_ = SliceMaps(_NONE, _NONE, factor, map_of, *knots)

    def apply(self, probability: ArrayLike, slices: Mapping[str, Any]) -> NDArray[np.float64]:
        """Give τ_d(p) of each probability in its slice; before the first `refresh`, p itself."""
        self._ready()
        p = checked_probability(probability)
        powers, knots = self.maps_[:2], self.maps_[2:]
        n_fitted = len(powers[0]) + len(knots[0])
        slots = self.slices_.deepest(self.slices_.keys_of(slices, len(p)), n_fitted)
        return apply_power(p, slots, *powers) if self.method == "poisson" else apply_knots(p, slots, *knots)

    def apply_one(self, probability: float, slices: Mapping[str, Any]) -> float:
        """Give τ_d(p) of one probability; `slices` gives one value for each column."""
        return float(self.apply([probability], {name: [value] for name, value in slices.items()})[0])

    def to_state(self) -> State:
        """Everything that has to be kept; sums without the room that is left for more slices."""
        self._ready()
        self.sums_ = self.sums_.first(self.slices_.n_slices)
        return super().to_state()

    def _restored(self) -> None:
        powers = self.method == "poisson"
        require(isinstance(self.whole_, PoissonCalibration if powers else IsotonicCalibration), "its method is another")
        require(self.slices_.columns == tuple(self.by), "its slices are by other columns")
        summed = self.sums_.values.shape[:2] == (self.slices_.n_slices, COARSE.n_bins)
        require(summed, "its sums are not those of its slices")
        self.maps_.check(powers, self.slices_.n_slices)
