"""What a label is like, as a row of features: for models that know some labels of a point already (SwiftXML §4).

From the training data: the words of a label's points, and the labels it comes with. From the labels' own texts: TF-IDF
of their words, or embeddings. `join_label_features` puts several kinds side by side.
"""

import logging
from collections.abc import Iterable, Mapping
from pathlib import Path

import numpy as np

from broadmatch.data import CSR, Names, as_features, as_labels
from broadmatch.errors import BadInput, MissingExtra
from broadmatch.features._label_features import place_beside
from broadmatch.features.page_vectorizer import PageVectorizer
from broadmatch.kernels import F32, F64, I32, I64
from broadmatch.kernels.row_sums import largest_of_sums
from broadmatch.parallel import blocks as spans
from broadmatch.parallel import map_threads
from broadmatch.params import Whole

log = logging.getLogger("broadmatch")
_MOST_COLUMNS = 2**31 - 1
_BLOCK = 1024

# A word that only one label has cannot tell which labels are alike.
_MIN_LABELS = 2


def mean_label_features(X: CSR, Y: CSR, *, keep: int = 100, n_jobs: int | None = None) -> CSR:
    """Describe each label by the mean features of its points, weighted by y_il: the `keep` largest, unit rows.

    Of equal entries those in lower columns stay. A label without points has an empty row.

    >>> X = CSR.from_rows([[0, 1], [1], [2]], n_cols=3)
    >>> Y = CSR.from_rows([[0], [0], []], n_cols=2)
    >>> mean_label_features(X, Y).to_scipy().toarray().round(2)
    array([[0.45, 0.89, 0.  ],
           [0.  , 0.  , 0.  ]], dtype=float32)
    """
    Whole(1).check("keep", keep)
    features, labels = as_features(X), as_labels(Y)[0]
    _check_same_points(features, labels)
    # The sum over the points is the mean times their number, and unit rows forget the number.
    return _rows(labels, features, np.ones(features.n_cols), keep, False, n_jobs)


def co_label_features(Y: CSR, *, keep: int = 50, n_jobs: int | None = None) -> CSR:
    """Describe each label by the labels it comes with: cosines of the columns of Y, the `keep` largest, unit rows.

    A label always keeps itself, with the largest weight. The columns of the result are the labels.

    >>> Y = CSR.from_rows([[0, 1], [0, 1], [0], [2]], n_cols=3)
    >>> co_label_features(Y).to_scipy().toarray().round(2)
    array([[0.77, 0.63, 0.  ],
           [0.63, 0.77, 0.  ],
           [0.  , 0.  , 1.  ]], dtype=float32)
    """
    Whole(1).check("keep", keep)
    labels, _ = as_labels(Y)
    norms = np.sqrt(np.bincount(labels.indices, np.square(labels.data, dtype=np.float64), labels.n_cols))
    scale = np.zeros(labels.n_cols)
    np.divide(1.0, norms, out=scale, where=norms > 0)
    return _rows(labels, labels, scale, keep, True, n_jobs)


def training_label_features(
    X: CSR, Y: CSR, *, keep_words: int = 100, keep_labels: int = 50, n_jobs: int | None = None
) -> CSR:
    """Describe each label by the mean features of its points beside the labels it comes with.

    >>> X, Y = CSR.from_rows([[0], [0, 1]], n_cols=2), CSR.from_rows([[0], [1]], n_cols=2)
    >>> training_label_features(X, Y).to_scipy().toarray().round(2)
    array([[0.71, 0.  , 0.71, 0.  ],
           [0.5 , 0.5 , 0.  , 0.71]], dtype=float32)
    """
    words = mean_label_features(X, Y, keep=keep_words, n_jobs=n_jobs)
    return join_label_features(words, co_label_features(Y, keep=keep_labels, n_jobs=n_jobs))


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


def phrase_label_features(phrases: Iterable[str]) -> CSR | None:
    """`text_label_features` of labels that are phrases; None, with a warning, if no word is in two of them.

    >>> phrase_label_features(["pizza", "taxi"]) is None
    True
    """
    known = list(phrases)
    try:
        return text_label_features(known)[0]
    except BadInput:
        log.warning("No word is in two of the %s label texts; labels go without features.", f"{len(known):,}")
        return None


