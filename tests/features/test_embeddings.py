"""Embeddings from clicks: what is clicked alike is near, the SVD is the exact one, any text has a vector."""

import numpy as np
import pytest

import broadmatch
from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.features import ClickEmbeddings

QUERIES = ["sports shoes", "trainers", "taxi", "airport cab", "cheap shoes", "cheap cab"]
CLICKS = CSR.from_rows([[0, 1], [0, 1], [2, 3], [2, 3], [0], [3]], n_cols=4)


def unit(rows):
    return rows / np.linalg.norm(rows, axis=1, keepdims=True)


def test_pages_are_the_exact_svd_of_the_positive_mutual_information():
    model = ClickEmbeddings(size=4).fit(QUERIES, CLICKS, pages=list("abcd"))
    c = CLICKS.to_scipy().toarray().astype(np.float64)
    with np.errstate(divide="ignore"):
        weights = np.where(c > 0, np.maximum(np.log(c * c.sum() / np.outer(c.sum(1), c.sum(0))), 1e-6), 0)
    _, values, right = np.linalg.svd(weights, full_matrices=False)
    expected = unit(right.T * np.sqrt(values))
    np.testing.assert_allclose(model.page_vectors_ @ model.page_vectors_.T, expected @ expected.T, atol=1e-5)
    assert list(model.pages_) == list("abcd")


def test_words_are_means_of_queries_and_texts_are_sums_of_words():
    model = ClickEmbeddings(size=3, prior=0).fit(QUERIES, CLICKS)
    clicks = np.log1p(CLICKS.to_scipy().toarray().sum(1))
    rows = [4, 5]  # "cheap"
    mean = (clicks[rows, None] * model.vectors_[rows]).sum(0) / clicks[rows].sum()
    at = model.words_.index("cheap")
    np.testing.assert_allclose(model.word_vectors_[at], mean, atol=1e-6)
    assert (
        np.linalg.norm(model.word_vectors_[at]) < 0.8 < np.linalg.norm(model.word_vectors_[model.words_.index("taxi")])
    )
    text = unit((model.word_vectors_[at] + model.word_vectors_[model.words_.index("trainers")])[None])
    np.testing.assert_allclose(model.embed(["cheap trainers unheard"]), text, atol=1e-6)


def test_what_is_clicked_alike_is_near_and_nothing_is_known_of_an_unknown_text():
    model = ClickEmbeddings().fit(QUERIES, CLICKS)
    a, b, c, nothing, empty = model.embed(["trainers", "red shoes", "airport taxi", "zebra", ""])
    assert a @ b > 0.8 > 0.1 > a @ c
    assert not nothing.any()
    assert not empty.any()
    assert model.embed([]).shape == (0, 4)
    assert model.label_features(["trainers", "zebra"]).to_scipy().toarray()[1].tolist() == [0] * 4


def test_a_log_of_one_click(tmp_path):
    one = ClickEmbeddings().fit(["pizza"], CSR.from_rows([[0]], 1))
    one.save(tmp_path / "one")
    assert (
        broadmatch.load(tmp_path / "one").embed(["pizza", "pizza place"]).tolist() == one.embed(["pizza"] * 2).tolist()
    )


def test_the_same_seed_gives_the_same_bits():
    one, two = (ClickEmbeddings(seed=5).fit(QUERIES, CLICKS) for _ in range(2))
    assert one.embed(QUERIES).tobytes() == two.embed(QUERIES).tobytes()


def test_what_does_not_fit_is_refused():
    with pytest.raises(BadInput, match="give a row for each query"):
        ClickEmbeddings().fit(QUERIES[:2], CLICKS)
    with pytest.raises(BadInput, match="There are no clicks"):
        ClickEmbeddings().fit(QUERIES, CSR.from_rows([[]] * 6, 4))
