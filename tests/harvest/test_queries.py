"""Query normalisation: one definition, the same in Python and in SQL."""

import unicodedata

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broadmatch.harvest.queries import normalise_query, register_normalise
from broadmatch.io.duck import connect

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("Pizza\tHut\n", "pizza hut"),
        ("women's shoes (size 7½)", "women s shoes size 71 2"),
        ("CRÊPE", "crêpe"),
        ("cre\u0302pe", "crêpe"),
        ("हिन्दी", "हिन्दी"),
        ("می\u200cخواهم", "میخواهم"),
        ("ﬁne", "fine"),
        ("İzmir", "i\u0307zmir"),
        ("?!…", ""),
        ("", ""),
    ],
)
def test_examples(query: str, expected: str) -> None:
    assert normalise_query(query) == expected


@settings(max_examples=500, deadline=None)
@given(texts)
def test_a_normal_query_is_clean_and_stays_as_it_is(query: str) -> None:
    normal = normalise_query(query)
    assert normalise_query(normal) == normal
    assert normal == " ".join(normal.split(" "))
    assert normal == normal.strip()
    assert "  " not in normal
    assert all(c == " " or unicodedata.category(c)[0] in "LMN" for c in normal)


def test_every_character_by_itself_is_settled() -> None:
    for code in range(0x110000):
        if not 0xD800 <= code < 0xE000:
            normal = normalise_query(chr(code) + "a")
            assert normalise_query(normal) == normal


@settings(max_examples=100, deadline=None)
@given(st.lists(texts, min_size=1, max_size=20))
@example(["A\0b", "\x1f", "a_b", "Ab-C"])
def test_sql_equals_python(queries: list[str]) -> None:
    with connect("200MB", threads=1) as db:
        normal = register_normalise(db).format("q")
        found = db.execute(f"FROM (SELECT unnest(?::VARCHAR[]) AS q) SELECT {normal}", [queries]).fetchall()
    assert [one for (one,) in found] == [normalise_query(query) for query in queries]