def read_label_features(path: str | Path, labels: Names, *, columns: Mapping[str, str] | None = None) -> CSR | None:
    """What labels are like, from a file: a `.npz` of labels × features, or a table of labels and their texts.

    >>> _ = Path("texts.csv").write_text("label,text\\n17,cheap pizza\\n4,pizza delivery\\n")
    >>> read_label_features("texts.csv", Names.of(["4", "17"])).shape
    (2, 1)
    """
    from broadmatch.io.matrices.npz import read_matrix
    from broadmatch.io.tables import LABEL_TEXTS, read_pairs

    if Path(path).suffix == ".npz":
        features = as_features(read_matrix(Path(path)))
        if features.n_rows != len(labels):
            raise BadInput(
                f"{path} has {features.n_rows:,} rows, but there are {len(labels):,} labels; give one row for each "
                "label, an empty one where there are no features."
            )
        return features
    texts: dict[str, str] = {}
    for label, text in read_pairs(path, LABEL_TEXTS, columns, option="label_columns"):
        texts[label] = f"{texts[label]}\n{text}" if label in texts else text
    without = sum(name not in texts for name in labels)
    if without == len(labels):
        raise BadInput(
            f"{path} has a text for none of the {without:,} labels; it names {next(iter(texts), 'nothing')!r}, they "
            f"are called such as {labels[0]!r}."
        )
    if without:
        log.warning("Labels without a text in %s: %s of %s.", path, f"{without:,}", f"{len(labels):,}")
    return phrase_label_features([texts.get(name, "") for name in labels])


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
    return join_label_features(CSR.from_scipy(sp.csr_matrix(static.encode(known))))  # one block alone: unit rows


def join_label_features(*blocks: CSR) -> CSR:
    """Put label features of several kinds side by side: each row of each block counts the same, unit rows.

    A label that has features of one kind only is described by these alone.

    >>> words, labels = CSR.from_rows([[0, 1], [1]], n_cols=2), CSR.from_rows([[0], []], n_cols=1)
    >>> join_label_features(words, labels).to_scipy().toarray().round(2)
    array([[0.5 , 0.5 , 0.71],
           [0.  , 1.  , 0.  ]], dtype=float32)
    """
    checked = [as_features(block) for block in blocks]
    if len({block.n_rows for block in checked}) != 1:
        heights = " and ".join(f"{block.n_rows:,}" for block in checked) or "no"
        raise BadInput(f"The blocks have {heights} rows; each must have one row for each label.")
    n_cols = sum(block.n_cols for block in checked)
    if n_cols > _MOST_COLUMNS:
        raise BadInput(f"The blocks have {n_cols:,} columns together; at most {_MOST_COLUMNS:,} are possible.")
    indptr, kinds = np.zeros(checked[0].n_rows + 1, np.int64), np.zeros(checked[0].n_rows, np.int64)
    for block in checked:
        indptr += block.indptr
        kinds += np.diff(block.indptr) > 0
    at, indices, data = indptr[:-1].copy(), np.empty(indptr[-1], np.int32), np.empty(indptr[-1], np.float32)
    shift = 0
    for block in checked:
        place_beside(*block[:3], shift, kinds, at, indices, data)
        shift += block.n_cols
    placed = CSR(indptr, indices, data, n_cols)
    # Scaled down, a value can become too small for a float32, and zeros are not stored.
    return placed if data.all() else CSR.from_scipy(placed.to_scipy())


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


def _check_same_points(X: CSR, Y: CSR) -> None:
    if X.n_rows != Y.n_rows:
        raise BadInput(f"X has {X.n_rows:,} rows and Y has {Y.n_rows:,}; they must be the same points.")


def _rows(labels: CSR, rows: CSR, scale: F64, keep: int, own: bool, n_jobs: int | None) -> CSR:
    by_label = labels.transposed()

    def make(span: tuple[int, int]) -> tuple[I64, I32, F32]:
        start, stop = span
        return largest_of_sums(start, stop, *by_label[:3], *rows[:3], scale, keep, own, True)[:3]

    return CSR.of_blocks(map_threads(make, spans(labels.n_cols, _BLOCK), n_jobs), rows.n_cols)
