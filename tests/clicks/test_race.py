"""FTRL without an alpha: a race for the learning rates, which is a part of what the learner knows."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.clicks import FTRL, Bloom, Poisson
from broadmatch.clicks.training.training import ClickTraining
from broadmatch.clicks.variants import race
from broadmatch.data import Impressions
from broadmatch.errors import BadArtifact, BadParameter
from tests.clicks.streams import cut, impressions, random_impressions, streams
from tests.reference import click_learners
from tests.reference import click_race as reference

SHORT = {8: 5, 20: 3, 60: 2, 300: 1}
"""Heats that a test can wait for."""
FEW = (0.01, 0.1, 0.4, 2.5)


@pytest.fixture(autouse=True)
def short_race(monkeypatch):
    monkeypatch.setattr(race, "HEATS", SHORT)


@pytest.fixture
def few_alphas(monkeypatch):
    monkeypatch.setattr(race, "ALPHAS", FEW)


def same(one, other):
    return all(np.array_equal(one.to_state().arrays[k], v) for k, v in other.to_state().arrays.items())


@given(streams, st.sampled_from([None, "gradients", "counts"]), st.sampled_from([0.0, 0.2]))
@settings(max_examples=40)
def test_it_is_what_the_twin_does(stream, rates, l1):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(race, "ALPHAS", FEW)
        field = race.candidates(rates)
        learners = [click_learners.FTRL(alpha=c.alpha, rates=c.rates, l1=l1) for c in field]
        said, left, leader = reference.race(stream, learners, race.start(field)[:, 0], SHORT)
        model = FTRL(rates=rates, l1=l1)
        np.testing.assert_allclose(model.learn_many(impressions(stream)), said, rtol=1e-9, atol=1e-12)
        assert model.chosen[:4] == (*field[leader], len(left), len(field))
        assert np.array_equal(race.running(model.race_), left)


@pytest.mark.parametrize("encoding", ["float64", "float32"])
@pytest.mark.parametrize("inclusion", [None, Poisson(0.3), Bloom(2, span=1024)], ids=["all", "poisson", "bloom"])
def test_the_winner_is_what_it_would_be_alone(encoding, inclusion):
    data = random_impressions(700)
    more = {"encoding": encoding, "inclusion": inclusion, "l1": 0.05, "seed": 3}
    model = FTRL(**more)
    p = model.learn_many(data)
    assert model.chosen.left == 1 and model.chosen.candidates == 34
    alone = FTRL(alpha=model.chosen.alpha, rates=model.chosen.rates, **more)
    expected = alone.learn_many(data)
    assert np.array_equal(p[300:], expected[300:])  # and before, what leads
    for mine, other in zip(model.coefficients(), alone.coefficients(), strict=True):
        assert np.array_equal(mine, other)
    assert np.array_equal(model.uncertainty_many(data), alone.uncertainty_many(data))
    mine, other = model.to_state().arrays, alone.to_state().arrays
    assert all(np.array_equal(mine[name], other[name]) for name in ("keys", "numbers", "state", "streams", "filters"))


@pytest.mark.parametrize("encoding", ["float64", "float32", "q2.13"])
@given(st.lists(st.integers(0, 400), max_size=4), st.lists(st.booleans(), min_size=5, max_size=5))
@settings(max_examples=12)
def test_cuts_and_restarts_change_nothing(encoding, where, restarts):
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(race, "HEATS", SHORT)
        data = random_impressions(400)
        whole, model = FTRL(encoding=encoding, seed=5), FTRL(encoding=encoding, seed=5)
        expected, said = whole.learn_many(data), []
        for part, restart in zip(cut(data, where), restarts, strict=False):
            said.append(model.learn_many(part))
            model = FTRL.from_state(model.to_state()) if restart else model
        assert np.array_equal(np.concatenate(said), expected)
        assert same(model, whole)


def test_rows_one_by_one_offsets_and_a_saved_folder(tmp_path):
    data = random_impressions(330)
    data = data._replace(offset=np.linspace(-1, 1, 330, dtype=np.float32))
    whole, model = FTRL(), FTRL()
    expected = whole.learn_many(data)
    for row in range(330):
        one = data.row(row)
        assert model.predict_many(one)[0] == expected[row]
        values = {"values": one.values, "weight": one.weight[0], "offset": one.offset[0]}
        assert model.learn_one(one.keys, one.clicked[0], **values) == expected[row]
        if row in (5, 40, 310):
            model.save(tmp_path / f"{row}")
            model = broadmatch.load(tmp_path / f"{row}")
    assert same(model, whole)


@pytest.mark.parametrize("n", [7, 100, 200])
def test_the_leader_serves_while_the_race_runs(n):
    data = random_impressions(n)
    model = FTRL()
    model.learn_many(data)
    assert model.chosen.left > 1
    alone = FTRL(alpha=model.chosen.alpha, rates=model.chosen.rates)
    alone.learn_many(data)
    assert np.array_equal(model.predict_many(data), alone.predict_many(data))
    assert np.array_equal(model.uncertainty_many(data), alone.uncertainty_many(data))
    mine, other = model.to_serving(), alone.to_serving()
    assert np.array_equal(mine.predict_many(data), other.predict_many(data)) and mine.unseen == other.unseen
    before = model.to_state()
    model.to_serving(uncertainty=False)
    assert all(np.array_equal(before.arrays[k], v) for k, v in model.to_state().arrays.items())


def planted(scale, per_row, n=4000, seed=0):
    """Rows of common features, whose coefficients are of some size."""
    rng = np.random.default_rng(seed)
    keys = np.sort(rng.permuted(np.tile(np.arange(1, 4 * per_row + 1), (n, 1)), axis=1)[:, :per_row], axis=1)
    score = rng.normal(0, scale, 4 * per_row + 1)[keys].sum(axis=1) - 1
    clicked = rng.random(n) < 1 / (1 + np.exp(-score))
    return Impressions.from_rows(keys.astype(np.uint64), clicked=clicked.astype(np.float32))


@pytest.mark.parametrize(("scale", "per_row"), [(3.0, 2), (0.05, 40)], ids=["large effects", "many small ones"])
def test_it_finds_the_alpha_that_the_stream_needs(scale, per_row, monkeypatch):
    monkeypatch.setattr(race, "HEATS", {128: 12, 512: 4, 2048: 1})
    data = planted(scale, per_row)
    model = FTRL()
    model.learn_many(data)
    later = data.between(2048, 4000)

    def loss(alpha, rates):
        p = FTRL(alpha=alpha, rates=rates).learn_many(data)[2048:]
        return -np.log(np.where(later.clicked == 1, p, 1 - p)).mean()

    losses = {candidate: loss(*candidate) for candidate in race.candidates(None)}
    assert losses[model.chosen[:2]] < 1.02 * min(losses.values())
    assert losses[model.chosen[:2]] < max(losses.values()) / 1.1
    assert (model.chosen.alpha < 0.1) == (per_row == 40)


def test_values_that_are_large_need_gradients(monkeypatch):
    monkeypatch.setattr(race, "HEATS", {128: 12, 512: 4, 2048: 1})
    rng = np.random.default_rng(1)
    x = rng.lognormal(3, 1, (3000, 2))
    clicked = rng.random(3000) < 1 / (1 + np.exp(1.5 - 0.5 * np.log(x).sum(axis=1) / 3))
    model = FTRL()
    model.learn_many(Impressions.from_rows([[1, 2, 3]] * 3000, values=np.c_[x, np.ones(3000)], clicked=clicked))
    assert model.chosen.rates == "gradients"


def test_a_subsampled_stream_weighs_as_much_as_the_whole():
    twice = random_impressions(10, plain=True)
    model, weighed = FTRL(), FTRL()
    model.learn_many(twice)
    weighed.learn_many(twice._replace(weight=np.full(10, 3.0, np.float32)))
    assert weighed.race_[0, race.LOSS] > 2 * model.race_[0, race.LOSS]


def test_threads_take_turns_until_it_is_decided():
    data, more = random_impressions(250), random_impressions(400, seed=1)
    model, whole = FTRL(), FTRL()
    assert np.array_equal(model.learn_shared(data), whole.learn_many(data))
    np.testing.assert_allclose(model.learn_shared(more), whole.learn_many(more), rtol=1e-9)
    assert model.chosen == whole.chosen and model.chosen.left == 1
    np.testing.assert_allclose(model.learn_shared(data), whole.learn_many(data), rtol=0.3)


def test_a_model_that_serves_is_taken_over_with_its_alpha():
    data = random_impressions(700)
    first = FTRL(rates="gradients")
    first.learn_many(data)
    served = first.to_serving()
    again = FTRL().take_over(served)
    assert again.chosen[:2] == (pytest.approx(first.chosen.alpha), "gradients")
    np.testing.assert_allclose(again.predict_many(data), first.predict_many(data), rtol=1e-4)
    again = FTRL.from_state(again.to_state())
    np.testing.assert_allclose(again.learn_many(data)[:50], first.learn_many(data)[:50], rtol=1e-3)
    with pytest.raises(BadParameter, match="learned nothing"):
        first.take_over(served)


def test_what_cannot_race_is_refused():
    with pytest.raises(BadParameter, match="rates='global' needs a number as alpha"):
        FTRL(rates="global").learn_one([7], 1.0)
    assert FTRL(rates="global", alpha=0.1).learn_one([7], 1.0) == 0.5


@pytest.mark.parametrize(
    ("name", "forge", "message"),
    [
        ("race", lambda a: a * np.nan, "its race cannot be"),
        ("race", lambda a: a - 1, "its race cannot be"),
        ("race", lambda a: a + np.inf, "its race cannot be"),
        ("race", lambda a: a[1:], "do not fit"),
        ("chosen", lambda a: np.add(a, [0.1, 7.0]), "its rates cannot be"),
        ("chosen", lambda a: np.add(a, [0.1, 1.0]), "its race is decided, and goes on"),
        ("state", lambda a: np.add(a, [0, 300]), "its race is over, and not decided"),
        ("numbers", lambda a: a[:, 1:], "do not fit"),
    ],
)
def test_a_forged_race_is_refused(name, forge, message):
    model = FTRL()
    model.learn_many(random_impressions(30))
    state = model.to_state()
    state.arrays[name] = forge(state.arrays[name])
    with pytest.raises(BadArtifact, match=message):
        FTRL.from_state(state)


def test_the_given_alpha_cannot_be_forged():
    state = FTRL(alpha=0.3).to_state()
    state.arrays["chosen"] = np.array([0.5, 0.0])
    with pytest.raises(BadArtifact, match="not those given"):
        FTRL.from_state(state)


def test_a_run_says_who_won(tmp_path):
    text = "ad,clicked\n" + "".join(f"{n % 7},{int(n % 7 == 3 or n % 11 == 0)}\n" for n in range(400))
    (tmp_path / "log.csv").write_text(text)
    from broadmatch.signals import Categorical, Description

    description = Description(label="clicked", signals=[Categorical("ad")])
    run = ClickTraining(tmp_path / "log.csv", description, FTRL(), checkpoints=tmp_path / "c")
    run.run()
    won = run.learner.chosen
    assert run.model().training["chosen"] == str(won) and " won the race of 34" in str(won)
    (tmp_path / "more.csv").write_text(text)
    again = ClickTraining(
        [tmp_path / "log.csv", tmp_path / "more.csv"], description, FTRL(), checkpoints=tmp_path / "c", resume=True
    )
    again.run()
    assert again.n_learned == 800 and again.learner.chosen == won
