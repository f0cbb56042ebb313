"""Slices of the traffic: a table from the 64-bit key of a slice to its number, and a calibration fitted for each."""

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks.calibration._maps import CLICKS, FLOOR, PREDICTED, WEIGHT, fit_knots, fit_power
from broadmatch.kernels import F64, I64, U64, Bytes, kernel
from broadmatch.kernels.hash_table import slot_of
from broadmatch.kernels.hashing import bits_of_text, cross_key, feature_key
from broadmatch.kernels.isotonic import along

I32 = NDArray[np.int32]


@kernel
def bits_of_texts(text: Bytes, starts: I64) -> U64:
    """The bits of the texts text[starts[i]:starts[i + 1]]."""
    out = np.empty(len(starts) - 1, np.uint64)
    for i in range(len(out)):
        out[i] = bits_of_text(text, starts[i], starts[i + 1])
    return out


@kernel
def add_level(keys: U64, level: int, seed: np.uint64, bits: U64) -> None:
    """keys[:, level] = the key of (parent slice, value); the first level has no parent."""
    for i in range(len(bits)):
        if level == 0:
            keys[i, 0] = feature_key(seed, bits[i])
        else:
            keys[i, level] = cross_key(seed, keys[i, level - 1], bits[i])


@kernel
def fill_table(keys: U64, table: U64, numbers: I32) -> None:
    """Enter the slices 1 … n − 1 under their keys; slice 0 is all traffic and has no key."""
    for slot in range(1, len(keys)):
        at = slot_of(table, keys[slot])
        table[at], numbers[at] = keys[slot], slot


@kernel
def number_slices(
    rows: U64, start: int, table: U64, numbers: I32, keys: U64, parents: I32, n: int, slots: I32
) -> tuple[int, int]:
    """Number the slices of each row from `start` on, new ones in order of appearance, a parent before its child.

    Stops when `keys` might not hold a row's slices; gives the row where it stopped and the number of slices.
    """
    for i in range(start, len(rows)):
        if n + rows.shape[1] > len(keys):
            return i, n
        parent = 0
        for level in range(rows.shape[1]):
            at = slot_of(table, rows[i, level])
            if table[at] == 0:
                table[at], numbers[at] = rows[i, level], n
                keys[n], parents[n] = rows[i, level], parent
                n += 1
            parent = numbers[at]
            slots[i, level] = parent
    return len(rows), n


@kernel
def deepest_slices(rows: U64, table: U64, numbers: I32, n_fitted: int) -> I32:
    """The deepest slice of each row that has a number below `n_fitted`; 0, all traffic, where there is none."""
    out = np.zeros(len(rows), np.int32)
    for i in range(len(rows)):
        for level in range(rows.shape[1] - 1, -1, -1):
            at = slot_of(table, rows[i, level])
            if table[at] != 0 and numbers[at] < n_fitted:
                out[i] = numbers[at]
                break
    return out


@kernel
def _level(sums: F64, expected: F64, strength: float) -> tuple[float, float, float]:
    """γ = (C + s)/(E + s), C and E: C clicks, E expected ones; a Gamma(s, s) prior on γ around the parent's 1."""
    clicks, total = 0.0, 0.0
    for b in range(len(sums)):
        clicks += sums[b, CLICKS]
        total += expected[b]
    return (clicks + strength) / (total + strength), clicks, total


@kernel
def _with_pseudo_clicks(sums: F64, expected: F64, factor: float, total: float, strength: float) -> tuple[F64, F64]:
    """The slice's weights and clicks beside `strength` clicks that fall just as factor·expected says."""
    weight = np.zeros(len(sums))
    clicks = np.zeros(len(sums))
    for b in range(len(sums)):
        weight[b] = sums[b, WEIGHT] * (1.0 + strength / (factor * total))
        clicks[b] = sums[b, CLICKS] + strength * expected[b] / total
    return weight, clicks


@kernel
def fit_power_slices(
    sums: F64, parents: I32, scale: float, strength: float, min_clicks: float, log_factor: F64, exponent: F64
) -> None:
    """log γ and κ of every slice from those of its parent; those of all traffic stand at 0 already.

    With q = γ_parent p^κ_parent: min(1, γ_d q) for a slice with few clicks, γ_d = (C + s)/(E + s); with `min_clicks`
    or more, γ_d q^κ_d by Poisson regression on its bins and s pseudo-clicks that fall as γ_d q says.
    """
    n_bins = sums.shape[1]
    log_q, expected = np.empty(n_bins), np.empty(n_bins)
    for d in range(1, len(log_factor)):
        up = parents[d]
        own = sums[d] * scale
        for b in range(n_bins):
            mean = own[b, PREDICTED] / own[b, WEIGHT] if own[b, WEIGHT] > 0 else 1.0
            log_q[b] = log_factor[up] + exponent[up] * np.log(max(mean, FLOOR))
            expected[b] = own[b, WEIGHT] * np.exp(log_q[b])
        factor, clicks, total = _level(own, expected, strength)
        shift, k = np.log(factor), 1.0
        if clicks >= min_clicks and total > 0:
            weight, mixed = _with_pseudo_clicks(own, expected, factor, total, strength)
            shift, k = fit_power(weight, mixed, log_q)
        log_factor[d] = shift + k * log_factor[up]
        exponent[d] = k * exponent[up]


@kernel
def fit_knots_slices(
    sums: F64,
    parents: I32,
    scale: float,
    strength: float,
    min_clicks: float,
    least: float,
    factor: F64,
    map_of: I32,
    starts: I64,
    knots_x: F64,
    knots_y: F64,
) -> int:
    """Factor and map of every slice from those of its parent; map 0, of all traffic, stands there already.

    A slice with few clicks takes its parent's map times γ_d = (C + s)/(E + s); with `min_clicks` or more, it gets an
    isotonic map of its own on its bins and s pseudo-clicks that fall as γ_d times the parent's map says. Gives the
    number of maps.
    """
    n_bins = sums.shape[1]
    expected = np.empty(n_bins)
    n_maps = 1
    for d in range(1, len(factor)):
        up = parents[d]
        a, b_end = starts[map_of[up]], starts[map_of[up] + 1]
        own = sums[d] * scale
        for b in range(n_bins):
            mean = own[b, PREDICTED] / own[b, WEIGHT] if own[b, WEIGHT] > 0 else 1.0
            expected[b] = own[b, WEIGHT] * factor[up] * along(mean, knots_x[a:b_end], knots_y[a:b_end])
        level, clicks, total = _level(own, expected, strength)
        factor[d], map_of[d] = factor[up] * level, map_of[up]
        if clicks >= min_clicks and total > 0:
            weight, mixed = _with_pseudo_clicks(own, expected, level, total, strength)
            at = starts[n_maps]
            more = weight.sum() / own[:, WEIGHT].sum()
            starts[n_maps + 1] = at + fit_knots(
                weight, mixed, own[:, PREDICTED] * more, level * expected, least, knots_x[at:], knots_y[at:]
            )
            factor[d], map_of[d] = 1.0, n_maps
            n_maps += 1
    return n_maps
