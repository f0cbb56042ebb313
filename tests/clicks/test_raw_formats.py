"""Criteo's and Avazu's raw files with five lines of description; and every kind of bad input."""

import math

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.clicks import FTRL, ClickTraining
from broadmatch.errors import BadInput, TooManyBadRows
from broadmatch.evaluate import log_loss
from broadmatch.io import Rejects
from broadmatch.signals import Categorical, Description
from broadmatch.signals.reading import unread_time
from tests.clicks.logs import DESCRIPTION, table, written

CRITEO = """\
format = "criteo"
label = "label"
[signals]
"I*" = { kind = "number", buckets = "log" }
"C*" = "categorical"
"""
AVAZU = """\
format = "avazu"
label = "click"
id = "id"
[signals]
"*" = "categorical"
"""


@pytest.mark.parametrize(
    ("file", "told", "rows", "signals"),
    [
        ("criteo-8k/criteo.csv.gz", CRITEO, 8000, 39),
        ("avazu-9k/avazu.csv.gz", AVAZU, 8999, 22),
    ],
)
def test_raw_files_with_five_lines_of_description(shared_data, tmp_path, file, told, rows, signals):
    assert len(told.splitlines()) == 5
    (tmp_path / "description.toml").write_text(told)
    description = Description.read(tmp_path / "description.toml")
    run = ClickTraining(shared_data / file, description, FTRL(alpha=0.1), predictions=tmp_path / "p", names=True)
    run.run()
    assert run.n_learned + run.counts()["rejected"] == rows
    assert run.counts()["rejected"] <= 10
    kept = pq.read_table(tmp_path / "p")
    clicked, p = kept["clicked"].to_numpy(), kept["p_model"].to_numpy()
    share = clicked.mean()
    constant = -(share * math.log(share) + (1 - share) * math.log(1 - share))
    assert log_loss(clicked, p) < 0.98 * constant
    assert len({feature.signal for feature in run.model().top_features(top=1)}) == signals + 1


def learned(source, rejects=None, description=DESCRIPTION):
    run = ClickTraining(source, description, FTRL(), rejects=rejects)
    run.run()
    return run


def with_column(rows, name, values):
    return rows.set_column(rows.column_names.index(name), name, pa.array(values))


def test_a_missing_column(tmp_path):
    log = written(table(10).drop_columns(["price"]), tmp_path / "log.parquet")
    with pytest.raises(BadInput, match=r"the log has no column 'price'.*its columns are 'id', 'time', 'ad'"):
        learned(log)


def test_a_column_that_is_missing_in_a_later_file(tmp_path):
    (tmp_path / "log").mkdir()
    written(table(10), tmp_path / "log" / "1.parquet")
    written(table(10).drop_columns(["price"]), tmp_path / "log" / "2.parquet")
    with pytest.raises(BadInput, match=r"2\.parquet has no column 'price'"):
        learned(tmp_path / "log")


def test_a_column_that_changes_its_type_in_the_middle(tmp_path):
    """From one file to the next, and within a text file: numbers that are none are rejected, categories are not."""
    (tmp_path / "log").mkdir()
    rows = table(100)
    texts = [str(price) if i else "free" for i, price in enumerate(rows["price"].to_pylist())]
    written(rows, tmp_path / "log" / "1.parquet")
    written(with_column(rows, "price", texts), tmp_path / "log" / "2.parquet")
    written(with_column(rows, "ad", [str(ad) for ad in rows["ad"].to_pylist()]), tmp_path / "log" / "3.parquet")
    rejects = Rejects()
    run = learned(tmp_path / "log", rejects)
    assert run.n_learned == 299
    assert rejects.reasons == {"price is not a finite number": 1}
    again = learned(written(rows, tmp_path / "once.parquet"))
    assert run.learner.n_features == again.learner.n_features, "an ad is the same ad as number and as text"


@pytest.mark.parametrize(
    ("column", "value", "reason"),
    [
        ("price", math.inf, "price is not a finite number"),
        ("price", -math.inf, "price is not a finite number"),
        ("w", -1.0, "the weight is not a number of at least 0"),
        ("w", math.nan, "the weight is not a number of at least 0"),
        ("w", math.inf, "the weight is not a number of at least 0"),
        ("clicked", 2, "the label is neither 0 nor 1"),
        ("clicked", -1, "the label is neither 0 nor 1"),
        ("clicked", 0.5, "the label is neither 0 nor 1"),
        ("clicked", math.nan, "the label is neither 0 nor 1"),
        ("time", None, unread_time("time")),
    ],
)
def test_bad_values_are_counted_and_kept_and_nothing_else_is_lost(tmp_path, column, value, reason):
    rows = table(200)
    values = rows[column].to_pylist()
    values[77] = value
    log = written(with_column(rows, column, values), tmp_path / "log.parquet", row_group_size=50)
    with Rejects(tmp_path / "bad.jsonl") as rejects:
        run = learned(log, rejects)
    assert run.n_learned == 199
    assert rejects.reasons == {reason: 1}
    assert f'log.parquet", "line": 78, "reason": "{reason}"' in (tmp_path / "bad.jsonl").read_text()
    good = pa.concat_tables([rows.slice(0, 77), rows.slice(78)])
    alone = learned(written(good, tmp_path / "good.parquet"))
    a, b = run.learner.coefficients(), alone.learner.coefficients()
    assert all(np.array_equal(one, other) for one, other in zip(a, b, strict=True))


