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


def _theme(paper: str, ink: str, soft: str, line: str, colours: Sequence[str]) -> str:
    """The colours of everything; plain rules, for not every viewer knows variables."""
    rules = [
        f".paper {{ fill: {paper} }} text {{ fill: {soft} }} .title, .name {{ fill: {ink} }} .soft {{ fill: {soft} }}",
        f".grid {{ stroke: {line} }} .right {{ stroke: {soft} }} .dot {{ stroke: {paper} }}",
    ]
    for i, c in enumerate(colours):
        rules.append(f".c{i} .line {{ stroke: {c} }} .c{i} .dot, .c{i} .bar {{ fill: {c} }}")
    return "\n".join(rules)


def _head(title: str) -> str:
    label = escape(title, {'"': "&quot;"})
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {_HEIGHT}" width="{_WIDTH}" \
height="{_HEIGHT}" role="img" aria-label="{label}">
<style>
text {{ font: 12px "DejaVu Sans", Verdana, sans-serif }} .title {{ font-size: 16px; font-weight: bold }}
.right {{ stroke-dasharray: 5 4 }} .solid {{ stroke-dasharray: none }}
.path {{ fill: none; stroke-width: 1.6; opacity: .75 }}
.interval {{ stroke-width: 1.3; opacity: .6 }} .bar {{ opacity: .45 }}
{_theme("#ffffff", "#1f2430", "#667085", "#e4e7ec", _LIGHT)}
@media (prefers-color-scheme: dark) {{
{_theme("#14171f", "#e8ebf2", "#9aa4b5", "#2b313d", _DARK)}
}}
</style>
<rect class="paper" width="{_WIDTH}" height="{_HEIGHT}" rx="6"/>
<text class="title" x="{_LEFT}" y="32">{escape(title)}</text>"""


def _legend(curves: "Mapping[str, Reliability]") -> str:
    """Name and calibration error of each curve, side by side, in a second line where they are many."""
    parts = []
    per_line = 2 if len(curves) in (2, 4) else 3
    for i, (name, curve) in enumerate(curves.items()):
        x = _LEFT + 6 + (i % per_line) * (_RIGHT - _LEFT) / per_line
        y = (56 if len(curves) <= per_line else 48) + 18 * (i // per_line)
        text = f'{escape(name)}<tspan class="soft" dx="8">error {100 * curve.error:.2f} %</tspan>'
        parts.append(f'<g class="c{i}"><circle class="dot" cx="{x:.1f}" cy="{y - 4}" r="5"/></g>')
        parts.append(f'<text class="name" x="{x + 11:.1f}" y="{y}">{text}</text>')
    return "\n".join(parts)


def _grid(axis: _Axis) -> str:
    """Lines and labels of the ticks, the diagonal, and what the axes are."""
    parts = []
    for tick in axis.ticks():
        x, y, label = axis.x(tick), axis.y(tick), _percent(tick)
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_TOP}" y2="{_BOTTOM}"/>')
        parts.append(f'<line class="grid" x1="{x:.1f}" x2="{x:.1f}" y1="{_BARS_TOP}" y2="{_BARS_BOTTOM}"/>')
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{x:.1f}" y="{_BARS_BOTTOM + 18}" text-anchor="middle">{label}</text>')
        parts.append(f'<text x="{_LEFT - 8}" y="{y + 4:.1f}" text-anchor="end">{label}</text>')
    parts.append(f'<line class="right" x1="{_LEFT}" x2="{_RIGHT}" y1="{_BOTTOM}" y2="{_TOP}"/>')
    parts.append(f'<line class="right solid" x1="{_LEFT}" x2="{_RIGHT}" y1="{_BARS_BOTTOM}" y2="{_BARS_BOTTOM}"/>')
    middle, centre = (_LEFT + _RIGHT) / 2, (_TOP + _BOTTOM) / 2
    kind = ", logarithmic axes" if axis.log else ""
    parts.append(f'<text x="{middle}" y="{_BARS_BOTTOM + 42}" text-anchor="middle">predicted{kind}</text>')
    parts.append(f'<text transform="translate(18 {centre}) rotate(-90)" text-anchor="middle">click rate</text>')
    share = (_BARS_TOP + _BARS_BOTTOM) / 2
    parts.append(f'<text x="{_LEFT - 8}" y="{share + 4}" text-anchor="end">share</text>')
    return "\n".join(parts)


def _bars(curve: "Reliability", axis: _Axis, i: int, histograms: Sequence[F64]) -> str:
    """How often each prediction is made, in bars of equal width; all curves have one scale."""
    tallest = max(_mass_of_bars(h, axis).max() for h in histograms)
    width = (_RIGHT - _LEFT) / _N_BARS
    parts = [f'<g class="c{i}">']
    for b, mass in enumerate(_mass_of_bars(curve.histogram, axis)):
        height = (_BARS_BOTTOM - _BARS_TOP) * mass / tallest
        if height >= 0.05:
            x, y = _LEFT + b * width, _BARS_BOTTOM - height
            parts.append(f'<rect class="bar" x="{x:.1f}" y="{y:.1f}" width="{width - 0.8:.1f}" height="{height:.1f}"/>')
    return "\n".join([*parts, "</g>"])


def _mass_of_bars(histogram: F64, axis: _Axis) -> F64:
    """The share of the predictions in each bar; what lies beyond the axis counts in the outermost."""
    from broadmatch.evaluate.reliability import HISTOGRAM_EDGES

    edges = [axis.at(b / _N_BARS) for b in range(_N_BARS + 1)]
    below = np.r_[0.0, np.cumsum(histogram)] / histogram.sum()
    reached = np.interp(edges, HISTOGRAM_EDGES, below)
    reached[0], reached[-1] = 0.0, 1.0
    return np.diff(reached)


def _curve(name: str, curve: "Reliability", axis: _Axis, i: int) -> str:
    """Intervals, the line through the points, and the points, which say their figures when pointed at."""
    rows = list(zip(curve.probability, curve.rate, curve.low, curve.high, curve.mass, strict=True))
    most = curve.mass.max()
    parts = [f'<g class="c{i}">']
    for p, _, low, high, _ in rows:
        x = f"{axis.x(p):.1f}"
        parts.append(f'<line class="line interval" x1="{x}" x2="{x}" y1="{axis.y(low):.1f}" y2="{axis.y(high):.1f}"/>')
    line = " ".join(f"{axis.x(p):.1f},{axis.y(rate):.1f}" for p, rate, *_ in rows)
    parts.append(f'<polyline class="line path" points="{line}"/>')
    for p, rate, low, high, mass in rows:
        figures = (
            f"{name}: predicted {100 * p:.3g} %, clicked {100 * rate:.3g} % "
            f"({100 * low:.3g} to {100 * high:.3g} %), {mass:,.0f} impressions"
        )
        radius = 1.5 + 3.5 * math.sqrt(mass / most)
        where = f'cx="{axis.x(p):.1f}" cy="{axis.y(rate):.1f}" r="{radius:.1f}"'
        parts.append(f'<circle class="dot" {where}><title>{escape(figures)}</title></circle>')
    return "\n".join([*parts, "</g>"])
