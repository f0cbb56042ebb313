"""Pages to TF-IDF rows."""

import itertools

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.feature_extraction.text import TfidfVectorizer
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MaxAbsScaler
from sklearn.utils import get_tags

import broadmatch
from broadmatch.errors import BadInput, BadParameter, NotFitted
from broadmatch.features import PageVectorizer, bag_of_words, page_vectorizer
from broadmatch.features import word_counts as counting
from broadmatch.features.stop_words import ENGLISH
from tests.reference.tf_idf import tf_idf


def make_pages(n: int) -> list[str]:
    """Pages over a Zipf vocabulary, some empty, some plain."""
    rng = np.random.default_rng(5)
    pages = []
    for i in range(n):
        words = [f"Word{w}é" for w in rng.zipf(1.4, size=rng.integers(0, 60)) if w < 5000]
        cut = len(words) // 3
        page = (
            f"<title>{' '.join(words[:2])}</title><p>the {' '.join(words[:cut])}<a href=/>{' '.join(words[cut:])}</a>"
        )
        pages.append(page if i % 7 else " ".join(words))
    return pages


PAGES = make_pages(400)


def assert_same(a, b) -> None:
    assert a.shape == b.shape
    for name in ("indptr", "indices", "data"):
        assert np.array_equal(getattr(a, name), getattr(b, name))


@pytest.fixture(scope="module")
def fitted() -> PageVectorizer:
    return PageVectorizer(min_pages=3).fit(PAGES)


def test_equals_scikit_learn_on_boosted_counts(fitted) -> None:
    def repeated(page: str) -> list[str]:
        return [word for word, n in bag_of_words(page, stop_words=None).items() for _ in range(n)]

    peer = TfidfVectorizer(analyzer=lambda page: [w for w in repeated(page) if w not in ENGLISH], min_df=3)
    expected = peer.fit_transform(PAGES)
    assert list(fitted.vocabulary_) == list(peer.get_feature_names_out())
    assert fitted.get_feature_names_out().tolist() == list(fitted.vocabulary_)
    assert np.allclose(fitted.transform(PAGES).toarray(), expected.toarray(), atol=1e-6)
    assert np.allclose(fitted.idf_, peer.idf_)
    assert fitted.n_pages_ == 400


def test_rows_are_canonical_float32_of_unit_length(fitted) -> None:
    rows = fitted.transform(PAGES)
    assert rows.dtype == np.float32
    assert rows.has_canonical_format
    lengths = np.sqrt(rows.multiply(rows).sum(axis=1))
    filled = np.diff(rows.indptr) > 0
    assert np.allclose(lengths[filled], 1)
    assert not filled.all()


def test_an_empty_page_gives_an_empty_row(fitted) -> None:
    rows = fitted.transform(["", b"", "unheardof words only", "<p></p>"])
    assert rows.shape == (4, len(fitted.vocabulary_))
    assert rows.nnz == 0
    assert fitted.transform([]).shape == (0, len(fitted.vocabulary_))


def test_a_stream_is_read_once_and_gives_the_same(fitted) -> None:
    vectorizer = PageVectorizer(min_pages=3)
    rows = vectorizer.fit_transform(page for page in PAGES)
    assert vectorizer.vocabulary_ == fitted.vocabulary_
    assert_same(rows, fitted.transform(iter(PAGES)))


def test_every_n_jobs_and_block_size_gives_the_same_bits(fitted, monkeypatch) -> None:
    expected = fitted.transform(PAGES)
    for n_jobs, size in itertools.product((1, 3, -1), (1, 50, 1024)):
        monkeypatch.setattr(counting, "_BLOCK_PAGES", size)
        other = PageVectorizer(min_pages=3, n_jobs=n_jobs)
        assert_same(other.fit_transform(PAGES), expected)
        assert_same(other.fit(PAGES).transform(PAGES), expected)
        assert other.vocabulary_ == fitted.vocabulary_


