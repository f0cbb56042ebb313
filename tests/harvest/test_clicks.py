"""The harvest: equal to the reference on random logs, the same for every order and thread count, nothing lost."""

import gzip
import json
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import CSR, Names
from broadmatch.errors import BadInput, BadParameter, MissingFile, TooManyBadRows
from broadmatch.harvest import Harvest, harvest
from broadmatch.io import ClickLog, Rejects
from tests.reference import harvest as reference
from tests.reference.harvest import Click

SMALL: dict[str, Any] = {"memory_limit": "300MB", "n_jobs": 1}

queries = st.sampled_from(["pizza", "Pizza!", "cheap  pizza", "taxi", "TAXI ", "crêpe", "CREPE\u0302", "flowers", "?!"])
clicks = st.builds(
    Click, queries, st.sampled_from([f"page {i}" for i in range(12)]), st.integers(1, 100), st.integers(0, 4)
)


def write(path: Path, rows: list[Click]) -> ClickLog:
    path.write_text("".join(json.dumps(row._asdict()) + "\n" for row in rows))
    return ClickLog(path)


def as_labels(counts: CSR, pages: Names, labels: Names) -> reference.Labels:
    rows = (zip(*map(np.ndarray.tolist, counts.row(i)), strict=True) for i in range(counts.n_rows))
    return {page: {labels[j]: int(n) for j, n in row} for page, row in zip(pages, rows, strict=True)}


def both(found: Harvest) -> tuple[reference.Labels, reference.Labels]:
    return (
        as_labels(found.train_counts, found.train_pages, found.labels),
        as_labels(found.test_counts, found.test_pages, found.labels),
    )


def check_shape(found: Harvest) -> None:
    for names in (found.labels, found.train_pages, found.test_pages):
        assert list(names) == sorted(set(names), key=str.encode)
    for counts, pages in ((found.train_counts, found.train_pages), (found.test_counts, found.test_pages)):
        assert counts.shape == (len(pages), len(found.labels))
        assert (counts.indptr.dtype, counts.indices.dtype, counts.data.dtype) == (np.int64, np.int32, np.float32)
        assert (np.diff(counts.indptr) > 0).all()
        assert (counts.data > 0).all()
        assert counts.to_scipy().has_canonical_format
    assert len(set(found.train_counts.indices.tolist())) == len(found.labels)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(clicks, min_size=1, max_size=60),
    st.integers(1, 6),
    st.none() | st.integers(0, 3),
    st.sampled_from([0.0, 0.01, 0.4, 1.0]),
)
def test_split_by_page_equals_the_reference(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Click], min_clicks: int, min_queries: int | None, share: float
) -> None:
    train, test = reference.by_page(rows, min_clicks, min_queries, share, seed=3)
    clicked = write(tmp_path_factory.mktemp("log") / "log.jsonl", rows)
    options = {"min_clicks": min_clicks, "min_test_queries": min_queries, "test_share": share, "seed": 3}
    if not train and not test and not reference.frequent(reference.gather(rows), min_clicks):
        with pytest.raises(BadInput, match="lower min_clicks"):
            harvest(clicked, **options, **SMALL)
        return
    found = harvest(clicked, **options, **SMALL)
    assert both(found) == (train, test)
    check_shape(found)


@settings(max_examples=60, deadline=None)
@given(st.lists(clicks, min_size=1, max_size=60), st.integers(1, 6), st.none() | st.integers(0, 2), st.integers(1, 100))
def test_split_by_time_equals_the_reference(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Click], min_clicks: int, min_queries: int | None,
    split_time: int,
) -> None:  # fmt: skip
    train, test = reference.by_time(rows, min_clicks, min_queries, split_time)
    clicked = write(tmp_path_factory.mktemp("log") / "log.jsonl", rows)
    options = {"min_clicks": min_clicks, "min_test_queries": min_queries, "split": "time", "split_time": split_time}
    if not train:
        with pytest.raises(BadInput, match="lower min_clicks"):
            harvest(clicked, **options, **SMALL)
        return
    found = harvest(clicked, **options, **SMALL)
    assert both(found) == (train, test)
    check_shape(found)


@pytest.fixture
def big(tmp_path: Path) -> Path:
    """A log of 20,000 rows in four files."""
    rng = np.random.default_rng(0)
    for part in range(4):
        pages, words = rng.zipf(1.3, 5000) % 500, rng.zipf(1.2, 5000) % 300
        lines = (f"Query {q}!,page-{p},{t}" for q, p, t in zip(words, pages, rng.integers(1, 1000, 5000), strict=True))
        (tmp_path / f"part{part}.csv").write_text("query,page,time\n" + "\n".join(lines) + "\n")
    return tmp_path


def same(a: Harvest, b: Harvest) -> bool:
    arrays = zip((*a.train_counts[:3], *a.test_counts[:3]), (*b.train_counts[:3], *b.test_counts[:3]), strict=True)
    named = [(a.labels, b.labels), (a.train_pages, b.train_pages), (a.test_pages, b.test_pages)]
    return all(np.array_equal(x, y) for x, y in arrays) and all(x == y for x, y in named) and a.facts == b.facts


