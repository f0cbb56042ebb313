"""Inventories from tables and bulk files, back again, and everything that is wrong with them in one report."""

import csv
import dataclasses

import numpy as np
import pytest

from broadmatch.ads import Inventory, check_inventory, read_inventory
from broadmatch.errors import BadInput

ROWS = [
    {"advertiser": "shop", "campaign": "shoes", "budget": 20.5},
    {"advertiser": "shop", "campaign": "shoes", "group": "red", "ad": "red", "page": "https://shop.example/red",
     "title": "Red, and \"cheap\"", "text": "Buy"},
    {"advertiser": "shop", "campaign": "shoes", "group": "red", "phrase": "red shoes", "match": "broad", "bid": 0.5},
    {"advertiser": "shop", "campaign": "shoes", "group": "red", "phrase": "schöne Hüte", "match": "exact", "bid": 0.01},
    {"advertiser": "shop", "campaign": "shoes", "group": "red", "phrase": "toy", "match": "negative phrase"},
    {"advertiser": "shop", "campaign": "shoes", "phrase": "free", "match": "campaign negative broad"},
    {"advertiser": "shop", "campaign": "boots", "group": "boots", "ad": "boots", "page": "https://shop.example/boots"},
    {"advertiser": "shop", "campaign": "boots", "group": "boots", "phrase": "snow boots", "match": "phrase", "bid": 2},
]  # fmt: skip


def same(one, other, but=()):
    for field in dataclasses.fields(Inventory):
        if field.name not in but:
            a, b = getattr(one, field.name), getattr(other, field.name)
            assert np.array_equal(a, b, equal_nan=True) if isinstance(a, np.ndarray) and a.dtype == float else (
                list(a) == list(b)), field.name  # fmt: skip


@pytest.mark.parametrize("name", ["ads.csv", "ads.tsv", "ads.parquet", "ads.csv.gz"])
def test_tables_round_trip(tmp_path, name):
    inventory = Inventory.from_rows(ROWS)
    assert list(inventory.titles) == ['Red, and "cheap"', ""]
    assert inventory.budgets[0] == 20.5 and np.isnan(inventory.budgets[1])
    inventory.write(tmp_path / name)
    same(read_inventory(tmp_path / name), inventory)


def test_google_editor_round_trips(tmp_path):
    inventory = Inventory.from_rows(ROWS)
    inventory.write(tmp_path / "editor.csv", system="google")
    raw = (tmp_path / "editor.csv").read_bytes()
    assert raw[:2] == b"\xff\xfe"
    header, *rows = csv.reader(raw.decode("utf-16").splitlines(), delimiter="\t")
    assert header[:4] == ["Account", "Campaign", "Campaign Daily Budget", "Ad Group"]
    assert ["Campaign Negative Broad" in row for row in rows].count(True) == 1
    same(read_inventory(tmp_path / "editor.csv"), inventory)


def test_microsoft_bulk_round_trips(tmp_path):
    inventory = Inventory.from_rows(ROWS)
    inventory.write(tmp_path / "bulk.csv", system="microsoft")
    header, version, *rows = csv.reader((tmp_path / "bulk.csv").read_text("utf-8-sig").splitlines())
    assert header[0] == "Type" and version[0] == "Format Version" and version[header.index("Name")] == "6.0"
    assert [row[0] for row in rows].count("Ad Group Negative Keyword") == 1
    again = read_inventory(tmp_path / "bulk.csv")
    # Microsoft has no broad negatives: of one word, a phrase negative is the same. The account is not in the file.
    same(again, inventory, but=("negative_match", "advertisers"))
    wide = Inventory.from_rows([*ROWS, {"campaign": "shoes", "phrase": "for free", "match": "campaign negative broad"}])
    with pytest.raises(BadInput, match="Microsoft has no broad negatives"):
        wide.write(tmp_path / "wide.csv", system="microsoft")


