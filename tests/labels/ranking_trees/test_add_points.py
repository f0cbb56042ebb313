"""add_points: what is exact (leaf means over old and new points), what stays, and where it stands beside a refit."""

import numpy as np
import pytest
import scipy.sparse as sp

import broadmatch
from broadmatch.data import PROPENSITY_PRESETS, propensity
from broadmatch.errors import BadInput, NotFitted
from broadmatch.evaluate import precision_at_k
from broadmatch.io import read_dataset
from broadmatch.labels import FastXML, PfastreXML, SwiftXML
from broadmatch.labels.ranking_trees._predict import reach_leaves
from broadmatch.labels.ranking_trees.forest import without_slots
from broadmatch.labels.ranking_trees.item_sets import item_sets
from tests.contract import N_FEATURES, N_LABELS, bits, memory_mapped, points
from tests.reference.ranking_trees_predict import seen_by_trees

HALF = 150
MODELS = [FastXML, PfastreXML, SwiftXML]
every_model = pytest.mark.parametrize("cls", MODELS, ids=lambda c: c.__name__)


def small(cls, **more):
    return cls(**({"n_trees": 4, "max_leaf": 5, "n_jobs": 1} | more | ({"reveal": 1.0} if cls is SwiftXML else {})))


def halves():
    X, Y = points()
    return (X[:HALF], Y[:HALF]), (X[HALF:], Y[HALF:])


def unit(X):
    dense = X.toarray() if sp.issparse(X) else np.asarray(X, float)
    return dense / np.maximum(np.linalg.norm(dense, axis=1, keepdims=True), 1e-30)


def dense_rows(model, X, Y):
    """Points as the trees see them."""
    blocks = [X.toarray()]
    if isinstance(model, SwiftXML):
        blocks.append(item_sets(Y, model.label_features_).to_scipy().toarray())
    return np.hstack([[seen_by_trees(row) for row in block.astype(np.float64)] for block in blocks]).astype(np.float32)


def leaf_means(model, X, Y):
    """Σ mass / n over the labelled points in each leaf: what a tree with these hyperplanes would hold."""
    rows, forest = dense_rows(model, X, Y), without_slots(model.forest_)
    mass = Y.toarray() / getattr(model, "propensities_", np.ones(Y.shape[1]))
    means, sizes = np.zeros((len(forest.leaf_size), Y.shape[1])), np.zeros(len(forest.leaf_size))
    reached = np.zeros(len(forest.roots), np.int64)
    for i in np.flatnonzero(Y.getnnz(axis=1)):
        reach_leaves(rows[i], *forest[:6], forest.slot, np.float32([]), np.uint64(0), reached)
        means[reached] += mass[i]
        sizes[reached] += 1
    return means / np.maximum(sizes, 1)[:, None], sizes


def leaves_of(model, n_labels=N_LABELS):
    f = model.forest_
    return sp.csr_matrix((f.leaf_value, f.leaf_label, f.leaf_ptr), shape=(len(f.leaf_size), n_labels)).toarray()


