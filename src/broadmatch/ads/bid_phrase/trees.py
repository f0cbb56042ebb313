"""Boosted trees: learned by LightGBM, kept as arrays, so that what is opened and asked needs no LightGBM."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.ads.bid_phrase._trees import BoostedTrees
from broadmatch.errors import MissingExtra
from broadmatch.kernels import F32, F64
from broadmatch.parallel import n_workers


def boost(
    rows: F32,
    target: NDArray[np.float64],
    weight: NDArray[np.float64] | None,
    *,
    start: F64,
    rising: Sequence[int],
    n_trees: int,
    n_leaves: int,
    learning_rate: float,
    seed: int,
    n_jobs: int | None,
) -> tuple[BoostedTrees, Any]:
    """Trees whose sum, added to start·x, is the log-odds of the target (0 to 1), and LightGBM's own model of them.

    `rising` is 1 for a feature of which more never makes the target less likely, −1 for one that never makes it
    likelier, 0 for any other.
    """
    try:
        import lightgbm
    except ImportError as error:
        raise MissingExtra("Boosted trees need lightgbm; pip install 'broadmatch[ads]' brings it.") from error
    settings = {
        "objective": "cross_entropy",  # the log-odds of targets from 0 to 1
        "num_leaves": n_leaves,
        "learning_rate": learning_rate,
        "min_data_in_leaf": max(1, min(50, len(rows) // 50)),
        "monotone_constraints": list(rising),
        "monotone_constraints_method": "intermediate",
        "deterministic": True,
        "force_row_wise": True,
        "use_missing": False,
        "seed": seed,
        "num_threads": n_workers(n_jobs),
        "verbosity": -1,
    }
    data = lightgbm.Dataset(rows, target, weight=weight, init_score=rows @ start)
    booster = lightgbm.train(settings, data, n_trees)
    return as_arrays(booster), booster


def as_arrays(booster: Any) -> BoostedTrees:
    """The trees of LightGBM's model."""
    roots: list[int] = []
    feature: list[int] = []
    threshold: list[float] = []
    child: list[int] = []
    leaf: list[int] = []
    value: list[float] = []
    for tree in booster.dump_model()["tree_info"]:
        roots.append(len(feature))
        ahead = [tree["tree_structure"]]
        room = len(feature) + 1
        while ahead:  # by levels, so that the children of a node stand side by side
            below = []
            for node in ahead:
                is_leaf = "leaf_value" in node
                feature.append(-1 if is_leaf else node["split_feature"])
                threshold.append(0.0 if is_leaf else node["threshold"])
                leaf.append(len(value) if is_leaf else -1)
                child.append(-1 if is_leaf else room)
                if is_leaf:
                    value.append(node["leaf_value"])
                else:
                    below += [node["left_child"], node["right_child"]]
                    room += 2
            ahead = below
    whole = np.int32
    return BoostedTrees(
        np.array(roots, np.int64),
        np.array(feature, whole),
        np.array(threshold, np.float64),
        np.array(child, whole),
        np.array(leaf, whole),
        np.array(value, np.float64),
    )
