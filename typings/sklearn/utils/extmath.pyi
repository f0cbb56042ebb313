from typing import Any

import numpy as np
from numpy.typing import NDArray

def randomized_svd(
    M: Any, n_components: int, *, n_iter: int = ..., random_state: int = ...
) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]: ...
