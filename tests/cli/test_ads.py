"""`broadmatch ads`: check, index, match and why, as the shell sees them."""

import json

import pytest

from tests.cli.conftest import broadmatch, failed, worked


@pytest.fixture(scope="module")
def table(tmp_path_factory):
    file = tmp_path_factory.mktemp("ads") / "ads.csv"
    file.write_text(
        "campaign,ad,page,phrase,match,bid\nshop,red,https://s.example,red shoes,broad,0.5\n"
        "shop,blue,https://s.example/b,shoes,phrase,0.75\nshop,,,free,campaign negative broad,\n"
    )
    return file


def test_from_a_table_to_why(table, tmp_path):
    assert "2 ads, 2 phrases, 1 negatives" in worked("ads", "check", table)
    worked("ads", "index", table, "--out", tmp_path / "index")
    found = json.loads(worked("ads", "match", tmp_path / "index", "cheap red shoes", "--json"))
    assert [(row["ad"], row["phrase"], row["match"], row["bid"]) for row in found] == [
        ("blue", "shoes", "phrase", 0.75), ("red", "red shoes", "broad", 0.5),
    ]  # fmt: skip
    assert "red shoes  broad" in worked("ads", "match", tmp_path / "index", "red shoes")
    said = worked("ads", "why", tmp_path / "index", "free red shoes", "red")
    assert "the broad negative 'free' of its campaign blocks it" in " ".join(said.split())
    assert json.loads(worked("ads", "why", tmp_path / "index", "red", "red", "--json"))["shown"] is False


def test_problems_end_with_1(tmp_path):
    (tmp_path / "bad.csv").write_text("page,phrase,match,bid\na.html,taxi,exact,0\nb.html,cab,sideways,1\n")
    ran = broadmatch("ads", "index", tmp_path / "bad.csv", "--out", tmp_path / "index")
    said = ran.err  # a line for each problem
    assert (
        ran.code == 1
        and "Error: The inventory has 2 errors" in said
        and "line 2, bid" in said
        and "line 3, match" in said
    )
    assert not (tmp_path / "index").exists()
    ran = broadmatch("ads", "check", tmp_path / "bad.csv", "--json")
    assert (ran.code, [one["column"] for one in json.loads(ran.out)["problems"]]) == (1, ["bid", "match"])
    assert "no ad index" in failed("ads", "match", tmp_path / "index", "taxi")
