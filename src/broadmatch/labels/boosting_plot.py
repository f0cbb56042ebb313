"""Boosting rounds as an SVG file: one panel a measure, one line a model, as in figure 3 of the AdaBoost.LC paper."""

import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING
from xml.sax.saxutils import escape

from broadmatch.errors import BadInput, CannotWrite
from broadmatch.evaluate.reliability_plot import _DARK as DARK
from broadmatch.evaluate.reliability_plot import _LIGHT as LIGHT
from broadmatch.evaluate.reliability_plot import _step as round_step
from broadmatch.evaluate.reliability_plot import _theme as theme
from broadmatch.kernels import F64

if TYPE_CHECKING:
    from broadmatch.labels.boosting import BoostingHistory

_WIDTH, _HEIGHT, _HEAD = 300, 230, 84  # of a panel, and of what stands above the panels
_LEFT, _RIGHT, _TOP, _BOTTOM = 52, 286, 26, 190
_A_ROW = 3


def plot_rounds(
    histories: "Mapping[str, BoostingHistory]",
    path: str | os.PathLike[str],
    *,
    measures: Sequence[str] = ("loss", "error"),
    title: str = "Boosting rounds",
) -> None:
    """Write the measures of one or several models, round by round, as one SVG file.

    Lines are drawn through for the training points and dashed for the evaluation points, if there were any.

    >>> from broadmatch.labels import AdaBoostLC, plot_rounds
    >>> models = {name: AdaBoostLC(covering=name).fit([[1, 0], [0, 1]], [["a"], ["b"]]) for name in ("ZO", "HM")}
    >>> plot_rounds({n: m.history_ for n, m in models.items()}, "rounds.svg", measures=("ZO", "HM"))  # doctest: +SKIP
    """
    if not 0 < len(histories) <= len(LIGHT):
        raise BadInput(f"A plot takes 1 to {len(LIGHT)} models, but there are {len(histories)}.")
    if not measures:
        raise BadInput("There is nothing to plot: measures is empty.")
    text = rounds_svg(histories, measures, title)
    try:
        Path(path).write_text(text, encoding="utf-8")
    except OSError as error:
        raise CannotWrite(f"Cannot write {path}: {error.strerror}.") from error


def rounds_svg(histories: "Mapping[str, BoostingHistory]", measures: Sequence[str], title: str) -> str:
    """The text of the SVG file."""
    columns = min(_A_ROW, len(measures))
    width, height = columns * _WIDTH, _HEAD + -(-len(measures) // columns) * _HEIGHT
    parts = [_head(title, width, height), _legend(list(histories))]
    for i, measure in enumerate(measures):
        x, y = (i % columns) * _WIDTH, _HEAD + (i // columns) * _HEIGHT
        parts.append(f'<g transform="translate({x} {y})">{_panel(histories, measure)}</g>')
    return "\n".join([*parts, "</svg>\n"])


def _panel(histories: "Mapping[str, BoostingHistory]", measure: str) -> str:
    lines: list[tuple[str, int, str, F64]] = []
    for i, (name, history) in enumerate(histories.items()):
        lines.append((name, i, "training", history.of(measure)))
        if history.evaluation.size:
            lines.append((name, i, "evaluation", history.of(measure, "evaluation")))
    rounds = max(max(len(values) - 1 for *_, values in lines), 1)
    top = max(max(float(values.max()) for *_, values in lines), 1e-6)
    step, by = round_step(top), max(1, round(round_step(rounds)))
    parts = [f'<text class="name" x="{_LEFT}" y="14">{escape(measure)}</text>']
    for k in range(int(top / step * (1 + 1e-9)) + 1):
        y = _BOTTOM - (_BOTTOM - _TOP) * k * step / top
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{k * step:.4g}</text>')
    for r in range(0, rounds + 1, by):
        x = _LEFT + (_RIGHT - _LEFT) * r / rounds
        parts.append(f'<text x="{x:.1f}" y="{_BOTTOM + 18}" text-anchor="middle">{r}</text>')
    for name, i, part, values in lines:
        points = " ".join(
            f"{_LEFT + (_RIGHT - _LEFT) * r / rounds:.1f},{_BOTTOM - (_BOTTOM - _TOP) * value / top:.1f}"
            for r, value in enumerate(values)
        )
        told = escape(f"{name}, {part} points: {values[-1]:.4g} after {len(values) - 1} rounds")
        kind = "line path dashed" if part == "evaluation" else "line path"
        line = f'<polyline class="{kind}" points="{points}"><title>{told}</title></polyline>'
        parts.append(f'<g class="c{i}">{line}</g>')
    return "\n".join(parts)


def _legend(names: Sequence[str]) -> str:
    parts = []
    for i, name in enumerate(names):
        x = _LEFT + 6 + 90 * i
        parts.append(f'<g class="c{i}"><circle class="dot" cx="{x}" cy="52" r="5"/></g>')
        parts.append(f'<text class="name" x="{x + 11}" y="56">{escape(name)}</text>')
    return "\n".join(parts)


def _head(title: str, width: int, height: int) -> str:
    label = escape(title, {'"': "&quot;"})
    return f"""<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" \
height="{height}" role="img" aria-label="{label}">
<style>
text {{ font: 12px "DejaVu Sans", Verdana, sans-serif }} .title {{ font-size: 16px; font-weight: bold }}
.path {{ fill: none; stroke-width: 1.6; opacity: .85 }} .dashed {{ stroke-dasharray: 5 4 }}
{theme("#ffffff", "#1f2430", "#667085", "#e4e7ec", LIGHT)}
@media (prefers-color-scheme: dark) {{
{theme("#14171f", "#e8ebf2", "#9aa4b5", "#2b313d", DARK)}
}}
</style>
<rect class="paper" width="{width}" height="{height}" rx="6"/>
<text class="title" x="{_LEFT}" y="30">{escape(title)}</text>"""
