"""From a click log to labelled pages: clicks, nPMI weights, sparse beliefs."""

from broadmatch.harvest.beliefs import objective, sparse_beliefs
from broadmatch.harvest.clicks import Harvest, harvest
from broadmatch.harvest.datasets import build_datasets
from broadmatch.harvest.npmi import npmi
from broadmatch.harvest.queries import normalise_query

__all__ = ["Harvest", "build_datasets", "harvest", "normalise_query", "npmi", "objective", "sparse_beliefs"]