def test_files_as_the_systems_write_them(tmp_path):
    """Other columns, parents by number, bids of groups, assets as JSON, paused rows, brackets for match types."""
    (tmp_path / "bulk.csv").write_text(
        "Type,Status,Id,Parent Id,Campaign,Ad Group,Keyword,Match Type,Bid,Cpc Bid,Budget,Final Url,Headline,Name\n"
        "Format Version,,,,,,,,,,,,,6.0\n"
        "Campaign,Active,-1,0,Shoes,,,,,,50,,,\n"
        "Ad Group,Active,-2,-1,Shoes,Red,,,,0.4,,,,\n"
        'Responsive Search Ad,Active,,-2,,,,,,,,https://a.example,"[{""text"":""Red!""},{""text"":""Two""}]",\n'
        "Keyword,Active,,-2,,,red shoes,Broad,,,,,,\n"
        "Keyword,Paused,,-2,,,blue shoes,Broad,,,,,,\n"
        "Campaign Negative Keyword,Active,,-1,,,free,Exact,,,,,,\n"
        "Sitelink Ad Extension,Active,,,,,,,,,,,,\n"
    )
    report = check_inventory(tmp_path / "bulk.csv")
    found = report.checked()
    assert (list(found.phrases), found.bids.tolist(), list(found.titles)) == (["red shoes"], [0.4], ["Red!"])
    assert (found.negative_match.tolist(), found.negative_group.tolist(), report.paused) == ([0], [-1], 1)
    text = (
        "Campaign\tAd Group\tMax CPC\tKeyword\tCriterion Type\tFinal URL\tHeadline 1\tAd type\n"
        "Shoes\tRed\t0.30\t\t\t\t\t\n"
        "Shoes\tRed\t\t[red shoes]\t\t\t\t\n"
        'Shoes\tRed\t0.5\t"""red boots"""\tPhrase\thttps://k.example\t\t\n'
        "Shoes\tRed\t\t\t\thttps://a.example\tOne\tResponsive search ad\n"
        "Shoes\tRed\t\t\t\thttps://a.example\tTwo\tResponsive search ad\n"
    )
    (tmp_path / "editor.csv").write_bytes(b"\xff\xfe" + text.encode("utf-16-le"))
    found = read_inventory(tmp_path / "editor.csv")
    assert (list(found.phrases), found.phrase_match.tolist()) == (["red shoes", "red boots"], [0, 1])
    assert (found.bids.tolist(), list(found.ads)) == ([0.3, 0.5], ["Red", "Red #2"])


def test_an_inventory_in_windows_1252_is_read_and_that_is_said(tmp_path, caplog):
    text = "campaign,group,page,phrase,match,bid\nc,Größe,https://a.example,,,\nc,Größe,,Hüte,broad,1\n"
    (tmp_path / "ads.csv").write_bytes(text.encode("cp1252"))
    assert list(read_inventory(tmp_path / "ads.csv").phrases) == ["Hüte"]
    assert caplog.messages == [f"{tmp_path / 'ads.csv'}: 2 lines are not UTF-8 and were read as Windows-1252."]


@pytest.mark.parametrize("delimiter", [";", "\t"])
def test_sums_of_money_may_have_decimal_commas(tmp_path, delimiter):
    rows = ["campaign;budget;group;page;phrase;match;bid", "c;1.234,50;;;;;", "c;;g;https://a.example;;;",
            "c;;g;;size 7,5;broad;1,20"]  # fmt: skip
    text = "\n".join(rows)
    (tmp_path / "ads.csv").write_text(text.replace(";", delimiter))
    found = read_inventory(tmp_path / "ads.csv")
    assert (found.budgets.tolist(), found.bids.tolist(), list(found.phrases)) == ([1234.5], [1.2], ["size 7,5"])


