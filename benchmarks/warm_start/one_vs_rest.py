"""One-vs-rest that sees revealed labels as features beside those of the point."""

from typing import Any, Self

import numpy as np
import scipy.sparse as sp
from sklearn.preprocessing import normalize

from broadmatch.data import CSR, Ranking, reveal
from broadmatch.labels import OneVsRest


class OneVsRestJoined:
    """`OneVsRest` on unit rows of features beside unit rows of revealed labels; training points show half of theirs."""

    def __init__(self, *, seed: int = 0, **settings: Any) -> None:
        self.seed, self.model = seed, OneVsRest(seed=seed, **settings)

    def fit(self, X: CSR, Y: CSR, *, label_features: Any = None) -> Self:
        """Learn; labels are columns, and what describes them is not used."""
        self.model.fit(_joined(X, reveal(Y, 0.5, seed=self.seed)[0].to_scipy()), Y)
        return self

    def predict_topk(self, X: CSR, k: int, *, revealed: Any) -> Ranking:
        """The best labels that are not revealed."""
        return self.model.predict_topk(_joined(X, revealed), k, revealed=revealed)


def _joined(X: CSR, revealed: Any) -> sp.csr_matrix:
    return sp.hstack([normalize(X.to_scipy()), normalize(sp.csr_matrix(revealed, dtype=np.float32))], format="csr")
