"""Descriptions of columns: what they may say, and where and how they are refused."""

import gzip
import json

import pyarrow as pa
import pytest

from broadmatch.errors import BadInput, MissingFile
from broadmatch.signals import Categorical, Cross, Description, Encoder, Hour, Numeric, Text, Weekday

WHOLE = """\
format = "csv"
label = "comments >= 100"
weight = "w"
time = { column = "hour", format = "%y%m%d%H" }
query = "q"
id = "i"
slices = ["country", "hour_of_day"]

[signals]
ad = "categorical"
"C*" = "categorical"
"I*" = { kind = "number", buckets = "log" }
price = { kind = "number", buckets = [0, 1, 5] }
raw = { kind = "number", column = "size" }
title = { kind = "text" }
hour_of_day = { kind = "hour", column = "hour" }
day = { kind = "weekday", column = "hour" }
ad_title = { cross = ["ad", "title"] }
"""
COLUMNS = ["ad", "C1", "I1", "C2", "price", "size", "title", "hour", "comments", "w", "q", "i", "country", "Cx"]


def written(tmp_path, text):
    file = tmp_path / "signals.toml"
    file.write_text(text, encoding="utf-8")
    return file


def test_everything_a_description_can_say(tmp_path):
    read = Description.read(written(tmp_path, WHOLE))
    told = Description(
        format="csv",
        label="comments >= 100",
        weight="w",
        time={"column": "hour", "format": "%y%m%d%H"},
        query="q",
        id="i",
        slices=["country", "hour_of_day"],
        signals=[
            Categorical("ad"),
            Categorical("C*"),
            Numeric("I*", buckets="log"),
            Numeric("price", buckets=[0, 1, 5]),
            Numeric("size", name="raw"),
            Text("title"),
            Hour("hour", name="hour_of_day"),
            Weekday("hour", name="day"),
            Cross("ad", "title"),
        ],
    )
    assert read == told
    assert Description.from_dict(json.loads(json.dumps(read.to_dict()))) == read
    resolved = read.resolve(COLUMNS)
    names = ["ad", "C1", "C2", "Cx", "I1", "price", "raw", "title", "hour_of_day", "day", "ad_title"]
    assert [signal.name for signal in resolved.signals] == names
    assert set(resolved.columns_needed) == set(COLUMNS)
    assert resolved.resolve(COLUMNS) == resolved


def test_patterns_pass_over_what_has_another_role():
    told = Description(label="y", id="id", signals=[Numeric("n1"), Categorical("n*"), Categorical("*")])
    resolved = told.resolve(["id", "y", "n1", "n2", "z"])
    assert [(signal.name, signal.kind) for signal in resolved.signals] == [
        ("n1", "number"),
        ("n2", "categorical"),
        ("z", "categorical"),
    ]


def test_patterns_have_to_be_resolved_first():
    with pytest.raises(BadInput, match=r"'C\*' is a pattern: resolve"):
        Encoder(Description(label="y", signals=[Categorical("C*")]))


@pytest.mark.parametrize(
    ("old", "new", "key", "message"),
    [
        ('weight = "w"', 'wieght = "w"', "wieght", "the key 'wieght' is unknown (is it 'weight'?)"),
        ('weight = "w"', "weight = 3", "weight", "weight must be the name of a column, but it is 3"),
        ('weight = "w"', "weight = ", "line 3", "this is not TOML"),
        ('format = "csv"', 'format = "xls"', "format", "format must be one of parquet"),
        ("comments >= 100", "comments >= many", "label", "label must compare a column with a number"),
        ('{ column = "hour", format = "%y%m%d%H" }', "{ format = 3 }", "time", "time must be a column"),
        ('ad = "categorical"', 'ad = "categoric"', "signals.ad", "The kind of 'ad' must be one of"),
        ('ad = "categorical"', "ad = 3", "signals.ad", "'ad' must be a kind"),
        ('ad = "categorical"', 'ad = { kind = "text", words = 3 }', "signals.ad", "unknown setting 'words'"),
        (
            'ad = "categorical"',
            'constant = "categorical"',
            "signals.constant",
            "'constant' is the signal that every row has",
        ),
        ('ad = "categorical"', 'comments = "categorical"', "signals.comments", "'comments' is the label"),
        (
            'ad = "categorical"',
            'ad = { kind = "categorical", column = "adv" }',
            "signals.ad",
            "the log has no column 'adv'",
        ),
        ('"C*" = "categorical"', '"D*" = "categorical"', "signals.D*", "no column is left for the pattern 'D*'"),
        (
            '"C*" = "categorical"',
            'C = { kind = "text", column = "C*" }',
            "signals.C",
            "a pattern has no name of its own",
        ),
        ('buckets = "log"', 'buckets = "exp"', "signals.I*", 'buckets must be "log" or a list of rising numbers'),
        ("[0, 1, 5]", "[0, 5, 1]", "signals.price", "buckets must be"),
        ("[0, 1, 5]", "[]", "signals.price", "buckets must be"),
        ('column = "hour" }\nday', 'colum = "hour" }\nday', "signals.hour_of_day", "unknown setting 'colum'"),
        (
            '{ kind = "hour", column = "hour" }',
            '"hour"',
            "signals.hour_of_day",
            "'hour_of_day' needs the column of the time",
        ),
        (
            '["ad", "title"]',
            '["ad", "titel"]',
            "signals.ad_title",
            "the cross of unknown signal 'titel' (is it 'title'?)",
        ),
        ('["ad", "title"]', '["ad", "raw"]', "signals.ad_title", "the number 'raw' cannot be crossed as it is"),
        ('["ad", "title"]', '["ad", "ad"]', "signals.ad_title", "A cross needs two or more different signals"),
        ('["ad", "title"]', '"ad"', "signals.ad_title", "cross must be a list of signals"),
        ('"country", ', '"county", ', "slices", "(did you mean 'country'?)"),
        ('query = "q"', 'query = "qq"', "query", "the log has no column 'qq'"),
    ],
)
def test_an_error_names_the_key_that_is_wrong(tmp_path, old, new, key, message):
    assert old in WHOLE
    file = written(tmp_path, WHOLE.replace(old, new))
    with pytest.raises(BadInput) as caught:
        Description.read(file).resolve(COLUMNS)
    assert str(caught.value).startswith(f"{file}, {key}: ")
    assert message in str(caught.value)


