"""A description is refused before any data is read, with what to use instead."""

import pytest

from broadmatch.errors import BadInput
from broadmatch.registry import SignalIndex, check_signals
from broadmatch.registry.validation import check_names, refuse
from broadmatch.signals import Categorical, Cross, Description, Numeric
from tests.registry.test_signal_index import Vetted, add, allowed


def problems(index, *signals, **more):
    return [(one.signal, one.text, one.use) for one in check_signals(index, Description(signals=signals), **more)]


def test_white_listed_signals_pass(index):
    allowed(index, "price", settings={"buckets": [0, 1]})
    allowed(index, "ad", kind="categorical", platforms=["search"], domains=["ctr"])
    buckets = Numeric("p", name="price", buckets=[0, 1])
    assert problems(index, buckets, Categorical("ad"), Cross("price", "ad")) == []
    assert problems(index, Categorical("ad"), platform="search", domain="ctr") == []
    assert check_names(index, {"ad": None}) == []


def test_each_fault_is_named_with_what_to_use(index):
    allowed(index, "price")
    index.add_version("price", by="anna")
    index.record_vetting("price@2", Vetted())
    index.allow("price@2", by="anna")
    assert problems(index, Numeric("prize")) == [
        (
            "prize",
            "'prize' is not in the index (is it 'price'?); add it with `broadmatch signals add`.",
            "price",
        )
    ]
    index.deprecate("price", use="price@2", by="anna", reason="drifts")
    assert problems(index, Numeric("price")) == [
        ("price", "'price' is deprecated (drifts); use 'price@2' instead.", "price@2")]  # fmt: skip
    assert problems(index, Numeric("x", name="price@2")) == []
    index.retire("price", by="anna")
    assert problems(index, Numeric("price"))[0][1:] == (
        "'price' is retired (drifts); use 'price@2' instead.", "price@2")  # fmt: skip
    add(index, "fresh")
    assert "is proposed, not white-listed" in problems(index, Numeric("fresh"))[0][1]
    index.record_vetting("fresh", Vetted())
    assert "is vetted, not white-listed" in problems(index, Numeric("fresh"))[0][1]


def test_places_and_types(index):
    allowed(index, "price", platforms=["search", "maps"], settings={"buckets": "log"})
    at = {"platform": "display"}
    assert problems(index, Numeric("price", buckets="log"), **at)[0][1] == (
        "'price' is not available on the platform 'display', but on 'search', 'maps'.")  # fmt: skip
    assert problems(index, Categorical("price"))[0][1] == "'price' is number in the index, but categorical here."
    assert "has the settings {'buckets': 'log'} in the index, but {} here" in problems(index, Numeric("price"))[0][1]
    assert problems(index, Numeric("column", name="price", buckets="log")) == []


def test_a_cross_is_as_good_as_its_parts_unless_the_index_says_otherwise(index):
    for name in ("ad", "query"):
        allowed(index, name, kind="categorical")
    both = Categorical("ad"), Categorical("query"), Cross("ad", "query")
    assert problems(index, *both) == []
    add(index, "ad_query", kind="cross", settings={"cross": ["ad", "query"]})
    assert problems(index, *both) == []
    index.deprecate("ad_query", by="anna")
    assert [one[0] for one in problems(index, *both)] == ["ad_query"]


def test_patterns_wait_for_their_columns(tmp_path):
    with SignalIndex.open(tmp_path) as index:
        described = Description(signals=[Categorical("C*")])
        assert check_signals(index, described) == []
        assert [one.signal for one in check_signals(index, described.resolve(["C1", "C2"]))] == ["C1", "C2"]


def test_replacements_that_are_not_white_listed_are_passed_over(tmp_path):
    with SignalIndex.open(tmp_path) as index:
        for name in ("a", "b"):
            add(index, name)
        allowed(index, "c")
        index.deprecate("a", use="b", by="anna")
        index.deprecate("b", use="c", by="anna")
        assert problems(index, Numeric("a"))[0][2] == "c"


def test_all_problems_are_told_in_one_sentence_each(tmp_path):
    with SignalIndex.open(tmp_path) as index:
        found = check_signals(index, Description(signals=[Numeric(f"s{number}") for number in range(12)]))
    with pytest.raises(BadInput, match=r"ads.toml: 's0' is not in the index.* And 2 more. .*--allow-signals"):
        refuse(found, "ads.toml")
    refuse([], "ads.toml")
