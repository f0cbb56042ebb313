"""A tree in stages is the tree that its rule says, whoever grows which part of it."""

import itertools
import tempfile

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.data import CSR
from broadmatch.errors import BadArtifact, BadInput, CannotWrite
from broadmatch.labels import MLRF, _mlrf, mlrf_forest, mlrf_stages
from broadmatch.labels._mlrf import grow_tree
from broadmatch.labels.mlrf_forest import ThresholdForest
from broadmatch.labels.mlrf_stages import (
    Growth,
    Top,
    grow_in_stages,
    grow_subtree,
    grow_top,
    route,
    sample_rows,
    stitch,
    take_rows,
)
from broadmatch.layout import packed, unpacked
from broadmatch.parallel import Stop
from broadmatch.simulate import synthetic_dataset
from tests.contract import bits, memory_mapped
from tests.reference import mlrf_stages as reference

GROWTH = Growth(seed=3, n_tried=8, max_leaf=4, min_leaf=2, balance=0.01, leaf_labels=50, bootstrap=False,
                subtree_rows=200)  # fmt: skip


def same(one, other):
    return all(np.array_equal(a, b) and a.dtype == b.dtype for a, b in zip(one, other, strict=True))


def random_data(rng, n, n_features, n_labels, *, beliefs):
    """Sparse X and Y in which some points have no label, and some columns no point."""
    X = np.where(rng.random((n, n_features)) < 0.3, rng.integers(1, 5, (n, n_features)), 0)
    Y = (rng.random((n, n_labels)) < 2 / n_labels) * (rng.uniform(0.05, 1, (n, n_labels)) if beliefs else 1)
    return tuple(CSR.from_scipy(sp.csr_matrix(one.astype(np.float32))) for one in (X, Y))


@pytest.fixture(scope="module", params=["labels", "beliefs"])
def data(request):
    made = synthetic_dataset(1500, 700, 900, features_per_point=20, seed=4)
    X, Y = made.X, made.Y
    lengths = np.diff(Y.indptr)
    lengths[::7] = 0  # rows without a label
    kept = np.repeat(lengths > 0, np.diff(Y.indptr))
    values = Y.data[kept]
    if request.param == "beliefs":
        values = np.random.default_rng(1).uniform(0.02, 1, len(values)).astype(np.float32)
    return X, CSR(np.concatenate([[0], np.cumsum(lengths)]), Y.indices[kept], values, Y.n_cols)


seeds = st.integers(0, 2**32 - 1)


@settings(deadline=None, max_examples=60)
@given(seeds, st.integers(0, 60), st.integers(1, 20), st.sampled_from([1, 3, 10, 40]), st.booleans(), st.booleans())
def test_a_tree_is_that_of_the_rule(seed, n, max_leaf, subtree_rows, beliefs, bootstrap):
    rng = np.random.default_rng(seed)
    X, Y = random_data(rng, n, 6, 8, beliefs=beliefs)
    growth = Growth(seed, 3, max_leaf, 1 + seed % 2, 0.0, 5, bootstrap, subtree_rows)
    if not Y.nnz:
        return
    tree = grow_in_stages(growth, seed % 3, X, Y, Stop())
    assert reference.nested(tree) == reference.grow(growth, seed % 3, X, Y)


@pytest.mark.parametrize("bootstrap", [False, True])
def test_a_large_tree_is_that_of_the_rule(data, bootstrap):
    growth = GROWTH._replace(bootstrap=bootstrap)
    top = grow_top(growth, 5, *(take_rows(one, sample_rows(growth, 5, 1500)) for one in data), 1500, Stop())
    assert top.n_subtrees > 10
    tree = grow_in_stages(growth, 5, *data, Stop())
    assert reference.nested(tree) == reference.grow(growth, 5, *data)
    tree._check_whole()
    sizes = [len(points) for _, _, points in reference.leaves(tree)]
    assert bootstrap or min(sizes) >= growth.min_leaf
    assert bootstrap or sum(sizes) == np.count_nonzero(np.diff(data[1].indptr))


