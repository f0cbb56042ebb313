"""A description that is guessed: what each kind of column becomes, what is left out, and what cannot be guessed."""

import math
from datetime import datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.errors import BadInput
from broadmatch.io.rejects import Rejects
from broadmatch.io.streams import RecordStream
from broadmatch.io.values import NO_TIME, flags, times
from broadmatch.signals import Description, Encoder
from broadmatch.signals.guess import guess_description, guess_from

N = 200
TITLES = [f"the {i}th of many long titles" for i in range(N)]


def guessed(**columns):
    return guess_description(pa.record_batch({"clicked": [i % 2 for i in range(N)], **columns}))


def kinds(**columns):
    return {s.name: s.kind for s in guessed(**columns).description.signals}


def test_kinds_of_columns():
    assert kinds(
        ad=[f"a{i % 7}" for i in range(N)],
        campaign=[str(i % 5) for i in range(N)],  # a number that names something
        position=[i % 4 for i in range(N)],
        price=[i / 7 for i in range(N)],
        views=[i * 31 for i in range(N)],  # whole, but hardly one comes again
        cents=[f"{i * 13}" for i in range(N)],
        seen=[i % 3 == 0 for i in range(N)],
        title=TITLES,
        query=pa.array(TITLES).dictionary_encode(),
    ) == {
        "ad": "categorical", "campaign": "categorical", "position": "categorical", "price": "number",
        "views": "number", "cents": "number", "seen": "categorical", "title": "text", "query": "text",
    }  # fmt: skip


def test_roles_and_what_is_left_out():
    found, left_out = guessed(
        id=[f"{i:x}" for i in range(N)], Time=[1_700_000_000 + i for i in range(N)], weight=[1.5] * N, ad=["a"] * N,
        nothing=[""] * N, none=pa.nulls(N), cookie=[f"c{i}" for i in range(N)], seen=pa.array([[1]] * N),
    )  # fmt: skip
    assert (found.label, found.weight, found.time, found.id) == ("clicked", "weight", "Time", "id")
    assert [s.name for s in found.signals] == ["ad", "hour of Time", "weekday of Time"]
    assert left_out == {
        "nothing": "it has no value", "none": "it has no value", "cookie": "every row has another value",
        "seen": "it holds list<item: int64>",
    }  # fmt: skip


def test_a_name_alone_makes_no_role():
    found = guessed(time=[i % 24 for i in range(N)], id=["x"] * N, weight=["heavy"] * N).description
    assert (found.time, found.id, found.weight) == (None, None, None)
    assert {s.name for s in found.signals} == {"time", "id", "weight"}


def test_times_by_their_type():
    found = guessed(shown=[datetime(2026, 1, 1 + i % 9) for i in range(N)]).description
    assert found.time == "shown" and [s.kind for s in found.signals] == ["hour", "weekday"]


def test_the_label_is_a_column_of_0_and_1():
    table = pa.record_batch({"label": ["no", "yes"], "Click": ["true", "0"], "ad": ["a", "b"]})
    assert guess_description(table).description.label == "Click"
    with pytest.raises(BadInput, match="No column of 0 and 1 is called clicked, click, label or the like among ad"):
        guess_description(pa.record_batch({"ad": ["a"], "clicks": [7]}))
    with pytest.raises(BadInput, match="No column is left for signals beside the label 'click'"):
        guess_description(pa.record_batch({"click": [0]}))


@pytest.mark.parametrize(
    "clicked",
    [["0", "", "1"], [0, None, 1], [0.0, math.nan, 1.0], ["true", " ", "False"], pa.array([True, None, False])],
)
def test_rows_may_lack_the_label(clicked):
    assert guess_description(pa.record_batch({"click": clicked, "ad": ["a", "b", "b"]})).description.label == "click"


