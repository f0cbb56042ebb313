"""A number, a flag and a time mean the same in a text, in a column of texts, and in a column of their own type."""

from datetime import UTC, date, datetime
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from broadmatch.errors import BadParameter
from broadmatch.io.values import (
    DELIMITER,
    NO_TIME,
    flags,
    microseconds,
    moment_of,
    number_of,
    numbers,
    times,
    with_points,
)

WHOLE = st.integers(-(10**18), 10**18)
TEXTS = st.one_of(
    WHOLE.map(str),
    st.floats().map(repr),
    st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1)).map(datetime.isoformat),
    st.dates(date(1900, 1, 1), date(2200, 1, 1)).map(date.isoformat),
    st.datetimes(datetime(1900, 1, 1), datetime(2200, 1, 1), timezones=st.just(UTC)).map(datetime.isoformat),
    st.sampled_from(
        ["", " 5 ", "yesterday", "1_000", "nan", "-inf", "1e30", "2024-02-29T14:00:00+02:00", "true", "0x1"]
    ),
)


def one_by_one(texts: list[str | None], read: Any, missing: Any) -> list[Any]:
    """Each value, `missing` where there is none, "bad" where it cannot be read."""
    found = []
    for text in texts:
        try:
            found.append(missing if text is None else read(text))
        except (ValueError, BadParameter):
            found.append("bad")
    return found


def column(values: np.ndarray[Any, Any], bad: np.ndarray[Any, Any]) -> list[Any]:
    return ["bad" if wrong else value for value, wrong in zip(values.tolist(), bad.tolist(), strict=True)]


@given(st.lists(st.none() | TEXTS, max_size=6))
@example(["2024-01-01", "1704067200"])
@example(["2024-01-01T00:00:00Z", "2024-01-01"])
def test_times_of_texts_are_those_of_each(texts: list[str | None]) -> None:
    array = pa.array(texts, pa.string())
    expected = one_by_one(texts, moment_of, NO_TIME)
    if any(isinstance(one, int) and not -(2**63) <= one < 2**63 for one in expected):
        return
    assert column(*times(array)) == expected
    assert column(*times(array.dictionary_encode())) == expected


@given(st.lists(st.none() | WHOLE, max_size=6))
def test_times_of_numbers_are_those_of_texts(moments: list[int | None]) -> None:
    expected = [NO_TIME if moment is None else microseconds(moment) for moment in moments]
    assert column(*times(pa.array(moments, pa.int64()))) == expected
    texts = pa.array([None if moment is None else str(moment) for moment in moments], pa.string())
    assert column(*times(texts)) == expected


@given(st.lists(st.floats(-1e17, 1e17), max_size=6))
def test_times_of_fractions(moments: list[float]) -> None:
    assert column(*times(pa.array(moments, pa.float64()))) == [microseconds(moment) for moment in moments]


@pytest.mark.parametrize(("size", "unit"), [(10**11, 10**6), (10**14, 10**3), (10**17, 1)])
def test_the_unit_of_a_time_is_told_by_its_size(size: int, unit: int) -> None:
    below, at = microseconds(size - 1), microseconds(size)
    assert below == (size - 1) * unit
    assert at == (size * unit // 1000)
    assert times(pa.array([size - 1, size]))[0].tolist() == [below, at]


@given(st.lists(st.none() | TEXTS, max_size=6))
def test_numbers_of_texts_are_those_of_each(texts: list[str | None]) -> None:
    expected = one_by_one([text if text and text.strip() else None for text in texts], number_of, float("nan"))
    values, bad = numbers(pa.array(texts, pa.string()))
    assert repr(column(values, bad)) == repr(expected)


@given(
    st.lists(st.sampled_from(["0", "1", "true", "False", " 1 ", "1.0", "0.0", "2", "", "yes", "nan", None]), max_size=6)
)
def test_flags(texts: list[str | None]) -> None:
    known = {"0": 0.0, "1": 1.0, "true": 1.0, "False": 0.0, " 1 ": 1.0, "1.0": 1.0, "0.0": 0.0}
    expected = [known.get(text or "", "bad") for text in texts]
    assert column(*flags(pa.array(texts, pa.string()))) == expected
    assert column(*flags(pa.array(texts, pa.string()).dictionary_encode())) == expected


@pytest.mark.parametrize("text", ["2024/01/05 10:00:00", "2024-01-05 10:00:00 UTC", "2024/01/05 10:00:00 UTC"])
def test_times_as_logs_write_them(text: str) -> None:
    expected = moment_of("2024-01-05T10:00:00")
    assert moment_of(text) == expected
    for column in ([text], [text, None], ["2024-01-05T10:00:00"] * 20 + [text]):
        found, bad = times(pa.array(column))
        assert found[0] == expected
        assert found[len(column) - 1] in (expected, NO_TIME)
        assert not bad.any()
    assert times(pa.array(["2024/01/05", "no time"]))[1].tolist() == [False, True]


WRITTEN = [
    "1,0", " 2,36 ", "-0,5", "1.234,5", "1\u202f234,5", "1'234,50", "1,234", "0,123", "1.5", "1,5,6", ",5", "a,5", None
]  # fmt: skip


@pytest.mark.parametrize("dictionary", [False, True])
@pytest.mark.parametrize("whole", [False, True])
@pytest.mark.parametrize("delimiter", [None, ";", "\t"])
def test_decimal_commas_are_points_where_commas_do_not_separate(
    delimiter: str | None, whole: bool, dictionary: bool
) -> None:
    texts = pa.array(WRITTEN)
    table = pa.record_batch({"price": texts.dictionary_encode() if dictionary else texts})
    if delimiter is not None:
        table = table.replace_schema_metadata({DELIMITER: delimiter})
    thousands = "1.234" if delimiter == ";" and not whole else "1,234"
    read = ["1.0", "2.36", "-0.5", "1234.5", "1234.5", "1234.50", thousands, "0.123", *WRITTEN[8:]]
    assert with_points(table, "price", whole=whole).to_pylist() == (WRITTEN if delimiter is None else read)
