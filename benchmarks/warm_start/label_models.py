"""The label models as they are fitted and asked in the warm-start benchmark."""

from typing import Any

import numpy as np
import scipy.sparse as sp

from benchmarks.warm_start.data import WarmStart
from benchmarks.warm_start.fusion import PfastreXMLEarly, PfastreXMLLate
from benchmarks.warm_start.measure import Predict
from benchmarks.warm_start.one_vs_rest import OneVsRestJoined
from broadmatch.data import CSR, Dataset
from broadmatch.labels import MLRF, OneVsRest, PfastreXML, SwiftXML

KINDS: dict[str, Any] = {
    "MLRF": MLRF,
    "OneVsRest": OneVsRest,
    "OneVsRest-joined": OneVsRestJoined,
    "PfastreXML": PfastreXML,
    "PfastreXML-early": PfastreXMLEarly,
    "PfastreXML-late": PfastreXMLLate,
    "SwiftXML": SwiftXML,
}
OF_LABELS = ("OneVsRest", "OneVsRest-joined")
"""Models without trees."""

OF_POINTS = ("MLRF", "OneVsRest", "PfastreXML")
"""Models of the points' features alone: revealed labels are left out of what they find, and that is all."""


def fitted(name: str, data: WarmStart, settings: dict[str, Any], *, seed: int) -> Any:
    """The model, fitted on the training points; one that sees known labels at prediction learns from them too."""
    if name in OF_POINTS:
        return KINDS[name](**settings, seed=seed).fit(data.train.X, data.train.Y)
    labels = CSR.from_scipy(data.train.Y.to_scipy() + data.known_train.to_scipy())
    given = {"revealed": data.known_train} if name == "SwiftXML" and data.known_train.nnz else {}
    return KINDS[name](**settings, seed=seed).fit(data.train.X, labels, label_features=data.label_features, **given)


def inductive(model: Any, data: WarmStart) -> Predict:
    """Fitted once, on the training points alone; revealed labels are seen at prediction only."""

    def predict(X: Any, k: int, *, revealed: CSR) -> sp.csr_matrix:
        seen = revealed.to_scipy() + data.known_test.to_scipy()
        return model.predict_topk(X, k, revealed=seen)

    return predict


def transductive(name: str, data: WarmStart, settings: dict[str, Any], *, seed: int) -> Predict:
    """Fitted at each call, on the training points and the test points with their revealed labels: as in the paper."""

    def predict(X: Any, k: int, *, revealed: CSR) -> sp.csr_matrix:
        train = data.train
        some = np.flatnonzero(np.diff(revealed.indptr) > 0)
        features = sp.vstack([train.X.to_scipy(), data.test.X.take(some).to_scipy()], format="csr")
        labels = sp.vstack([train.Y.to_scipy(), revealed.take(some).to_scipy()], format="csr")
        grown = Dataset(CSR.from_scipy(features), CSR.from_scipy(labels), train.labels)
        model = fitted(name, data.trained_on(grown), settings, seed=seed)
        return inductive(model, data)(X, k, revealed=revealed)

    return predict
