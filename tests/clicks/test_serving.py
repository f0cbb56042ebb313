"""The serving model: what the learner says, in less memory, from a file, by many threads, and nothing else."""

import json
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import broadmatch
from broadmatch.clicks import FTRL, RDA
from broadmatch.data import Impressions
from broadmatch.errors import BadArtifact, BadInput, BadParameter
from broadmatch.io.artifacts import restore, save
from broadmatch.state import State
from tests.clicks.streams import ENCODINGS, LEARNERS, RATES, random_impressions
from tests.contract import memory_mapped


@pytest.fixture(scope="module")
def data():
    return random_impressions()


@pytest.fixture(scope="module")
def model(data):
    learner = FTRL(alpha=0.3, l1=1.5)
    learner.learn_many(data)
    return learner


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("name", LEARNERS)
def test_it_says_what_the_learner_says(name, rates, encoding):
    data = random_impressions(300, 200)
    learner = LEARNERS[name](rates=rates, encoding=encoding, alpha=0.3)
    learner.learn_many(data)
    asked = random_impressions(300, 400, seed=5)  # half of the features are unknown
    served = learner.to_serving()
    np.testing.assert_allclose(served.predict_many(asked), learner.predict_many(asked), rtol=1e-6)
    np.testing.assert_allclose(served.uncertainty_many(asked), learner.uncertainty_many(asked), rtol=1e-6)


def test_what_each_feature_adds(model, data):
    served = model.to_serving()
    p, u = served.serve_many(data)
    assert p.tolist() == served.predict_many(data).tolist() and u.tolist() == served.uncertainty_many(data).tolist()
    keys, weights, _ = served.items()
    known = dict(zip(keys.tolist(), weights.tolist(), strict=True))
    for i in range(20):
        row = data.row(i)
        values = row.values if len(row.values) else np.ones(len(row.keys), np.float32)
        shares = served.contributions(row.keys, row.values)
        assert shares[:, 0].tolist() == [known.get(k, 0.0) * x for k, x in zip(row.keys.tolist(), values, strict=True)]
        assert 1 / (1 + np.exp(-shares[:, 0].sum())) == pytest.approx(p[i]) and shares[:, 1].sum() == pytest.approx(
            u[i]
        )


def test_one_and_many_say_the_same_bits(model, data):
    served = model.to_serving()
    p, u = served.predict_many(data), served.uncertainty_many(data)
    for i in range(data.n_rows):
        row = data.row(i)
        assert served.predict_one(row.keys, row.values) == p[i]
        assert served.uncertainty_one(row.keys.tolist(), row.values.tolist()) == u[i]


def test_extreme_scores_are_probabilities():
    learner = FTRL(alpha=1.0)
    learner.learn_one([7], 1)
    served, far = learner.to_serving(), Impressions.from_rows([[7]] * 4, values=[[1e6], [-1e6], [3000.0], [-3000.0]])
    assert served.predict_many(far).tolist() == learner.predict_many(far).tolist()
    assert served.predict_many(far)[:2].tolist() == [1.0, 0.0] == [served.predict_one([7], [x]) for x in (1e6, -1e6)]


def test_only_non_zero_coefficients_without_uncertainty(model, data):
    keys, weights, _ = model.coefficients()
    assert 0 < (weights != 0).sum() < len(keys) / 2
    lean, full = model.to_serving(uncertainty=False), model.to_serving()
    assert lean.n_features == (weights != 0).sum() and full.n_features == len(keys)
    assert lean.nbytes == lean.cells.nbytes < full.nbytes
    assert lean.items()[0].tolist() == keys[weights != 0].tolist() and (lean.items()[1] != 0).all()
    assert lean.predict_many(data).tobytes() == full.predict_many(data).tobytes()


def test_unseen_features_count_alpha_by_beta(model):
    served = model.to_serving()
    asked = [2**64 - 1, 2**63]
    assert served.predict_one(asked) == 0.5
    assert served.uncertainty_one(asked, [1.0, -3.0]) == pytest.approx(4 * 0.3 / 1.0)
    assert served.predict_one([]) == 0.5 and served.uncertainty_one([]) == 0.0


def test_a_saved_model_opens_memory_mapped_with_the_same_bits(model, data, tmp_path):
    served = model.to_serving()
    served.save(tmp_path / "m")
    opened = broadmatch.load(tmp_path / "m")
    assert memory_mapped(opened.cells) and np.array_equal(opened.cells.view(np.uint32), served.cells.view(np.uint32))
    assert opened.predict_many(data).tobytes() == served.predict_many(data).tobytes()
    assert opened.uncertainty_many(data).tobytes() == served.uncertainty_many(data).tobytes()
    opened.save(tmp_path / "again")
    assert (tmp_path / "again/manifest.json").read_bytes() == (tmp_path / "m/manifest.json").read_bytes()


def test_the_bits_depend_on_what_was_learned_only(data):
    """Not on how the table of the learner grew."""
    one, other = FTRL(l1=0.5), FTRL(l1=0.5)
    one.learn_many(data)
    assert other.n_features == 0
    other.table_.reserve(100_000)
    other.learn_many(data)
    assert one.to_serving().cells.tobytes() == other.to_serving().cells.tobytes()


def test_predicting_changes_nothing(model, data):
    served = model.to_serving()
    before, state = served.cells.tobytes(), {n: a.tobytes() for n, a in model.to_state().arrays.items()}
    for asked in (served, model):
        asked.predict_many(data)
        asked.uncertainty_many(data)
        asked.predict_one([1, 2, 2**64 - 1])
    assert served.cells.tobytes() == before
    assert {n: a.tobytes() for n, a in model.to_state().arrays.items()} == state


