"""An offset: what a fixed model says is a part of the score, and what is left is learned (KDD 2013, §4.3)."""

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import broadmatch
from broadmatch.clicks import FTRL, ClickTraining, ManyModels, SingleValue, Variant
from broadmatch.data import Batch, Impressions
from broadmatch.errors import BadInput
from broadmatch.io import Rejects
from broadmatch.signals import Categorical, Description, Encoder
from broadmatch.signals.joined import JoinedEncoder
from tests.clicks.streams import ENCODINGS, LEARNERS, RATES, cut, examples, impressions, random_impressions
from tests.clicks.variant_streams import FIELDS, ROWS, impressions_of, reference_rows
from tests.reference import click_learners, click_variants

TWINS = {name: getattr(click_learners, name.upper()) for name in LEARNERS}
OFFSETS = st.sampled_from([0.0, -0.25, 1.5, -6.0, 40.0])
streams = st.lists(st.tuples(examples, OFFSETS), max_size=30)


def shown(stream):
    return impressions([one for one, _ in stream])._replace(offset=np.array([o for _, o in stream], np.float32))


@pytest.mark.parametrize("rates", RATES)
@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=15)
@given(stream=streams)
def test_learners_are_their_transcriptions(name, rates, stream):
    model, twin = LEARNERS[name](alpha=0.3, rates=rates), TWINS[name](alpha=0.3, rates=rates)
    data = shown(stream)
    said = model.learn_many(data)
    wanted = [twin.learn(*one, offset=o) for one, o in stream]
    np.testing.assert_allclose(said, wanted, rtol=1e-12, atol=1e-12)
    keys, weights, _ = model.coefficients()
    np.testing.assert_allclose(weights, [twin.w(key) for key in keys.tolist()], rtol=1e-11, atol=1e-12)
    after = [twin.predict(row, o) for (row, _, _), o in stream]
    np.testing.assert_allclose(model.predict_many(data), after, rtol=1e-11, atol=1e-12)


@pytest.mark.parametrize("encoding", ENCODINGS)
@pytest.mark.parametrize("name", LEARNERS)
@settings(max_examples=10)
@given(stream=streams, where=st.sets(st.integers(0, 30), max_size=4))
def test_one_by_one_and_any_batches_give_the_same_bits(name, encoding, stream, where):
    data = shown(stream)
    whole, parts, single = (LEARNERS[name](encoding=encoding) for _ in range(3))
    said = whole.learn_many(data)
    in_parts = [parts.learn_many(part) for part in cut(data, [w for w in where if w <= data.n_rows])]
    assert np.concatenate([np.empty(0), *in_parts]).tobytes() == said.tobytes()
    one_by_one = [
        single.learn_one(list(row), y, values=list(row.values()), weight=w, offset=o) for (row, y, w), o in stream
    ]
    assert np.array(one_by_one).tobytes() == said.tobytes()
    assert len({model.to_state().arrays["numbers"].tobytes() for model in (whole, parts, single)}) == 1


rows_beside = ROWS.flatmap(
    lambda rows: st.tuples(st.just(rows), st.lists(OFFSETS, min_size=len(rows), max_size=len(rows)))
)


@settings(max_examples=25)
@given(given_rows=rows_beside, fields=st.lists(FIELDS, min_size=2, max_size=3))
def test_many_models_and_single_values_are_their_transcriptions(given_rows, fields):
    rows, offsets = given_rows
    variants = {str(i): Variant(alpha=0.3, fields=f) for i, f in enumerate(fields)}
    data = impressions_of(rows)._replace(offset=np.array(offsets, np.float32))
    slow = [(*row, o) for row, o in zip(reference_rows(rows), offsets, strict=True)]
    many, _ = click_variants.many(slow, list(variants.values()))
    single, _ = click_variants.single_value(slow, list(variants.values()), intercepts=True)
    shape = (len(rows), len(fields))
    models, values = ManyModels(variants), SingleValue(variants)
    said = models.learn_many(data)
    np.testing.assert_allclose(said, np.array(many).reshape(shape), rtol=1e-9, atol=1e-12)
    np.testing.assert_allclose(values.learn_many(data), np.array(single).reshape(shape), rtol=1e-9, atol=1e-12)
    for column, (name, wanted) in enumerate(zip(variants, fields, strict=True)):
        alone = FTRL(alpha=0.3, rates="counts")
        part = impressions_of(rows, wanted)._replace(offset=data.offset)
        assert alone.learn_many(part).tobytes() == said[:, column].tobytes()
        assert alone.predict_many(part).tobytes() == models.predict_many(data)[:, column].tobytes(), name


def test_what_a_fixed_model_knows_already_is_not_learned_again():
    data = random_impressions(6000, features=8, plain=True)
    first = FTRL(alpha=0.5)
    first.learn_many(data)
    p = first.predict_many(data)
    beside = data._replace(offset=np.log(p / (1 - p)).astype(np.float32))
    again = FTRL(alpha=0.5)
    again.learn_many(beside)
    assert np.abs(again.coefficients()[1]).sum() < 0.1 * np.abs(first.coefficients()[1]).sum()
    served = again.to_serving()
    np.testing.assert_allclose(served.predict_many(beside), again.predict_many(beside), atol=1e-6)
    one = beside.row(7)
    assert served.predict_one(one.keys, offset=float(one.offset[0])) == served.predict_many(one)[0]


