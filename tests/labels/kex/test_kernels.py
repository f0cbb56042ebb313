"""Candidates, keys and the logistic regression, against plain Python and scikit-learn."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.linear_model import LogisticRegression

from broadmatch.data import Names
from broadmatch.harvest import QueryTable
from broadmatch.labels.kex._logistic import scores_of, solve_logistic
from broadmatch.labels.kex.reading import of_page, page_blocks, read_pages, stop_word_table
from broadmatch.labels.kex.tables import KeyCounter, Lookup, QueryFacts, keys_of
from broadmatch.labels.kex.training import Rows, best_cut
from tests.reference import kex as reference

WORDS = ["the", "of", "a", "boxes", "box", "cities", "city", "Thai", "FOOD", "x", "glasses", "bus", "series", "42"]
GAPS = [" ", " ", " ", " ", "-", ", ", ". ", ".", "\n", "\n\n", " - ", "/", "'", "!"]
TEXTS = st.lists(st.tuples(st.sampled_from(WORDS), st.sampled_from(GAPS)), max_size=40).map(
    lambda pairs: "".join(word + gap for word, gap in pairs)
)


def read(*texts):
    (block,) = page_blocks(texts)
    return read_pages(block, stop_word_table("english"))


@settings(max_examples=60, deadline=None)
@given(st.lists(TEXTS, min_size=1, max_size=3))
def test_candidates_are_those_of_the_reference(texts):
    found = read(*texts)
    for page, text in enumerate(texts):
        expected = reference.candidates(text)
        own = slice(found.candidates.starts[page], found.candidates.starts[page + 1])
        assert found.key[own].tolist() == keys_of([" ".join(key) for key in expected]).tolist()
        assert found.candidates.times[own].tolist() == list(expected.values())
        assert found.candidates.length[own].tolist() == [len(key) for key in expected]


def test_what_occurrences_say_together():
    found = read("<title>Thai food</title>Best thai food here. Thai foods, cheap Thai food").candidates
    c = int(np.flatnonzero(read("thai food").key[-1] == read("<title>Thai food</title>").key)[0])
    key = keys_of(["thai food"])[0]
    everything = read("<title>Thai food</title>Best thai food here. Thai foods, cheap Thai food")
    c = int(np.flatnonzero(everything.key == key)[0])
    assert (found.times[c], found.left[c], found.right[c]) == (4, 2, 0)
    assert found.zones[c] & 1
    assert found.capitals[c] == 1  # the others begin sentences
    assert found.wider[c] == 1


@pytest.mark.parametrize("word", ["boxes", "cities", "glasses", "churches", "bus", "class", "ties", "s", "as", "has"])
def test_stems(word):
    assert keys_of([word])[0] == keys_of([reference.stem(word)])[0]


def test_keys_of_pages_and_lookups():
    keys = np.arange(1, 1000, dtype=np.uint64)
    lookup = Lookup(keys[::2])
    assert lookup.places(keys).tolist() == [k // 2 if k % 2 == 0 else -1 for k in range(999)]
    marks = np.concatenate([of_page(keys, np.full(999, page)) for page in range(5)])
    assert len(np.unique(marks)) == 5 * 999
    counter = KeyCounter()
    for _ in range(3):
        counter.add(keys[:10])
    assert counter.total().at_least(3).counts.tolist() == [3] * 10


def test_queries_count_with_the_phrases_within_them():
    names = Names.of(["Cheap Thai Food", "thai food", "thai foods"])
    facts = QueryFacts.of(QueryTable(names, searches=np.array([5.0, 2.0, 1.0]), clicks=np.array([1.0, np.nan, 1.0])))
    place = Lookup(facts.keys).places(keys_of(["thai food", "cheap", "cheap thai food", "pizza"]))
    assert place[3] == -1
    assert facts.searches[place[:3]].tolist() == [3.0, -1.0, 5.0]
    assert facts.clicks[place[:3]].tolist() == [1.0, -1.0, 1.0]
    assert facts.contained[place[:3]].tolist() == [3.0, 1.0, 1.0]
    assert (facts.revenue == -1).all()


def problem(seed, n=200, width=30):
    rng = np.random.default_rng(seed)
    rows = [np.sort(rng.choice(width, rng.integers(0, 8), replace=False)) for _ in range(n)]
    truth = rng.normal(size=width)
    positive = np.array([truth[row].sum() + rng.normal() > 0 for row in rows])
    ptr = np.concatenate([[0], np.cumsum([len(row) for row in rows])])
    return rows, ptr, np.concatenate(rows).astype(np.int32), positive


@pytest.mark.parametrize("c", [0.01, 1.0, 30.0])
def test_the_solution_is_that_of_scikit_learn(c):
    rows, ptr, code, positive = problem(0)
    cost = np.random.default_rng(1).choice([0.0, c, 2 * c], len(rows))
    weights = np.zeros(31)
    solve_logistic(ptr, code, positive, cost, 1000, 1e-4, 0, weights)
    dense = np.zeros((len(rows), 31))
    dense[:, 30] = 1
    for i, row in enumerate(rows):
        dense[i, row] = 1
    peer = LogisticRegression(C=1.0, fit_intercept=False, tol=1e-10, max_iter=10_000)
    peer.fit(dense, positive, sample_weight=cost)
    ours, theirs = (reference.objective(rows, positive, cost, w) for w in (weights, peer.coef_[0]))
    assert ours == pytest.approx(theirs, rel=1e-5)
    assert weights == pytest.approx(peer.coef_[0], abs=0.02)
    scores = np.empty(len(rows), np.float32)
    scores_of(ptr, code, weights, scores)
    assert scores == pytest.approx(dense @ weights, abs=1e-4)


def test_the_cut_is_the_best_of_all():
    rng = np.random.default_rng(0)
    page, positive = np.sort(rng.integers(0, 6, 60)), rng.random(60) < 0.3
    scores = (positive + rng.normal(size=60)).astype(np.float32)
    counts = np.bincount(page, positive, 7).astype(np.int64) + np.array([0, 1, 2, 0, 0, 0, 3])
    rows = Rows(np.zeros(61, np.int64), np.empty(0, np.int32), page, positive, np.ones(60))

    def mean_f1(cut):
        given, right = (
            np.bincount(page[scores >= cut], minlength=7),
            np.bincount(page[positive & (scores >= cut)], minlength=7),
        )
        return (2 * right / np.maximum(given + counts, 1)).sum()

    assert mean_f1(best_cut(scores, rows, counts)) == pytest.approx(max(map(mean_f1, scores)))
