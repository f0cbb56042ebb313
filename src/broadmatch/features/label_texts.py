"""Label features from the labels' own texts: TF-IDF of their words, or embeddings."""

from collections.abc import Iterable

from broadmatch.data import CSR
from broadmatch.errors import BadInput, MissingExtra
from broadmatch.features.label_features import beside
from broadmatch.features.page_vectorizer import PageVectorizer

# A word that only one label has cannot tell which labels are alike.
_MIN_LABELS = 2


def text_label_features(texts: Iterable[str]) -> tuple[CSR, PageVectorizer]:
    """TF-IDF rows of the labels' texts (bid phrases, descriptions), and the vectorizer, for labels that come later.

    Texts are read as `PageVectorizer` reads pages. Words of one label only are dropped, and a label without a word
    that another one has gets an empty row.

    >>> features, vectorizer = text_label_features(["pizza delivery", "cheap pizza", "flower delivery", ""])
    >>> list(vectorizer.vocabulary_)
    ['delivery', 'pizza']
    >>> features.to_scipy().toarray().round(2)
    array([[0.71, 0.71],
           [0.  , 1.  ],
           [1.  , 0.  ],
           [0.  , 0.  ]], dtype=float32)
    """
    known = _checked(texts)
    vectorizer = PageVectorizer(min_pages=_MIN_LABELS)
    try:
        rows = vectorizer.fit_transform(known)
    except BadInput as error:
        raise BadInput(
            f"No word is in two of the {len(known):,} label texts, so they cannot tell which labels are alike; "
            "give longer texts, or use training_label_features."
        ) from error
    return CSR.from_scipy(rows), vectorizer


def embed_label_features(texts: Iterable[str], model: str) -> CSR:
    """Embeddings of the labels' texts by a static model of model2vec, unit rows; an empty row for an empty text.

    `model` is a folder that holds such a model, or its name on the Hugging Face hub, as "minishlab/potion-base-8M".
    Needs the extra: pip install 'broadmatch[embeddings]'.
    """
    try:
        from model2vec import StaticModel
    except ImportError as error:
        raise MissingExtra("Embeddings need model2vec; pip install 'broadmatch[embeddings]' brings it.") from error
    import scipy.sparse as sp

    known = _checked(texts)
    try:
        static = StaticModel.from_pretrained(model, force_download=False)
    except Exception as error:  # each of the parts it reads with has errors of its own
        raise BadInput(
            f"The embedding model {model!r} cannot be loaded ({error}); "
            "give the folder of a model2vec model, or its name on the Hugging Face hub."
        ) from error
    return beside(CSR.from_scipy(sp.csr_matrix(static.encode(known))))  # one block beside nothing: unit rows


def _checked(texts: Iterable[str]) -> list[str]:
    if isinstance(texts, str):
        raise BadInput("The label texts are one string; give a list of strings, one for each label.")
    known = list(texts)
    if not known:
        raise BadInput("There are no label texts; give one for each label, '' where there is none.")
    for label, text in enumerate(known):
        if not isinstance(text, str):
            raise BadInput(f"The text of label {label} is {text!r}; it must be a string, '' where there is none.")
    return known
