"""Signals: which columns of a log become which features."""

from broadmatch.signals.description import Description
from broadmatch.signals.encoder import Encoder
from broadmatch.signals.feature_names import FeatureNames
from broadmatch.signals.signal import Categorical, Cross, Hour, Numeric, Text, Weekday

__all__ = ["Categorical", "Cross", "Description", "Encoder", "FeatureNames", "Hour", "Numeric", "Text", "Weekday"]
