"""Labels and pages joined: rows that belong together, nothing lost in silence, no look at the test pages."""

import logging
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from sklearn.feature_extraction.text import TfidfVectorizer

from broadmatch.data import CSR, Names
from broadmatch.errors import BadInput, BadParameter
from broadmatch.features import PageVectorizer
from broadmatch.harvest import Harvest, build_datasets, npmi, sparse_beliefs


class Html(NamedTuple):
    name: str
    html: str


TRAIN = {"a": [0, 1], "b": [1], "c": [0, 1, 2], "d": [2]}
TEST = {"x": [0, 2], "y": [1]}


def counts(of: dict[str, list[int]]) -> CSR:
    rows = CSR.from_rows(list(of.values()), 3)
    return rows._replace(data=np.arange(2, rows.nnz + 2, dtype=np.float32))


@pytest.fixture
def harvested() -> Harvest:
    labels, train, test = Names.of(["pizza", "taxi", "tea"]), Names.of(TRAIN), Names.of(TEST)
    return Harvest(counts(TRAIN), counts(TEST), labels, train, test, {})


def some_pages() -> Iterator[Html]:
    for name in ("y", "d", "nobody", "a", "x", "b", "a", "c"):
        yield Html(name, f"word_{name} common")


def dense(matrix: CSR) -> list[list[float]]:
    return matrix.to_scipy().toarray().tolist()


def test_rows_belong_together(harvested: Harvest) -> None:
    train, test = build_datasets(harvested, list(some_pages()), TfidfVectorizer(use_idf=False, norm=None))
    assert list(train.points or []) == ["d", "a", "b", "c"]
    assert dense(train.Y) == [[0, 0, 1], [1, 1, 0], [0, 1, 0], [1, 1, 1]]
    assert list(train.features or []) == ["common", "word_a", "word_b", "word_c", "word_d"]
    assert dense(train.X) == [[1, 0, 0, 0, 1], [1, 1, 0, 0, 0], [1, 0, 1, 0, 0], [1, 0, 0, 1, 0]]
    assert list(test.points or []) == ["y", "x"]
    assert dense(test.Y) == [[0, 1, 0], [1, 0, 1]]
    assert dense(test.X) == [[1, 0, 0, 0, 0]] * 2
    assert train.labels == test.labels == harvested.labels


@pytest.mark.parametrize(("weights", "weigh"), [("npmi", npmi), ("beliefs", None)])
def test_weights_are_for_training_only(harvested: Harvest, weights: str, weigh: Any) -> None:
    train, test = build_datasets(harvested, list(some_pages()), TfidfVectorizer(), weights=weights)
    plain = harvested.train_counts._replace(data=np.ones(harvested.train_counts.nnz, np.float32))
    whole = npmi(harvested.train_counts) if weigh else sparse_beliefs(plain)
    assert dense(train.Y) == dense(whole.take(np.array([3, 0, 1, 2])))
    assert set(test.Y.data.tolist()) == {1.0}


def test_a_fitted_vectorizer_is_not_fitted_again(harvested: Harvest) -> None:
    vectorizer = TfidfVectorizer().fit(["common other"])
    train, _ = build_datasets(harvested, list(some_pages()), vectorizer)
    assert list(train.features or []) == ["common", "other"]


def test_clicked_pages_without_html_are_told(harvested: Harvest, caplog: pytest.LogCaptureFixture) -> None:
    pages = [page for page in some_pages() if page.name not in "ac"]
    with caplog.at_level(logging.WARNING, "broadmatch"):
        train, _ = build_datasets(harvested, pages, TfidfVectorizer())
    assert list(train.points or []) == ["d", "b"]
    assert "2 of 4 clicked training pages have no HTML" in caplog.text


def test_pages_without_a_word_are_counted(harvested: Harvest, caplog: pytest.LogCaptureFixture) -> None:
    pages = [Html(name, "" if name == "a" else "common word") for name in "abcd"]
    with caplog.at_level(logging.WARNING, "broadmatch"):
        train, test = build_datasets(harvested, pages, PageVectorizer())
    assert len(train) == 4
    assert "1 of 4 training pages have no word that is kept." in caplog.text
    # Test pages whose HTML is not there end nothing: there is less to test on.
    assert len(test) == 0
    assert "2 of 2 clicked test pages have no HTML" in caplog.text


def test_no_clicked_page_at_all(harvested: Harvest) -> None:
    with pytest.raises(
        BadInput, match=r"None of the 4 clicked training .* 'a', is among the pages, such as 'http://a'"
    ):
        build_datasets(harvested, [Html("http://a", "common")], PageVectorizer())


def test_no_test_pages(harvested: Harvest) -> None:
    none = Harvest(
        harvested.train_counts, CSR.from_rows([], 3), harvested.labels, harvested.train_pages, Names.of([]), {}
    )
    _, test = build_datasets(none, list(some_pages()), TfidfVectorizer())
    assert (test.X.shape, test.Y.shape) == ((0, 5), (0, 3))


def test_an_iterator_is_refused(harvested: Harvest) -> None:
    with pytest.raises(BadParameter, match="pages must be something to go through twice"):
        build_datasets(harvested, some_pages(), TfidfVectorizer())
    with pytest.raises(BadParameter, match="weights must be one of 'plain', 'npmi', 'beliefs'"):
        build_datasets(harvested, list(some_pages()), TfidfVectorizer(), weights="idf")


class _Rows:
    """A vectorizer that gives one number a page."""

    def fit_transform(self, pages: Any, /) -> Any:
        return self.transform(pages)

    def transform(self, pages: Any, /) -> Any:
        return np.array([[float(len(html))] for html in pages]).reshape(-1, 1)


class _Lazy(_Rows):
    """A vectorizer that forgets a page."""

    def transform(self, pages: Any, /) -> Any:
        return super().transform(pages)[1:]


def test_a_vectorizer_that_loses_pages_is_caught(harvested: Harvest) -> None:
    train, _ = build_datasets(harvested, list(some_pages()), _Rows())
    assert train.features is None
    with pytest.raises(BadInput, match="made 3 rows of 4 training pages"):
        build_datasets(harvested, list(some_pages()), _Lazy())