def test_few_points_grow_as_they_did_without_stages(data):
    X, Y = data
    labelled = (np.diff(Y.indptr) > 0).astype(np.float32)
    before = grow_tree(X, Y, labelled, 8, 4, 2, 0.01, 50, np.uint64(3 * 1_000_003 + 2), np.zeros(1, np.int64))
    for rows in (1500, 10**6):
        tree = grow_in_stages(GROWTH._replace(subtree_rows=rows), 2, X, Y, Stop())
        assert reference.nested(tree) == reference.nested(before._replace(vote_label=packed(before.vote_label, 700)))


def in_shards(growth, tree, X, Y, cuts):
    """As several machines would do it: each has the rows between two cuts, and knows the numbers of these."""
    bounds = [0, *cuts, X.n_rows]
    shards = [np.arange(a, b) for a, b in itertools.pairwise(bounds)]
    sample = sample_rows(growth, tree, X.n_rows)
    top = grow_top(growth, tree, take_rows(X, sample), take_rows(Y, sample), X.n_rows, Stop())
    reached = [(rows, route(top, take_rows(X, rows))) for rows in shards]

    def subtree(number):
        own = np.concatenate([rows[numbers == number] for rows, numbers in reached])
        own = own[np.diff(Y.indptr)[own] > 0]  # rows without labels need not be sent
        return grow_subtree(growth, tree, number, take_rows(X, own), take_rows(Y, own), own, Stop())

    return stitch(top, (subtree(number) for number in range(top.n_subtrees)))


@pytest.mark.parametrize("bootstrap", [False, True])
@pytest.mark.parametrize("cuts", [[], [700], [1, 2, 1499], [0, 300, 300, 900]])
def test_shards_give_the_same_bits(data, cuts, bootstrap):
    growth = GROWTH._replace(bootstrap=bootstrap)
    assert same(in_shards(growth, 1, *data, cuts), grow_in_stages(growth, 1, *data, Stop()))


@settings(deadline=None)
@given(seeds, st.integers(0, 5), st.integers(0, 400), st.integers(1, 300))
def test_the_sample_has_the_smallest_hashes(seed, tree, n_rows, subtree_rows):
    growth = GROWTH._replace(seed=seed, subtree_rows=subtree_rows)
    rows = sample_rows(growth, tree, n_rows)
    assert rows.tolist() == reference.sample(growth, tree, n_rows)


def test_trees_and_seeds_sample_other_rows():
    samples = [tuple(sample_rows(GROWTH._replace(seed=seed), tree, 10_000)) for seed in (0, 1) for tree in (0, 1)]
    assert len(set(samples)) == 4
    assert {len(sample) for sample in samples} == {200}


def test_a_top_goes_on_until_a_node_stands_for_few_rows(data):
    X, Y = (take_rows(one, sample_rows(GROWTH, 0, 1500)) for one in data)
    top = grow_top(GROWTH, 0, X, Y, 1500, Stop())
    sizes = np.bincount(route(top, X)[np.diff(Y.indptr) > 0], minlength=top.n_subtrees)
    assert sizes.min() >= GROWTH.min_leaf
    assert sizes.max() * 1500 / 200 <= 200
    assert grow_top(GROWTH._replace(max_leaf=1500), 0, X, Y, 1500, Stop()).n_subtrees == 1


def test_a_stopped_top_leads_nowhere(data):
    X, Y = data
    stop = Stop()
    stop.set()
    assert same(grow_top(GROWTH, 0, X, Y, 15_000, stop), Top.leaf())
    assert len(grow_in_stages(GROWTH, 0, X, Y, stop).vote_label) == 0


@pytest.fixture(scope="module")
def pages():
    made = synthetic_dataset(2600, 900, 1200, features_per_point=20, seed=4)
    return made.X, made.Y


def staged(**parameters):
    return MLRF(**{"n_trees": 3, "features_per_node": 8, "subtree_rows": 1000} | parameters)