def test_every_problem_is_in_one_report(tmp_path):
    (tmp_path / "ads.csv").write_text(
        "campaign,budget,group,ad,page,phrase,match,bid\n"
        "c,0,,,,,,\n"  # 2: a budget of 0
        "c,,g,a,https://a.example,alpha,broad,0\n"  # 3
        "c,,g,,,beta,broad,-1\n"  # 4
        "c,,g,,,gamma,broad,NaN\n"  # 5
        "c,,g,,,delta,broad,1e12\n"  # 6
        "c,,g,,,epsilon,sideways,1\n"  # 7
        "c,,g,,,of the,phrase,-1\n"  # 8: stop words only, and a bid below 0
        "c,,g,,,the who,exact,1\n"  # 9: fine, by exact match
        "c,,g,,,!!!,broad,1\n"  # 10: no word
        "c,,g,,,no bid,broad,\n"  # 11
        "c,,g2,b,,word,broad,1\n"  # 12: an ad without a page
        "c,,g3,c,https://c.example,cheap hat,broad,1\n"  # 13
        "c,,g3,,,hat,negative broad,\n"  # 14: blocks all
        "c,,g4,,,alone,broad,1\n"  # 15: a group without an ad
        ",,g5,,,x,broad,1\n"  # 16
        "too,few\n"  # 17
        "c,,g,,,The WHO,exact,2\n"  # 18: there already
        "d,5,,,,,,\nd,6,,,,,,\n"  # 19 and 20: two budgets
    )
    report = check_inventory(tmp_path / "ads.csv")
    found = [(problem.row, problem.column, problem.error) for problem in report.problems]
    assert found == [
        (2, "budget", True), (3, "bid", True), (4, "bid", True), (5, "bid", True), (6, "bid", True), (7, "match", True),
        (8, "bid", True), (8, "phrase", True), (10, "phrase", True), (11, "bid", True), (12, "page", True),
        (14, "phrase", True),
        (15, "ad", True), (16, "campaign", True), (17, "row", True), (18, "phrase", False), (20, "budget", True),
    ]  # fmt: skip
    assert "it may be in millionths" in str(report.problems[4])
    assert "blocks all phrases of the group 'g3'" in str(report.problems[11])
    assert list(report.inventory.phrases) == ["the who", "word", "cheap hat", "alone"]
    with pytest.raises(BadInput, match=r"The inventory has 16 errors:\n.*ads.csv, line 2, budget: 0 is not above 0"):
        report.checked()


def test_each_kind_of_problem_is_said_once(tmp_path):
    rows = [f"c,Red,red {i},https://s.example,7,0.1" for i in range(30_000)]
    table = ["campaign,group,phrase,page,clicks,cost", *rows, "c,,alone,,,"]
    (tmp_path / "ads.csv").write_text("\n".join(table))
    report = check_inventory(tmp_path / "ads.csv")
    file = tmp_path / "ads.csv"
    assert len(report.problems) == 30_001
    assert report.summary() == [
        f"{file}, line 2, bid: 'red 0' has no bid, and neither has its group; give a bid. 29,999 more like it: "
        f"{file}, line 3; {file}, line 4; {file}, line 5 and on.",
        f"{file}, line 30002, group: it is empty; name the ad group.",
    ]
    assert report.unused == ("clicks", "cost")


def test_a_file_that_is_no_inventory_is_refused(tmp_path):
    (tmp_path / "other.csv").write_text("x,y\n1,2\n")
    with pytest.raises(BadInput, match="has no column of an inventory"):
        read_inventory(tmp_path / "other.csv")
    (tmp_path / "mine.csv").write_text("term,landing,match,price\ntaxi,https://t.example,exact,1.5\n")
    found = read_inventory(tmp_path / "mine.csv", columns={"phrase": "term", "page": "landing", "bid": "price"})
    assert (list(found.phrases), list(found.ads), found.bids.tolist()) == (["taxi"], ["https://t.example"], [1.5])


