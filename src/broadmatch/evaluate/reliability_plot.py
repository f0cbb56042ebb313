"""The reliability diagram as an SVG file: click rate against prediction above, how often each is predicted below.

Written by hand, for a drawing library is more than the package should need for one plot. Colours follow the reader's
light or dark setting.
"""

import math
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput, CannotWrite

if TYPE_CHECKING:
    from broadmatch.evaluate.reliability import Reliability

F64 = NDArray[np.float64]

_WIDTH, _HEIGHT = 560, 660
_LEFT, _RIGHT, _TOP, _BOTTOM = 72, 536, 84, 500
_BARS_TOP, _BARS_BOTTOM = 520, 600
_N_BARS = 58
_WIDE = 50  # axes are logarithmic where the largest mean prediction is so many times the smallest
_LIGHT = ("#2563eb", "#d9480f", "#0f8a5f", "#8b3fc7", "#b58900", "#5b6470")
_DARK = ("#7aa7ff", "#ff9a62", "#4fd1a1", "#c79bff", "#e6c35c", "#b3bcc8")


def plot_reliability(
    curves: "Mapping[str, Reliability]", path: str | os.PathLike[str], *, title: str = "Reliability"
) -> None:
    """Write one or several curves, such as before and after calibration, as one SVG file.

    A point is a bin; its area is the bin's mass, its bar the 95 % interval. On the diagonal, predictions are right.
    Both axes are logarithmic where predictions are of several sizes.

    >>> from broadmatch.evaluate import plot_reliability, reliability
    >>> clicked = [0, 0, 0, 1, 0, 1, 1, 1]
    >>> before = reliability(clicked, [0.5] * 4 + [0.9] * 4)
    >>> after = reliability(clicked, [0.25] * 4 + [0.75] * 4)
    >>> plot_reliability({"before": before, "after": after}, "reliability.svg")  # doctest: +SKIP
    """
    if not 0 < len(curves) <= len(_LIGHT):
        raise BadInput(f"A plot takes 1 to {len(_LIGHT)} curves, but there are {len(curves)}.")
    try:
        Path(path).write_text(reliability_svg(curves, title), encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"Cannot write {path}: {error.strerror}.") from error


def reliability_svg(curves: "Mapping[str, Reliability]", title: str) -> str:
    """The text of the SVG file."""
    axis = _Axis.over(list(curves.values()))
    parts = [_head(title), _grid(axis), _legend(curves)]
    for i, curve in enumerate(curves.values()):
        parts.append(_bars(curve, axis, i, [c.histogram for c in curves.values()]))
    for i, (name, curve) in enumerate(curves.items()):
        parts.append(_curve(name, curve, axis, i))
    return "\n".join([*parts, "</svg>\n"])


class _Axis:
    """What both axes share: from where to where, logarithmic or not, and the ticks."""

    def __init__(self, low: float, high: float, log: bool) -> None:
        self.low, self.high, self.log = low, high, log
        self._bend: Callable[[float], float] = math.log if log else float

    @classmethod
    def over(cls, curves: "Sequence[Reliability]") -> "_Axis":
        """An axis with room for all points and intervals."""
        p = np.concatenate([c.probability for c in curves])
        rate = np.concatenate([c.rate for c in curves])
        positive = p[p > 0]
        log = bool(len(positive)) and positive.max() > _WIDE * positive.min()
        if not log:
            top = max(float(p.max()), *(float(np.minimum(c.high, 1.2 * c.rate + 0.02).max()) for c in curves))
            step = _step(top)
            return cls(0.0, min(1.0, step * math.ceil(top / step - 1e-9)), False)
        # an interval may leave the plot; its point may not
        low = max(1e-6, 0.7 * float(min(positive.min(), rate[rate > 0].min(initial=1.0))))
        return cls(low, min(1.0, 1.5 * float(max(p.max(), rate.max()))), True)

    def share(self, value: float) -> float:
        """How far along the axis a value stands, from 0 to 1; what lies beyond stands at the end."""
        inside = min(max(value, self.low), self.high)
        return (self._bend(inside) - self._bend(self.low)) / (self._bend(self.high) - self._bend(self.low))

    def at(self, share: float) -> float:
        """The value that stands so far along the axis."""
        bent = self._bend(self.low) + share * (self._bend(self.high) - self._bend(self.low))
        return math.exp(bent) if self.log else bent

    def x(self, value: float) -> float:
        return _LEFT + (_RIGHT - _LEFT) * self.share(value)

    def y(self, value: float) -> float:
        return _BOTTOM - (_BOTTOM - _TOP) * self.share(value)

    def ticks(self) -> list[float]:
        """Round values along the axis."""
        if not self.log:
            step = _step(self.high)
            return [i * step for i in range(round(self.high / step) + 1)]
        decades = range(math.floor(math.log10(self.low)), 1)
        near = math.log10(self.high / self.low) < 3
        marks = [m * 10.0**d for d in decades for m in ((1, 2, 5) if near else (1,))]
        return [m for m in marks if self.low <= m <= self.high]


def _step(top: float) -> float:
    """A round step that cuts 0 … top into four to nine."""
    unit = 10.0 ** math.floor(math.log10(max(top, 1e-6)))
    return next(unit * m for m in (0.1, 0.2, 0.25, 0.5, 1.0, 2.0) if top / (unit * m) <= 8)


def _percent(value: float) -> str:
    """A tick's label."""
    return f"{100 * value:.6g} %"


def _head(title: str) -> str:
    def colours(of: Sequence[str]) -> str:
        return " ".join(f".c{i} {{ --c: {colour} }}" for i, colour in enumerate(of))

    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" \
width="{_WIDTH}" height="{_HEIGHT}" role="img" aria-label="{escape(title, {'"': "&quot;"})}">
<style>
svg {{ --paper: #ffffff; --ink: #1f2430; --soft: #667085; --line: #e4e7ec; font: 12px system-ui, "DejaVu Sans", sans-serif }}
{colours(_LIGHT)}
@media (prefers-color-scheme: dark) {{
svg {{ --paper: #14171f; --ink: #e8ebf2; --soft: #9aa4b5; --line: #2b313d }}
{colours(_DARK)}
}}
.paper {{ fill: var(--paper) }} text {{ fill: var(--soft) }} .title {{ fill: var(--ink); font-size: 16px; font-weight: 600 }}
.name {{ fill: var(--ink) }} .grid {{ stroke: var(--line) }} .right {{ stroke: var(--soft); stroke-dasharray: 5 4 }}
.path {{ stroke: var(--c); fill: none; stroke-width: 1.6; opacity: .7 }} .interval {{ stroke: var(--c); stroke-width: 1.2; opacity: .6 }}
.dot {{ fill: var(--c); stroke: var(--paper); stroke-width: 1 }} .bar {{ fill: var(--c); opacity: .4 }}
</style>
<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>
<text class="title" x="{_LEFT}" y="32">{escape(title)}</text>"""
