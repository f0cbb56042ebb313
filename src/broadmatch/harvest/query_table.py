"""What a log says of each query: how often it was searched and clicked, and what was paid for it."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names


@dataclass(frozen=True)
class QueryTable:
    """Queries by name, sorted, with their searches, clicks and revenue; a column that no log had is None."""

    queries: Names
    searches: NDArray[np.float64] | None = None
    clicks: NDArray[np.float64] | None = None
    revenue: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return len(self.queries)