def test_order_of_rows_and_threads_change_nothing(big: Path) -> None:
    options: dict[str, Any] = {"min_test_queries": 10, "test_share": 0.3, "memory_limit": "300MB"}
    first = harvest(ClickLog(big), n_jobs=1, **options)
    assert len(first.test_pages) > 5
    assert len(first.train_pages) > 100
    assert first.facts["rows"] == 20_000
    backwards = sorted(big.iterdir(), reverse=True)
    for file in backwards:
        header, *lines = file.read_text().splitlines()
        file.write_text("\n".join([header, *reversed(lines)]) + "\n")
    assert same(first, harvest(ClickLog(backwards), n_jobs=2, **options))
    other = harvest(ClickLog(big), n_jobs=2, seed=1, **options)
    assert other.test_pages != first.test_pages


def test_test_share_is_kept(big: Path) -> None:
    found = harvest(ClickLog(big), min_clicks=1, min_test_queries=0, test_share=0.25, **SMALL)
    share = len(found.test_pages) / (len(found.test_pages) + len(found.train_pages))
    assert 0.18 < share < 0.32


def test_window_and_facts(tmp_path: Path) -> None:
    rows = [Click("pizza", "a", 10, 5), Click("pizza", "b", 20, 2), Click("taxi", "a", 30, 9), Click("??", "a", 15, 1)]
    rows += [Click("rare", "a", 12, 1), Click("pizza", "a", 12, 0), Click("pizza", "elsewhere", 12, 7)]
    found = harvest(
        write(tmp_path / "log.jsonl", rows), since=10, until=30, pages=["a", "b", "c"], test_share=0, **SMALL
    )
    assert both(found) == ({"a": {"pizza": 5}, "b": {"pizza": 2}}, {})
    assert found.facts == {
        "rows": 7,
        "bad_rows": 0,
        "rows_of_totals": 0,
        "rows_not_clicked": 1,
        "rows_outside_window": 1,
        "times_unread": 0,
        "amounts_unread": 0,
        "rows_on_unknown_pages": 1,
        "pages_merged": 0,
        "queries": 3,
        "queries_without_letters": 1,
        "queries_too_rare": 2,
        "pairs_excluded": 0,
        "exclusions_unmatched": 0,
        "min_test_queries": 5,
        "test_pages_drawn": 0,
        "test_pages_added": 0,
        "test_pages_too_small": 0,
        "test_labels_outside": 0,
    }


def test_a_page_with_too_few_queries_stays_in_training(tmp_path: Path) -> None:
    rows = [Click(f"q{i}", "big", 1, 5) for i in range(30)] + [Click("q1", "small", 1, 5)]
    found = harvest(write(tmp_path / "log.jsonl", rows), min_test_queries=5, test_share=1.0, **SMALL)
    assert list(found.test_pages) == ["big"]
    assert list(found.train_pages) == ["small"]
    assert list(found.labels) == ["q1"]
    assert found.test_counts.data.tolist() == [5]
    assert found.facts["test_labels_outside"] == 29
    assert found.facts["test_pages_too_small"] == 1


def test_queries_as_they_are(tmp_path: Path) -> None:
    rows = [Click("Pizza", "a", 1, 5), Click("pizza", "a", 1, 5)]
    found = harvest(write(tmp_path / "log.jsonl", rows), normalise=False, **SMALL)
    assert list(found.labels) == ["Pizza", "pizza"]


ONE, APART = [Click("pizza", "a", 1, 5)], [Click("pizza", "a", 1, 5), Click("tea", "b", 2, 5)]


@pytest.mark.parametrize(
    ("rows", "how", "said"),
    [
        (ONE, {}, "only one page has labels, and it takes two that share a query"),
        (APART, {}, "no query led to clicks on two pages; give split_time to test on later clicks"),
        (APART, {"test_share": 0}, "test_share is 0"),
        (APART, {"min_test_queries": 1}, "lower min_test_queries or raise test_share"),
        (APART, {"split": "time", "split_time": 3}, "no label was clicked at split_time or later; give an earlier one"),
    ],
)
def test_no_test_page_is_told(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, rows: list[Click], how: dict[str, Any], said: str
) -> None:
    with caplog.at_level(logging.WARNING, "broadmatch"):
        found = harvest(write(tmp_path / "log.jsonl", rows), **how, **SMALL)
    assert found.test_counts.shape == (0, len(found.labels))
    assert len(found.train_pages) == len(rows)
    assert f"No page is left for testing; {said}." in caplog.text


