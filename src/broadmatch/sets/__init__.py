"""From a ranking to a set: how many labels a point has, around any label model."""

from broadmatch.sets.cuts import PCut, RCut
from broadmatch.sets.hierarchy import HierarchicalLabels
from broadmatch.sets.metalabeler import MetaLabeler
from broadmatch.sets.scut import SCut
from broadmatch.sets.threshold import TargetCut, Threshold

__all__ = ["HierarchicalLabels", "MetaLabeler", "PCut", "RCut", "SCut", "TargetCut", "Threshold"]