def test_only_a_few_blocks_of_a_stream_are_held(monkeypatch) -> None:
    monkeypatch.setattr(counting, "_BLOCK_PAGES", 10)
    ahead = []

    def pages():
        for i, page in enumerate(PAGES):
            ahead.append(i)
            yield page

    blocks = counting.count_pages(pages(), boost=10, n_jobs=2)
    next(blocks)
    assert len(ahead) <= 60
    blocks.close()


def test_saved_and_loaded_gives_the_same_bits(fitted, tmp_path) -> None:
    fitted.save(tmp_path / "vectorizer")
    loaded = broadmatch.load(tmp_path / "vectorizer")
    assert loaded.get_params() == fitted.get_params()
    assert loaded.vocabulary_ == fitted.vocabulary_
    assert_same(loaded.transform(PAGES), fitted.transform(PAGES))


def test_own_stop_words_are_saved(tmp_path) -> None:
    vectorizer = PageVectorizer(min_pages=1, stop_words={"Cheap", "now"}).fit(["cheap pizza now the"])
    assert list(vectorizer.vocabulary_) == ["pizza", "the"]
    vectorizer.save(tmp_path / "v")
    assert broadmatch.load(tmp_path / "v").stop_words == ["Cheap", "now"]


def test_refitting_forgets(fitted) -> None:
    vectorizer = PageVectorizer(min_pages=1).fit(["pizza pasta"])
    vectorizer.transform(["pizza"])
    vectorizer.fit(["taxi cab fare"])
    assert vectorizer.transform(["taxi pizza"]).indices.tolist() == [list(vectorizer.vocabulary_).index("taxi")]


def test_scikit_learn_conventions(fitted) -> None:
    copy = clone(fitted)
    assert copy.get_params() == fitted.get_params()
    with pytest.raises(NotFitted, match="PageVectorizer is not fitted"):
        copy.transform(PAGES)
    with pytest.raises(NotFitted):
        copy.get_feature_names_out()
    with pytest.raises(AttributeError):
        _ = copy.vocabulary_
    with pytest.raises(NotFitted):
        copy.to_state()
    pipeline = make_pipeline(PageVectorizer(min_pages=3), MaxAbsScaler())
    assert pipeline.fit_transform(PAGES).shape == (400, len(fitted.vocabulary_))
    assert pipeline.get_feature_names_out().tolist() == list(fitted.vocabulary_)
    tags = get_tags(fitted)
    assert tags.transformer_tags is not None
    assert (tags.input_tags.string, tags.input_tags.two_d_array) == (True, False)


def test_its_parameters_are_searched_like_any_other() -> None:
    steps = make_pipeline(PageVectorizer(), LogisticRegression())
    search = GridSearchCV(steps, {"pagevectorizer__min_pages": [2, 150], "pagevectorizer__boost": [1, 10]}, cv=2)
    search.fit(PAGES, ["word1é" in page.lower() for page in PAGES])
    assert search.best_estimator_[0].n_pages_ == 400
    assert {p["pagevectorizer__min_pages"] for p in search.cv_results_["params"]} == {2, 150}


@pytest.mark.parametrize(
    ("name", "value"),
    [("min_pages", 0), ("boost", 0), ("boost", 1.5), ("stop_words", "klingon"), ("n_jobs", 0), ("ngrams", 3)],
)
def test_wrong_parameters(name: str, value: object) -> None:
    with pytest.raises(BadParameter, match=f"{name} must be"):
        PageVectorizer(**{name: value}).fit(PAGES)


@pytest.mark.parametrize(
    ("pages", "message"),
    [
        ([], "no pages to fit on"),
        (["the"], "The 1 pages hold no words, or stop words only"),
        (["the and"] * 20, "The 20 pages hold no words, or stop words only"),
        ("<p>one page", "pages is one text"),
        (["pizza", None], "Page 1 is a NoneType"),
    ],
)
def test_unusable_pages(pages, message: str) -> None:
    with pytest.raises(BadInput, match=message):
        PageVectorizer().fit(pages)
    with pytest.raises(BadInput, match=message):
        PageVectorizer().fit_transform(pages)


