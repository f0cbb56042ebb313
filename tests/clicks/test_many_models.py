"""Many models in one pass: each as if it were alone."""

from dataclasses import asdict

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import broadmatch
from broadmatch.clicks import FOBOS, FTRL, OGD, RDA, Bloom, ManyModels, Poisson, SingleValue, Variant
from broadmatch.data import Impressions
from broadmatch.errors import BadArtifact, BadInput, BadParameter
from tests.clicks.variant_streams import FIELDS, ROWS, clicks, impressions_of, log_loss, only, reference_rows
from tests.reference import click_variants as reference

ALONE = {"ftrl": FTRL, "rda": RDA, "fobos": FOBOS, "ogd": OGD}
PENALTY = st.sampled_from([0.0, 0.01, 0.5])


@st.composite
def variants(draw):
    learner = draw(st.sampled_from(sorted(ALONE)))
    return Variant(
        learner=learner,
        alpha=draw(st.sampled_from([0.03, 0.3, 2.0])),
        beta=draw(st.sampled_from([0.0, 1e-9, 0.5, 1.0])),
        l1=0.0 if learner == "ogd" else draw(PENALTY),
        l2=draw(PENALTY),
        rates=draw(st.sampled_from(["gradients", "counts"])),
        power=draw(st.sampled_from([0.5, 0.5, 0.4, 1.0])),
        fields=draw(FIELDS),
    )


VARIANTS = st.lists(variants(), min_size=1, max_size=6).map(lambda some: {f"v{i}": v for i, v in enumerate(some)})
SEVERAL = {
    "ogd": Variant(learner="ogd", alpha=0.2),
    "sparse": Variant(alpha=0.3, l1=0.4),
    "rda": Variant(learner="rda", fields=[1, 3]),
    "fobos": Variant(learner="fobos", l1=0.01, l2=0.01, fields=range(5)),
    "one field": Variant(l2=1.0, fields=[0]),
    "gradients": Variant(alpha=0.3, rates="gradients", power=0.6),
}


def alone(variant, **more):
    """The learner that does the same for one variant."""
    settings = asdict(variant)
    del settings["fields"]
    if variant.learner == "ogd":
        del settings["l1"]
    return ALONE[settings.pop("learner")](**settings, **more)


def same(one, other):
    return all(np.array_equal(one.to_state().arrays[k], v) for k, v in other.to_state().arrays.items())


@given(ROWS, VARIANTS, st.booleans())
def test_it_is_what_the_paper_says(rows, variants, plain):
    models = ManyModels(variants)
    p = models.learn_many(impressions_of(rows, plain=plain))
    expected, coefficients = reference.many(reference_rows(rows, plain=plain), list(variants.values()))
    np.testing.assert_allclose(p, np.reshape(expected, p.shape), rtol=1e-9, atol=1e-12)
    for name, weights in zip(variants, coefficients, strict=True):
        keys, found, _ = models.coefficients(name)
        assert found.tolist() == pytest.approx([weights.get(k, 0.0) for k in keys.tolist()], rel=1e-9, abs=1e-9)
        assert {k for k, w in weights.items() if w} <= set(keys.tolist())


@given(ROWS, VARIANTS, st.booleans())
def test_each_variant_learns_as_if_alone(rows, variants, plain):
    models = ManyModels(variants)
    p = models.learn_many(impressions_of(rows, plain=plain))
    for column, (name, variant) in enumerate(variants.items()):
        learner = alone(variant)
        assert np.array_equal(learner.learn_many(impressions_of(rows, variant.fields, plain=plain)), p[:, column])
        for mine, other in zip(models.coefficients(name), learner.coefficients(), strict=True):
            assert np.array_equal(mine, other)


