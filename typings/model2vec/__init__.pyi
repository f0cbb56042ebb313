from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

class StaticModel:
    @classmethod
    def from_pretrained(cls, path: str, *, force_download: bool = ...) -> StaticModel: ...
    def encode(self, sentences: Sequence[str]) -> NDArray[np.float32]: ...
