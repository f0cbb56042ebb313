"""Forged checkpoints: work that goes on from one refuses it, or ends as any other work does.

The checkpoints are made once, by a process with the usual machine code: python -m benchmarks.fuzz.checkpoints FOLDER
"""

import functools
import random
import shutil
import sys
import tempfile
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.fuzz import target
from benchmarks.fuzz.models import forge, made_by, points, read, write
from broadmatch.clicks import FTRL, ClickTraining, SlicedCalibration
from broadmatch.labels import MLRF, AdaBoostLC, FastXML, OneVsRest, SwiftXML
from broadmatch.signals import Categorical, Description

FEW: dict[str, Any] = {"n_trees": 2, "max_leaf": 4, "n_jobs": 1}
DESCRIPTION = Description(
    label="clicked", time="time", id="id", query="query", signals=[Categorical("ad")], slices=["slice"]
)
IMPRESSIONS = "".join(f"{i % 3 == 0:d},{1706693400 + i},{i},{i // 2},ad{i % 5},s{i % 2}\n" for i in range(40))


def fit(model: Any, checkpoint: Path) -> None:
    """Train a label model with a checkpoint, and ask it."""
    X, Y = points()
    model.fit(X, Y, checkpoint=checkpoint).predict_topk(X, k=3)


def train(checkpoint: Path, **how: Any) -> None:
    """Train a click model with a checkpoint."""
    log = checkpoint.with_suffix(".csv")
    log.write_text(f"clicked,time,id,query,ad,slice\n{IMPRESSIONS}")
    calibration = SlicedCalibration(by=("slice",))
    run = ClickTraining(log, DESCRIPTION, FTRL(), subsample=0.5, calibration=calibration, names=True,
                        checkpoints=checkpoint, **how)  # fmt: skip
    run.run()
    run.model()


WORK: dict[str, Callable[..., None]] = {
    "mlrf": functools.partial(fit, MLRF(**FEW)),
    "fastxml": functools.partial(fit, FastXML(**FEW)),
    "swiftxml": functools.partial(fit, SwiftXML(**FEW)),
    "one_vs_rest": functools.partial(fit, OneVsRest(n_jobs=1)),
    "adaboost_lc": functools.partial(fit, AdaBoostLC(rounds=2, n_jobs=1)),
    "training": train,
}


@functools.cache
def _compile() -> None:
    """Go on from each checkpoint as it was made, so that no case has to wait for machine code."""
    with tempfile.TemporaryDirectory() as place:
        for name, work in WORK.items():
            shutil.copytree(made_by(__spec__.name) / name, Path(place) / name)
            work(Path(place) / name, **_how(name))


def _how(name: str) -> dict[str, bool]:
    return {"resume": True} if name == "training" else {}


@target
def checkpoints(draw: random.Random, folder: Path) -> None:
    """Checkpoints of label models in parts, and of the training of a click model."""
    _compile()
    name = draw.choice(list(WORK))
    place = folder / "work"
    shutil.rmtree(place, ignore_errors=True)
    shutil.copytree(made_by(__spec__.name) / name, place)
    part = draw.choice(sorted(place.iterdir()))
    forged = forge(draw, read(part))
    shutil.rmtree(part)
    write(forged, part)
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        WORK[name](place, **_how(name))


if __name__ == "__main__":
    for name, work in WORK.items():
        work(Path(sys.argv[1]) / name)
        (Path(sys.argv[1]) / f"{name}.csv").unlink(missing_ok=True)
