"""Tables in memory, Arrow's and those of pandas and polars, where record batches are taken and where files are."""

import json

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

from broadmatch.clicks import FTRL, ClickTraining, ServingModel, predict_files
from broadmatch.data import Batch
from broadmatch.errors import BadInput, BadParameter
from broadmatch.io import Rejects
from broadmatch.signals import Categorical, Description, Encoder
from broadmatch.signals.guess import guess_description
from broadmatch.signals.tables import record_batch_of
from tests.clicks.logs import DESCRIPTION, same_state, table, written

ROWS = table(2000)


def in_pandas(rows):
    return pd.DataFrame({name: rows[name].to_pylist() for name in rows.column_names})


def in_polars(rows):
    return pl.DataFrame({name: rows[name].to_pylist() for name in rows.column_names})


def served() -> ServingModel:
    learner = FTRL(alpha=0.5)
    learner.learn_one([7], 1)
    return learner.to_serving()


KINDS = {
    "table": lambda rows: rows,
    "chunks": lambda rows: pa.concat_tables([rows.slice(0, 7), rows.slice(7)]),
    "dictionaries": lambda rows: pa.concat_tables(
        part.set_column(3, "country", part["country"].dictionary_encode()) for part in (rows.slice(0, 7), rows.slice(7))
    ),
    "reader": lambda rows: rows.to_reader(max_chunksize=300),
    "pandas": in_pandas,
    "polars": in_polars,
    "polars categories": lambda rows: in_polars(rows).with_columns(pl.col("country").cast(pl.Categorical)),
}
kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_an_encoder_takes_tables(kind):
    expected = Encoder(DESCRIPTION).encode(ROWS.to_batches()[0])
    found = Encoder(DESCRIPTION).encode(KINDS[kind](ROWS))
    for one, other in zip(found.impressions, expected.impressions, strict=True):
        assert np.array_equal(one, other)
    assert np.array_equal(found.time, expected.time)
    assert found.slices["country"].to_pylist() == expected.slices["country"].to_pylist()


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    training = ClickTraining(written(ROWS, tmp_path_factory.mktemp("t") / "log.parquet"), DESCRIPTION, FTRL(alpha=0.5))
    training.run()
    return training


@kinds
def test_training_and_predictions_are_those_of_the_same_file(kind, trained):
    training = ClickTraining(KINDS[kind](ROWS), DESCRIPTION, FTRL(alpha=0.5))
    training.run()
    same_state(training.learner.to_state(), trained.learner.to_state())
    model, expected = training.model(), trained.model().predict_many(ROWS.to_batches()[0])
    assert np.array_equal(model.predict_many(KINDS[kind](ROWS)), expected)
    assert np.array_equal(model.uncertainty_many(KINDS[kind](ROWS)), model.uncertainty_many(ROWS.to_batches()[0]))
    some = list(predict_files(model, KINDS[kind](ROWS)))
    assert np.array_equal(np.concatenate([one.probability for one in some]), expected)
    assert np.concatenate([one.row for one in some]).tolist() == list(range(2000))
    assert np.concatenate([one.outcome.clicked for one in some]).tolist() == ROWS["clicked"].to_pylist()


def test_a_run_over_a_table_goes_on_from_its_checkpoint(trained, tmp_path):
    def run(rows, **how):
        training = ClickTraining(rows, DESCRIPTION, FTRL(alpha=0.5), checkpoints=tmp_path / "c", every=1e-9, **how)
        training.run()
        return training

    run(ROWS.slice(0, 900))
    same_state(run(ROWS, resume=True).learner.to_state(), trained.learner.to_state())
    with pytest.raises(BadInput, match="has become shorter: 2,000 rows are done and it has 5; start anew"):
        run(ROWS.slice(0, 5), resume=True)


def test_clicks_may_be_a_table():
    shown = pa.table({"id": ["a", "b"], "time": [1_700_000_000, 1_700_000_001], "ad": ["x", "y"]})
    clicked = in_pandas(pa.table({"id": ["b"], "time": [1_700_000_009]}))
    described = Description(signals=[Categorical("ad")], id="id", time="time")
    training = ClickTraining(in_polars(shown), described, FTRL(alpha=0.5), clicks=clicked, window=60)
    training.run()
    model = training.model()
    assert model.predict_one({"ad": "y"}) > model.predict_one({"ad": "x"})


