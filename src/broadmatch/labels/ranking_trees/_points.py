"""What FastXML, PfastreXML and SwiftXML make of their data before trees grow: unit rows, products, ideal gains."""

import math

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel


@kernel
def unit_scale(values: F32) -> float:
    """1 / ‖x‖, or 0 for a row of nothing."""
    square = 0.0
    for value in values:
        square += np.float64(value) * value
    return 1.0 / math.sqrt(square) if square > 0 else 0.0


@kernel
def damped(value: float) -> float:
    """sign(v)·√|v|: a word that is there ten times more does not count ten times more."""
    return math.sqrt(value) if value >= 0 else -math.sqrt(-value)


@kernel
def damped_scale(values: F32) -> float:
    """1 / ‖damped row‖, or 0 for a row of nothing: the squares of roots are the sizes themselves."""
    total = 0.0
    for value in values:
        total += abs(np.float64(value))
    return 1.0 / math.sqrt(total) if total > 0 else 0.0


@kernel
def unit_rows(ptr: I64, values: F32) -> F32:
    """The values of all rows, each row scaled to length 1."""
    scaled = np.empty_like(values)
    for i in range(len(ptr) - 1):
        scale = unit_scale(values[ptr[i] : ptr[i + 1]])
        for e in range(ptr[i], ptr[i + 1]):
            scaled[e] = values[e] * scale
    return scaled


@kernel
def damped_rows(ptr: I64, values: F32) -> F32:
    """The values of all rows damped, each row scaled to length 1."""
    scaled = np.empty_like(values)
    for i in range(len(ptr) - 1):
        scale = damped_scale(values[ptr[i] : ptr[i + 1]])
        for e in range(ptr[i], ptr[i + 1]):
            scaled[e] = damped(values[e]) * scale
    return scaled


@kernel
def scaled_rows(ptr: I64, values: F32, damp: bool) -> F32:
    """The values of all rows as trees see them: scaled to length 1, and damped first if `damp` says so."""
    return damped_rows(ptr, values) if damp else unit_rows(ptr, values)


@kernel
def dot(e: int, stop: int, feature: I32, value: F32, first: int, dense: F32) -> float:
    """Σ value·dense over the entries e to stop of a sparse row whose features start at `first`."""
    # Four sums at once: one would wait for each addition.
    a, b, c, d = np.float32(0), np.float32(0), np.float32(0), np.float32(0)
    while e + 3 < stop:
        a += value[e] * dense[first + feature[e]]
        b += value[e + 1] * dense[first + feature[e + 1]]
        c += value[e + 2] * dense[first + feature[e + 2]]
        d += value[e + 3] * dense[first + feature[e + 3]]
        e += 4
    while e < stop:
        a += value[e] * dense[first + feature[e]]
        e += 1
    return float((a + b) + (c + d))


@kernel
def inverse_ideal_dcg(ptr: I64, gains: F32) -> F64:
    """I_L(y_i) = 1 / Σ_l g_(l) / log(1 + l), the gains of a point in falling order; 0 for a point without labels."""
    inverse = np.zeros(len(ptr) - 1)
    for i in range(len(inverse)):
        falling = np.sort(gains[ptr[i] : ptr[i + 1]])[::-1]
        ideal = 0.0
        for rank in range(len(falling)):
            ideal += falling[rank] / math.log(2.0 + rank)
        if ideal > 0:
            inverse[i] = 1.0 / ideal
    return inverse


@kernel
def inverse_discounts(ptr: I64) -> F64:
    """I_L(y_i) = 1 / Σ_l 1 / log(1 + l) over as many ranks as a point has labels, SwiftXML (1); 0 without any."""
    inverse = np.zeros(len(ptr) - 1)
    for i in range(len(inverse)):
        total = 0.0
        for rank in range(ptr[i + 1] - ptr[i]):
            total += 1.0 / math.log(2.0 + rank)
        if total > 0:
            inverse[i] = 1.0 / total
    return inverse
