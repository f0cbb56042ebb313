"""Label models, named as in their papers: rows of features in, ranked labels out."""

from broadmatch.labels.mlrf import MLRF
from broadmatch.labels.mlrf_explain import Explanation
from broadmatch.labels.recommender import Phrase, Recommender

__all__ = ["MLRF", "Explanation", "Phrase", "Recommender"]
