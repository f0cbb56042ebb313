"""Pages by their addresses: what does not say which page it is does not count."""

import logging

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.data import Names
from broadmatch.features import PageVectorizer
from broadmatch.harvest import build_datasets, harvest
from broadmatch.harvest.page_names import ByPage, plain_page
from broadmatch.io import ClickLog, Page
from broadmatch.labels.revealed import read_revealed


@pytest.mark.parametrize(
    ("name", "plain"),
    [
        ("https://a.example/", "https://a.example"),
        ("https://a.example/b//?GCLID=x", "https://a.example/b"),
        ("https://a.example/b?id=3&utm_source=x&utm_medium=y", "https://a.example/b?id=3"),
        ("https://a.example/b/?fbclid=x&id=3&msclkid=y#top", "https://a.example/b?id=3#top"),
        ("https://a.example/b?gclidx=1", "https://a.example/b?gclidx=1"),
        ("/b/?utm_campaign=", "/b"),
        ("https://a.example/#/route/?utm_source=x", "https://a.example#/route/?utm_source=x"),
        ("b?", "b"),
        ("https://", "https://"),
        ("/", "/"),
        ("", ""),
        ("page 1.html", "page 1.html"),
    ],
)
def test_what_is_left_of_a_name(name, plain):
    assert plain_page(name) == plain


@given(st.text(alphabet="ab/?&=#:utm_", max_size=20))
def test_twice_changes_nothing_more(name):
    assert plain_page(plain_page(name)) == plain_page(name)


LOG = """query,page,clicks
pizza,https://a.example/p/?utm_source=mail,3
pizza,https://a.example/p,2
tea,https://a.example/t?gclid=1,5
tea,https://a.example/t?id=1&gclid=2,4
"""
PAGES = [
    Page("https://a.example/p/", b"pizza oven"),
    Page("https://a.example/t", b"tea"),
    Page("https://a.example/t/", b"tea again"),
]


def test_clicks_on_pages_that_are_one_are_added_up(tmp_path, caplog):
    (tmp_path / "log.csv").write_text(LOG)
    options = {"min_clicks": 1, "test_share": 0, "memory_limit": "300MB", "n_jobs": 1}
    found = harvest(ClickLog(tmp_path / "log.csv"), **options)
    assert list(found.train_pages) == ["https://a.example/p", "https://a.example/t", "https://a.example/t?id=1"]
    assert (found.train_counts.data.tolist(), found.facts["pages_merged"]) == ([5, 5, 4], 1)
    with caplog.at_level(logging.WARNING, "broadmatch"):
        train, _ = build_datasets(found, PAGES, PageVectorizer(min_pages=1))
    assert list(train.points) == ["https://a.example/p", "https://a.example/t"]
    assert "1 pages are left out: their addresses differ only" in caplog.text
    only = harvest(ClickLog(tmp_path / "log.csv"), pages=["https://a.example/p/"], **options)
    assert (list(only.train_pages), only.facts["rows_on_unknown_pages"]) == (["https://a.example/p"], 2)
    exact = harvest(ClickLog(tmp_path / "log.csv"), exact_pages=True, **options)
    assert (len(exact.train_pages), exact.facts["pages_merged"]) == (4, 0)
    train, _ = build_datasets(exact, [*PAGES, Page("https://a.example/p", b"oven")], PageVectorizer(min_pages=1))
    assert list(train.points) == ["https://a.example/p"]


@pytest.mark.parametrize("files", [("a.example/p/index.html", "a.example/t.html"), ("p.html", "t/index.htm")])
def test_files_of_a_mirrored_site_are_the_pages_of_its_addresses(tmp_path, files):
    (tmp_path / "log.csv").write_text("query,page\n" + "pizza,https://a.example/p/\ntea,http://a.example/t\n" * 3)
    found = harvest(ClickLog(tmp_path / "log.csv"), min_clicks=1, test_share=0.0)
    train, _ = build_datasets(found, [Page(name, b"stone oven") for name in files], PageVectorizer(min_pages=1))
    assert sorted(train.points) == ["http://a.example/t", "https://a.example/p"]


def test_a_file_that_the_log_names_is_not_taken_for_another(tmp_path):
    (tmp_path / "log.csv").write_text("query,page\n" + "pizza,p.html\ntea,https://a.example/p\n" * 3)
    found = harvest(ClickLog(tmp_path / "log.csv"), min_clicks=1, test_share=0.0)
    train, _ = build_datasets(found, [Page("p.html", b"stone oven")], PageVectorizer(min_pages=1))
    assert list(train.points) == ["p.html"]


def test_revealed_phrases_belong_to_a_page_by_any_of_its_addresses(tmp_path):
    (tmp_path / "bids.csv").write_text("page,phrase\nhttps://a.example/p/?utm_id=1,pizza\nhttps://a.example/p,tea\n")
    found = read_revealed(tmp_path / "bids.csv", Names.of(["pizza", "tea"]))
    assert sorted(found["https://a.example/p/"]) == ["pizza", "tea"]
    assert ("https://a.example/p?gclid=1" in found, "https://a.example" in found, 3 in found) == (True, False, False)
    assert ByPage({"a/": 1}).setdefault("a", 2) == 1
