"""Click prediction: online learners, their feature table, and what a working system needs around them."""

from broadmatch.ctr.fobos import FOBOS
from broadmatch.ctr.ftrl import FTRL
from broadmatch.ctr.inclusion import Bloom, Poisson
from broadmatch.ctr.isotonic_calibration import IsotonicCalibration
from broadmatch.ctr.join import ClickJoin, joined
from broadmatch.ctr.many import ManyModels
from broadmatch.ctr.model import ClickModel
from broadmatch.ctr.ogd import OGD
from broadmatch.ctr.poisson_calibration import PoissonCalibration
from broadmatch.ctr.predicting import predict_files
from broadmatch.ctr.rda import RDA
from broadmatch.ctr.recalibration import recalibrate
from broadmatch.ctr.serving import ServingModel
from broadmatch.ctr.single_value import SingleValue
from broadmatch.ctr.sliced_calibration import SlicedCalibration
from broadmatch.ctr.subsample import Subsampler
from broadmatch.ctr.training import ClickTraining
from broadmatch.ctr.variants import Variant

__all__ = [
    "FOBOS",
    "FTRL",
    "OGD",
    "RDA",
    "Bloom",
    "ClickJoin",
    "ClickModel",
    "ClickTraining",
    "IsotonicCalibration",
    "ManyModels",
    "Poisson",
    "PoissonCalibration",
    "ServingModel",
    "SingleValue",
    "SlicedCalibration",
    "Subsampler",
    "Variant",
    "joined",
    "predict_files",
    "recalibrate",
]
