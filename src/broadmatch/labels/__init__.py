"""Label models, named as in their papers: rows of features in, ranked labels out."""

from broadmatch.labels.adaboost_lc import AdaBoostLC
from broadmatch.labels.boosting import BoostingHistory
from broadmatch.labels.boosting_plot import plot_rounds
from broadmatch.labels.fastxml import FastXML
from broadmatch.labels.fusion import PfastreXMLEarly, PfastreXMLLate
from broadmatch.labels.mlrf import MLRF
from broadmatch.labels.mlrf_explain import Explanation
from broadmatch.labels.one_vs_rest import OneVsRest
from broadmatch.labels.pfastrexml import PfastreXML
from broadmatch.labels.recommender import Phrase, Recommender
from broadmatch.labels.swiftxml import SwiftXML
from broadmatch.labels.xml_explain import XMLExplanation

__all__ = [
    "MLRF",
    "AdaBoostLC",
    "BoostingHistory",
    "Explanation",
    "FastXML",
    "OneVsRest",
    "PfastreXML",
    "PfastreXMLEarly",
    "PfastreXMLLate",
    "Phrase",
    "Recommender",
    "SwiftXML",
    "XMLExplanation",
    "plot_rounds",
]