def test_a_forest_on_disk_is_that_of_its_trees(pages, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    model = staged(bootstrap=True).fit(*pages)
    growth = model.growth(pages[0].shape, pages[0].nnz)
    trees = [grow_in_stages(growth, number, *pages, Stop()) for number in range(3)]
    assert all(same(model.forest_.tree(number), tree) for number, tree in enumerate(trees))
    assert same(model.forest_, ThresholdForest.joined(trees))
    assert all(memory_mapped(array) for array in model.forest_[1:])
    assert not list(tmp_path.iterdir())  # the files have no names, and go with the arrays
    assert not memory_mapped(staged(subtree_rows=2600).fit(*pages).forest_.feature)


def test_it_is_saved_and_opened_as_any_other(pages, tmp_path):
    model = staged().fit(*pages)
    model.save(tmp_path / "model")
    loaded = broadmatch.load(tmp_path / "model")
    assert bits(loaded) == bits(model) == bits(staged(n_jobs=1).fit(*pages))
    assert model.score(*pages) > 0.7
    labels, _ = loaded.predict_one(pages[0].row(7), k=3)
    assert labels.tolist() == model.predict_topk(pages[0], k=3).labels[7].tolist()
    assert loaded.explain(pages[0].row(7), int(labels[0])).score > 0


def test_a_forest_that_was_half_grown_goes_on(pages, tmp_path, monkeypatch):
    calls = itertools.count()

    def breaks(*given):
        if next(calls) == 100:
            raise OSError("the disk is gone")
        return grow_subtree(*given)

    with monkeypatch.context() as patched:
        patched.setattr(mlrf_stages, "grow_subtree", breaks)
        with pytest.raises(OSError, match="the disk is gone"):
            staged(n_trees=4, n_jobs=1).fit(*pages, checkpoint=tmp_path / "trees")
    assert next(calls) > 0
    finished = sorted(folder.name for folder in (tmp_path / "trees").iterdir())
    assert 0 < len(finished) < 4
    went_on = staged(n_trees=4).fit(*pages, checkpoint=tmp_path / "trees")
    assert bits(went_on) == bits(staged(n_trees=4).fit(*pages))
    with pytest.raises(BadArtifact, match="other data or with other parameters"):
        staged(subtree_rows=1001).fit(*pages, checkpoint=tmp_path / "trees")


def test_a_folder_that_cannot_be_written_is_one_sentence(pages, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match=rf"Cannot write trees to {tmp_path}/file: File exists; make room there, or"):
        staged().fit(*pages, checkpoint=tmp_path / "file")


def test_a_tree_that_numbers_cannot_count_is_refused(pages, monkeypatch):
    monkeypatch.setattr(mlrf_forest, "_MOST", 1000)
    with pytest.raises(BadInput, match="A tree has over 1,000 nodes or votes"):
        grow_in_stages(GROWTH, 0, *pages, Stop())
    monkeypatch.setattr(_mlrf, "_MOST", 1000)
    with pytest.raises(BadInput, match=r"A tree of 2,600 points with .* labels is too large"):
        grow_in_stages(GROWTH._replace(subtree_rows=2600), 0, *pages, Stop())


@pytest.mark.parametrize("beliefs", [False, True])
def test_tables_are_as_wide_as_what_is_there(beliefs):
    X, Y = random_data(np.random.default_rng(0), 40, 6, 8, beliefs=beliefs)
    far = np.array([3, 50_000, 50_001, 70_000, 90_000, 99_999, 100_000, 100_001], np.int32)
    wide_X, wide_Y = (CSR(m.indptr, far[m.indices], m.data, 200_000) for m in (X, Y))
    one = grow_in_stages(GROWTH, 0, X, Y, Stop())
    other = grow_in_stages(GROWTH, 0, wide_X, wide_Y, Stop())
    named = one._replace(feature=np.where(one.feature < 0, np.int32(-1), far[one.feature]),
                         vote_label=packed(far[unpacked(one.vote_label)], 200_000))  # fmt: skip
    assert same(other, named)


def test_rows_may_be_memory_mapped_and_read_only(pages, tmp_path):
    for name, matrix in zip("XY", pages, strict=True):
        for kind, array in zip(("indptr", "indices", "data"), matrix, strict=False):
            np.save(tmp_path / f"{name}_{kind}.npy", array)
    mapped = [
        CSR(*(np.load(tmp_path / f"{name}_{kind}.npy", mmap_mode="r") for kind in ("indptr", "indices", "data")),
            matrix.n_cols) for name, matrix in zip("XY", pages, strict=True)
    ]  # fmt: skip
    model = staged(n_trees=2).fit(*mapped)
    assert bits(model) == bits(staged(n_trees=2).fit(*pages))
    assert memory_mapped(model.train_labels_.indices)
