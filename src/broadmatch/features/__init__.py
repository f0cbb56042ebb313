"""Text to sparse rows: the words of a page as TF-IDF, and what a label is like."""

from broadmatch.features.embeddings import ClickEmbeddings
from broadmatch.features.encodings import decode
from broadmatch.features.label_features import (
    co_label_features,
    embed_label_features,
    join_label_features,
    mean_label_features,
    phrase_label_features,
    read_label_features,
    text_label_features,
    training_label_features,
)
from broadmatch.features.page_vectorizer import PageVectorizer
from broadmatch.features.pivoted import PivotedVectorizer
from broadmatch.features.rocchio import RocchioSelector
from broadmatch.features.word_counts import bag_of_words
from broadmatch.kernels.words import tokenize

__all__ = [
    "ClickEmbeddings",
    "PageVectorizer",
    "PivotedVectorizer",
    "RocchioSelector",
    "bag_of_words",
    "co_label_features",
    "decode",
    "embed_label_features",
    "join_label_features",
    "mean_label_features",
    "phrase_label_features",
    "read_label_features",
    "text_label_features",
    "tokenize",
    "training_label_features",
]
