"""Impressions from any kind of file, with positions to go on from."""

import numpy as np
import pyarrow as pa
import pyarrow.csv
import pytest

from broadmatch.clicks.training.batches import BatchStream
from broadmatch.data import Batch, Impressions
from broadmatch.errors import BadInput, BadParameter
from broadmatch.signals import Categorical, Description, Encoder, Hour
from tests.clicks.logs import DESCRIPTION, table, written


def rows_of(stream):
    return Batch.concatenate([batch for batch, _ in stream])


def same_rows(a, b):
    for name, one, other in zip(Impressions._fields, a.impressions, b.impressions, strict=True):
        assert np.array_equal(one, other, equal_nan=True), name
    assert np.array_equal(a.time, b.time)
    assert a.slices["country"].to_pylist() == b.slices["country"].to_pylist()
    return True


def test_batches_are_what_the_encoder_makes_of_the_rows(tmp_path):
    rows = table(500)
    whole = Encoder(DESCRIPTION).encode(rows.combine_chunks().to_batches()[0])
    log = written(rows, tmp_path / "log.parquet", row_group_size=60)
    assert same_rows(rows_of(BatchStream(log, DESCRIPTION)), whole)
    pa.csv.write_csv(rows, tmp_path / "log.csv")
    assert same_rows(rows_of(BatchStream(tmp_path / "log.csv", DESCRIPTION)), whole)
    stream = BatchStream(log, DESCRIPTION)
    in_pieces = [batch for chunk in stream.chunks() for batch, _ in stream.batches(chunk)]
    assert len(in_pieces) == 9
    assert same_rows(Batch.concatenate(in_pieces), whole)


@pytest.mark.parametrize("cut", [0, 3, 8])
def test_going_on_from_any_position(tmp_path, cut):
    log = written(table(500), tmp_path / "log.parquet", row_group_size=60)
    found = list(BatchStream(log, DESCRIPTION))
    rest = rows_of(BatchStream(log, DESCRIPTION, start=found[cut][1].to_json()))
    assert len(rest) == 500 - sum(len(batch) for batch, _ in found[: cut + 1])
    if len(rest):
        assert same_rows(rest, Batch.concatenate([batch for batch, _ in found[cut + 1 :]]))


def test_going_on_in_text_of_features(tmp_path):
    text = tmp_path / "log.vw"
    text.write_text("".join(f"{i % 2} |a x{i} |b{i % 3} y\n" for i in range(100)))
    found = list(BatchStream(text, "vw"))
    assert len(list(BatchStream(text, "vw", start=found[-1][1].to_json()))) == 0


def test_rows_that_are_only_predicted_need_no_label_and_few_columns(tmp_path, caplog):
    rows = table(20)
    log = written(rows.select(["ad", "price", "title", "country"]), tmp_path / "log.parquet")
    batch = rows_of(BatchStream(log, DESCRIPTION, labelled=False))
    assert np.isnan(batch.impressions.clicked).all()
    assert len(batch.time) == 0
    with pytest.raises(BadInput, match="no columns 'clicked', 'w', 'time'"):
        BatchStream(log, DESCRIPTION)
    hours = Description(label="clicked", time="time", signals=[Categorical("ad"), Hour("time")])
    assert not caplog.messages
    assert rows_of(BatchStream(log, hours, labelled=False)).impressions.n_rows == 20
    assert caplog.messages == [f"{log} has no column 'time': taken as missing in every row."]
    written(rows.select(["price", "title"]), tmp_path / "bare.parquet")
    both = rows_of(BatchStream([log, tmp_path / "bare.parquet"], DESCRIPTION, labelled=False))
    assert both.impressions.n_rows == 40
    assert "bare.parquet has no column 'ad'" in caplog.messages[-1]
    with pytest.raises(BadInput, match="no columns 'ad', 'country'"):
        BatchStream(written(rows.select(["id"]), tmp_path / "none.parquet"), DESCRIPTION, labelled=False)


def test_rows_to_be_joined_keep_their_weights_and_need_an_id(tmp_path):
    rows = table(20)
    described = Description(label="clicked", weight="w", id="id", time="time", signals=[Categorical("ad")])
    log = written(rows.drop_columns(["clicked"]), tmp_path / "log.parquet")
    batch = rows_of(BatchStream(log, described, joins=True))
    assert batch.impressions.weight.tolist() == rows["w"].to_pylist()
    with pytest.raises(BadInput, match="no column 'id'"):
        BatchStream(written(rows.drop_columns(["id"]), tmp_path / "none.parquet"), described, joins=True)


def test_a_source_that_cannot_be_read_so(tmp_path):
    log = written(table(5), tmp_path / "log.parquet")
    with pytest.raises(BadParameter, match="description must be a Description or 'vw', but it is 'csv'"):
        BatchStream(log, "csv")
    with pytest.raises(BadParameter, match="follow must be False for vw text"):
        BatchStream(log, "vw", follow=True)
    with pytest.raises(BadInput, match="about other files"):
        other = list(BatchStream(written(table(5), tmp_path / "other.parquet"), DESCRIPTION))[-1][1]
        BatchStream(log, DESCRIPTION, start=other.to_json())
