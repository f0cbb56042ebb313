"""Label models that are made of parts, over a cluster: each node makes some of the parts into the job's folder."""

import contextlib
import os
from pathlib import Path
from typing import Any, TypeVar

from broadmatch.cluster.engine import Engine
from broadmatch.cluster.mlrf import BASE, fit_mlrf
from broadmatch.cluster.shards import Shards, write_shards
from broadmatch.errors import BadInput
from broadmatch.io.checkpoints import Checkpoints, Portion, PortionDone
from broadmatch.labels import MLRF, FastXML, OneVsRest, PfastreXML, SwiftXML
from broadmatch.labels.base import FitOptions, LabelModel
from broadmatch.labels.one_vs_rest import label_parts
from broadmatch.labels.predictor import training_data

Model = TypeVar("Model", bound=LabelModel)
_WORKING = 5  # bytes of memory by bytes of data: rows as they are learned from, by feature, by label
_PORTIONS = 2  # a shard, so that one that takes longer does not hold up all


def fit(
    engine: Engine, model: Model, X: Any, Y: Any, folder: str | os.PathLike[str], n_shards: int, **options: Any
) -> Model:
    """Fit as `model.fit(X, Y, **options)` does, with the same bits, the work spread by `engine`.

    MLRF is grown over `n_shards` of the rows (`fit_mlrf`), of which no node sees all. Labels of `OneVsRest` and trees
    of `FastXML`, `PfastreXML` and `SwiftXML` are made in portions, by nodes that hold all rows.
    """
    if isinstance(model, MLRF):
        fit_mlrf(engine, model, X, Y, folder, n_shards, **options)
        return model
    return fit_in_parts(engine, model, X, Y, folder, n_shards, **options)


def fit_in_parts(
    engine: Engine, model: Model, X: Any, Y: Any, folder: str | os.PathLike[str], n_shards: int, **options: Any
) -> Model:
    """Fit with the parts of the model made in at least `n_shards` portions; `folder` keeps them, as in `fit_mlrf`."""
    model.check_params()
    place = Path(folder).resolve()
    features, labels, _ = training_data(X, Y)
    arrays = (*features[:3], *labels[:3])
    data = Checkpoints.of_parts(place, {"rows": features.n_rows}, arrays)
    shards = write_shards(place, data.identity, features, labels, 1)
    kept = Checkpoints(place)
    missing = [number for number in range(_n_parts(model, labels.n_cols)) if not kept.has(number)]
    n_portions = max(1, min(_PORTIONS * n_shards, len(missing)))
    learned_from = {name: value for name, value in options.items() if name not in FitOptions.__annotations__}
    items = [(model, shards, place, missing[first::n_portions], learned_from) for first in range(n_portions)]
    if missing:
        memory = BASE + _WORKING * shards.n_bytes
        engine.progress(
            engine.map(make_portion, items, memory=memory, title="Training parts"), title="Training", unit="portions"
        )
    model.fit(X, Y, **options | {"checkpoint": place})
    return model


def make_portion(model: LabelModel, shards: Shards, folder: Path, numbers: list[int], options: dict[str, Any]) -> int:
    """Make some parts of a model into the folder; gives how many."""
    rows = shards.read(0)
    with contextlib.suppress(PortionDone):
        model.fit(rows.X, rows.Y, **options, checkpoint=Portion(folder, numbers))
    return len(numbers)


def _n_parts(model: LabelModel, n_labels: int) -> int:
    if isinstance(model, OneVsRest):
        return len(label_parts(n_labels))
    if isinstance(model, FastXML | PfastreXML | SwiftXML):
        return model.n_trees
    raise BadInput(f"{type(model).__name__} learns in rounds, one after the other; train it on one machine.")