@every_model
def test_training_points_reach_the_leaves_they_were_grown_in(cls):
    (X, Y), _ = halves()
    model = small(cls, n_trees=10).fit(X, Y)
    means, sizes = leaf_means(model, X, Y)
    np.testing.assert_allclose(leaves_of(model), means, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(model.forest_.leaf_size, sizes)


@every_model
def test_leaves_hold_the_means_over_old_and_new_points(cls):
    """The statement (a): on the same trees, adding points is the same as having had them."""
    (X, Y), (more_X, more_Y) = halves()
    model = small(cls).fit(X, Y)
    before = model.forest_
    model.add_points(more_X[:70], more_Y[:70]).add_points(more_X[70:], more_Y[70:])
    means, sizes = leaf_means(model, *points())
    np.testing.assert_allclose(leaves_of(model), means, rtol=1e-5, atol=1e-7)
    np.testing.assert_array_equal(model.forest_.leaf_size, sizes)
    for name in set(before._fields) - {"leaf_ptr", "leaf_label", "leaf_value", "leaf_size"}:
        assert getattr(model.forest_, name) is getattr(before, name)


@every_model
def test_the_rest_is_as_after_a_fit_on_all(cls):
    (X, Y), (more_X, more_Y) = halves()
    model = small(cls).fit(X, Y).add_points(more_X, more_Y)
    X, Y = points()
    assert model.n_points_ == X.shape[0]
    np.testing.assert_allclose(model.label_counts_, Y.sum(axis=0).A1)
    if cls is PfastreXML:
        refit = small(cls).fit(X, Y)
        np.testing.assert_allclose(_dense(model.tail_), _dense(refit.tail_), rtol=1e-4, atol=1e-6)
        np.testing.assert_allclose(model.tail_.norms, refit.tail_.norms, rtol=1e-5, atol=1e-9)


def _dense(tail, n_labels=N_LABELS):
    width = max(int(tail.feature.max(initial=0)) + 1, N_FEATURES)
    return sp.csr_matrix((tail.value, tail.feature, tail.ptr), shape=(n_labels, width)).toarray()


def test_mean_item_sets_are_merged():
    X, Y = points()
    given = np.random.default_rng(0).random((N_LABELS, 6))
    model, refit = small(SwiftXML, item_set_weight=0.5), small(SwiftXML, item_set_weight=0.5)
    more = {"label_features": given, "propensities": np.linspace(0.2, 1, N_LABELS)}  # item sets count rare labels more
    model.fit(X[:HALF], Y[:HALF], **more).add_points(X[HALF:], Y[HALF:])
    refit.fit(X, Y, **more)
    np.testing.assert_allclose(_dense(model.tail_), _dense(refit.tail_), rtol=1e-4, atol=1e-6)
    np.testing.assert_allclose(model.tail_.norms, refit.tail_.norms, rtol=1e-5, atol=1e-9)
    assert model.tail_.z_width == 6 + N_LABELS


def test_norms_of_means_that_were_cut():
    """400 features, of which a mean keeps 200: the length of the whole is known but for the product of what was cut."""
    rng = np.random.default_rng(0)
    X, Y = rng.random((60, 400)), np.ones((60, 1))
    model = PfastreXML(n_trees=1).fit(X[:30], Y[:30]).add_points(X[30:], Y[30:])
    mean = unit(X).mean(axis=0)
    kept = np.diff(model.tail_.ptr)[0]
    assert kept == 200
    assert 0.5 * (mean**2).sum() < model.tail_.norms[0, 0] < (mean**2).sum() * 1.001


@every_model
def test_new_labels_come_with_new_points(cls):
    rng = np.random.default_rng(1)
    X = sp.csr_matrix(rng.random((60, 4)) * (rng.random((60, 4)) < 0.7) + np.eye(4)[rng.integers(0, 4, 60)])
    Y = [["old", f"old {i % 3}"] for i in range(60)]
    model = small(cls).fit(X, Y)
    known = list(model.label_names_)
    model.add_points(X[:20], [["brand new", "old"], ["old 1"]] * 10)
    assert list(model.label_names_) == [*known, "brand new"]
    assert model.label_counts_[-1] == 10
    labels, scores = model.predict_one(X[0], k=5)
    assert "brand new" in [model.label_names_[i] for i in labels]
    assert (scores > 0).all()
    assert model.predict_topk(X, k=5).to_csr().shape == (60, 5)
    assert model.explain(X[0], "brand new").score == pytest.approx(scores[labels.tolist().index(4)], rel=1e-5)
    model.add_points(X[:2], [["another"], []])
    assert list(model.label_names_) == [*known, "brand new", "another"]


def test_propensities_of_new_labels_alone_are_new():
    (X, Y), (more_X, more_Y) = halves()
    model = small(PfastreXML, propensity="wikipedia").fit(X, Y)
    before = model.propensities_.copy()
    new = sp.csr_matrix((np.ones(3), ([1, 4, 9], [0, 0, 1])), shape=(HALF, 2))
    model.add_points(more_X, sp.hstack([more_Y, new]))
    assert model.propensities_[:N_LABELS].tolist() == before.tolist()
    expected = propensity([2, 1], 300, **PROPENSITY_PRESETS["wikipedia"])
    np.testing.assert_allclose(model.propensities_[N_LABELS:], expected)
    assert list(model.label_names_)[-2:] == ["9", "10"]


def test_new_labels_of_swiftxml_are_described():
    """By what is given, and by a feature of their own; rare labels count more, as in `fit`."""
    (X, Y), (more_X, more_Y) = halves()
    both = sp.hstack([more_Y, sp.csr_matrix(np.eye(1, HALF, 3).T + np.eye(1, HALF, 4).T)])
    told = small(SwiftXML).fit(X, Y, label_features=np.random.default_rng(0).random((N_LABELS, 6)))
    before = told.label_features_.to_scipy().toarray()
    told.add_points(more_X, both, label_features=[[0, 3, 0, 0, 4, 0]])
    assert told.label_features_.shape == (N_LABELS + 1, 6 + N_LABELS + 1)
    np.testing.assert_array_equal(told.label_features_.to_scipy().toarray()[:N_LABELS, :-1], before)
    columns, values = told.label_features_.row(N_LABELS)
    assert columns.tolist() == [1, 4, 6 + N_LABELS]
    np.testing.assert_allclose(values * told.propensities_[-1], np.array([0.6, 0.8, 1]) / np.sqrt(2), rtol=1e-6)
    own = small(SwiftXML).fit(X, Y).add_points(more_X, both)
    assert own.label_features_.row(N_LABELS)[0].tolist() == [N_LABELS]
    own.add_points(more_X, sp.hstack([both, more_Y[:, :1]]))  # and once more, with another new label
    assert own.label_features_.row(N_LABELS + 1)[0].tolist() == [N_LABELS + 1]
    for model, n_labels in ((told, N_LABELS + 1), (own, N_LABELS + 2)):
        found = model.predict_topk(more_X, revealed=sp.csr_matrix((HALF, n_labels))).to_csr()
        assert found.shape == (HALF, n_labels)
        one, scores = model.predict_one(more_X[4], k=1, revealed=[n_labels - 1])
        assert model.explain(more_X[4], one[0], revealed=[n_labels - 1]).score == pytest.approx(scores[0], rel=1e-5)


@every_model
def test_labels_are_known_by_name(cls):
    (X, Y), (more_X, more_Y) = halves()
    names = [f"label {j}" for j in range(N_LABELS)]
    shuffled = np.random.default_rng(0).permutation(N_LABELS)
    one = small(cls).fit(X, Y, label_names=names).add_points(more_X, more_Y)
    two = small(cls).fit(X, Y, label_names=names)
    two.add_points(more_X, more_Y[:, shuffled], label_names=[names[j] for j in shuffled])
    assert bits(one) == bits(two)


@every_model
def test_an_error_leaves_the_model_as_it_was(cls):
    (X, Y), (more_X, more_Y) = halves()
    described = {"label_features": np.ones((N_LABELS, 3))} if cls is SwiftXML else {}
    model = small(cls).fit(X, Y, label_names=["1000", *(str(j) for j in range(1, N_LABELS))], **described)
    before = bits(model)
    wrong = [
        ((more_X[:, :-1], more_Y), {}, r"features"),
        ((more_X, more_Y[:-1]), {}, r"150 rows and Y has 149"),
        ((more_X, more_Y[:, :-1]), {}, r"8 labels, but the model knows 9"),
        ((more_X, more_Y * 0), {}, r"no label at all"),
        ((more_X, more_Y), {"label_names": ["a"]}, r"1 names for 9 labels"),
        ((more_X, more_Y), {"label_names": ["a"] * 9}, r"'a' twice"),
    ]
    if cls is SwiftXML:
        wrong += [((more_X, more_Y), {"label_features": np.ones((1, 3))}, r"1 rows, but 0 labels are new")]
        wrong += [((more_X, sp.hstack([more_Y, more_Y[:, :1]])), {"label_features": [[1, 2]]}, r"2 columns")]
    for given, more, why in wrong:
        with pytest.raises(BadInput, match=why):
            model.add_points(*given, **more)
    clash = sp.csr_matrix(([1.0], ([0], [1000])), shape=(HALF, 1001))
    with pytest.raises(BadInput, match=r"give label_names"):
        model.add_points(more_X, clash)
    assert bits(model) == before
    with pytest.raises(NotFitted):
        small(cls).add_points(X, Y)


@every_model
def test_a_loaded_model_learns_on_and_its_files_stay(cls, tmp_path):
    (X, Y), (more_X, more_Y) = halves()
    model = small(cls).fit(X, Y)
    model.save(tmp_path / "model")
    loaded, untouched = broadmatch.load(tmp_path / "model"), broadmatch.load(tmp_path / "model")
    assert memory_mapped(loaded.forest_.leaf_value)
    said = untouched.predict_topk(more_X).to_csr()
    loaded.add_points(more_X, more_Y)
    assert bits(loaded) == bits(model.add_points(more_X, more_Y))
    assert (untouched.predict_topk(more_X).to_csr() != said).nnz == 0
    broadmatch.load(tmp_path / "model")  # its sums are still right
    loaded.save(tmp_path / "again")
    assert bits(broadmatch.load(tmp_path / "again")) == bits(loaded)
    broadmatch.load(tmp_path / "again").add_points(more_X, more_Y)


@every_model
def test_it_does_not_depend_on_the_threads(cls):
    (X, Y), (more_X, more_Y) = halves()
    one, two = (small(cls, n_jobs=n).fit(X, Y).add_points(more_X, more_Y) for n in (1, 2))
    assert bits(one) == bits(two)


def test_leaves_are_cut_again():
    (X, Y), (more_X, more_Y) = halves()
    model = small(FastXML, leaf_labels=2).fit(X, Y).add_points(more_X, more_Y)
    lengths = np.diff(model.forest_.leaf_ptr)
    assert lengths.max() == 2
    for a, b in zip(model.forest_.leaf_ptr[:-1], model.forest_.leaf_ptr[1:], strict=True):
        assert (np.diff(model.forest_.leaf_value[a:b]) <= 0).all()


def test_points_without_labels_count_for_no_leaf():
    (X, Y), (more_X, more_Y) = halves()
    model = small(FastXML).fit(X, Y)
    more = more_Y.tolil()
    more[1:] = 0
    before = model.forest_.leaf_size.sum()
    model.add_points(more_X, more.tocsr())
    assert model.forest_.leaf_size.sum() == before + len(model.forest_.roots)
    assert model.n_points_ == 2 * HALF


@pytest.fixture(scope="module")
def eurlex(shared_data):
    """Two halves of 4,000 training points, and 1,500 test points."""
    train, test = (read_dataset(shared_data / "eurlex-4k" / f"{part}.txt.gz") for part in ("train", "test"))
    order = np.random.default_rng(0).permutation(len(train))[:4000]
    parts = [(train, order[:2000]), (train, order[2000:]), (test, np.arange(1500))]
    return [(data.X.take(rows), data.Y.take(rows)) for data, rows in parts]


@pytest.mark.parametrize("cls", [FastXML, PfastreXML], ids=lambda c: c.__name__)
def test_between_half_of_the_points_and_a_refit(cls, eurlex):
    """The statement (b): better than without the new points, not as good as trees that were grown on all."""
    half, more, (X, Y) = eurlex

    def p5(model):
        return precision_at_k(Y, model.predict_topk(X, k=5), k=5)

    model = cls(n_trees=5).fit(*half)
    without = p5(model)
    updated = p5(model.add_points(*more))
    refit = p5(cls(n_trees=5).fit(*(sp.vstack([a.to_scipy(), b.to_scipy()]) for a, b in zip(half, more, strict=True))))
    assert without + 0.003 < updated < refit - 0.003
