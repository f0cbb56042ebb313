"""From a ranking to a set: how many labels a point has, around any label model."""

from broadmatch.howmany.cuts import PCut, RCut
from broadmatch.howmany.hierarchy import HierarchicalLabels
from broadmatch.howmany.metalabeler import MetaLabeler
from broadmatch.howmany.scut import SCut
from broadmatch.howmany.threshold import TargetCut, Threshold

__all__ = ["HierarchicalLabels", "MetaLabeler", "PCut", "RCut", "SCut", "TargetCut", "Threshold"]
