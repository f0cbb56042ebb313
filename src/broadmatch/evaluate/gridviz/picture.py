"""A grid as a PNG picture, made without a browser: one slicing against the baseline, with names, numbers and legend."""

import os
import struct
import zlib

import numpy as np
from numpy.typing import NDArray

from broadmatch.evaluate.gridviz.changes import changes, significant
from broadmatch.evaluate.gridviz.grid import Grid
from broadmatch.evaluate.gridviz.letters import STEP, dots
from broadmatch.io.files import replacing_file
from broadmatch.params import OneOf

Picture = NDArray[np.uint8]
F64 = NDArray[np.float64]

# Blue is better, orange is worse: the colours of the page, which the colour-blind tell apart.
_STOPS = ("08407e", "2f78ba", "83b4dc", "cfe2f1", "f1f1ee", "fbd9b5", "f0a05a", "cf6113", "7f2f04")
_PAPER, _INK, _QUIET, _UNKNOWN = (255, 255, 255), (23, 32, 42), (85, 96, 108), (222, 226, 231)
_WIDTH, _LEFT, _ALL, _GAP, _ROW, _NAMES, _TOP, _EDGE = 1400, 340, 96, 10, 26, 130, 78, 16
_SEEN = 0.95
"""The colours reach as far as the change that this share of the width stays below."""


def write_picture(grid: Grid, path: str | os.PathLike[str], *, slicing: str | None = None) -> None:
    """Write the picture of one slicing (None: the first there is)."""
    with replacing_file(path) as out:
        out.write(png(picture(grid, slicing)))


def picture(grid: Grid, slicing: str | None = None) -> Picture:
    """Height × width × 3 levels: rows are models and metrics, columns slices as wide as their impressions."""
    names = [g.name for g in grid.groups]
    chosen = names[min(1, len(names) - 1)] if slicing is None else slicing
    OneOf(tuple(names)).check("slicing", chosen)
    group = grid.groups[names.index(chosen)]
    columns = np.concatenate([[0], np.arange(group.first, group.first + group.count)])
    found = changes(grid)
    marked = significant(grid, found, columns)
    rows = [(m, k) for m in range(len(grid.models)) if m != grid.baseline for k in range(len(grid.metrics))]
    made = np.full((_TOP + _NAMES + _ROW * len(rows) + 96, _WIDTH, 3), _PAPER, np.uint8)
    left, right = _places(grid.impressions[columns])
    bounds = [_bound(found.change[k][:, columns], right - left) for k in range(len(grid.metrics))]
    _write(made, grid.title, _EDGE, 14, 3, _INK)
    said = f"{group.count:,} slices of {chosen}, as wide as their impressions; colour: change against"
    _write(made, f"{said} {grid.models[grid.baseline]}", _EDGE, 52, 2, _QUIET)
    _name_columns(made, [grid.slices[c] for c in columns], left, right)
    for r, (m, k) in enumerate(rows):
        top = _TOP + _NAMES + _ROW * r
        if r == 0 or rows[r - 1][0] != m:
            _write(made, grid.models[m], _EDGE, top + 4, 2, _INK, room=168)
        _write(made, grid.metrics[k].name, 190, top + 4, 2, _QUIET, room=_LEFT - 196)
        cells = found.change[k, m, columns]
        _paint_row(made[top : top + _ROW - 2], cells, marked[k, m], left, right, bounds[k])
        _number_row(made, top, cells, left, right, bounds[k], grid.metrics[k].best)
    _legend(made, grid, bounds)
    return made


def png(levels: Picture) -> bytes:
    """Height × width × 3 levels as a PNG file (ISO 15948): a palette if there are at most 256 colours."""
    height, width, _ = levels.shape
    colors, index = np.unique(levels.reshape(-1, 3), axis=0, return_inverse=True)
    few = len(colors) <= 256
    rows = index.reshape(height, width).astype(np.uint8) if few else levels.reshape(height, 3 * width)
    lines = np.concatenate([np.zeros((height, 1), np.uint8), rows], axis=1)
    header = struct.pack(">IIBBBBB", width, height, 8, 3 if few else 2, 0, 0, 0)
    palette = [(b"PLTE", colors.astype(np.uint8).tobytes())] if few else []
    parts = [(b"IHDR", header), *palette, (b"IDAT", zlib.compress(lines.tobytes(), 9)), (b"IEND", b"")]
    chunks = [struct.pack(">I", len(c)) + kind + c + struct.pack(">I", zlib.crc32(kind + c)) for kind, c in parts]
    return b"\x89PNG\r\n\x1a\n" + b"".join(chunks)


def _places(impressions: F64) -> tuple[F64, F64]:
    """Where each column begins and ends, in pixels: all traffic first, then the slices by their size."""
    shares = impressions[1:] / max(impressions[1:].sum(), 1)
    ends = _LEFT + _ALL + _GAP + (_WIDTH - _EDGE - _LEFT - _ALL - _GAP) * np.concatenate([[0], np.cumsum(shares)])
    return np.concatenate([[_LEFT], ends[:-1]]), np.concatenate([[_LEFT + _ALL], ends[1:]])


