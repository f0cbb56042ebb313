"""Selection of terms by Rocchio's formula."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.pipeline import make_pipeline

from broadmatch.errors import BadInput, BadParameter, NotFitted
from broadmatch.features import PivotedVectorizer, RocchioSelector
from tests.reference import rocchio as slow


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(1, 12), st.integers(1, 8), st.integers(1, 4), st.integers(1, 5))
def test_the_best_terms_of_every_label_are_kept(seed, n, d, k, terms):
    rng = np.random.default_rng(seed)
    X = (rng.integers(0, 3, (n, d)) / 2).astype(np.float32)
    X[:, 0] += 1
    Y = rng.random((n, k)) < 0.4
    Y[0, 0] = True
    selector = RocchioSelector(terms=terms, gamma=0.37).fit(X, Y)  # 0.37: different sums never tie
    table = slow.scores(X.astype(np.float64), Y, 16.0, 0.37).round(9)
    assert selector.columns_.tolist() == slow.best_terms(table, terms)
    assert np.array_equal(selector.transform(X).toarray(), X[:, selector.columns_])


def test_terms_that_speak_against_a_label_are_not_kept():
    X = np.array([[1, 0, 1], [1, 0, 0], [0, 1, 1], [0, 1, 0]], np.float32)
    Y = [["grain"], ["grain"], [], []]
    assert RocchioSelector(terms=3).fit(X, Y).columns_.tolist() == [0, 2]
    assert RocchioSelector(terms=3, gamma=100).fit(X, Y).columns_.tolist() == [0]
    assert RocchioSelector(terms=1).fit(X, Y).columns_.tolist() == [0]
    assert RocchioSelector(terms=1).fit(X, Y).get_feature_names_out(["wheat", "oil", "said"]).tolist() == ["wheat"]
    assert RocchioSelector(terms=1).fit(X, Y).get_feature_names_out().tolist() == ["0"]


def test_in_a_pipeline_behind_a_vectorizer():
    texts = ["wheat corn said", "wheat said", "oil barrel said", "oil said"]
    topics = [["grain"], ["grain"], ["crude"], ["crude"]]
    steps = make_pipeline(PivotedVectorizer(min_pages=1), RocchioSelector(terms=1))
    assert steps.fit_transform(texts, topics).shape == (4, 2)
    assert steps.get_feature_names_out().tolist() == ["oil", "wheat"]
    assert steps.transform(["wheat wheat"]).nnz == 1


def test_bad_input():
    X, Y = np.ones((3, 2)), np.ones((3, 1))
    with pytest.raises(BadInput, match="X has 3 rows and Y has 2"):
        RocchioSelector().fit(X, Y[:2])
    with pytest.raises(BadInput, match="No feature is typical of any label"):
        RocchioSelector().fit(np.zeros((3, 2)), Y)
    with pytest.raises(BadInput, match="No feature is typical of any label"):
        RocchioSelector().fit(X, sp.csr_matrix((3, 1)))
    with pytest.raises(BadParameter, match=r"^terms must be"):
        RocchioSelector(terms=0).fit(X, Y)
    with pytest.raises(NotFitted, match="RocchioSelector"):
        RocchioSelector().get_feature_names_out()
    with pytest.raises(BadInput, match="5 features"):
        RocchioSelector().fit(X, Y).transform(np.ones((1, 5)))