TABLE = {"name": ["a", "b"], "Text": ["fresh pizza", "fresh pasta"], "price": [1, 2]}


@pytest.mark.parametrize("make", [pd.DataFrame, pl.DataFrame, pa.table])
def test_a_table_gives_its_column_of_text(make):
    expected = PageVectorizer(min_pages=1).fit_transform(TABLE["Text"])
    only = {"anything": TABLE["Text"], "price": [1, 2]}
    for pages in (make(TABLE), make(only), make(only)["anything"]):
        assert (PageVectorizer(min_pages=1).fit_transform(pages) != expected).nnz == 0
    with pytest.raises(BadInput, match=r"several columns of text: name, other; give the column .* table\['html'\]"):
        PageVectorizer().fit(make({"name": ["a", "b"], "other": ["x", "y"]}))
    with pytest.raises(BadInput, match="no column of text"):
        PageVectorizer().fit(make({"price": [1, 2]}))


def test_pages_by_name_are_refused():
    with pytest.raises(BadInput, match=r"give the pages alone, as list\(pages.values\(\)\)"):
        PageVectorizer().fit({"a.html": "<p>pizza"})


def test_words_of_few_pages_are_kept_by_default():
    """A first try with four pages learns from their words; from a thousand on, a word needs ten, as in the paper."""
    assert list(PageVectorizer().fit(["pizza oven", "pizza"]).vocabulary_) == ["oven", "pizza"]
    often = {"three": 3, "four": 4, "nine": 9, "ten": 10}

    def kept(n: int, **given: int) -> set[str]:
        pages = [" ".join(word for word, times in often.items() if i < times) or "pizza" for i in range(n)]
        return set(PageVectorizer(**given).fit(pages).vocabulary_) - {"pizza"}

    assert kept(300) == set(often)
    assert kept(400) == {"four", "nine", "ten"}
    assert kept(1000) == kept(5000) == {"ten"}
    assert kept(400, min_pages=10) == {"ten"}
    with pytest.raises(
        BadInput, match="No word is on at least 10 of the 1 pages; give more pages, or a lower min_pages"
    ):
        PageVectorizer(min_pages=10).fit(["pizza"])


def test_pairs_are_columns_too(tmp_path) -> None:
    pages = ["<b>fresh pizza</b> of town", "<title>Fresh Pizza</title>of the town", "pizza <b>fresh"]
    both = PageVectorizer(min_pages=1, ngrams=2).fit(pages)
    assert list(both.vocabulary_) == ["fresh", "fresh pizza", "pizza", "town"]
    counts = np.array([[bag_of_words(page, ngrams=2).get(word, 0) for word in both.vocabulary_] for page in pages])
    expected = tf_idf(counts, [0, 1, 2, 3], both.idf_)
    np.testing.assert_allclose(both.fit_transform(pages).toarray(), expected, rtol=1e-6)
    both.save(tmp_path / "pairs")
    assert np.array_equal(
        broadmatch.load(tmp_path / "pairs").transform(pages).toarray(), both.transform(pages).toarray()
    )


def test_many_pairs_are_bounded_and_those_on_many_pages_stay(monkeypatch) -> None:
    monkeypatch.setattr(counting, "_BLOCK_PAGES", 10)
    pages = [f"hot tea and a{i} b{i} c{i}" for i in range(100)]
    whole = PageVectorizer(min_pages=50, ngrams=2)
    X = whole.fit_transform(pages)
    monkeypatch.setattr(page_vectorizer, "_MOST_WORDS", 60)
    bounded = PageVectorizer(min_pages=50, ngrams=2)
    assert np.array_equal(bounded.fit_transform(pages).toarray(), X.toarray())
    assert list(bounded.vocabulary_) == list(whole.vocabulary_) == ["hot", "hot tea", "tea"]
    assert list(bounded.fit(pages).vocabulary_) == ["hot", "hot tea", "tea"]
