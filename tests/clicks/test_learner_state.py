"""A learner that is saved and restored goes on as if it had never stopped, and its bits depend on what it saw only."""

import json

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.clicks import FTRL, OGD, Bloom, Poisson
from broadmatch.errors import BadArtifact
from broadmatch.state import State
from tests.clicks.streams import ENCODINGS, INCLUSIONS, LEARNERS, RATES, cut, random_impressions


def everything(model):
    """Parameters, facts and arrays of a learner, as bytes."""
    state = model.to_state()
    arrays = {name: (a.dtype.str, a.shape, a.tobytes()) for name, a in state.arrays.items()}
    return json.dumps([state.kind, dict(state.params), dict(state.facts)], sort_keys=True), arrays


@pytest.mark.parametrize("inclusion", INCLUSIONS)
@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", LEARNERS)
def test_a_restored_learner_goes_on_with_the_same_bits(name, encoding, inclusion):
    data = random_impressions(500, 900)
    params = {"encoding": encoding, "inclusion": INCLUSIONS[inclusion], "seed": 11, "alpha": 0.3, "l2": 0.01}
    rates = RATES[sorted(LEARNERS).index(name) % 3]
    model = LEARNERS[name](**params, rates=rates)
    whole = LEARNERS[name](**params, rates=rates)
    said = []
    for part in cut(data, [1, 200, 333]):
        said.append(model.learn_many(part))
        model = LEARNERS[name].from_state(model.to_state())
    assert np.concatenate(said).tobytes() == whole.learn_many(data).tobytes()
    assert everything(model) == everything(whole)
    assert model.get_params().keys() == whole.get_params().keys()
    assert model.n_learned == 500 and repr(model.inclusion) == repr(whole.inclusion)


@settings(max_examples=15)
@given(where=st.lists(st.integers(0, 300), max_size=6), stop=st.integers(0, 300))
def test_the_state_does_not_know_in_which_batches_it_came(where, stop):
    data = random_impressions(300, 1200)
    whole, pieces = (FTRL(encoding="q2.13", inclusion=Poisson(0.5), seed=2) for _ in range(2))
    whole.learn_many(data)
    for part in cut(data, [*where, stop]):
        pieces.learn_many(part)
    assert everything(whole) == everything(pieces)


@pytest.mark.parametrize("inclusion", INCLUSIONS)
def test_saving_to_a_folder_keeps_the_bits(inclusion, tmp_path):
    data = random_impressions(400, 900)
    whole, model = (OGD(inclusion=INCLUSIONS[inclusion], min_count=2) for _ in range(2))
    whole.learn_many(data)
    model.learn_many(data.between(0, 150))
    model.save(tmp_path / "m")
    opened = broadmatch.load(tmp_path / "m")
    assert everything(opened) == everything(model)
    opened.learn_many(data.between(150, 400))
    assert everything(opened) == everything(whole)
    assert everything(broadmatch.load(tmp_path / "m")) == everything(model), "learning on changed the file"
    opened.save(tmp_path / "a")
    whole.save(tmp_path / "b")
    for file in sorted((tmp_path / "a").iterdir()):
        assert file.read_bytes() == (tmp_path / "b" / file.name).read_bytes(), file.name


def test_a_state_is_not_changed_by_learning_on():
    """It may be written by another thread, while learning goes on."""
    model = FTRL(encoding="q2.13", inclusion=Bloom(1, span=1024))
    data = random_impressions(400, 300)
    model.learn_many(data)
    state = model.to_state()
    before = {name: array.tobytes() for name, array in state.arrays.items()}
    model.learn_many(data)
    assert {name: array.tobytes() for name, array in state.arrays.items()} == before


def damaged(change):
    model = FTRL(inclusion=Bloom(1, span=1024))
    model.learn_many(random_impressions(100, 50, plain=True))
    state = model.to_state()
    return State(state.kind, state.params, {**state.arrays, **change(dict(state.arrays))}, state.facts)


@pytest.mark.parametrize(
    "change",
    [
        lambda a: {"keys": a["keys"][::-1].copy()},
        lambda a: {"keys": a["keys"][1:]},
        lambda a: {"keys": np.where(np.arange(len(a["keys"])) == 0, np.uint64(0), a["keys"])},
        lambda a: {"numbers": a["numbers"][:, :1]},
        lambda a: {"numbers": a["numbers"].astype(np.int16)},
        lambda a: {"state": a["state"] + np.array([1, 0])},
        lambda a: {"state": a["state"][:1]},
        lambda a: {"filters": a["filters"][:, :1]},
        lambda a: {"streams": a["streams"][:1]},
    ],
)
def test_a_damaged_state_is_refused(change):
    with pytest.raises(BadArtifact, match=r"is damaged: its (keys and numbers do not fit|filters are of another size)"):
        FTRL.from_state(damaged(change))


def test_a_truncated_file_is_refused(tmp_path):
    model = FTRL()
    model.learn_many(random_impressions(100, 50))
    model.save(tmp_path / "m")
    file = tmp_path / "m/numbers.npy"
    file.write_bytes(file.read_bytes()[:-8])
    with pytest.raises(BadArtifact, match="truncated or altered"):
        broadmatch.load(tmp_path / "m")