def test_a_learner_that_was_saved_goes_on_with_the_same_bits(tmp_path):
    data = random_impressions(600)
    data = data._replace(offset=np.linspace(-3, 3, data.n_rows, dtype=np.float32))
    whole, first = FTRL(), FTRL()
    said = whole.learn_many(data)
    first.learn_many(data.between(0, 250))
    first.save(tmp_path / "learner")
    second = broadmatch.load(tmp_path / "learner")
    assert second.learn_many(data.between(250, 600)).tobytes() == said[250:].tobytes()


@pytest.mark.parametrize("offset", [[0.0], [0.0, np.nan], [0.0, np.inf], [0.0, 0.0, 0.0]])
def test_offsets_that_cannot_be_used_are_refused(offset):
    with pytest.raises(BadInput, match="as many offsets"):
        FTRL().learn_many(Impressions.from_rows([[1], [2]], clicked=[0, 1], offset=offset))


def test_rows_with_and_without_come_together():
    beside, alone = Impressions.from_rows([[1]], offset=[2.0]), Impressions.from_rows([[2], [3]])
    both = Impressions.concatenate([beside, alone])
    assert both.offset.tolist() == [2.0, 0.0, 0.0]
    assert both.take(np.array([1, 0])).offset.tolist() == [0.0, 2.0]
    assert not len(Impressions.concatenate([alone, alone]).offset)


def described(**more):
    return Description(label="clicked", signals=[Categorical("ad")], **more)


def log_of(n=3000):
    rng = np.random.default_rng(0)
    p = rng.choice([0.05, 0.4, 0.9], n)
    return pa.table({"ad": rng.integers(0, 5, n), "clicked": rng.random(n) < p, "p": p, "score": np.log(p / (1 - p))})


@pytest.mark.parametrize("offset", ["score", {"column": "p", "scale": "probability"}])
def test_a_description_names_the_column(offset, tmp_path):
    description = described(offset=offset)
    assert Description.from_dict(description.to_dict()) == description
    assert "p" in description.columns_needed or "score" in description.columns_needed
    pq.write_table(log_of(), tmp_path / "log.parquet")
    run = ClickTraining(tmp_path / "log.parquet", description, FTRL(), predictions=tmp_path / "said")
    run.run()
    model = run.model()
    assert np.abs(model.variant().items()[1]).max() < 0.5  # all is in the offset
    batch = log_of().to_batches()[0]
    many = model.predict_many(batch)
    assert np.corrcoef(many, batch["p"].to_numpy())[0, 1] > 0.99
    assert model.predict_one(batch.slice(3, 1).to_pylist()[0]) == many[3]
    with pytest.raises(BadInput, match="no column"):
        model.predict_many(batch.select(["ad"]))
    with pytest.raises(BadInput, match="the offset is not"):
        model.predict_one({"ad": 1})
    with pytest.raises(BadInput, match="these rows have none"):
        model.predict_many(Batch(Impressions.from_rows([[7]])))


def test_rows_without_an_offset_are_put_aside():
    rejects = Rejects()
    table = pa.record_batch({"ad": [1] * 5, "clicked": [0, 1, 0, 1, 0], "p": [0.5, None, 0.0, 1.0, 0.25]})
    encoder = Encoder(described(offset={"column": "p", "scale": "probability"}))
    batch = encoder.encode(table, rejects=rejects)
    np.testing.assert_allclose(batch.impressions.offset, [0.0, -np.log(3)], rtol=1e-6)
    assert rejects.reasons == {"the offset is not a probability between 0 and 1": 3}


@pytest.mark.parametrize("wrong", [3, "", {"scale": "probability"}, {"column": "p", "scale": "odds"}, ["p"]])
def test_a_wrong_offset_is_an_error_that_names_the_key(wrong):
    with pytest.raises(BadInput, match="offset: offset must be a column of log-odds"):
        described(offset=wrong)


def test_joined_rows_refuse_an_offset():
    with pytest.raises(BadInput, match="train without one"):
        JoinedEncoder(described(offset="p"), [["ad"]])


@pytest.mark.parametrize("several", [False, True])
def test_a_run_that_goes_on_ends_with_the_same_bits(several, tmp_path):
    table, description = log_of(), described(offset="score")

    def learner():
        return ManyModels({"a": Variant(), "b": Variant(alpha=0.5)}) if several else FTRL()

    def run(name, resume=False):
        told = ClickTraining(tmp_path / "log", description, learner(), subsample=0.5,
                             checkpoints=tmp_path / name, resume=resume)  # fmt: skip
        told.run()
        return told.learner.to_state().arrays

    (tmp_path / "log").mkdir()
    pq.write_table(table.slice(0, 1000), tmp_path / "log" / "1.parquet")
    run("interrupted")
    pq.write_table(table.slice(1000), tmp_path / "log" / "2.parquet")
    again, whole = run("interrupted", resume=True), run("whole")
    assert all(again[name].tobytes() == whole[name].tobytes() for name in whole)
