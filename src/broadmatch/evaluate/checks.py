"""Columns of numbers from users: converted, or refused with the first row that is wrong."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput


def column(values: Any, what: str) -> NDArray[np.float64]:
    """One column of numbers."""
    try:
        found = np.asarray(values, dtype=np.float64)
    except (TypeError, ValueError) as error:
        raise BadInput(f"{what} must be a column of numbers ({error}).") from error
    if found.ndim != 1:
        raise BadInput(f"{what} must be one column of numbers, but it has {found.ndim} dimensions.")
    return found


def weights(sample_weight: Any, n: int) -> NDArray[np.float64]:
    """The weight of each of `n` rows, not all of them 0."""
    w = column(sample_weight, "sample_weight")
    if len(w) != n:
        raise BadInput(f"sample_weight has {len(w):,} rows, but there are {n:,}; give one number for each.")
    refuse(~((w >= 0) & (w < np.inf)), w, "sample_weight", "a number of at least 0")
    if not w.sum() > 0:
        raise BadInput("There is nothing to evaluate: every sample_weight is 0.")
    return w


def refuse(bad: NDArray[np.bool_], values: Any, what: str, rule: str, first_row: int = 0) -> None:
    """Raise `BadInput` that names the first bad row, if there is one."""
    if bad.any():
        at = int(np.argmax(bad))
        raise BadInput(f"{what}: row {first_row + at:,} is {values[at]}; it must be {rule}.")