@pytest.mark.parametrize("encoding", ["float64", "float32"])
@pytest.mark.parametrize("n", [5, 40, 64])
def test_each_variant_learns_as_if_alone_while_the_table_grows(encoding, n):
    stream = clicks()
    variants = {f"{name} {i}": v for i in range(-(-n // 5)) for name, v in SEVERAL.items()}
    variants = dict(list(variants.items())[:n])
    models = ManyModels(variants, encoding=encoding)
    p = models.learn_many(stream)
    assert models.table_.capacity > 1024
    for name, variant in list(variants.items())[-5:]:
        learner = alone(variant, encoding=encoding)
        expected = learner.learn_many(stream if variant.fields is None else only(stream, variant.fields))
        assert np.array_equal(p[:, models.names.index(name)], expected)
        assert np.array_equal(models.coefficients(name)[1], learner.coefficients()[1])


@pytest.mark.parametrize("encoding", ["float64", "float32"])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_few_variants_of_ftrl_learn_as_if_alone(encoding, n):
    stream = clicks()
    rates = ["gradients", "counts"]
    named = {f"{i}": Variant(alpha=0.1 + 0.2 * i, beta=0.2, l1=0.1, rates=rates[i % 2]) for i in range(n)}
    p = ManyModels(named, encoding=encoding).learn_many(stream)
    for column, variant in enumerate(named.values()):
        assert np.array_equal(alone(variant, encoding=encoding).learn_many(stream), p[:, column])


def test_a_small_beta_does_not_run_away():
    stream = clicks()
    settings = {"alpha": 0.2, "l1": 0.0}
    named = {f"{beta} {rates}": Variant(beta=beta, rates=rates, **settings) for beta in (0.0, 1e-12, 1.0)
             for rates in ("gradients", "counts")}  # fmt: skip
    losses = log_loss(ManyModels(named).learn_many(stream), stream.clicked)
    assert np.isfinite(losses).all() and (losses < 1.1 * losses.min()).all()


def test_a_variant_of_16_bits_learns_as_if_alone():
    stream = clicks()
    for name in ("sparse", "ogd", "gradients"):
        learner = alone(SEVERAL[name], encoding="q2.13", seed=3)
        models = ManyModels({name: SEVERAL[name]}, encoding="q2.13", seed=3)
        assert np.array_equal(models.learn_many(stream)[:, 0], learner.learn_many(stream))


def test_rounding_to_16_bits_costs_next_to_nothing():
    stream = clicks()
    losses = [
        log_loss(ManyModels(SEVERAL, encoding=e).learn_many(stream), stream.clicked) for e in ("float64", "q2.13")
    ]
    np.testing.assert_allclose(*losses, rtol=2e-3)


@pytest.mark.parametrize("kind", [ManyModels, SingleValue])
@given(ROWS, st.sampled_from([None, Poisson(0.5), Bloom(1, span=1024)]), st.data())
def test_cuts_and_restarts_change_nothing(kind, rows, inclusion, data):
    fields = data.draw(st.lists(FIELDS, min_size=1, max_size=4))
    named = {f"v{i}": Variant(alpha=0.5, l1=0.1, fields=f) for i, f in enumerate(fields)}
    whole = kind(named, inclusion=inclusion, seed=5)
    stream = impressions_of(rows)
    expected = whole.learn_many(stream)
    cuts = sorted(data.draw(st.lists(st.integers(0, len(rows)), max_size=5)))
    models, out = kind(named, inclusion=inclusion, seed=5), []
    for start, stop in zip([0, *cuts], [*cuts, len(rows)], strict=True):
        out.append(models.learn_many(stream.between(start, stop)))
        if data.draw(st.booleans()):
            models = kind.from_state(models.to_state())
    assert np.array_equal(np.concatenate(out), expected)
    assert same(models, whole)


@pytest.mark.parametrize("kind", [ManyModels, SingleValue])
@pytest.mark.parametrize("encoding", ["float64", "float32", "q2.13"])
def test_rows_one_by_one_and_a_saved_folder(kind, encoding, tmp_path):
    stream = clicks(300)
    variants = SEVERAL if kind is ManyModels else {f"{i}": Variant(fields=range(i + 1)) for i in range(40)}
    whole, one_by_one = kind(variants, encoding=encoding), kind(variants, encoding=encoding)
    expected = whole.learn_many(stream)
    for row in range(200):
        before = one_by_one.predict_many(stream.row(row))
        assert np.array_equal(one_by_one.learn_many(stream.row(row)), before)
        assert np.array_equal(before[0], expected[row])
    one_by_one.save(tmp_path / "models")
    restored = broadmatch.load(tmp_path / "models")
    assert restored.variants == one_by_one.variants
    assert np.array_equal(restored.learn_many(stream.between(200, 300)), expected[200:])
    assert same(restored, whole)
    assert restored.n_learned == 300


def test_a_variant_serves():
    stream = clicks()
    models = ManyModels({"all": Variant(), "some": Variant(fields=[0, 2])})
    models.learn_many(stream)
    state = models.to_state()
    p = models.predict_many(stream)
    for column, (name, seen) in enumerate([("all", stream), ("some", only(stream, [0, 2]))]):
        np.testing.assert_allclose(models.variant(name).predict_many(seen), p[:, column], rtol=1e-5)
        assert (
            models.variant(name, uncertainty=False).predict_many(seen) == models.variant(name).predict_many(seen)
        ).all()
        assert set(models.coefficients(name)[0].tolist()) == set(seen.keys.tolist())
    assert all(np.array_equal(models.to_state().arrays[k], v) for k, v in state.arrays.items())


def test_the_uncertainty_is_that_of_the_learner_alone():
    stream = clicks(500)
    models, learner = ManyModels({"all": Variant(), "some": Variant(fields=[0])}), alone(Variant())
    models.learn_many(stream)
    learner.learn_many(stream)
    assert np.array_equal(models.variant("all").uncertainty_many(stream), learner.to_serving().uncertainty_many(stream))


def test_features_of_no_variant_take_no_room():
    models = ManyModels({"a": Variant(fields=[0]), "b": Variant(fields=[2])})
    stream = clicks(200)
    p = models.learn_many(stream)
    assert models.n_features == len(set(only(stream, [0, 2]).keys.tolist()))
    assert np.array_equal(p, models.__class__(models.variants).learn_many(only(stream, [0, 2])))


def test_bytes_are_those_of_the_table():
    all_alike, by_field = {f"{i}": Variant() for i in range(32)}, {f"{i}": Variant(fields=[i]) for i in range(32)}
    for encoding, number in [("float64", 8), ("float32", 4), ("q2.13", 2)]:
        assert ManyModels(all_alike, encoding=encoding).nbytes == 1024 * (8 + 34 * number)
        assert ManyModels(by_field, encoding=encoding).nbytes == 1024 * (8 + max(4, number) + 34 * number)
    assert ManyModels(all_alike, inclusion=Bloom(1, span=1024)).nbytes == 1024 * (8 + 34 * 8) + 8 * 1024


@pytest.mark.parametrize("kind", [ManyModels, SingleValue])
def test_wrong_variants_are_refused(kind):
    one = Variant()
    for wrong, message in [
        ({}, "1 to 64 variants, but there are 0"),
        ({f"{i}": one for i in range(65)}, "but there are 65"),
        ([("a", one), ("b", one), ("a", one)], "Two variants have the name 'a'"),
        ({"a": FTRL()}, "names with a Variant"),
        ({1: one}, "names with a Variant"),
    ]:
        with pytest.raises(BadParameter, match=message):
            kind(wrong).learn_many(clicks(3))
    with pytest.raises(BadParameter, match="encoding must be one of"):
        kind({"a": one}, encoding="int8").learn_many(clicks(3))
    with pytest.raises(BadParameter, match="inclusion must be None"):
        kind({"a": one}, inclusion=0.1).learn_many(clicks(3))
    with pytest.raises(BadParameter, match="There is no variant 'b'; there are 'a'"):
        kind({"a": one}).coefficients("b")


def test_wrong_parameters_of_a_variant_are_refused():
    for wrong, message in [
        ({"fields": []}, "A variant without fields"),
        ({"fields": [-1]}, "A field of a variant must be a whole number from 0 to 32767"),
        ({"fields": ["site"]}, "A field of a variant must be a whole number"),
        ({"alpha": 0}, "alpha must be a number above 0"),
        ({"learner": "sgd"}, "learner must be one of"),
        ({"learner": "ogd", "l1": 1.0}, "l1 is not a parameter of OGD"),
    ]:
        with pytest.raises(BadParameter, match=message):
            Variant(**wrong)


@pytest.mark.parametrize("kind", [ManyModels, SingleValue])
def test_impressions_that_cannot_be_used_are_refused(kind):
    models = kind({"all": Variant(), "some": Variant(fields=[1])})
    with pytest.raises(BadInput, match="there are 1 keys and 0 fields"):
        models.learn_many(Impressions.from_rows([[7]], clicked=[1]))
    with pytest.raises(BadInput, match="numbers of signals, from 0 on"):
        models.learn_many(Impressions.from_rows([[7]], fields=[[-1]], clicked=[1]))
    with pytest.raises(BadInput, match="must be clicked"):
        models.learn_many(Impressions.from_rows([[7]], fields=[[1]]))
    assert models.n_learned == 0
    assert models.learn_many(Impressions.from_rows([])).shape == (0, 2)
    kind({"all": Variant()}).learn_many(Impressions.from_rows([[7]], clicked=[1]))  # nobody asks for fields


def test_a_damaged_folder_is_refused():
    models = ManyModels(SEVERAL)
    models.learn_many(clicks(50))
    state = models.to_state()
    state.arrays["numbers"] = state.arrays["numbers"][:, 1:]
    with pytest.raises(BadArtifact, match="its keys and numbers do not fit"):
        ManyModels.from_state(state)
