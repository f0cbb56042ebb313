"""add_points beside a refit, and calibration, on EURLex-4K: python -m benchmarks.ranking_trees_update [--small]

Half of the training points are learned from, the other half is added by `add_points`, and all are learned from at
once. The last model is calibrated on one half of the test points and looked at on the other: the calibration error over
the 20 best labels, and the precision of labels of probability 0.5 or more on the points whose best label is the surest
and on the others.
"""

import argparse
import time
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.common import load, need_data, tell
from broadmatch.data import CSR, Dataset
from broadmatch.evaluate import calibration_error, precision_at_k
from broadmatch.labels import FastXML, PfastreXML, SwiftXML


def precisions(model: Any, test: Dataset) -> list[float]:
    found = model.predict_topk(test.X, k=5)
    return [round(100 * precision_at_k(test.Y, found, k=k), 1) for k in (1, 3, 5)]


def update(cls: type[FastXML], n_trees: int, train: Dataset, test: Dataset) -> FastXML:
    """Half, half and half, all; gives the last."""
    order = np.random.default_rng(0).permutation(len(train))
    first, second = (train.take(np.sort(part)) for part in np.array_split(order, 2))
    model = cls(n_trees=n_trees).fit(first.X, first.Y)
    half = precisions(model, test)
    start = time.perf_counter()
    model.add_points(second.X, second.Y)
    update_seconds = time.perf_counter() - start
    updated = precisions(model, test)
    start = time.perf_counter()
    refit = cls(n_trees=n_trees).fit(train.X, train.Y)
    refit_seconds = time.perf_counter() - start
    tell(what="add_points", model=cls.__name__, half=half, updated=updated, refit=precisions(refit, test),
         update_s=update_seconds, refit_s=refit_seconds)  # fmt: skip
    return refit


def judged(model: Any, points: Dataset) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.bool_]]:
    """Point, score and truth of the 20 best labels."""
    found = CSR.from_scipy(model.predict_topk(points.X, k=20).to_csr())
    rows = np.repeat(np.arange(found.n_rows), np.diff(found.indptr))
    right = np.asarray(points.Y.to_scipy()[rows, found.indices]).ravel() > 0
    return rows, found.data.astype(np.float64), right


def calibration(model: FastXML, test: Dataset) -> None:
    order = np.random.default_rng(1).permutation(len(test))
    first, second = (test.take(part) for part in np.array_split(order, 2))
    _, raw, right = judged(model, second)
    model.calibrate(first.X, first.Y)
    rows, p, _ = judged(model, second)
    best = np.zeros(len(second))
    np.maximum.at(best, rows, p)
    sure = (best >= np.median(best))[rows]
    tell(what="calibrate", model=type(model).__name__, before=calibration_error(right, np.minimum(raw, 1)),
         after=calibration_error(right, p), precision_sure=float(right[sure & (p >= 0.5)].mean()),
         precision_unsure=float(right[~sure & (p >= 0.5)].mean()))  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="3 trees instead of 10")
    trees = 3 if parser.parse_args().small else 10
    need_data()
    train, test = load("eurlex-4k")
    for cls in (FastXML, PfastreXML, SwiftXML):
        calibration(update(cls, trees, train, test), test)


if __name__ == "__main__":
    main()
