"""A marketplace with known truth, its traffic and its users, and matrices of any size with known structure."""

from broadmatch.simulate.campaigns import new_ads
from broadmatch.simulate.marketplace import Marketplace, simulate_marketplace
from broadmatch.simulate.synthetic import synthetic_dataset
from broadmatch.simulate.traffic import DayTraffic, MarketTraffic
from broadmatch.simulate.truth import generic_phrases, truth_matrix
from broadmatch.simulate.users import Users

__all__ = [
    "DayTraffic",
    "MarketTraffic",
    "Marketplace",
    "Users",
    "generic_phrases",
    "new_ads",
    "simulate_marketplace",
    "synthetic_dataset",
    "truth_matrix",
]
