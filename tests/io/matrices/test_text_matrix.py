"""The byte parser agrees with the obvious one: same rows, same bits, same line refused."""

import io
import math
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadInput
from broadmatch.io.matrices.text_rows import Layout, read_rows
from tests.reference import text_matrix as reference

float32s = st.floats(width=32, allow_nan=False, allow_infinity=False)
digits = st.text("0123456789", min_size=1, max_size=40)
written = st.one_of(
    float32s.map(repr),
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}{}.{}".format, st.sampled_from(["", "-", "+"]), digits, digits),
    st.builds("{}.{}e{}".format, digits, digits, st.integers(-60, 40)),
    st.integers(-(10**12), 10**12).map(str),
)
junk = st.sampled_from(["", ".", "-", "e5", "1e", "1.2.3", "nan", "-inf", "0x1f", "1_0", "１", "1e99", "--1", "+1"])


@st.composite
def middles(draw: st.DrawFn) -> str:
    """Numbers at, or a hair beside, the middle between two float32: where rounding is hardest."""
    low = abs(np.float32(draw(float32s)))
    with np.errstate(over="ignore"):
        high = np.nextafter(low, np.float32(np.inf))
    middle = (float(low) + float(high)) / 2 if np.isfinite(high) else float(low)
    exact = f"{middle:.170f}"
    return draw(st.sampled_from(["", "-"])) + exact[:-1] + draw(st.sampled_from("019"))


@settings(deadline=None)
@given(st.one_of(written, middles()))
@example("16777217")
@example("3.4028235677973366e38")
@example("3.4028235677973365e38")
@example("-3.4028235677973365e38")
@example("1.401298464324817e-45")
@example("7e-46")
@example("0.1")
def test_numbers_are_rounded_to_the_nearest_float32(text: str) -> None:
    expected = reference.nearest_float32(text)
    stream = io.BufferedReader(io.BytesIO(f"0:{text}\n".encode()))
    if np.isfinite(expected):
        try:
            (found,) = read_rows(stream, Path("f"), 1, Layout(False)).values.tolist()
        except BadInput as error:
            assert "too large" in str(error)
            found = math.copysign(2.0**128, expected)
        # In the middle between two float32, but for the last bits of a float64, it may be either of them.
        middle = (Fraction(found) + Fraction(expected)) / 2
        assert found == expected or abs(Fraction(text) - middle) <= abs(middle) / 2**49
    else:
        with pytest.raises(BadInput, match="too large"):
            read_rows(stream, Path("f"), 1, Layout(False))


cell = st.builds("{}:{}".format, st.integers(0, 12), st.one_of(written, junk))
label = st.one_of(st.integers(0, 6).map(str), st.sampled_from(["-1", "x", "", "+2", "1.0"]))
word = st.one_of(cell, cell, st.sampled_from(["qid:3", "3", ":", "1:", ":1", "-1:2", "a:1", "#c 9:x", "#"]))
line = st.builds(
    "{}{}{}{}".format,
    st.lists(label, max_size=3).map(",".join),
    st.sampled_from(["", " ", "\t"]),
    st.lists(word, max_size=4).map(" ".join),
    st.sampled_from(["", " ", "\r", " # 1:2"]),
)


@settings(max_examples=400, deadline=None)
@given(st.lists(line, max_size=5), st.booleans(), st.booleans(), st.sampled_from(["", "\n"]))
@example(["", "1,2 3:0.5", " 1:1", "1:1", ""], True, False, "\n")
@example(["", "1,2 3:0.5", " ", "#x", "1 qid:3 1:1 # c"], True, True, "")
@example(["qid:3 1:1", "qid:3"], True, True, "\n")
@example(["1,"], True, True, "")
def test_rows_agree_with_the_obvious_parser(lines: list[str], labelled: bool, comments: bool, end: str) -> None:
    text = "\n".join(lines) + end
    layout = Layout(labelled, comments, n_labels=6, n_columns=12)
    stream = io.BufferedReader(io.BytesIO(text.encode()))
    try:
        expected = reference.parse_rows(text, labelled, comments, 6, 12)
    except reference.Unreadable as wrong:
        with pytest.raises(BadInput) as caught:
            read_rows(stream, Path("f"), 1, layout)
        found = re.match(r"f, line (\d+): ", str(caught.value))
        assert found is not None
        assert int(found.group(1)) == wrong.line + 1
        return
    rows = read_rows(stream, Path("f"), 1, layout)
    assert rows.n_rows == len(expected)
    assert rows.labels.tolist() == [x for row in expected for x in row[0]]
    assert rows.columns.tolist() == [c for row in expected for c, _ in row[1]]
    assert rows.values.tolist() == [v for row in expected for _, v in row[1]]
    assert rows.label_lengths.tolist() == [len(row[0]) for row in expected]
    assert rows.lengths.tolist() == [len(row[1]) for row in expected]
