"""The verdict as one HTML page with pictures: nothing to load, no scripts; colours follow the reader's setting."""

import math
from collections.abc import Sequence
from datetime import UTC, datetime
from html import escape
from typing import Any, NamedTuple

from broadmatch.registry.vetting.report import VettingReport
from broadmatch.registry.vetting.verdict import VETTING_FIGURES

_WIDTH, _HEIGHT, _LEFT, _BOTTOM, _TOP, _RIGHT = 460, 220, 70, 188, 16, 450
_STYLE = """
body { font: 15px/1.5 system-ui, sans-serif; max-width: 60rem; margin: 2rem auto; padding: 0 1rem; color: #1f2430;
  background: #ffffff }
h1 { font-size: 1.5rem; overflow-wrap: anywhere } h2 { font-size: 1.1rem; margin-top: 2rem }
.passed { color: #0b7a4b } .failed { color: #b3261e }
table { border-collapse: collapse; width: 100% } td, th { text-align: left; padding: .3rem .6rem .3rem 0;
  border-bottom: 1px solid #d5dae2; vertical-align: top } td.n { text-align: right; font-variant-numeric: tabular-nums }
figure { display: inline-block; margin: 0 1rem 1rem 0; width: 460px; max-width: 100% } figcaption { font-weight: 600 }
svg { width: 100%; height: auto } svg text { font-size: 11px; fill: #555f70 } .grid { stroke: #e1e5eb }
.c0 { stroke: #2563eb; fill: none } .c1 { stroke: #c2410c; fill: none }
.bound { stroke: #b3261e; stroke-dasharray: 5 4 }
.d0 { fill: #2563eb } .d1 { fill: #c2410c }
@media (prefers-color-scheme: dark) { body { color: #e8ebf2; background: #14171f } td, th { border-color: #2b313d }
  .passed { color: #4fd1a1 } .failed { color: #ff8a80 } svg text { fill: #a7b0c0 } .grid { stroke: #2b313d }
  .c0 { stroke: #7aa7ff } .c1 { stroke: #ff9a62 } .d0 { fill: #7aa7ff } .d1 { fill: #ff9a62 }
  .bound { stroke: #ff8a80 } }
"""


class Series(NamedTuple):
    """A line of a picture: its name, and points, of which those without a y are left out."""

    name: str
    x: Sequence[float]
    y: Sequence[float | None]


class Picture(NamedTuple):
    """What one picture shows: along are days where `dates` says so; `bound` is that of the rule it belongs to."""

    title: str
    lines: Sequence[Series]
    dates: bool = False
    bound: float | None = None


def vetting_page(report: VettingReport) -> str:
    """The whole page.

    >>> from broadmatch.registry import Finding
    >>> found = Finding("coverage", 0.2, "at least 0.5", False, "20 % have a value.")
    >>> page = vetting_page(VettingReport.of([found], {"signal": "a<b", "Coverage": 0.2}))
    >>> "a&lt;b" in page, "Not passed" in page
    (True, True)
    """
    figures = report.figures
    name = escape(str(figures.get("signal", "")))
    state, word = ("passed", "Passed") if report.passed else ("failed", "Not passed")
    verdict = f'<p class="{state}"><strong>{word}.</strong> {_summary(report)}</p>'
    parts = [f"<h1>Vetting of {name}</h1>", verdict, "<h2>Rules</h2>", _findings(report), "<h2>Pictures</h2>"]
    parts += [_chart(*picture) for picture in vetting_pictures(report)]
    parts += ["<h2>Figures</h2>", _figures(figures)]
    head = '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
    head += '<meta name="viewport" content="width=device-width">'
    return (
        f"{head}<title>Vetting of {name}</title><style>{_STYLE}</style></head>\n<body>{''.join(parts)}</body></html>\n"
    )


def _summary(report: VettingReport) -> str:
    n = report.figures.get("Impressions")
    looked = f"{n:,} impressions" if isinstance(n, int) else "No impressions"
    broken = ", ".join(escape(finding.rule) for finding in report.failed)
    return f"{looked}; {len(report.findings)} rules, {f'broken: {broken}' if broken else 'none is broken'}."


def _findings(report: VettingReport) -> str:
    rows = []
    for finding in sorted(report.findings, key=lambda one: one.passed):
        state, mark = ("passed", "✓") if finding.passed else ("failed", "✗")
        value = "–" if finding.value is None else f"{finding.value:.4g}"
        cells = f"<td>{escape(finding.rule)}</td><td class=n>{value}</td><td>{escape(finding.bound)}</td>"
        rows.append(f'<tr><td class="{state}">{mark}</td>{cells}<td>{escape(finding.text)}</td></tr>')
    return f"<table><tr><th></th><th>rule</th><th>value</th><th>bound</th><th></th></tr>{''.join(rows)}</table>"