def test_bad_rows_of_a_table(tmp_path):
    bad = pa.table({"clicked": [0, 1, 7, 1], "ad": ["a", "b", "c", "d"]})
    described = Description(label="clicked", signals=[Categorical("ad")])
    with Rejects(tmp_path / "bad.jsonl") as rejects:
        training = ClickTraining(bad, described, FTRL(alpha=0.5), rejects=rejects)
        training.run()
    assert training.n_learned == 3
    line = json.loads((tmp_path / "bad.jsonl").read_text())
    assert (line["source"], line["line"]) == ("the table", 3)


def test_a_guess_from_a_data_frame():
    frame = pd.DataFrame({"click": [0, 1, None], "ad": ["a", "b", "a"]}, index=[5, 7, 9])
    found = guess_description(frame).description
    assert (found.label, [signal.name for signal in found.signals]) == ("click", ["ad"])


def test_what_is_no_table():
    encoder = Encoder(Description(label="clicked", signals=[Categorical("ad")]))
    with pytest.raises(BadInput, match=r"Rows must be an Arrow record batch or table, .* but they are a list"):
        encoder.encode([{"ad": 1}])
    with pytest.raises(BadInput, match="This ChunkedArray cannot be read as Arrow columns"):
        encoder.encode(pa.chunked_array([[1]]))
    with pytest.raises(BadInput, match="This DataFrame cannot be read as Arrow columns"):
        encoder.encode(pd.DataFrame({"ad": [1, "a", b"c"], "clicked": [0, 1, 0]}))
    with pytest.raises(BadInput, match="has 2 columns named 'ad'; rename all but one"):
        encoder.encode(pa.table([[1], [2]], names=["ad", "ad"]))
    with pytest.raises(BadInput, match="has no column 'ad'; its columns are 'add', 'clicked'"):
        encoder.encode(pa.table({"add": [1], "clicked": [1]}))
    assert len(encoder.encode(pa.table({"ad": pa.array([], pa.string()), "clicked": pa.array([], pa.int8())}))) == 0
    assert record_batch_of(pa.schema([("ad", pa.string())]).empty_table()).num_rows == 0


def test_a_training_refuses_what_it_cannot_read():
    with pytest.raises(BadInput, match="The table has no rows"):
        ClickTraining(ROWS.slice(0, 0), DESCRIPTION, FTRL())
    with pytest.raises(BadInput, match="the log has no column 'country'"):
        ClickTraining(ROWS.drop_columns(["country"]), DESCRIPTION, FTRL())
    with pytest.raises(BadParameter, match="follow must be False for a table"):
        ClickTraining(ROWS, DESCRIPTION, FTRL(), follow=True)
    with pytest.raises(BadParameter, match="description must be a Description for a table"):
        ClickTraining(ROWS, "vw", FTRL())


@pytest.mark.parametrize("made", [FTRL, served])
def test_learners_say_what_they_take(made):
    learner = made()
    batch = Batch(Encoder(DESCRIPTION).encode(ROWS).impressions)
    for given in (ROWS, in_pandas(ROWS.slice(0, 3)), batch):
        with pytest.raises(BadInput, match=f"Impressions are wanted, but this is a {type(given).__name__}: an Encoder"):
            learner.predict_many(given)
    for keys in ({"ad": "x"}, ["ad"], [-1], None):
        with pytest.raises(BadInput, match="The keys of an impression must be whole numbers from 1 on, but they are"):
            learner.predict_one(keys)
    if isinstance(learner, FTRL):
        with pytest.raises(BadInput, match="The keys of an impression must be whole numbers"):
            learner.learn_one({"ad": "x"}, 1)
        with pytest.raises(BadInput, match="Impressions are wanted"):
            learner.learn_many(ROWS)


@pytest.mark.parametrize(
    ("signals", "why"),
    [(["ad_id"], "it has 'ad_id'"), ("ad", "it is 'ad'"), (Categorical("ad"), "it is Categorical"), (7, "it is 7")],
)
def test_signals_that_are_none(signals, why):
    with pytest.raises(BadInput, match=rf'signals must be a list such as \[Categorical\("ad"\)\], but {why}'):
        Description(label="clicked", signals=signals)
