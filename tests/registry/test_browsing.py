"""Signals page by page, what is related to one, and whom deprecations wait for, on both databases."""

import pytest

from broadmatch.errors import BadParameter
from broadmatch.registry.browsing import ORDERS
from tests.registry.test_signal_index import TOMORROW, add, allowed, report


def names(page):
    return [one.full_name for one, _ in page.found]


@pytest.fixture
def some(index):
    """Ten signals of two owners, with the third white-listed, the fifth deprecated and consumed by three models."""
    for i in range(10):
        (allowed if i == 3 else add)(index, f"s{i}", owner=("Anna", "ben_")[i % 2], description=f"what {i % 3} is")
    for model, team in (("a", "ads"), ("b", "ads"), ("c", "")):
        report(index, ["s5", "s6"], model=model, team=team)
    report(index, ["s5"], model="a", use="serving")
    report(index, ["s6"], model="c", team="")
    index.deprecate("s5", by="anna", use="s6", by_date=TOMORROW)
    return index


def test_pages_are_the_list_in_pieces(some):
    whole = [one.full_name for one in some.signals()]
    pieces = [names(some.page(offset=at, limit=3)) for at in range(0, 12, 3)]
    assert [name for piece in pieces for name in piece] == whole
    found = some.page(status="deprecated")
    assert (names(found), found.total, found.found[0][1]) == (["s5@1"], 1, 2)  # c reported without it since
    assert found.by_status == {"proposed": 8, "white-listed": 1, "deprecated": 1}
    assert names(some.page(search="WHAT 0", owner="anna")) == ["s0@1", "s6@1"]
    assert some.page(owner="_").total == 5  # as it is written, and not as a pattern
    assert some.page(owner="%").total == some.page(search="none", status="retired").total == 0


def test_orders(some):
    assert names(some.page(order="newest", limit=2)) == ["s9@1", "s8@1"]
    assert names(some.page(order="owner", limit=1)) == ["s0@1"]
    assert names(some.page(order="due", limit=2)) == ["s5@1", "s0@1"]
    assert all(sorted(names(some.page(order=one))) == sorted(names(some.page())) for one in ORDERS)
    with pytest.raises(BadParameter, match="order must be one of name, newest"):
        some.page(order="size")
    with pytest.raises(BadParameter, match="status must be"):
        some.page(status="good")


def test_teams_that_are_waited_for(some):
    assert some.waiting_for(["s5@1", "s6@1"]) == {"s5@1": {"ads": 2}, "s6@1": {}}  # the second is not deprecated
    report(some, ["s5"], model="d", team="")
    assert list(some.waiting_for(["s5@1"])["s5@1"].items()) == [("ads", 2), ("", 1)]


def test_what_is_related(some):
    add(some, "both", kind="cross", settings={"cross": ["s1", "s6"]})
    some.add_version("s6", by="anna")
    assert [one.full_name for one in some.related("s6@2")] == ["both@1", "s5@1", "s6@1", "s6@2"]
    assert [one.full_name for one in some.related("both")] == ["both@1", "s1@1", "s6@1"]
    assert [one.full_name for one in some.related("s9")] == ["s9@1"]
