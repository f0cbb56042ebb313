"""A marketplace with known truth, and matrices of any size with known structure."""

from broadmatch.simulate.marketplace import Marketplace, simulate_marketplace
from broadmatch.simulate.meanings import meaning_distances
from broadmatch.simulate.synthetic import synthetic_dataset
from broadmatch.simulate.truth import generic_phrases, truth_matrix

__all__ = [
    "Marketplace",
    "generic_phrases",
    "meaning_distances",
    "simulate_marketplace",
    "synthetic_dataset",
    "truth_matrix",
]