@pytest.mark.parametrize("format", ["csv", "tsv", "jsonl"])
def test_a_label_that_is_left_out_in_text(tmp_path, format):
    good, none = (["7", "1"], ["7", ""]) if format != "jsonl" else (['{"ad": 7, "y": 1}'], ['{"ad": 7}'])
    mark = "\t" if format == "tsv" else ","
    head = [] if format == "jsonl" else [mark.join(["ad", "y"])]
    lines = [*head, *[mark.join(good)] * 9, mark.join(none), mark.join(good)]
    (tmp_path / f"log.{format}").write_text("\n".join(lines) + "\n")
    rejects = Rejects()
    run = learned(tmp_path / f"log.{format}", rejects, Description(label="y", signals=[Categorical("ad")]))
    assert run.n_learned == 10
    assert rejects.reasons == {"the label is neither 0 nor 1": 1}


def test_a_number_that_is_not_known_is_no_fault(tmp_path):
    rows = table(50)
    prices = [None if i % 2 else math.nan for i in range(50)]
    rejects = Rejects()
    assert learned(written(with_column(rows, "price", prices), tmp_path / "log.parquet"), rejects).n_learned == 50
    assert rejects.count == 0


def test_mostly_rubbish_is_refused(tmp_path):
    rows = with_column(table(50), "clicked", [7] * 30 + [1] * 20)
    with pytest.raises(TooManyBadRows, match=r"30 of 50 rows are bad; the first is .*line 1: the label is neither 0"):
        learned(written(rows, tmp_path / "log.parquet"))


def test_an_empty_file(tmp_path):
    (tmp_path / "log.csv").touch()
    with pytest.raises(BadInput, match=r"log\.csv is empty; leave it out or fetch it again"):
        learned(tmp_path / "log.csv")
    (tmp_path / "head.csv").write_text(",".join(table(1).column_names) + "\n")
    with pytest.raises(BadInput, match="There was no impression to learn from: the files hold no rows"):
        learned(tmp_path / "head.csv")
    with pytest.raises(BadInput, match="There was no impression to learn from: the files hold no rows"):
        learned(written(table(10).slice(0, 0), tmp_path / "none.parquet"))


def test_a_corrupt_parquet_page_and_going_on_with_the_file_fetched_again(tmp_path):
    rows = table(4000)
    log = written(rows, tmp_path / "log.parquet", row_group_size=1000, write_page_checksum=True, use_dictionary=False)
    whole = log.read_bytes()
    column = pq.ParquetFile(log).metadata.row_group(2).column(rows.column_names.index("price"))
    at = column.data_page_offset + column.total_compressed_size // 2  # of its only page
    log.write_bytes(whole[:at] + bytes([whole[at] ^ 0xFF]) + whole[at + 1 :])
    run = ClickTraining(log, DESCRIPTION, FTRL(), checkpoints=tmp_path / "c", every=1e-6)
    with pytest.raises(BadInput, match=r"log\.parquet, row group 2, is damaged .*the 2,000 rows before were read"):
        run.run()
    log.write_bytes(whole)
    again = ClickTraining(log, DESCRIPTION, FTRL(), checkpoints=tmp_path / "c", resume=True)
    assert again.n_learned == 2000
    again.run()
    assert again.n_learned == 4000
    assert np.array_equal(again.learner.coefficients()[1], learned(log).learner.coefficients()[1])


def test_lines_without_a_label(tmp_path):
    (tmp_path / "log.vw").write_text("1 |ad 7\n|ad 8\n-1 |ad 7\n 'tag|ad 9\n")
    with Rejects(tmp_path / "bad.jsonl") as rejects:
        assert learned(tmp_path / "log.vw", rejects, "vw").n_learned == 2
    assert rejects.reasons == {"the line has no label": 2}
    assert '"line": 2, "reason": "the line has no label", "row": "|ad 8"' in (tmp_path / "bad.jsonl").read_text()
