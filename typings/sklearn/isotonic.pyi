from typing import Any

from numpy import float64
from numpy.typing import NDArray

def isotonic_regression(y: Any, *, sample_weight: Any = None) -> NDArray[float64]: ...