def _bound(change: F64, width: F64) -> float:
    """How far the colours reach: a quantile of the changes, by width."""
    size, weight = np.abs(change[:, 1:]), np.broadcast_to(width[1:], change[:, 1:].shape)
    known = np.isfinite(size) & (size > 0)
    if not known.any():
        return 1.0
    order = np.argsort(size[known])
    upto = np.cumsum(weight[known][order])
    return float(size[known][order][np.searchsorted(upto, _SEEN * upto[-1])])


def _shades(change: F64, bound: float) -> Picture:
    stops = np.array([[int(stop[i : i + 2], 16) for i in (0, 2, 4)] for stop in _STOPS], float)
    place = np.clip((change / bound + 1) / 2, 0, 1) * (len(stops) - 1)
    place = np.rint(np.where(np.isnan(place), 0, place) * 16) / 16  # few colours make a small file
    low = np.minimum(place.astype(int), len(stops) - 2)
    mixed = stops[low] + (stops[low + 1] - stops[low]) * (place - low)[:, None]
    mixed[np.isnan(change)] = _UNKNOWN
    return np.rint(mixed).astype(np.uint8)


def _paint_row(row: Picture, change: F64, marked: NDArray[np.bool_], left: F64, right: F64, bound: float) -> None:
    """Colour each pixel; where several columns share one, that of the largest change, so that no outlier hides."""
    shades = _shades(change, bound)
    size = np.where(np.isnan(change), -1.0, np.abs(change))
    first, last = np.floor(left).astype(int), np.maximum(np.ceil(right).astype(int), np.floor(left).astype(int) + 1)
    shown = np.full(row.shape[1], -1)
    largest = np.full(row.shape[1], -2.0)
    for c in range(len(change)):
        here = np.arange(first[c], min(last[c], row.shape[1]))
        here = here[size[c] > largest[here]]
        shown[here], largest[here] = c, size[c]
    seen = shown >= 0
    row[:, seen] = shades[shown[seen]][None]
    row[-3:, np.flatnonzero(seen)[marked[shown[seen]]]] = _INK
    wide = np.flatnonzero(right - left > 6)
    row[:, np.floor(right[wide]).astype(int) - 1] = _PAPER


def _number_row(made: Picture, top: int, change: F64, left: F64, right: F64, bound: float, best: str) -> None:
    for c in np.flatnonzero((right - left > 60) & np.isfinite(change)).tolist():
        shown = -change[c] if best == "high" else change[c]
        text = f"{shown:+.3f}" if best == "zero" else f"{100 * shown:+.2f}%"
        x = int((left[c] + right[c]) / 2) - STEP * len(text)
        dark = abs(change[c]) > 0.6 * bound
        if 2 * STEP * len(text) < right[c] - left[c]:
            _write(made, text, x, top + 4, 2, _PAPER if dark else _INK)


def _name_columns(made: Picture, names: list[str], left: F64, right: F64) -> None:
    """The names stand upright above columns that are wide enough."""
    for c in np.flatnonzero(right - left >= 18).tolist():
        letters = np.rot90(np.kron(dots(_fitting(names[c], _NAMES - 8, 2)), np.ones((2, 2), np.bool_)))
        x, y = int((left[c] + right[c]) / 2) - 8, _TOP + _NAMES - 6 - len(letters)
        made[y : y + len(letters), x : x + 16][letters] = _INK


def _legend(made: Picture, grid: Grid, bounds: list[float]) -> None:
    top = len(made) - 84
    for i, (metric, bound) in enumerate(zip(grid.metrics, bounds, strict=True)):
        x = _EDGE + i * 280
        if x + 260 > _WIDTH:
            break
        made[top : top + 16, x : x + 220] = _shades(np.linspace(-bound, bound, 220), bound)[None]
        reach = f"{bound:.3g}" if metric.best == "zero" else f"{100 * bound:.3g}%"
        _write(made, f"{metric.name} ±{reach}", x, top + 22, 2, _INK, room=270)
    said = "blue: better, orange: worse, grey: not known; black line: significant, Benjamini-Hochberg, q = 0.05"
    _write(made, said, _EDGE, top + 54, 2, _QUIET)


def _write(made: Picture, text: str, x: int, y: int, scale: int, color: tuple[int, int, int], room: int = 0) -> None:
    fitted = _fitting(text, room or made.shape[1] - x - _EDGE, scale)
    letters = np.kron(dots(fitted), np.ones((scale, scale), np.bool_))
    made[y : y + letters.shape[0], x : x + letters.shape[1]][letters] = color


def _fitting(text: str, room: int, scale: int) -> str:
    most = max(1, room // (STEP * scale))
    return text if len(text) <= most else text[: most - 1] + "~"
