"""A grid as one file: a magic word, the length of a JSON header, the header, then arrays, each from a multiple of 8.

What `read_grid` reads is untrusted: every length is compared with what the header's names make it, and with the file.
"""

import json
import os
from dataclasses import asdict, dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, TypeGuard

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.evaluate.gridviz import codes
from broadmatch.evaluate.gridviz.grid import BINS, Grid, GridGroup, GridMetric, GridPeriod
from broadmatch.io.files import open_whole, replacing_file

MAGIC = b"BMGRID1\n"
_DTYPES = {"float32", "float64", "uint32", "uint16", "uint8", "int8", "int32"}
_LARGEST_TIME = 253_402_300_800_000_000  # the year 10,000, beyond which no calendar goes
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True)
class _Stored:
    """An array as it is stored."""

    name: str
    array: NDArray[Any]
    scale: Any = None


def write_grid(grid: Grid, path: str | os.PathLike[str]) -> None:
    """Write a grid file; the name holds the old file or the whole new one."""
    with replacing_file(path) as out:
        out.write(grid_bytes(grid))


def grid_bytes(grid: Grid) -> bytes:
    """The content of a grid file."""
    stored = _stored(grid)
    header = {
        "title": grid.title,
        "models": list(grid.models),
        "baseline": grid.baseline,
        "level": grid.level,
        "metrics": [metric._asdict() for metric in grid.metrics],
        "groups": [asdict(group) for group in grid.groups],
        "slices": list(grid.slices),
        "periods": [{"start": _stamp(p.start), "end": _stamp(p.end)} for p in grid.periods],
        "left_out": grid.left_out,
        "notes": list(grid.notes),
        "arrays": [
            {"name": s.name, "dtype": s.array.dtype.name, "shape": list(s.array.shape), "scale": s.scale}
            for s in stored
        ],
    }
    text = json.dumps(header, separators=(",", ":"), allow_nan=False).encode()
    parts = [MAGIC, np.uint32(len(text)).tobytes(), text]
    size = sum(map(len, parts))
    for s in stored:
        content = s.array.astype(s.array.dtype.newbyteorder("<")).tobytes()
        parts += [b"\0" * (-size % 8), content]
        size += -size % 8 + len(content)
    return b"".join(parts)


def _stored(grid: Grid) -> list[_Stored]:
    """The arrays of a grid in the fewest bits that serve."""
    found = [
        _Stored("impressions", grid.impressions.astype(np.float64)),
        _Stored("clicks", grid.clicks.astype(np.float64)),
        _Stored("value", grid.value.astype(np.float32)),
        *(_Stored(name, *codes.log_code(getattr(grid, name), np.uint16, 0)) for name in ("low", "high", "se")),
    ]
    if grid.periods:
        steps, step = codes.step_code(grid.period_value, grid.value, grid.baseline)
        found += [
            _Stored("period_impressions", grid.period_impressions.astype(np.uint32)),
            _Stored("period_clicks", grid.period_clicks.astype(np.uint32)),
            _Stored("period_step", step),
            _Stored("period_value", steps, "step"),
            _Stored("period_se", *codes.log_code(grid.period_se, np.uint8, 1)),
        ]
    if len(grid.reliability_slices):
        found += [
            _Stored("reliability_slices", grid.reliability_slices.astype(np.int32)),
            _Stored("reliability", codes.root_code(grid.reliability), "root"),
        ]
    return found


def read_grid(source: str | os.PathLike[str] | bytes) -> Grid:
    """A grid from its file, or from the content of one; `BadInput` if it is not whole or not what it says."""
    name = "the grid" if isinstance(source, bytes) else str(source)
    if isinstance(source, bytes):
        content = source
    else:
        with open_whole(source) as file:
            content = file.read()
    try:
        return _grid(*_taken_apart(content))
    except _Wrong as error:
        raise BadInput(f"{name} is not a whole grid file: {error}; write it again with `broadmatch gridviz`.") from None


class _Wrong(ValueError):
    """What is wrong with the content of a grid file."""


