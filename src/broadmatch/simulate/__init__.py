"""A marketplace with known truth, and matrices of any size with planted structure."""

from broadmatch.simulate.marketplace import Marketplace, simulate_marketplace
from broadmatch.simulate.synthetic import planted_dataset
from broadmatch.simulate.truth import truth_matrix

__all__ = ["Marketplace", "planted_dataset", "simulate_marketplace", "truth_matrix"]