def few(n_pages: int, n_queries: int) -> list[str]:
    """Rows of pages that share all their queries, without times."""
    return [f"query {q},page {p}" for p in range(n_pages) for q in range(n_queries) for _ in range(5)]


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize(
    ("n_pages", "n_queries", "columns"), [(2, 1, ""), (3, 2, ""), (60, 3, ""), (60, 3, ",2024-03-01"), (12, 9, "")]
)
def test_any_log_leaves_pages_to_test_on(tmp_path: Path, n_pages: int, n_queries: int, columns: str, seed: int) -> None:
    """Two pages, few queries a page, no times, or all clicks on one day."""
    lines = [f"{row}{columns}" for row in few(n_pages, n_queries)]
    (tmp_path / "log.csv").write_text("\n".join(["query,page" + (",time" if columns else ""), *lines]))
    found = harvest(ClickLog(tmp_path / "log.csv"), seed=seed, **SMALL)
    assert len(found.test_pages) >= 1
    assert len(found.train_pages) + len(found.test_pages) == n_pages
    assert len(found.labels) == n_queries
    assert found.facts["min_test_queries"] < n_queries or found.facts["test_pages_added"] == 1
    assert (found.facts["test_pages_added"] == 1) == (found.facts["test_pages_drawn"] == 0)


def test_pages_that_are_all_old_are_tested_on_what_is_clicked_later(tmp_path: Path) -> None:
    """Few later labels a page: the limit is lowered, and no training click is later than a test click."""
    rows = [Click(f"q{q}", f"p{p}", t, 5) for p in range(4) for q, t in ((0, 1), (1, 1), (p % 2, 9))]
    log = write(tmp_path / "log.jsonl", rows)
    found = harvest(log, split="time", split_time=5, **SMALL)
    assert both(found)[1] == {f"p{p}": {f"q{p % 2}": 5} for p in range(4)}
    assert both(found)[0] == {f"p{p}": {"q0": 5, "q1": 5} for p in range(4)}
    assert found.facts["min_test_queries"] == 0


def test_bad_rows_are_kept_and_counted(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,page,clicks\npizza,a,5\nshort\n,a,5\npizza,b,-1\npizza,b,6\n")
    with Rejects(tmp_path / "rejects.jsonl", max_bad_rows=3) as rejects:
        found = harvest(ClickLog(tmp_path / "log.csv", rejects=rejects), test_share=0, **SMALL)
    assert both(found)[0] == {"a": {"pizza": 5}, "b": {"pizza": 6}}
    assert (found.facts["rows"], found.facts["bad_rows"]) == (5, 3)
    assert len((tmp_path / "rejects.jsonl").read_text().splitlines()) == 3


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        ({"min_clicks": 0}, "min_clicks must be a whole number of at least 1"),
        ({"split": "user"}, "split must be one of 'page', 'time'"),
        ({"split": "time"}, "split_time must be given"),
        ({"test_share": 1.5}, "test_share must be a number from 0 to 1"),
        ({"since": "soon"}, "A time must be ISO text"),
        ({"since": 20, "until": 10}, "since must be before until"),
        ({"memory_limit": "lots"}, "memory_limit must be a size"),
        ({"seed": "x"}, "seed must be a whole number"),
    ],
)
def test_bad_parameters(tmp_path: Path, bad: dict[str, Any], said: str) -> None:
    log = write(tmp_path / "log.jsonl", [Click("pizza", "a", 1, 5)])
    with pytest.raises(BadParameter, match=said):
        harvest(log, **bad)


def test_times_are_needed_for_a_window(tmp_path: Path) -> None:
    (tmp_path / "log.csv").write_text("query,page\npizza,a\n")
    with pytest.raises(BadInput, match=r"since needs times, but .*log.csv has no column"):
        harvest(ClickLog(tmp_path / "log.csv"), since="2024-01-01")


def test_mixed_line_ends_are_read_and_a_vanished_file_is_an_error(tmp_path: Path) -> None:
    file = tmp_path / "log.csv"
    file.write_bytes(b"query,page\r\npizza,a\ntaxi,b\r\nflowers,c\n")
    log = ClickLog(file)
    assert list(harvest(log, min_clicks=1, **SMALL).labels) == ["flowers", "pizza", "taxi"]
    file.unlink()
    with pytest.raises((BadInput, MissingFile), match=r"log.csv"):
        harvest(log, **SMALL)


def test_a_log_that_is_cut_off_or_mostly_rubbish_is_an_error(tmp_path: Path) -> None:
    packed = gzip.compress(b"query,page\n" + b"".join(b"q%d,p\n" % (i * 7919 % 9999) for i in range(90_000)))
    (tmp_path / "log.csv.gz").write_bytes(packed[:-1000])
    with pytest.raises(BadInput, match=r"log\.csv\.gz is truncated or damaged gzip"):
        harvest(ClickLog(tmp_path / "log.csv.gz"), **SMALL)
    (tmp_path / "log.csv").write_text("query,page\npizza,a\nbad\nbad\n")
    with pytest.raises(TooManyBadRows, match="2 of 3 rows are bad"):
        harvest(ClickLog(tmp_path / "log.csv"), **SMALL)
