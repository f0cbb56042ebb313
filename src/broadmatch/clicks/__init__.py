"""Click prediction: online learners, their feature table, and what a working system needs around them."""

from broadmatch.clicks.calibration.isotonic import IsotonicCalibration
from broadmatch.clicks.calibration.poisson import PoissonCalibration
from broadmatch.clicks.calibration.recalibration import recalibrate
from broadmatch.clicks.calibration.sliced import SlicedCalibration
from broadmatch.clicks.fobos import FOBOS
from broadmatch.clicks.ftrl import FTRL
from broadmatch.clicks.inclusion import Bloom, Poisson
from broadmatch.clicks.many_models import ManyModels
from broadmatch.clicks.model import ClickModel
from broadmatch.clicks.ogd import OGD
from broadmatch.clicks.rda import RDA
from broadmatch.clicks.serving import ServingModel
from broadmatch.clicks.single_value import SingleValue
from broadmatch.clicks.training.join import ClickJoin, joined
from broadmatch.clicks.training.predict_files import predict_files
from broadmatch.clicks.training.subsample import Subsampler
from broadmatch.clicks.training.training import ClickTraining
from broadmatch.clicks.variants import Variant

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
