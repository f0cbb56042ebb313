"""A marketplace with known truth, and matrices of any size with planted structure."""

from broadmatch.simulate.planted import planted_dataset

__all__ = ["planted_dataset"]
