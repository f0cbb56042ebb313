"""Click prediction: online learners, their feature table, and what a working system needs around them."""

from broadmatch.ctr.isotonic_calibration import IsotonicCalibration
from broadmatch.ctr.poisson_calibration import PoissonCalibration
from broadmatch.ctr.sliced_calibration import SlicedCalibration

__all__ = [
    "IsotonicCalibration",
    "PoissonCalibration",
    "SlicedCalibration",
]
