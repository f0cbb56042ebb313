"""`broadmatch ads`: check, index, match and why, as the shell sees them."""

import json

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.harvest import open_harvested
from broadmatch.io.artifacts import load
from tests.cli.conftest import broadmatch, failed, refused, worked


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
    said = worked("ads", "match", tmp_path / "index", "taxi")
    assert said.startswith("No ad matches 'taxi': `broadmatch ads why ") and "broad match" in said
    assert worked("ads", "match", tmp_path / "index", "taxi", "--json") == "[]\n"
    said = worked("ads", "why", tmp_path / "index", "free red shoes", "red")
    assert "the broad negative 'free' of its campaign blocks it" in " ".join(said.split())
    assert json.loads(worked("ads", "why", tmp_path / "index", "red", "red", "--json"))["shown"] is False


def test_from_a_click_model_to_an_engine(tmp_path):
    (tmp_path / "ads.csv").write_text(
        "advertiser,campaign,ad,page,title,phrase,match,bid\na,one,red,https://s.example,Red,red shoes,broad,0.5\n"
        "b,two,blue,https://s.example/b,Blue,shoes,phrase,0.75\n"
    )
    (tmp_path / "clicks.toml").write_text('label = "clicked"\n[signals]\nad = "categorical"\ncity = "categorical"\n')
    log = [f"{i % 3 == 0:d},{'red' if i % 2 else 'blue'},{'rome' if i % 5 else 'boston'}" for i in range(100)]
    (tmp_path / "log.csv").write_text("\n".join(["clicked,ad,city", *log]))
    worked(
        "clicks", "train", tmp_path / "log.csv", "--describe", tmp_path / "clicks.toml", "--out", tmp_path / "clicks"
    )
    engine = tmp_path / "engine"
    assert "2 ads" in worked("ads", "index", tmp_path / "ads.csv", "--clicks", tmp_path / "clicks", "--out", engine)
    asked = (engine, "Cheap red shoes", "--with", "city=rome")
    places = json.loads(worked("ads", "match", *asked, "--json"))
    assert [(place["ad"], place["place"]) for place in places] == [("blue", 1), ("red", 2)]
    assert 0 < places[0]["price"] < 0.75 and 0 < places[0]["probability"] < 1
    other = json.loads(worked("ads", "match", engine, "red shoes", "--with", "city=boston", "--json"))
    assert other[0]["probability"] != places[0]["probability"]
    assert "price  probability" in worked("ads", "match", *asked)
    said = " ".join(worked("ads", "why", engine, "Cheap red shoes", "blue", "--with", "city=rome").split())
    assert "city = rome" in said and "place 1 at" in said and "the score behind it" in said
    why = json.loads(worked("ads", "why", engine, "Cheap red shoes", "blue", "--json"))
    assert why["candidates"][0]["ad"] == "blue"
    assert "lacks 'shoes'" in worked("ads", "why", engine, "red", "red")
    said = worked("ads", "match", engine, "nothing of ours")
    assert said.startswith("No ad gets a place for 'nothing of ours':")
    assert f"`broadmatch ads why {engine} 'nothing of ours' AD`" in said
    assert "such as city=boston" in refused("ads", "match", engine, "red shoes", "--with", "city")
    index = tmp_path / "index"
    worked("ads", "index", tmp_path / "ads.csv", "--out", index)
    for command in (("match", index, "red"), ("why", index, "red", "red")):
        assert "is for an engine" in refused("ads", *command, "--with", "city=rome")
    said = failed("ads", "index", tmp_path / "ads.csv", "--clicks", engine / "auction", "--out", index)
    assert "holds a Auction, but a ClickModel is asked for" in said


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


def test_a_check_is_short_and_names_what_is_not_used(tmp_path):
    rows = [f"https://s.example,red shoes {i},7" for i in range(50)]
    (tmp_path / "ads.csv").write_text("\n".join(["page,phrase,price", *rows]))
    ran = broadmatch("ads", "check", tmp_path / "ads.csv")
    assert (ran.code, len(ran.out.splitlines())) == (1, 3)
    assert "49 more like it" in ran.out and "Columns that are not used: price" in ran.out
    assert "not used" not in worked("ads", "check", tmp_path / "ads.csv", "--columns", "bid=price")
    ran = broadmatch("ads", "check", tmp_path / "ads.csv", "--json")
    assert (len(json.loads(ran.out)["problems"]), json.loads(ran.out)["unused"]) == (50, ["price"])


def test_scores_that_are_not_calibrated_are_warned_of(market, data, model, tmp_path):
    """Once the model is calibrated as docs/ads.md says, nothing is warned of."""
    recommender, test = load(model), open_harvested(data).test
    recommender.model.calibrate(test.X, test.Y)
    recommender.save(tmp_path / "calibrated")
    clicks = pq.read_table(market / "clicks.parquet").select(["page", "query"])[:200]
    pq.write_table(clicks, tmp_path / "clicks.parquet")
    bids = clicks.append_column("bid", pa.array([0.5] * len(clicks))).rename_columns(["page", "phrase", "bid"])
    pq.write_table(bids, tmp_path / "ads.parquet")
    sources = ("--pages", market / "pages.parquet", "--log", tmp_path / "clicks.parquet")
    asked = ("ads", "index", tmp_path / "ads.parquet", *sources)
    ran = broadmatch(*asked, "--extend", model, "--threshold", 0.6, "--out", tmp_path / "plain")
    assert ran.code == 0, ran.err
    assert f"Warning: The scores of {model} are not calibrated: a --threshold of 0.6 is no" in ran.err
    ran = broadmatch(*asked, "--extend", tmp_path / "calibrated", "--out", tmp_path / "index")
    assert (ran.code, "not calibrated" in ran.err) == (0, False)


def test_what_extends_an_index_goes_together(table, tmp_path):
    out = ("--out", tmp_path / "index")
    assert "--extend needs the landing pages" in refused("ads", "index", table, "--extend", tmp_path, *out)
    assert "are for --extend" in refused("ads", "index", table, "--log", "clicks.csv", *out)