def _taken_apart(content: bytes) -> tuple[dict[str, Any], dict[str, NDArray[Any]], dict[str, Any]]:
    """The header, the arrays by name as stored, and their scales."""
    start = len(MAGIC) + 4
    if not content.startswith(MAGIC) or len(content) < start:
        raise _Wrong("it does not begin with BMGRID1")
    length = int(np.frombuffer(content, "<u4", 1, len(MAGIC))[0])
    if length > len(content) - start:
        raise _Wrong(f"its header is {length:,} bytes long, but only {len(content) - start:,} follow")
    try:
        header = json.loads(content[start : start + length])
    except (ValueError, RecursionError):
        raise _Wrong("its header is not JSON") from None
    if not isinstance(header, dict) or not isinstance(header.get("arrays"), list):
        raise _Wrong("its header names no arrays")
    arrays: dict[str, NDArray[Any]] = {}
    scales: dict[str, Any] = {}
    at = start + length
    for entry in header["arrays"]:
        name, dtype, shape = _entry(entry)
        at += -at % 8
        n = 1
        for side in shape:
            n *= side
        size = n * np.dtype(dtype).itemsize
        if size > len(content) - at:
            raise _Wrong(f"its array {name} needs {size:,} bytes, but only {max(0, len(content) - at):,} follow")
        if name in arrays:
            raise _Wrong(f"it has two arrays {name}")
        arrays[name] = np.frombuffer(content, np.dtype(dtype).newbyteorder("<"), n, at).reshape(shape)
        scales[name] = entry.get("scale")
        at += size
    if at != len(content):
        raise _Wrong(f"{len(content) - at:,} bytes follow its last array")
    return header, arrays, scales


def _entry(entry: Any) -> tuple[str, str, list[int]]:
    if not isinstance(entry, dict):
        raise _Wrong("an array has no name")
    name, dtype, shape = entry.get("name"), entry.get("dtype"), entry.get("shape")
    if not isinstance(name, str) or not isinstance(dtype, str) or dtype not in _DTYPES:
        raise _Wrong(f"array {name!r:.40} holds {dtype!r:.40}")
    if not isinstance(shape, list) or len(shape) > 4 or not all(_whole(side) for side in shape):
        raise _Wrong(f"array {name!r:.40} has the shape {shape!r:.80}")
    return name, dtype, shape


def _grid(header: dict[str, Any], arrays: dict[str, NDArray[Any]], scales: dict[str, Any]) -> Grid:
    models, metrics = _texts(header, "models"), _metrics(header)
    groups, slices = _groups(header), _texts(header, "slices")
    periods, baseline, level = _periods(header), header.get("baseline"), header.get("level")
    if not models or not metrics or not groups or groups[0].count != 1:
        raise _Wrong("its header lacks models, metrics, or the group of all traffic")
    if sum(g.count for g in groups) != len(slices) or [g.first for g in groups] != _starts(groups):
        raise _Wrong(f"its groups do not follow one another over its {len(slices):,} slices")
    if not _whole(baseline) or baseline >= len(models):
        raise _Wrong(f"its baseline {baseline!r:.40} is none of its {len(models)} models")
    if not isinstance(level, float) or not 0 < level < 1:
        raise _Wrong(f"the level of its intervals is {level!r:.40}")
    sizes = len(metrics), len(models), len(slices), len(periods)
    _check_arrays(arrays, scales, *sizes)
    decoded = _decoded(arrays, scales, baseline)
    left_out = header.get("left_out", 0)
    if not _whole(left_out):
        raise _Wrong(f"the number of rows left out is {left_out!r:.40}")
    title = header.get("title")
    if not isinstance(title, str):
        raise _Wrong("its title is not a text")
    return Grid(
        title, models, baseline, level, metrics, groups, slices,
        periods=periods, left_out=left_out, notes=_texts(header, "notes"), **decoded,
    )  # fmt: skip