def test_threads_get_what_one_gets(model, data):
    served = model.to_serving()
    wanted = served.predict_many(data).tobytes(), model.predict_many(data).tobytes()
    with ThreadPoolExecutor(4) as pool:
        said = list(
            pool.map(lambda _: (served.predict_many(data).tobytes(), model.predict_many(data).tobytes()), range(16))
        )
    assert set(said) == {wanted}


def test_truncated_and_altered_files_are_refused(model, tmp_path):
    model.to_serving().save(tmp_path / "m")
    file = tmp_path / "m/cells.npy"
    whole = file.read_bytes()
    file.write_bytes(whole[:-100])
    with pytest.raises(BadArtifact, match="truncated or altered"):
        broadmatch.load(tmp_path / "m")
    file.write_bytes(whole[:-1] + bytes([whole[-1] ^ 1]))
    with pytest.raises(BadArtifact, match="sha256"):
        broadmatch.load(tmp_path / "m")


def serving_state(cells, n_features=1):
    return State("click_serving", {}, {"cells": cells}, {"unseen": 0.1, "n_features": n_features})


@pytest.mark.parametrize(
    "cells",
    [
        np.zeros((1024, 4), np.float64),
        np.zeros((1024, 5), np.float32),
        np.zeros((1000, 4), np.float32),
        np.zeros((0, 4), np.float32),
        np.zeros(1024, np.float32),
    ],
)
def test_a_table_of_another_shape_is_refused(cells):
    with pytest.raises(BadArtifact, match="another shape"):
        restore(serving_state(cells))


@pytest.mark.parametrize("claimed", [10, 2048])
def test_a_full_table_is_refused_and_not_searched_for_ever(claimed, tmp_path):
    save(serving_state(np.ones((2048, 4), np.float32), claimed), tmp_path / "full")
    start = time.perf_counter()
    with pytest.raises(BadArtifact, match="table is full"):
        broadmatch.load(tmp_path / "full")
    assert time.perf_counter() - start < 5
    room = np.ones((2048, 4), np.float32)
    room[2000] = 0
    assert restore(serving_state(room, 2047)).predict_one([7]) == 0.5


def test_a_manifest_without_its_facts_is_refused(tmp_path):
    save(State("click_serving", {}, {"cells": np.zeros((8, 4), np.float32)}, {"unseen": 0.1}), tmp_path / "m")
    with pytest.raises(BadArtifact, match="n_features"):
        broadmatch.load(tmp_path / "m")
    assert "unseen" in json.loads((tmp_path / "m/manifest.json").read_text())["facts"]


@pytest.mark.parametrize("change", [{"values": np.ones(2, np.float32)}, {"indptr": np.array([0, 9], np.int64)}])
def test_serving_refuses_what_does_not_fit_together(model, change):
    rows = Impressions.from_rows([[7, 8, 9]])._replace(**change)
    with pytest.raises(BadInput, match=r"values|indptr"):
        model.to_serving().predict_many(rows)
    with pytest.raises(BadInput, match="3 keys but 1 values"):
        model.to_serving().predict_one([7, 8, 9], [1.0])


def test_without_beta_unseen_features_are_as_uncertain_as_can_be(tmp_path):
    learner = RDA(beta=0)
    learner.learn_many(Impressions.from_rows([[7], [7]], clicked=[1, 0]))
    learner.to_serving().save(tmp_path / "m")
    assert broadmatch.load(tmp_path / "m").uncertainty_one([8]) == np.inf


@pytest.mark.parametrize("encoding", ["float64", "float32"])
@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.3, 0.1)])
def test_a_learner_goes_on_from_a_model_that_serves(encoding, l1, l2):
    rng = np.random.default_rng(4)
    rows = [rng.choice(np.arange(1, 60, dtype=np.uint64), 6, replace=False).tolist() for _ in range(800)]
    clicked = [float(1 in row or rng.random() < 0.1) for row in rows]
    first = FTRL(alpha=0.1, encoding=encoding, l1=l1, l2=l2)
    first.learn_many(Impressions.from_rows(rows, clicked=clicked))
    served = first.to_serving()
    again = FTRL(alpha=0.1, encoding=encoding, l1=l1, l2=l2).take_over(served)
    for known, found in zip(served.items(), again.to_serving().items(), strict=True):
        np.testing.assert_allclose(found, known, rtol=2e-5, atol=1e-7)
    more = Impressions.from_rows(rows[:50], clicked=clicked[:50])
    if l1 == 0:  # where coefficients are 0, z is not known
        np.testing.assert_allclose(again.learn_many(more), first.learn_many(more), rtol=1e-3)


def test_only_a_fresh_learner_of_the_same_rates_takes_over():
    served = FTRL(alpha=0.2).to_serving()
    assert FTRL(alpha=0.2).continues(served)
    for other in (
        FTRL(alpha=0.1),
        FTRL(alpha=0.2, beta=0.0),
        FTRL(alpha=0.2, encoding="q2.13"),
        FTRL(alpha=0.2, rates="counts"),
    ):
        with pytest.raises(BadParameter, match="take_over"):
            other.take_over(served)
    used = FTRL(alpha=0.2)
    used.learn_one([7], 1.0)
    with pytest.raises(BadParameter, match="learned nothing"):
        used.take_over(served)