def test_a_negative_that_a_query_can_pass_is_no_error():
    rows = [
        {"group": "g", "ad": "a", "page": "p", "phrase": "red shoes", "match": "broad", "bid": 1},
        {"group": "g", "phrase": "red shoes", "match": "negative exact"},
        {"group": "g", "phrase": "red shoes", "match": "negative phrase"},
    ]
    assert len(Inventory.from_rows(rows).negatives) == 2
    with pytest.raises(BadInput, match="blocks all phrases"):
        Inventory.from_rows([*rows, {"group": "g", "phrase": "shoes red", "match": "negative broad"}])


def test_a_group_without_ads_shows_the_pages_of_its_phrases(tmp_path):
    (tmp_path / "keywords.csv").write_text(
        "campaign,group,phrase,match,bid,page\n"
        "Shoes,Red,red shoes,broad,0.5,https://s.example/red\n"
        "Shoes,Red,red boots,exact,0.4,https://s.example/boots\n"
        "Shoes,Red,cheap red shoes,phrase,0.3,https://s.example/red\n"
        "Shoes,Red,toy,negative broad,,https://s.example/toys\n"
        "Hats,Red,red hats,broad,0.2,https://s.example/hats\n"
    )
    found = read_inventory(tmp_path / "keywords.csv")
    assert list(zip(found.ads, found.pages, found.ad_group.tolist(), strict=True)) == [
        ("Red", "https://s.example/red", 0), ("Red #2", "https://s.example/boots", 0),
        ("Red #3", "https://s.example/hats", 1),
    ]  # fmt: skip
    assert found.phrase_group.tolist() == [0, 0, 0, 1]


@pytest.mark.parametrize("ads_first", [True, False])
def test_pages_of_phrases_are_no_ads_beside_an_ad(tmp_path, ads_first):
    keyword = "Shoes\tRed\tred shoes\tBroad\t0.5\thttps://k.example\t\t\n"
    ad = "Shoes\tRed\t\t\t\thttps://a.example\tOne\tEnabled\n"
    header = "Campaign\tAd Group\tKeyword\tCriterion Type\tMax CPC\tFinal URL\tHeadline 1\tStatus\n"
    (tmp_path / "editor.tsv").write_text(header + (ad + keyword if ads_first else keyword + ad))
    assert list(read_inventory(tmp_path / "editor.tsv").pages) == ["https://a.example"]
    (tmp_path / "editor.tsv").write_text(header + keyword)
    assert list(read_inventory(tmp_path / "editor.tsv").pages) == ["https://k.example"]


def test_pages_of_phrases_do_not_stand_for_paused_ads(tmp_path):
    (tmp_path / "editor.csv").write_text(
        "Campaign,Ad Group,Keyword,Criterion Type,Max CPC,Final URL,Headline 1,Status\n"
        "Shoes,Red,red shoes,Broad,0.5,https://k.example,,Enabled\n"
        "Shoes,Red,,,,https://a.example,One,Paused\n"
        "Shoes,Blue,blue shoes,Broad,0.5,https://b.example,,Enabled\n"
        "Shoes,Blue,navy shoes,Broad,0.5,https://n.example,,Paused\n"
    )
    (tmp_path / "bulk.csv").write_text(
        "Type,Status,Id,Parent Id,Campaign,Ad Group,Keyword,Match Type,Bid,Final Url\n"
        "Campaign,Active,-1,0,Shoes,,,,,\n"
        "Ad Group,Active,-2,-1,Shoes,Red,,,,\n"
        "Responsive Search Ad,Paused,,-2,,,,,,https://a.example\n"
        "Keyword,Active,,-2,,,red shoes,Broad,0.5,https://k.example\n"
    )
    for file, pages in (("editor.csv", ["https://b.example"]), ("bulk.csv", [])):
        report = check_inventory(tmp_path / file)
        assert [error.what for error in report.errors] == ["the group 'Red' has phrases but no ad"]
        assert list(report.inventory.pages) == pages
