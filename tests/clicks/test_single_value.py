"""The single-value structure: what is averaged, and that it still tells good variants from bad ones."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.clicks import FTRL, OGD, ManyModels, SingleValue, Variant
from broadmatch.errors import BadParameter
from tests.clicks.variant_streams import FIELDS, ROWS, clicks, impressions_of, log_loss, reference_rows
from tests.reference import click_variants as reference


@given(ROWS, st.lists(FIELDS, min_size=1, max_size=5), st.sampled_from(["ftrl", "ogd"]), st.booleans(), st.data())
def test_it_is_what_the_paper_says(rows, fields, learner, plain, data):
    l1 = data.draw(st.sampled_from([0.0, 0.3])) if learner == "ftrl" else 0.0
    variants = {f"v{i}": Variant(learner=learner, alpha=0.3, l1=l1, l2=0.1, fields=f) for i, f in enumerate(fields)}
    intercepts = data.draw(st.booleans())
    models = SingleValue(variants, intercepts=intercepts)
    p = models.learn_many(impressions_of(rows, plain=plain))
    expected, value = reference.single_value(reference_rows(rows, plain=plain), list(variants.values()), intercepts)
    np.testing.assert_allclose(p, np.reshape(expected, p.shape), rtol=1e-9, atol=1e-12)
    for name in variants:
        keys, weights, _ = models.coefficients(name)
        assert weights.tolist() == pytest.approx([value.get(k, 0.0) for k in keys.tolist()], rel=1e-9, abs=1e-9)


@pytest.mark.parametrize("learner", [FTRL, OGD])
@pytest.mark.parametrize("encoding", ["float64", "float32", "q2.13"])
def test_alike_variants_learn_as_one(learner, encoding):
    stream = clicks()
    expected = learner(alpha=0.1, rates="counts", encoding=encoding).learn_many(stream)
    models = SingleValue({name: Variant(learner=learner.kind) for name in "abcd"}, encoding=encoding)
    assert np.array_equal(models.learn_many(stream), np.repeat(expected[:, None], 4, axis=1))


@pytest.mark.parametrize("learner", ["ftrl", "ogd"])
def test_it_ranks_32_variants_as_they_are_in_a_fraction_of_the_memory(learner):
    stream = clicks(20_000, n_fields=31)
    variants = {"all": Variant(learner=learner)}
    variants |= {f"without {i}": Variant(learner=learner, fields=sorted({*range(31)} - {i})) for i in range(31)}
    exact, single = ManyModels(variants), SingleValue(variants)
    losses = [log_loss(models.learn_many(stream), stream.clicked) for models in (exact, single)]
    ranks = [np.argsort(np.argsort(loss)) for loss in losses]
    assert np.corrcoef(*ranks)[0, 1] > 0.97  # equal but for neighbours that are as good as each other
    assert exact.n_features == single.n_features
    assert exact.nbytes >= 5 * single.nbytes


def test_memory_grows_by_a_bit_a_variant():
    small, large = (SingleValue({f"{i}": Variant(fields=[i]) for i in range(n)}, encoding="float32") for n in (32, 64))
    assert large.nbytes - small.nbytes == 1024 * 32 // 8


def test_variants_must_differ_in_their_fields_only():
    with pytest.raises(BadParameter, match="may differ in their fields only"):
        SingleValue({"a": Variant(), "b": Variant(alpha=0.5)}).learn_many(clicks(3))
    with pytest.raises(BadParameter, match="may differ in their fields only"):
        SingleValue({"a": Variant(), "b": Variant(learner="ogd")}).learn_many(clicks(3))
    with pytest.raises(BadParameter, match="has rates='counts'"):
        SingleValue({"a": Variant(rates="gradients")}).learn_many(clicks(3))
    with pytest.raises(BadParameter, match="'ftrl' or 'ogd' only"):
        SingleValue({"a": Variant(learner="fobos")}).learn_many(clicks(3))


def test_intercepts_keep_variants_right_on_average():
    rng = np.random.default_rng(0)
    stream = clicks(20_000)._replace(clicked=(rng.random(20_000) < 0.05).astype(np.float32))
    variants = {"all": Variant(), "half": Variant(fields=range(5)), "one": Variant(fields=[0])}
    off = {
        own: np.abs(SingleValue(variants, intercepts=own).learn_many(stream)[10_000:].mean(axis=0) / 0.05 - 1).max()
        for own in (True, False)
    }
    assert off[False] > 1  # the mean prediction is more than twice the click rate
    assert off[True] < off[False] / 5
