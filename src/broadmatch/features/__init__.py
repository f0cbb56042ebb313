"""Text to numbers: what is on a page, its words, and its TF-IDF row."""

from broadmatch.features.bag import bag_of_words
from broadmatch.features.encodings import decode
from broadmatch.features.html import PageText, extract
from broadmatch.features.page_vectorizer import PageVectorizer
from broadmatch.features.tokens import tokenize

__all__ = ["PageText", "PageVectorizer", "bag_of_words", "decode", "extract", "tokenize"]