@pytest.mark.parametrize("clicked", [[-1, None, 1], ["-1", "", "1"], [-1.0, -1.0, 1.0]])
def test_a_label_of_minus_1_and_1_is_a_rule(clicked):
    table = pa.record_batch({"click": clicked, "ad": ["a", "b", "b"]})
    found = guess_description(table).description
    assert (found.label, [s.name for s in found.signals]) == ("click > 0", ["ad"])
    rejects = Rejects()
    assert Encoder(found).encode(table, rejects=rejects).impressions.clicked.tolist() == [
        value == 1 for value in map(float, filter(None, clicked))
    ]
    assert rejects.count == pa.array(clicked).null_count + ("" in clicked)


@pytest.mark.parametrize(
    ("clicked", "held"),
    [
        (["0", "1", "maybe"], "'maybe'"),
        (["yes", "no", "yes"], "'yes', 'no'"),
        ([-1, 0, 1], "-1"),
        (["", " ", None], "no value"),
        ([[1], [0], [1]], "list<item: int64>"),
    ],
)
def test_what_a_column_called_like_a_label_holds(clicked, held):
    with pytest.raises(BadInput, match=rf"among click, ad \(click holds {held}, but a label is 0 or 1\): say what"):
        guess_description(pa.record_batch({"click": clicked, "ad": ["a", "b", "b"]}))


def test_the_index_of_a_pandas_table_is_no_signal():
    found, left_out = guessed(ad=["a"] * N, __index_level_0__=[i % 5 for i in range(N)])
    assert [s.name for s in found.signals] == ["ad"]
    assert left_out == {"__index_level_0__": "it is the index of a pandas table"}


def test_files(tmp_path):
    (tmp_path / "log.csv").write_text("click,ad\n")
    with pytest.raises(BadInput, match="There is no row in"):
        guess_from(tmp_path / "log.csv")
    (tmp_path / "log.csv").write_text("click,ad\n1,a\n0,b\n1,a\n")
    assert guess_from(tmp_path / "log.csv").description.label == "click"


values = st.none() | st.sampled_from(["", "1", "0", "x y z w v", "2026-01-01", "nan"]) | st.text(max_size=4)
columns = st.lists(values, min_size=3, max_size=3).map(lambda rows: pa.array(rows, pa.string()))


@given(
    st.dictionaries(
        st.text(max_size=6) | st.sampled_from(["time", "id", "weight", "constant", "a*"]), columns, max_size=4
    )
)
def test_whatever_is_guessed_can_be_read_back_and_encoded(more):
    table = pa.record_batch({**more, "clicked": ["0", "1", "0"]})
    try:
        found = guess_description(table).description
    except BadInput as error:
        assert "No column is left" in str(error)
        return
    assert found == Description.from_dict(found.to_dict())
    assert len(Encoder(found).encode(table)) == 3
    if found.time is not None:
        assert (times(table.column(found.time))[0] != NO_TIME).any()
    assert not flags(table.column(found.label))[1].any()


def test_decimal_commas_beside_semicolons_are_numbers(tmp_path):
    rows = [f"{i % 2},0;{i / 100:.2f};a{i % 5}".replace(".", ",") for i in range(N)]
    (tmp_path / "log.csv").write_text("\n".join(["clicked;price;ad", *rows]))
    described = guess_from(tmp_path / "log.csv").description
    assert (described.label, {s.name: s.kind for s in described.signals}) == (
        "clicked", {"price": "number", "ad": "categorical"}
    )  # fmt: skip
    (records,) = RecordStream(tmp_path / "log.csv")
    batch = Encoder(described).encode(records.table)
    columns = {"clicked": [i % 2 for i in range(N)], "price": [i / 100 for i in range(N)]}
    plain = pa.record_batch({**columns, "ad": [f"a{i % 5}" for i in range(N)]})
    same = Encoder(described).encode(plain)
    assert batch.impressions.clicked.tolist() == same.impressions.clicked.tolist()
    assert batch.impressions.keys.tolist() == same.impressions.keys.tolist()
