"""Numbers in fewer bits, for grids that travel by mail: each code says how far off it can be.

The largest code of a type stands for NaN, in all of them. `grid_data.js` decodes the same.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

F32 = NDArray[np.float32]
F64 = NDArray[np.float64]

_LARGEST = 1e30  # beyond, a float32 is soon infinite


def log_code(values: F32, kind: type[np.unsignedinteger[Any]], axis: int) -> tuple[NDArray[Any], dict[str, Any]]:
    """Numbers from 0 by the logarithm: code q is top·(bottom/top)^(q/levels), `levels` + 1 is 0.

    `top` and `bottom` are the largest and the smallest number above 0 along each place of `axis` (each metric).
    A uint16 is off by 0.1 % at most, a uint8 by 4 % where numbers span 20 doublings.
    """
    nan = int(np.iinfo(kind).max)
    levels = nan - 2
    moved = np.moveaxis(values.astype(np.float64), axis, 0)
    codes = np.full(moved.shape, nan, kind)
    ends = []
    for own, out in zip(moved, codes, strict=True):
        known = np.isfinite(own) & (own >= 0)
        above = known & (own > 0)
        top = float(np.clip(own[above].max(), 1e-30, _LARGEST)) if above.any() else 1.0
        bottom = float(np.clip(own[above].min(), 1e-30, _LARGEST)) if above.any() else 1.0
        span = np.log(bottom / top)
        place = np.log(np.clip(own[above], bottom, top) / top) / span if span < 0 else np.zeros(int(above.sum()))
        out[known] = nan - 1
        out[above] = np.rint(levels * place).astype(kind)
        ends.append([top, bottom])
    return np.moveaxis(codes, 0, axis), {"log": ends, "axis": axis}


def from_log(codes: NDArray[Any], scale: dict[str, Any]) -> F32:
    """The numbers of `log_code`."""
    nan = int(np.iinfo(codes.dtype).max)
    moved = np.moveaxis(codes, scale["axis"], 0)
    found = np.empty(moved.shape, np.float32)
    for own, out, (top, bottom) in zip(moved, found, scale["log"], strict=True):
        out[...] = top * (bottom / top) ** (own.astype(np.float64) / (nan - 2))
        out[own == nan - 1] = 0
        out[own == nan] = np.nan
    return np.moveaxis(found, 0, scale["axis"])


def root_code(shares: F32) -> NDArray[np.uint16]:
    """Numbers from 0 to 1 by their root: code q is (q/65534)²; off by 0.00002 at most, by less where they are small."""
    codes = np.full(shares.shape, 65535, np.uint16)
    known = np.isfinite(shares)
    codes[known] = np.rint(65534 * np.sqrt(np.clip(shares[known], 0, 1))).astype(np.uint16)
    return codes


def from_root(codes: NDArray[np.uint16]) -> F32:
    """The numbers of `root_code`."""
    found = ((codes / 65534) ** 2).astype(np.float32)
    found[codes == 65535] = np.nan
    return found


def step_code(period_value: F32, value: F32, baseline: int) -> tuple[NDArray[np.int8], F32]:
    """P × K × M × S in steps of each cell's own: of the baseline its distance from its value over the whole period, of
    the others that of their difference to the baseline, so that models that hardly differ stay apart.

    127 steps reach as far as the farthest period of the cell.
    """
    apart = _apart(period_value.astype(np.float64), baseline) - _apart(value.astype(np.float64)[None], baseline)
    known = np.isfinite(apart)
    step = (np.where(known, np.abs(apart), 0).max(axis=0, initial=0) / 126).astype(np.float32)
    with np.errstate(divide="ignore", invalid="ignore"):
        codes = np.where(step > 0, np.rint(apart / step), 0)
    return np.where(known, codes, 127).astype(np.int8), step


def from_steps(codes: NDArray[np.int8], step: F32, value: F32, baseline: int) -> F32:
    """The period values of `step_code`."""
    apart = np.where(codes == 127, np.nan, codes * step.astype(np.float64)) + _apart(value.astype(np.float64), baseline)
    own = apart[:, :, baseline].copy()
    apart += own[:, :, None]
    apart[:, :, baseline] = own
    return apart.astype(np.float32)


def _apart(values: F64, baseline: int) -> F64:
    """… × M × S: the baseline's own, and of each other model its difference to the baseline."""
    own = values[..., baseline, :].copy()
    apart = values - own[..., None, :]
    apart[..., baseline, :] = own
    return apart
