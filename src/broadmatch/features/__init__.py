"""To numbers: the words of a page as a TF-IDF row, and what a label is like."""

from broadmatch.features.bag import bag_of_words
from broadmatch.features.encodings import decode
from broadmatch.features.label_features import beside, co_label_features, mean_label_features, training_label_features
from broadmatch.features.label_texts import embed_label_features, text_label_features
from broadmatch.features.page_vectorizer import PageVectorizer
from broadmatch.features.pivoted import PivotedVectorizer
from broadmatch.features.rocchio import RocchioSelector
from broadmatch.features.tokens import tokenize

__all__ = [
    "PageVectorizer",
    "PivotedVectorizer",
    "RocchioSelector",
    "bag_of_words",
    "beside",
    "co_label_features",
    "decode",
    "embed_label_features",
    "mean_label_features",
    "text_label_features",
    "tokenize",
    "training_label_features",
]