def test_keys_inside_other_forms_of_tables(tmp_path):
    file = written(tmp_path, 'label = "y"\n[signals.ad]\nkind = "nonsense"\n')
    with pytest.raises(BadInput, match=r"toml, signals\.ad: The kind"):
        Description.read(file)
    file = written(tmp_path, 'label = "y"\nsignals = { ad = "text", b = "nonsense" }\n')
    with pytest.raises(BadInput, match=r"toml, signals\.b: The kind of 'b'"):
        Description.read(file)
    file = written(tmp_path, 'label = "y"\nsignals.ad = "text"\nsignals."b c" = "nonsense"\n')
    with pytest.raises(BadInput, match=r"toml, signals\.b c: The kind of 'b c'"):
        Description.read(file)


def test_what_python_can_get_wrong():
    with pytest.raises(BadInput, match="two signals are called 'ad'"):
        Description(label="y", signals=[Categorical("ad"), Text("ad")])
    with pytest.raises(BadInput, match="there are no signals"):
        Description(label="y", signals=[])
    with pytest.raises(BadInput, match="'x_z' is a cross itself"):
        Description(signals=[Categorical(c) for c in "xyz"] + [Cross("x", "z"), Cross("x_z", "y")])
    with pytest.raises(MissingFile, match=r"There is no description nothing\.toml"):
        Description.read("nothing.toml")


CRITEO = """\
format = "criteo"
label = "label"
[signals]
"I*" = { kind = "number", buckets = "log" }
"C*" = "categorical"
"""
AVAZU = """\
label = "click"
id = "id"
time = { column = "hour", format = "%y%m%d%H" }
signals.hour = { kind = "hour", column = "hour" }
signals."*" = "categorical"
"""


def rows_of(file, separator, names=None):
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        rows = [line.rstrip("\n").split(separator) for line in lines]
    header = names or rows.pop(0)
    return pa.record_batch([pa.array(column).dictionary_encode() for column in zip(*rows, strict=True)], names=header)


@pytest.mark.parametrize("which", ["criteo", "avazu"])
def test_known_logs_need_five_lines(which, shared_data, tmp_path):
    from broadmatch.io import Rejects

    if which == "criteo":
        names = ["label", *(f"I{i}" for i in range(1, 14)), *(f"C{i}" for i in range(1, 27))]
        table = rows_of(shared_data / "criteo-8k" / "criteo.csv.gz", "\t", names)
    else:
        table = rows_of(shared_data / "avazu-9k" / "avazu.csv.gz", ",")
    text = CRITEO if which == "criteo" else AVAZU
    assert len(text.splitlines()) == 5
    description = Description.read(written(tmp_path, text)).resolve(table.schema.names)
    rejects = Rejects()
    batch = Encoder(description).encode(table, rejects=rejects)
    assert len(batch) + rejects.count == table.num_rows
    assert len(batch) > 0.99 * table.num_rows
    width = 40 if which == "criteo" else 23
    assert batch.impressions.indptr[-1] == len(batch) * width
    assert 0.05 < batch.impressions.clicked.mean() < 0.5
    if which == "avazu":
        assert batch.time[0] == 1413849600000000  # 21 October 2014, midnight
