"""The model as it is used: saved and opened, one row and many, calibrated, read."""

import mmap
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pyarrow as pa
import pytest

import broadmatch
from broadmatch.clicks import FTRL, ClickTraining, IsotonicCalibration, PoissonCalibration, SlicedCalibration
from broadmatch.clicks.model import ClickModel
from broadmatch.clicks.training.batches import BatchStream
from broadmatch.errors import BadInput, BadParameter
from broadmatch.signals import Categorical, Description, Hour, Numeric
from tests.clicks.logs import DESCRIPTION, same_state, table, written


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("model")


@pytest.fixture(scope="module")
def model(folder):
    log = written(table(), folder / "log.parquet")
    calibration = SlicedCalibration(by=("country",))
    run = ClickTraining(log, DESCRIPTION, FTRL(alpha=0.3, l1=0.05), names=True, calibration=calibration)
    run.run()
    return run.model()


@pytest.fixture(scope="module")
def rows():
    return table(200, seed=9).combine_chunks().to_batches()[0]


def lies_in(array):
    """What the memory of an array belongs to."""
    return lies_in(array.base) if isinstance(array, np.ndarray) and array.base is not None else array


def test_saved_and_opened_it_is_the_same_bits_and_stays_on_disk(model, rows, folder):
    model.save(folder / "model")
    opened = broadmatch.load(folder / "model")
    assert same_state(opened.to_state(), model.to_state())
    assert isinstance(lies_in(opened.variant().cells), mmap.mmap)
    assert opened.predict_many(rows).tobytes() == model.predict_many(rows).tobytes()
    assert opened.uncertainty_many(rows).tobytes() == model.uncertainty_many(rows).tobytes()
    assert opened.top_features() == model.top_features()
    assert opened.training == model.training
    assert model.training["impressions"] == 3000


def test_one_row_is_a_row_of_many(model, rows):
    p, u = model.predict_many(rows), model.uncertainty_many(rows)
    assert len(np.unique(p)) > 50
    for i, row in enumerate(rows.to_pylist()):
        assert model.predict_one(row) == p[i]
        assert model.uncertainty_one(row) == u[i]


@pytest.mark.parametrize(
    "row",
    [
        {"ad": 7, "country": "fr", "price": 3.5, "title": "cheap pizza"},
        {"ad": "7", "country": "fr", "price": "3.5", "title": "cheap pizza"},
        {"ad": 7, "country": None, "price": None, "title": None},
        {"ad": 999_999, "country": "atlantis", "price": 1e9, "title": "xyzzy"},
        {"ad": -3, "country": "", "price": float("nan"), "title": ""},
    ],
)
def test_one_row_of_any_kind(model, row):
    many = pa.RecordBatch.from_pylist([row])
    assert model.predict_one(row) == model.predict_many(many)[0]
    assert model.uncertainty_one(row) == model.uncertainty_many(many)[0]


def test_a_column_that_is_left_out_of_one_row_is_missing(model):
    assert model.predict_one({"ad": 7}) == model.predict_one({"ad": 7, "country": None, "price": None, "title": None})
    assert 0 < model.predict_one({}) < 1


def test_slices_that_are_made_of_columns_are_the_same_for_one_row(folder):
    rows = table()
    clock = pa.array(1_700_000_000 + 3600 * (np.arange(3000) % 24))
    rows = rows.set_column(rows.column_names.index("time"), "time", clock)
    rows = rows.append_column("mobile", pa.array(np.arange(3000) % 2 == 0))
    log = written(rows, folder / "hours.parquet")
    signals = [Categorical("ad"), Hour("time", name="hour"), Numeric("price", buckets="log"), Categorical("mobile")]
    by = ("mobile", "hour", "price")
    description = Description(label="clicked", slices=by, signals=signals)
    run = ClickTraining(log, description, FTRL(), calibration=SlicedCalibration(by=by, strength=0.1))
    run.run()
    few = rows.slice(0, 60).combine_chunks().to_batches()[0]
    model = run.model()
    plain = ClickModel(model.description, model.models)
    assert not np.array_equal(model.predict_many(few), plain.predict_many(few))
    assert [model.predict_one(row) for row in few.to_pylist()] == model.predict_many(few).tolist()


@pytest.mark.parametrize("kind", [PoissonCalibration, IsotonicCalibration])
def test_a_calibration_of_all_traffic(model, rows, kind):
    calibration = kind()
    plain = ClickModel(model.description, model.models)
    calibration.learn_many(plain.predict_many(rows), np.arange(len(rows)) % 2)
    calibration.refresh()
    calibrated = ClickModel(model.description, model.models, calibration=calibration)
    p = calibrated.predict_many(rows)
    assert np.array_equal(p, calibration.apply(plain.predict_many(rows)))
    assert calibrated.predict_one(rows.to_pylist()[0]) == p[0]


def test_a_column_that_is_absent_is_missing_in_every_row(model, rows, caplog):
    """Also one that the model is calibrated by: a batch, a row and a row without it predict the same."""
    for column in ("country", "ad", "title"):
        caplog.clear()
        some = rows.slice(0, 20).drop_columns([column])
        p = model.predict_many(some)
        assert model.predict_many(some).tolist() == p.tolist()
        assert [record for record in caplog.messages if f"has no column '{column}'" in record] == caplog.messages
        assert len(caplog.messages) == 1
        assert [model.predict_one(row) for row in some.to_pylist()] == p.tolist()
        assert p.tolist() != model.predict_many(rows.slice(0, 20)).tolist()
    with pytest.raises(BadInput, match="no columns 'ad', 'country'"):
        model.predict_many(rows.select(["clicked"]))


def test_the_features_can_be_read(model):
    shown = model.top_features(top=3)
    assert len({feature.signal for feature in shown}) == len(DESCRIPTION.signals) + 1
    ads = model.top_features(top=30, signals=["ad"])
    assert {feature.signal for feature in ads} == {"ad"}
    weights = [feature.weight for feature in ads]
    assert weights == sorted(weights, reverse=True)
    assert int(ads[0].value) % 5 == 0, "every fifth ad is clicked more often"
    assert all(feature.rate > 0 and feature.weight != 0 for feature in shown)
    with pytest.raises(BadInput, match="names of the features were not kept; train with names=True"):
        ClickModel(model.description, model.models).top_features()


def test_names_of_models_and_text_without_columns(model, rows, folder):
    with pytest.raises(BadParameter, match="model must be one of model, but it is 'other'"):
        model.predict_many(rows, model="other")
    (folder / "log.vw").write_text("1 |ad 7\n-1 |ad 8\n" * 20)
    run = ClickTraining(folder / "log.vw", "vw", FTRL(alpha=0.5))
    run.run()
    run.model().save(folder / "vw")
    opened = broadmatch.load(folder / "vw")
    with pytest.raises(BadInput, match="trained on vw text: it takes batches of keys"):
        opened.predict_one({"ad": 7})
    [(batch, _)] = BatchStream(folder / "log.vw", "vw", labelled=False)
    p = opened.predict_many(batch)
    assert p[0] > 0.5 > p[1]


def test_threads_predict_the_same(model, rows):
    row, start = rows.to_pylist()[0], threading.Barrier(4)

    def work(_):
        start.wait()
        return [model.predict_one(row) for _ in range(50)], model.predict_many(rows).tobytes()

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(4)))
    expected = model.predict_one(row)
    assert all(set(ones) == {expected} for ones, _ in found)
    assert len({many for _, many in found}) == 1