def _figures(figures: dict[str, Any]) -> str:
    rows = []
    for name, what in VETTING_FIGURES.items():
        value = figures.get(name)
        text = "–" if value is None else f"{value:,}" if isinstance(value, int) else f"{value:.6g}"
        rows.append(f"<tr><td>{name}</td><td class=n>{text}</td><td>{escape(what)}</td></tr>")
    return f"<table>{''.join(rows)}</table>"


def vetting_pictures(report: VettingReport) -> list[Picture]:
    """What there is to draw, as data; pictures without two points are among them."""
    figures = report.figures
    by_day, by_part, growth = (figures.get(name) or {} for name in ("by_day", "by_part", "growth"))
    days, timed = by_day.get("day", []), figures.get("Days") is not None
    bounds = {f.rule: float(f.bound.split()[2]) for f in report.findings if f.bound.startswith("at most")}
    found = [
        Picture(title, [Series(key, days, by_day.get(key, []))], timed, bounds.get(rule))
        for title, key, rule in (
            ("Impressions a day", "impressions", ""),
            ("Share of impressions with a value, by day", "coverage", ""),
            ("Share of new values, by day", "new_values", "cardinality explodes"),
            ("Drift: PSI of a day against the 7 before", "psi", "drift by day"),
        )
    ]
    drift = Series("psi", [part / 4 for part in by_part.get("part", [])], by_part.get("psi", []))
    title = "Drift: PSI of six hours against the 24 h before"
    found.append(Picture(title, [drift], timed, bounds.get("drift within a day")))
    distinct = Series("distinct", growth.get("features", []), growth.get("distinct", []))
    found.append(Picture("Distinct values by values seen", [distinct]))
    gains = [
        Series(name, *zip(*points, strict=True)) for name, points in (figures.get("gains") or {}).items() if points
    ]
    late = [Series(s.name, [math.log2(n) for n in s.x[-10:]], s.y[-10:]) for s in gains]
    return [*found, Picture("Share of the log loss that it saves, by log2 of the impressions", late)]


def _chart(title: str, lines: Sequence[Series], dates: bool, bound: float | None) -> str:
    """One picture; nothing without at least two points."""
    points = [[(x, y) for x, y in zip(line.x, line.y, strict=True) if y is not None] for line in lines]
    every = [point for some in points for point in some]
    if len(every) < 2:
        return ""
    xs, ys = [x for x, _ in every], [y for _, y in every]
    shown = [*ys, 0.0, *([bound] if bound is not None and bound < 4 * max(*ys, 1e-9) else [])]
    low, high = min(shown), max(shown)
    high += (high == low) * (abs(high) or 1.0)
    left, right = min(xs), max(xs) if max(xs) > min(xs) else min(xs) + 1

    def at(x: float, y: float) -> tuple[float, float]:
        across = _LEFT + (_RIGHT - _LEFT) * (x - left) / (right - left)
        return across, _BOTTOM - (_BOTTOM - _TOP) * (y - low) / (high - low)

    parts = [_axes(at, low, high, left, right, dates)]
    if bound is not None and low <= bound <= high:
        y = at(left, bound)[1]
        parts.append(f'<line class="bound" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
    for i, (line, some) in enumerate(zip(lines, points, strict=True)):
        path = " ".join(f"{x:.1f},{y:.1f}" for x, y in (at(*point) for point in some))
        parts.append(f'<polyline class="c{i % 2}" points="{path}"><title>{escape(line.name)}</title></polyline>')
        if len(some) <= 60:
            parts += [f'<circle class="d{i % 2}" cx="{x:.1f}" cy="{y:.1f}" r="2"/>' for x, y in (at(*p) for p in some)]
        if len(lines) > 1:
            parts.append(f'<text class="d{i % 2}" x="{_LEFT + 6}" y="{_TOP + 12 + 14 * i}">{escape(line.name)}</text>')
    picture = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{escape(title)}">{"".join(parts)}</svg>'
    return f"<figure><figcaption>{escape(title)}</figcaption>{picture}</figure>"


def _axes(at: Any, low: float, high: float, left: float, right: float, dates: bool) -> str:
    """Lines and labels of four steps upwards, and the ends along."""
    parts = []
    for step in range(5):
        value = low + (high - low) * step / 4
        y = at(left, value)[1]
        parts.append(f'<line class="grid" x1="{_LEFT}" x2="{_RIGHT}" y1="{y:.1f}" y2="{y:.1f}"/>')
        parts.append(f'<text x="{_LEFT - 6}" y="{y + 4:.1f}" text-anchor="end">{_short(value)}</text>')
    for value, anchor in ((left, "start"), (right, "end")):
        text = _date(value) if dates else f"{value:,.6g}"
        parts.append(f'<text x="{at(value, low)[0]:.1f}" y="{_BOTTOM + 18}" text-anchor="{anchor}">{text}</text>')
    return "".join(parts)


def _short(value: float) -> str:
    """A label of few letters."""
    return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"


def _date(day: float) -> str:
    try:
        return datetime.fromtimestamp(day * 86_400, UTC).strftime("%Y-%m-%d")
    except (ValueError, OverflowError, OSError):
        return f"day {day:g}"
