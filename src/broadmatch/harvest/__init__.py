"""From a click log to labelled pages: clicks, nPMI weights, sparse beliefs."""

from broadmatch.harvest.beliefs import objective, sparse_beliefs
from broadmatch.harvest.clicks import Harvest, harvest
from broadmatch.harvest.datasets import build_datasets
from broadmatch.harvest.harvested import Harvested, open_harvested, write_harvested
from broadmatch.harvest.npmi import npmi
from broadmatch.harvest.queries import normalise_query

__all__ = [
    "Harvest",
    "Harvested",
    "build_datasets",
    "harvest",
    "normalise_query",
    "npmi",
    "objective",
    "open_harvested",
    "sparse_beliefs",
    "write_harvested",
]
