"""Clicks over expected clicks: equal to the reference, known effects come back, skipped labels go, clear errors."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from broadmatch.data import CSR
from broadmatch.errors import BadInput, BadParameter
from broadmatch.features import PageVectorizer
from broadmatch.harvest import build_datasets, coec, harvest, place_effects
from broadmatch.io import ClickLog, Page
from tests.reference import coec as reference

SMALL: dict[str, Any] = {"memory_limit": "300MB", "n_jobs": 1, "min_clicks": 1, "test_share": 0}
entries = st.dictionaries(
    st.tuples(st.integers(0, 4), st.integers(1, 3)),
    st.tuples(st.integers(50, 100), st.integers(1, 50)),
    min_size=1,
    max_size=12,
)


@settings(max_examples=25, deadline=None)
@given(entries)
def test_effects_equal_the_reference(shown: dict[tuple[int, int], tuple[int, int]]) -> None:
    pair, position = np.array(list(shown)).T
    shows, clicks = np.array(list(shown.values())).T
    _, pair = np.unique(pair, return_inverse=True)
    found = dict(zip(*(part.tolist() for part in place_effects(pair, position, shows, clicks)), strict=True))
    rows = [(str(p), k, n, c) for (p, k), (n, c) in shown.items()]
    assert max(found.values()) == 1
    assert found == pytest.approx(reference.place_effects(rows), abs=2e-3)


def log_of(folder: Path, rows: list[dict[str, Any]]) -> ClickLog:
    (folder / "log.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return ClickLog(folder / "log.jsonl")


def test_expected_clicks_of_a_log(tmp_path: Path) -> None:
    draw = np.random.default_rng(0)
    effect, rate = {1: 1.0, 2: 0.5, 3: 0.25}, {"a": 0.4, "b/?gclid=1": 0.1, "c": 0.02}
    rows = [
        {"query": draw.choice(["tea", "Tea!"]), "page": f"http://s.example/{page}", "position": k,
         "clicked": int(draw.random() < rate[page] * effect[k]), "time": 1 + i}
        for i in range(500) for page in rate for k in effect
    ]  # fmt: skip
    found = harvest(log_of(tmp_path, rows), positions=True, split="time", split_time=451, min_test_queries=0, **SMALL)
    assert found.train_expected is not None
    assert found.train_expected.indices.tolist() == found.train_counts.indices.tolist() == [0, 0, 0]
    early = [row for row in rows if row["time"] < 451]
    table: dict[tuple[str, str, int], list[int]] = {}
    for row in early:
        one = table.setdefault((row["query"], row["page"], row["position"]), [0, 0])
        one[0], one[1] = one[0] + 1, one[1] + row["clicked"]
    counted = [(f"{q} {p}", k, n, c) for (q, p, k), (n, c) in table.items()]
    effects = reference.place_effects(counted)
    assert effects == pytest.approx(effect, rel=0.4)
    by_page = reference.expected_clicks([(p, k, n, c) for (_, p, k), (n, c) in table.items()], effects)
    assert found.train_expected.data == pytest.approx(list(by_page.values()), rel=1e-3)
    pages = [Page(name, b"<p>tea house") for name in found.train_pages]
    train, _ = build_datasets(found, pages, PageVectorizer(min_pages=1), weights="coec")
    assert train.Y.data.tolist() == coec(found.train_counts, found.train_expected).data.tolist()
    assert train.Y.data[0] == 1 > train.Y.data[-1]


def test_a_page_that_would_lose_all_keeps_them() -> None:
    counts = CSR.from_rows([[0, 1], [0]], n_cols=2)
    expected = counts._replace(data=np.array([9, 1, 9], np.float32))
    weights = coec(counts, expected)
    assert weights.indices.tolist() == [1, 0]
    assert weights.data == pytest.approx([1.0, 0.2])


def test_what_positions_need(tmp_path: Path) -> None:
    rows = [{"query": "tea", "page": "a", "clicked": 1}]
    with pytest.raises(BadInput, match="no column for our 'position'"):
        harvest(log_of(tmp_path, rows), positions=True, **SMALL)
    with pytest.raises(BadInput, match="no column for our 'clicked'"):
        harvest(log_of(tmp_path, [{"query": "tea", "page": "a", "position": 1}]), positions=True, **SMALL)
    found = harvest(log_of(tmp_path, rows), **SMALL)
    with pytest.raises(BadParameter, match="harvest with positions=True"):
        build_datasets(found, [Page("a", b"<p>tea")], PageVectorizer(min_pages=1), weights="coec")
    with pytest.raises(BadInput, match="None of the 0 queries"):
        harvest(log_of(tmp_path, [{**rows[0], "clicked": 0, "position": 1}]), positions=True, **SMALL)
