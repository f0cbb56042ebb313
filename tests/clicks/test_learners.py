"""The learners against transcriptions of the paper, and what the algebra says of them."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.clicks import FOBOS, FTRL, OGD, RDA
from broadmatch.data import Impressions
from tests.clicks.streams import (
    ENCODINGS,
    INCLUSIONS,
    LEARNERS,
    RATES,
    cut,
    impressions,
    learner_of,
    random_impressions,
    rows,
    streams,
)
from tests.reference import click_learners as reference

TWINS = {"ftrl": reference.FTRL, "rda": reference.RDA, "fobos": reference.FOBOS, "ogd": reference.OGD}
every_learner = pytest.mark.parametrize("name", LEARNERS)
every_rate = pytest.mark.parametrize("rates", RATES)

params = st.fixed_dictionaries(
    {
        "alpha": st.sampled_from([0.05, 0.3, 1.0]),
        "beta": st.sampled_from([0.1, 1.0]),
        "l1": st.sampled_from([0.0, 0.01, 0.5, 1.3]),
        "l2": st.sampled_from([0.0, 0.2]),
        "power": st.sampled_from([0.5, 0.5, 0.7]),
    }
)


def make(name, given_params, **more):
    """A learner and its transcription, of the same parameters."""
    kept = {k: v for k, v in (given_params | more).items() if not (name == "ogd" and k == "l1")}
    return learner_of(name, **kept), TWINS[name](**kept)


def on_the_edge(twin, key):
    """Whether a coefficient is 0 or not by less than rounding: which of the two depends on the order of additions."""
    sums = getattr(twin, "z", getattr(twin, "sum", {}))
    return key in sums and abs(abs(sums[key]) - twin.l1) <= 1e-12 * twin.l1


def assert_same(model, twin, said, wanted, rtol=1e-12):
    np.testing.assert_allclose(said, wanted, rtol=rtol, atol=rtol)
    keys, weights, rates = model.coefficients()
    assert keys.tolist() == sorted(twin.known)
    for key, w, rate in zip(keys.tolist(), weights, rates, strict=True):
        want = twin.w(key)
        assert rate == pytest.approx(twin.eta(key), rel=rtol)
        assert w == pytest.approx(want, rel=rtol, abs=rtol * (1 + twin.l1) * twin.eta(key))
        if not on_the_edge(twin, key):
            assert (w == 0) == (want == 0), key


@every_rate
@every_learner
@settings(max_examples=25)
@given(stream=streams, given_params=params)
def test_kernel_is_the_transcription(name, rates, stream, given_params):
    model, twin = make(name, given_params, rates=rates)
    said = model.learn_many(impressions(stream))
    assert_same(model, twin, said, [twin.learn(*example) for example in stream])
    assert model.n_learned == len(stream) == twin.t


@settings(max_examples=25)
@given(stream=streams, k=st.integers(1, 4), given_params=params)
def test_ogd_count_is_the_transcription(stream, k, given_params):
    model, twin = make("ogd", given_params, min_count=k)
    said = model.learn_many(impressions(stream))
    assert_same(model, twin, said, [twin.learn(*example) for example in stream])


def test_ogd_count_moves_a_coefficient_at_sight_k_plus_one():
    model, ones = OGD(min_count=3), Impressions.from_rows([[7]], clicked=[1])
    weights = [(model.learn_many(ones), model.coefficients()[1][0])[1] for _ in range(5)]
    assert [w != 0 for w in weights] == [False, False, False, True, True]


@every_learner
def test_kernel_is_the_transcription_while_the_table_grows(name):
    data = random_impressions()
    model, twin = make(name, {"alpha": 0.3, "l1": 0.001 if name == "fobos" else 0.4})
    start = model.nbytes
    said = model.learn_many(data)
    wanted = []
    for i in range(data.n_rows):
        row = data.row(i)
        x = dict(zip(row.keys.tolist(), row.values.tolist(), strict=True))
        wanted.append(twin.learn(x, float(row.clicked[0]), float(row.weight[0])))
    assert model.nbytes >= 4 * start
    assert_same(model, twin, said, wanted, rtol=1e-11)
    zeros = int((model.coefficients()[1] == 0).sum())
    assert name == "ogd" or 100 < zeros < model.n_features - 100


@every_rate
@every_learner
@settings(max_examples=10)
@given(
    stream=st.lists(
        st.tuples(
            st.sampled_from([{7: 1024.0}, {7: -(2.0**60)}, {7: 2.0**127}, {8: 2.0**-100}, {8: 5.0}]),
            st.sampled_from([0.0, 1.0]),
            st.sampled_from([1.0, 2.0**20]),
        ),
        max_size=12,
    )
)
def test_huge_values_keep_every_number_finite(name, rates, stream):
    for encoding in ENCODINGS:
        model = learner_of(name, rates=rates, encoding=encoding)
        assert np.isfinite(model.learn_many(impressions(stream))).all()
        _, weights, etas = model.coefficients()
        assert np.isfinite(weights).all() and np.isfinite(etas).all()
    if rates == "gradients":  # elsewhere the first step is so large that nothing but its sign is left
        model, twin = make(name, {}, rates=rates)
        said = model.learn_many(impressions(stream))
        np.testing.assert_allclose(said, [twin.learn(*example) for example in stream], rtol=1e-9, atol=1e-300)


@every_rate
@every_learner
@pytest.mark.parametrize("encoding", ENCODINGS)
def test_without_beta_nothing_is_divided_by_zero(name, rates, encoding):
    """β = 0 (footnote 3): before there is a rate, there is no step."""
    model = learner_of(name, beta=0, rates=rates, encoding=encoding)
    model.learn_many(Impressions.from_rows([[7, 8]] * 2, values=[[0.0, 1e-30]] * 2, clicked=[1, 0]))
    assert model.coefficients()[1][0] == 0, "a feature whose value was 0 has no gradient"
    said = model.learn_many(Impressions.from_rows([[7]] * 50, clicked=[1, 0, 1, 1, 1] * 10))
    assert np.isfinite(said).all() and said[-1] > 0.5


@settings(max_examples=20)
@given(
    stream=streams,
    name=st.sampled_from(sorted(LEARNERS)),
    rates=st.sampled_from(RATES),
    encoding=st.sampled_from(ENCODINGS),
    inclusion=st.sampled_from(sorted(INCLUSIONS)),
    where=st.lists(st.integers(0, 40), max_size=4),
)
def test_one_call_and_any_batches_give_the_same_bits(stream, name, rates, encoding, inclusion, where):
    settings_ = {"rates": rates, "encoding": encoding, "inclusion": INCLUSIONS[inclusion], "seed": 3}
    data = impressions(stream)
    whole, one, pieces = (learner_of(name, **settings_) for _ in range(3))
    said = whole.learn_many(data)
    singly = [one.learn_one(list(x), y, values=list(x.values()), weight=w) for x, y, w in stream]
    in_pieces = [pieces.learn_many(part) for part in cut(data, [min(i, data.n_rows) for i in where])]
    assert said.tobytes() == np.array(singly, np.float64).tobytes() == np.concatenate(in_pieces).tobytes()
    for other in (one, pieces):
        for array, same in zip(whole.to_state().arrays.values(), other.to_state().arrays.values(), strict=True):
            assert array.tobytes() == same.tobytes()


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("inclusion", INCLUSIONS)
def test_batches_give_the_same_bits_while_the_table_grows(encoding, inclusion):
    data = random_impressions(seed=2, plain=True)
    whole, pieces = (FTRL(encoding=encoding, inclusion=INCLUSIONS[inclusion], l1=0.1) for _ in range(2))
    said = whole.learn_many(data)
    in_pieces = np.concatenate([pieces.learn_many(part) for part in cut(data, [1, 63, 64, 65, 700, 701, 1400])])
    assert said.tobytes() == in_pieces.tobytes()
    for array, same in zip(whole.to_state().arrays.values(), pieces.to_state().arrays.values(), strict=True):
        assert array.tobytes() == same.tobytes()


@pytest.mark.parametrize("encoding", ENCODINGS)
@every_rate
@every_learner
def test_learning_says_what_predicting_said_just_before(name, rates, encoding):
    model, data = learner_of(name, rates=rates, encoding=encoding, l2=0.1), random_impressions(200, 100)
    for i in range(data.n_rows):
        row = data.row(i)
        p = model.predict_many(row)[0]
        assert p == model.predict_one(row.keys, row.values) == model.learn_many(row)[0]


# --- weights ------------------------------------------------------------------------------------------------------


@every_learner
@settings(max_examples=15)
@given(stream=streams, k=st.sampled_from([2.0, 8.0, 0.25]))
def test_all_weights_k_times_as_large_are_beta_l1_and_l2_divided_by_k(name, stream, k):
    """With rates from gradients, z, √n, β, λ₁ and λ₂ all scale with the weight, and w is a quotient of two of them.

    OGD and FOBOS: η becomes η / k, and stands before k·g, k·λ₁ and k·λ₂. For k a power of two nothing is rounded
    differently, so the bits are the same.
    """
    l1 = {} if name == "ogd" else {"l1": 0.3}
    scaled_l1 = {key: k * value for key, value in l1.items()}
    data = impressions(stream)
    plain = learner_of(name, beta=1.0, l2=0.2, **l1)
    scaled = learner_of(name, beta=k, l2=0.2 * k, **scaled_l1)
    said = plain.learn_many(data)
    assert said.tobytes() == scaled.learn_many(data._replace(weight=data.weight * np.float32(k))).tobytes()
    assert plain.coefficients()[1].tobytes() == scaled.coefficients()[1].tobytes()


@pytest.mark.parametrize("name", ["ftrl", "rda"])
@settings(max_examples=15)
@given(
    stream=st.lists(
        st.tuples(
            st.dictionaries(st.sampled_from([1, 2, 3]), st.sampled_from([1.0, -2.0, 0.5]), max_size=3),
            st.sampled_from([0.0, 1.0]),
            st.integers(0, 4).map(float),
        ),
        max_size=20,
    )
)
def test_a_whole_weight_is_repetition_while_the_coefficients_are_0(name, stream):
    """While |z| ≤ λ₁, p stays ½ and every repetition has the same gradient: Σ g is k·g both ways, and so z is the same.

    Counts are too, P and N growing by k: the same state. The sum of squares is not: k² g² of one weighted example,
    k g² of k examples. That is what a weight means there: one example whose loss is k times as large.
    """
    repeated = [(row, y, 1.0) for row, y, k in stream for _ in range(int(k))]
    kept = [example for example in stream if example[2]]  # the features of examples of weight 0 would be known too
    for rates in ("counts", "gradients"):
        once, often = (learner_of(name, l1=1e6, rates=rates) for _ in range(2))
        once.learn_many(impressions(kept))
        often.learn_many(impressions(repeated))
        a, b = once.to_state().arrays["numbers"], often.to_state().arrays["numbers"]
        assert a[:, 0].tobytes() == b[:, 0].tobytes()
        if rates == "counts":
            assert a.tobytes() == b.tobytes()
        elif any(k > 1 and row for row, _, k in kept):
            assert (a[:, 1] > b[:, 1]).any()


def test_a_whole_weight_is_not_repetition_once_coefficients_move():
    """The second time the prediction is better, and the gradient smaller."""
    for rates in RATES:
        once, often = FTRL(alpha=0.1, rates=rates), FTRL(alpha=0.1, rates=rates)
        once.learn_one([7], 1, weight=2)
        often.learn_many(Impressions.from_rows([[7], [7]], clicked=[1, 1]))
        assert once.coefficients()[1][0] != often.coefficients()[1][0]


@every_rate
@every_learner
@settings(max_examples=10)
@given(stream=streams, row=rows)
def test_a_weight_of_0_changes_no_coefficient(name, rates, stream, row):
    """Only time goes on, which moves what RDA with one rate for all says."""
    model = learner_of(name, rates=rates)
    model.learn_many(impressions([*stream, (dict.fromkeys(row, 0.0), 0.0, 0.0)]))
    before = model.to_state().arrays["numbers"].tobytes()
    model.learn_many(impressions([(row, 1.0, 0.0)]))
    assert model.to_state().arrays["numbers"].tobytes() == before


# --- what the paper says of them -----------------------------------------------------------------------------------


@every_rate
@settings(max_examples=25)
@given(stream=streams)
def test_ftrl_without_regularisation_is_gradient_descent(rates, stream):
    """§3: identical sequences of coefficient vectors."""
    ftrl, ogd = FTRL(alpha=0.5, rates=rates), OGD(alpha=0.5, rates=rates)
    data = impressions(stream)
    np.testing.assert_allclose(ftrl.learn_many(data), ogd.learn_many(data), rtol=1e-10)
    np.testing.assert_allclose(ftrl.coefficients()[1], ogd.coefficients()[1], rtol=1e-10, atol=1e-12)


def test_fobos_without_regularisation_is_gradient_descent_and_rda_is_not():
    data = random_impressions(300, 100)
    fobos, ogd, rda = FOBOS(), OGD(), RDA()
    p = ogd.learn_many(data)
    assert np.array_equal(fobos.learn_many(data), p)
    assert not np.allclose(rda.learn_many(data), p, rtol=1e-3)


def test_coefficients_return_to_exactly_zero():
    """A well-known implementation keeps the last coefficient outside λ₁ for ever, one step late; here it is 0 again."""
    params = {"alpha": 0.5, "beta": 1.0, "l1": 1.0}
    model, twin, lagging = FTRL(**params), reference.FTRL(**params), reference.LaggingFTRL(**params)
    ours, lags = [], []
    for y in [1] * 8 + [0] * 8:
        model.learn_one([7], y)
        twin.learn({7: 1.0}, y)
        lagging.learn({7: 1.0}, y)
        ours.append(model.coefficients()[1][0])
        lags.append(lagging.w(7))
        assert (ours[-1] == 0) == (twin.w(7) == 0)
    first = next(i for i, w in enumerate(ours) if w != 0)
    assert first < 8 and max(ours) > 0
    assert 0.0 in ours[first:], "it never came back to 0"
    moved = next(i for i, w in enumerate(lags) if w != 0)
    assert moved > first and 0.0 not in lags[moved:]


def test_rda_with_one_rate_for_all_shrinks_between_sights_and_ftrl_does_not():
    """w = −(G − sgn(G) λ₁) / ((β + √t) / α + λ₂) goes towards 0 as t grows, whether the feature is seen or not."""
    rda, ftrl = (cls(alpha=0.5, l1=0.2, l2=0.1, rates="global") for cls in (RDA, FTRL))
    first, others = (
        Impressions.from_rows([[7]] * 5, clicked=[1] * 5),
        Impressions.from_rows([[8]] * 95, clicked=[0] * 95),
    )
    for model in (rda, ftrl):
        model.learn_many(first)
    (_, (w,), _), (_, (still,), _) = rda.coefficients(), ftrl.coefficients()
    for model in (rda, ftrl):
        model.learn_many(others)
    shrink = ((1 + 5**0.5) / 0.5 + 0.1) / ((1 + 100**0.5) / 0.5 + 0.1)
    assert w > 0 and rda.coefficients()[1][0] == pytest.approx(w * shrink, rel=1e-12)
    assert ftrl.coefficients()[1][0] == still > 0


@every_rate
@every_learner
@settings(max_examples=10)
@given(stream=streams, row=rows)
def test_uncertainty_is_the_transcription(name, rates, stream, row):
    """§6; features that were never seen have n = 0, and with one rate for all the rate of all."""
    model, twin = make(name, {"alpha": 0.3, "beta": 0.5}, rates=rates)
    model.learn_many(impressions(stream))
    for example in stream:
        twin.learn(*example)
    asked = {**row, 99: -2.0}
    u = model.uncertainty_many(impressions([(asked, 0.0, 1.0)]))[0]
    assert u == pytest.approx(twin.uncertainty(asked), rel=1e-12)
    assert model.to_serving().uncertainty_one(list(asked), list(asked.values())) == pytest.approx(u, rel=1e-6)


@every_rate
@settings(max_examples=20)
@given(stream=streams, row=st.dictionaries(st.sampled_from([1, 2, 1025, 99]), st.sampled_from([1.0, -0.5]), max_size=4))
def test_one_example_moves_the_log_odds_by_no_more_than_the_uncertainty(rates, stream, row):
    """The bound that u(x) is in §6, for |x| ≤ 1 and without regularisation."""
    model = FTRL(alpha=0.5, rates=rates)
    model.learn_many(impressions(stream))
    data = impressions([(row, 1.0, 1.0)])
    before, u = model.predict_many(data)[0], model.uncertainty_many(data)[0]
    model.learn_many(data)
    moved = abs(np.log(model.predict_many(data)[0] / (1 - model.predict_many(data)[0])) - np.log(before / (1 - before)))
    assert moved <= u * (1 + 1e-9) + 1e-9
