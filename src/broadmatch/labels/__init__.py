"""Label models, named as in their papers: rows of features in, ranked labels out."""

from broadmatch.labels.adaboost_lc import AdaBoostLC
from broadmatch.labels.boosting import BoostingHistory
from broadmatch.labels.explanation import Contribution, Explanation, Leaf, Neighbour, Step
from broadmatch.labels.mlrf import MLRF
from broadmatch.labels.one_vs_rest import OneVsRest
from broadmatch.labels.ranking_trees.fastxml import FastXML
from broadmatch.labels.ranking_trees.pfastrexml import PfastreXML
from broadmatch.labels.ranking_trees.swiftxml import SwiftXML
from broadmatch.labels.recommender import Phrase, Recommender

__all__ = [
    "MLRF",
    "AdaBoostLC",
    "BoostingHistory",
    "Contribution",
    "Explanation",
    "FastXML",
    "Leaf",
    "Neighbour",
    "OneVsRest",
    "PfastreXML",
    "Phrase",
    "Recommender",
    "Step",
    "SwiftXML",
]
