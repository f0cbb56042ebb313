"""TF-IDF with pivoted length normalisation."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.errors import BadParameter
from broadmatch.features import PageVectorizer, PivotedVectorizer
from broadmatch.features._pivoted import pivoted_rows
from tests.reference.pivoted import pivoted

TEXTS = ["wheat corn corn wheat corn", "wheat", "oil oil oil barrel wheat", "", "corn oil"]


@settings(max_examples=60)
@given(st.integers(0, 2**32 - 1), st.integers(0, 6), st.integers(1, 7), st.sampled_from([0.0, 0.3, 1.0]))
def test_rows_are_those_of_the_formula(seed, n_pages, n_words, slope):
    rng = np.random.default_rng(seed)
    counts = rng.integers(0, 4, (n_pages, n_words)) * rng.choice([1, 1, 1_000_000], (n_pages, n_words))
    columns = np.full(n_words, -1, np.int32)
    kept = rng.permutation(n_words)[: rng.integers(1, n_words + 1)]
    columns[kept] = np.arange(len(kept))
    idf = rng.random(len(kept)) * (rng.random(len(kept)) < 0.8)
    at = [rng.permutation(np.flatnonzero(page)) for page in counts]  # words of a row in any order
    starts = np.concatenate([[0], np.cumsum([len(a) for a in at])]).astype(np.int64)
    words = np.concatenate([*at, []]).astype(np.int32)
    amounts = np.concatenate([*(page[a] for page, a in zip(counts, at, strict=True)), []]).astype(np.int32)
    indptr = np.zeros(n_pages + 1, np.int64)
    indices, data = np.empty(len(words), np.int32), np.empty(len(words), np.float32)
    pivoted_rows(starts, words, amounts, columns, idf, slope, 2.5, indptr, indices, data)
    for i, row in enumerate(pivoted(counts, columns, idf, slope, 2.5)):
        here = slice(indptr[i], indptr[i + 1])
        assert indices[here].tolist() == list(row)
        assert data[here] == pytest.approx(list(row.values()), rel=1e-6)


def test_it_is_the_formula_of_the_paper():
    vectorizer = PivotedVectorizer(min_pages=1).fit(TEXTS)
    assert list(vectorizer.vocabulary_) == ["barrel", "corn", "oil", "wheat"]
    assert vectorizer.idf_ == pytest.approx(np.log(5 / np.array([1, 2, 2, 3])))
    # 2 + 1 + 3 + 0 + 2 different words on 5 pages
    length = (1 + np.log(2.5)) * (0.7 + 0.3 * 2 / 1.6)
    expected = [np.log(5 / 2) * (1 + np.log(3)) / length, np.log(5 / 3) * (1 + np.log(2)) / length]
    assert vectorizer.transform(TEXTS[:1]).data == pytest.approx(expected, rel=1e-6)
    assert vectorizer.transform([""]).nnz == 0
    flat = PivotedVectorizer(min_pages=1, slope=0.0).fit_transform(TEXTS)
    assert flat[0, 1] > vectorizer.transform(TEXTS)[0, 1]  # a page of more words than most counts for less


def test_idf_by_occurrences_is_that_of_the_adaboost_lc_paper():
    by_pages, by_occurrences = (
        PivotedVectorizer(min_pages=1, idf=idf).fit(TEXTS * 3) for idf in ("pages", "occurrences")
    )
    assert by_occurrences.idf_ == pytest.approx(np.log(5 / np.array([1, 4, 4, 4])))  # of barrel, corn, oil, wheat
    assert by_occurrences.mean_terms_ == by_pages.mean_terms_
    often = PivotedVectorizer(min_pages=1, idf="occurrences").fit(["oil oil oil", "corn"])
    assert often.transform(["oil"])[0, 1] < 0


def test_long_pages_lose_less_than_in_unit_rows():
    long, short = " ".join(f"word{i}" for i in range(200)), "word1 word2"
    pages = [long, short, "word3", "word4"]
    pivoted_, unit = (
        v.fit_transform(pages).tocsr() for v in (PivotedVectorizer(min_pages=1), PageVectorizer(min_pages=1))
    )
    assert np.linalg.norm(pivoted_[0].data) > 3 * np.linalg.norm(unit[0].data)


def test_a_word_on_every_page_says_nothing_and_is_not_stored():
    X = PivotedVectorizer(min_pages=1).fit_transform(["wheat corn", "wheat"])
    assert X.shape == (2, 2)
    assert X.nnz == 1


def test_it_is_saved_with_its_pivot(tmp_path):
    vectorizer = PivotedVectorizer(min_pages=1, slope=0.5).fit(TEXTS)
    vectorizer.save(tmp_path / "v")
    loaded = broadmatch.load(tmp_path / "v")
    assert type(loaded) is PivotedVectorizer
    assert loaded.slope == 0.5
    assert np.array_equal(loaded.transform(TEXTS).toarray(), vectorizer.transform(TEXTS).toarray())
    with pytest.raises(BadParameter, match=r"^slope must be a number from 0 to 1"):
        PivotedVectorizer(slope=1.5).fit(TEXTS)
