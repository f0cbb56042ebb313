"""What is passed around in memory: matrices with their names, impressions, hierarchies."""

from broadmatch.data.convert import as_features, as_labels
from broadmatch.data.csr import CSR
from broadmatch.data.dataset import Dataset
from broadmatch.data.hierarchy import Hierarchy, with_ancestors
from broadmatch.data.impressions import Batch, Impressions
from broadmatch.data.names import Names
from broadmatch.data.propensity import PROPENSITY_PRESETS, propensity
from broadmatch.data.ranking import Ranking
from broadmatch.data.reveal import reveal

__all__ = [
    "CSR",
    "PROPENSITY_PRESETS",
    "Batch",
    "Dataset",
    "Hierarchy",
    "Impressions",
    "Names",
    "Ranking",
    "as_features",
    "as_labels",
    "propensity",
    "reveal",
    "with_ancestors",
]