def _check_arrays(arrays: dict[str, NDArray[Any]], scales: dict[str, Any], k: int, m: int, s: int, p: int) -> None:
    """Refuse arrays that are not of the type and shape that the names in the header ask for."""
    wanted: dict[str, tuple[str, tuple[int, ...]]] = {
        "impressions": ("float64", (s,)),
        "clicks": ("float64", (s,)),
        "value": ("float32", (k, m, s)),
        "low": ("uint16", (k, m, s)),
        "high": ("uint16", (k, m, s)),
        "se": ("uint16", (k, m * (m - 1) // 2, s)),
    }
    if p:
        wanted |= {
            "period_impressions": ("uint32", (p, s)),
            "period_clicks": ("uint32", (p, s)),
            "period_step": ("float32", (k, m, s)),
            "period_value": ("int8", (p, k, m, s)),
            "period_se": ("uint8", (p, k, m, s)),
        }
    if "reliability_slices" in arrays:
        r = arrays["reliability_slices"].size
        wanted |= {"reliability_slices": ("int32", (r,)), "reliability": ("uint16", (r, m, 3, BINS))}
    if set(wanted) != set(arrays):
        raise _Wrong(f"it has the arrays {', '.join(sorted(arrays)):.200}, not {', '.join(sorted(wanted))}")
    for name, (dtype, shape) in wanted.items():
        if arrays[name].dtype.name != dtype or arrays[name].shape != shape:
            raise _Wrong(
                f"its array {name} is {arrays[name].dtype.name} {list(arrays[name].shape)}, not {dtype} {list(shape)}"
            )
    for name, axis in (("low", 0), ("high", 0), ("se", 0), *([("period_se", 1)] if p else [])):
        _check_ends(name, scales[name], axis, k)
    at = arrays.get("reliability_slices", np.empty(0, np.int32))
    if len(at) and not (at.min() >= 0 and at.max() < s and len(np.unique(at)) == len(at)):
        raise _Wrong("its reliability is about slices that are not there")
    for name in ("impressions", "clicks"):
        if not np.all((arrays[name] >= 0) & (arrays[name] < 2.0**53)):
            raise _Wrong(f"some {name} are no counts")


def _check_ends(name: str, scale: Any, axis: int, k: int) -> None:
    ends = scale.get("log") if isinstance(scale, dict) and scale.get("axis") == axis else None
    if not isinstance(ends, list) or len(ends) != k:
        raise _Wrong(f"its array {name} has no scale")
    for pair in ends:
        numbers = isinstance(pair, list) and len(pair) == 2 and all(isinstance(end, float) for end in pair)
        if not numbers or not 1e-31 < pair[1] <= pair[0] < 1e31:
            raise _Wrong(f"the scale of its array {name} is {pair!r:.80}")


def _decoded(arrays: dict[str, NDArray[Any]], scales: dict[str, Any], baseline: int) -> dict[str, NDArray[Any]]:
    found = {name: arrays[name] for name in ("impressions", "clicks", "value")}
    found |= {name: codes.from_log(arrays[name], scales[name]) for name in ("low", "high", "se")}
    if "period_value" in arrays:
        found |= {name: arrays[name].astype(np.float64) for name in ("period_impressions", "period_clicks")}
        with np.errstate(over="ignore", invalid="ignore"):  # what was forged may overflow: it is NaN then
            found["period_value"] = codes.from_steps(
                arrays["period_value"], arrays["period_step"], arrays["value"], baseline
            )
        found["period_se"] = codes.from_log(arrays["period_se"], scales["period_se"])
    if "reliability" in arrays:
        found["reliability"] = codes.from_root(arrays["reliability"])
        found["reliability_slices"] = arrays["reliability_slices"]
    return found


def _texts(header: dict[str, Any], name: str) -> tuple[str, ...]:
    found = header.get(name)
    if not isinstance(found, list) or not all(isinstance(text, str) for text in found):
        raise _Wrong(f"its {name} are not a list of texts")
    return tuple(found)


def _metrics(header: dict[str, Any]) -> tuple[GridMetric, ...]:
    found = []
    for entry in _entries(header, "metrics"):
        name, unit, best = entry.get("name"), entry.get("unit"), entry.get("best")
        if not isinstance(name, str) or not isinstance(unit, str) or best not in ("low", "zero", "high"):
            raise _Wrong(f"its metric {name!r:.40} has no unit, or no word for where it is best")
        found.append(GridMetric(name, unit, best))
    return tuple(found)


def _groups(header: dict[str, Any]) -> tuple[GridGroup, ...]:
    found = []
    for entry in _entries(header, "groups"):
        name, first, count = entry.get("name"), entry.get("first"), entry.get("count")
        if not isinstance(name, str) or not _whole(first) or not _whole(count):
            raise _Wrong(f"its group {name!r:.40} has no first slice or no count")
        found.append(GridGroup(name, first, count))
    return tuple(found)


def _starts(groups: tuple[GridGroup, ...]) -> list[int]:
    return [sum(g.count for g in groups[:i]) for i in range(len(groups))] if len(groups) < 1000 else []


def _periods(header: dict[str, Any]) -> tuple[GridPeriod, ...]:
    found = []
    for entry in _entries(header, "periods"):
        try:
            ends = [datetime.fromisoformat(entry[name]) for name in ("start", "end")]
            start, end = ((time - _EPOCH) // timedelta(microseconds=1) for time in ends)
        except (KeyError, TypeError, ValueError):
            raise _Wrong(f"its period {entry!r:.80} is not of two times") from None
        found.append(GridPeriod(start, end))
    return tuple(found)


def _entries(header: dict[str, Any], name: str) -> list[dict[str, Any]]:
    found = header.get(name)
    if not isinstance(found, list) or not all(isinstance(entry, dict) for entry in found):
        raise _Wrong(f"its {name} are not a list")
    return found


def _whole(value: Any) -> TypeGuard[int]:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _stamp(microseconds: int) -> str:
    return (_EPOCH + timedelta(microseconds=microseconds)).isoformat().replace("+00:00", "Z")
