import filecmp
import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from selectolax.lexbor import LexborHTMLParser

from broadmatch.data import Names
from broadmatch.errors import BadArtifact, BadInput, BadParameter, CannotWrite, MissingFile
from broadmatch.simulate import Marketplace, marketplace, simulate_marketplace, truth_matrix
from broadmatch.simulate.verticals import VERTICALS
from tests.simulate.conftest import SMALL

FILES = ["pages.parquet", "bids.parquet", "negatives.parquet", "impressions.parquet", "clicks.parquet", "market.json"]
FILES += [f"truth/{name}.parquet" for name in ("pages", "queries", "generic", "relevant", "wrong")]


@pytest.fixture(scope="module")
def impressions(market: Marketplace) -> pa.Table:
    return pq.read_table(market.impressions)


@pytest.fixture(scope="module")
def labels(market: Marketplace) -> Names:
    queries = pq.read_table(market.truth / "queries.parquet")
    return Names.of(dict.fromkeys(q for q, n in zip(*_lists(queries, "query", "clicks"), strict=True) if n >= 5))


@pytest.fixture(scope="module")
def pages(market: Marketplace) -> Names:
    return Names.of(pq.read_table(market.pages)["page"].to_pylist())


def _lists(table: pa.Table, *columns: str) -> list[list[Any]]:
    return [table[c].to_pylist() for c in columns]


def _text(html: str) -> str:
    tree = LexborHTMLParser(html)
    for node in tree.css("script, style"):
        node.decompose()
    return tree.body.text(separator=" ") if tree.body else ""


def test_same_seed_same_files(market: Marketplace, tmp_path: Path) -> None:
    simulate_marketplace(tmp_path / "again", **SMALL, seed=5)
    same, different, missing = filecmp.cmpfiles(market.folder, tmp_path / "again", FILES, shallow=False)
    assert (sorted(same), different, missing) == (sorted(FILES), [], [])


def test_other_seed_other_world(pages: Names, tmp_path: Path) -> None:
    other = simulate_marketplace(tmp_path / "other", n_pages=400, n_sessions=10, seed=6)
    assert pq.read_table(other.pages)["page"].to_pylist() != list(pages)


def test_more_sessions_keep_the_pages(market: Marketplace, tmp_path: Path) -> None:
    other = simulate_marketplace(tmp_path / "other", n_pages=400, n_sessions=10, seed=5)
    assert pq.read_table(other.pages) == pq.read_table(market.pages)


def test_the_folder_says_what_it_holds(market: Marketplace, impressions: pa.Table) -> None:
    assert Marketplace.open(market.folder) == market
    clicks = pq.read_table(market.clicks)
    assert impressions.column_names == ["time", "session", "query", "page", "position", "bid", "price", "clicked"]
    assert clicks.column_names == ["time", "session", "query", "page"]
    assert impressions.schema.field("query").type == pa.string()
    assert (market.n_impressions, market.n_clicks) == (impressions.num_rows, clicks.num_rows)
    assert len(set(impressions["query"].to_pylist())) <= market.n_queries


def test_clicks_are_the_clicked_impressions(market: Marketplace, impressions: pa.Table) -> None:
    clicked = impressions.filter(impressions["clicked"].to_numpy() == 1)
    keys = ("session", "query", "page")
    assert sorted(zip(*_lists(clicked, *keys), strict=True)) == sorted(
        zip(*_lists(pq.read_table(market.clicks), *keys), strict=True)
    )


def test_times_are_sorted_and_in_the_window(market: Marketplace, impressions: pa.Table) -> None:
    for table in (impressions, pq.read_table(market.clicks)):
        time = table["time"].to_numpy()
        assert (np.diff(time) >= np.timedelta64(0)).all()
        assert time[0] >= np.datetime64("2024-03-01")
        # A session that begins in the last minutes may end a little after the window.
        assert time[-1] < np.datetime64("2024-03-11T01:00")
        assert time[-1] > np.datetime64("2024-03-10")


def test_clicks_fall_with_position(impressions: pa.Table) -> None:
    position, clicked = impressions["position"].to_numpy(), impressions["clicked"].to_numpy()
    rate = [clicked[position == k].mean() for k in (1, 2, 3, 4)]
    assert rate == sorted(rate, reverse=True)
    assert rate[0] > 2 * rate[3]
    assert 0.03 < clicked.mean() < 0.3


def test_prices_are_second_prices(impressions: pa.Table) -> None:
    bid, price = impressions["bid"].to_numpy(), impressions["price"].to_numpy()
    assert (price > 0).all()
    assert (price <= bid * 1.0001).all()
    assert (price < 0.9 * bid).mean() > 0.2


def test_queries_follow_zipf(impressions: pa.Table) -> None:
    searches = impressions.filter(impressions["position"].to_numpy() == 1)
    count = np.array(sorted(searches["query"].value_counts().field("counts").to_pylist(), reverse=True))
    ranks = np.array([5, 15, 50, 150, 500, 1500])
    slope = np.polyfit(np.log(ranks), np.log(count[ranks]), 1)[0]
    assert -1.2 < slope < -0.5
    assert (count == 1).mean() > 0.3


def test_sessions_rewrite_queries(market: Marketplace, impressions: pa.Table) -> None:
    first = impressions.filter(impressions["position"].to_numpy() == 1)
    asked: dict[int, list[str]] = {}
    for session, query in zip(*_lists(first, "session", "query"), strict=True):
        asked.setdefault(session, []).append(query)
    lengths = np.array([len(queries) for queries in asked.values()])
    assert 0.25 < (lengths > 1).mean() < 0.55
    assert lengths.max() <= 4
    known = pq.read_table(market.truth / "queries.parquet")
    wrong = dict(zip(*_lists(known, "query", "is_misspelled"), strict=True))
    after = [wrong[b] for queries in asked.values() for a, b in itertools.pairwise(queries) if wrong[a]]
    assert len(after) > 100
    assert np.mean(after) < 0.4


def test_most_true_labels_are_missing_and_a_few_are_wrong(market: Marketplace, pages: Names, labels: Names) -> None:
    truth = truth_matrix(market.folder, pages, labels)
    clicks = pq.read_table(market.clicks)
    place, number = {p: i for i, p in enumerate(pages)}, {q: i for i, q in enumerate(labels)}
    seen = {(place[p], number[q]) for p, q in zip(*_lists(clicks, "page", "query"), strict=True) if q in number}
    true = {(i, j) for i in range(len(pages)) for j in truth.row(i)[0].tolist()}
    assert len(true - seen) / len(true) > 0.6
    assert 0.002 < len(seen - true) / len(seen) < 0.06
    wrong = pq.read_table(market.truth / "wrong.parquet")
    told = {(place[p], number[q]) for p, q in zip(*_lists(wrong, "page", "query"), strict=True) if q in number}
    assert told == seen - true
    assert wrong.num_rows == market.n_wrong_pairs


def test_truth_matrix_equals_the_written_pairs(market: Marketplace, pages: Names, labels: Names) -> None:
    graded = truth_matrix(market.folder, pages, labels, graded=True)
    written = {
        (p, q): g
        for p, q, g in zip(
            *_lists(pq.read_table(market.truth / "relevant.parquet"), "page", "query", "grade"), strict=True
        )
    }
    read = {
        (pages[i], labels[j]): int(g)
        for i in range(len(pages))
        for j, g in zip(*(a.tolist() for a in graded.row(i)), strict=True)
    }
    assert read == written
    plain = truth_matrix(market.folder, pages, labels)
    np.testing.assert_array_equal(plain.indices, graded.indices)
    assert set(plain.data.tolist()) == {1.0}
    assert set(graded.data.tolist()) == {1.0, 2.0, 3.0}


def test_truth_matrix_of_some_names_in_another_order(market: Marketplace, pages: Names, labels: Names) -> None:
    whole = truth_matrix(market.folder, pages, labels).to_scipy().toarray()
    rows, columns = np.arange(100)[::-3], np.arange(len(labels))[::-7]
    part = truth_matrix(market.folder, pages.take(rows), labels.take(columns)).to_scipy().toarray()
    np.testing.assert_array_equal(part, whole[np.ix_(rows, columns)])
    empty = truth_matrix(market.folder, Names.of([]), Names.of([]))
    assert empty.shape == (0, 0)


def test_pages_parse_and_speak_of_what_they_sell(market: Marketplace) -> None:
    html = dict(zip(*_lists(pq.read_table(market.pages), "page", "html"), strict=True))
    facts = pq.read_table(market.truth / "pages.parquet").to_pylist()
    plain = [f for f in facts if not f["is_image_page"]]
    spoken, local = [], []
    for fact in plain:
        text = _text(html[fact["page"]]).lower()
        spoken.append(np.mean([p in text for p in fact["products"]]))
        if fact["city"]:
            local.append(fact["city"].lower() in text)
    assert np.mean(spoken) > 0.9
    assert np.mean(local) > 0.9
    titles = [LexborHTMLParser(html[f["page"]]).css_first("title").text() for f in facts]
    assert np.mean([f["brand"] in t for f, t in zip(facts, titles, strict=True)]) > 0.95


def test_image_pages_have_almost_no_text(market: Marketplace) -> None:
    html = dict(zip(*_lists(pq.read_table(market.pages), "page", "html"), strict=True))
    facts = pq.read_table(market.truth / "pages.parquet").to_pylist()
    images = [f for f in facts if f["is_image_page"]]
    assert 0.03 < len(images) / len(facts) < 0.2
    assert all(len(_text(html[f["page"]]).split()) < 30 for f in images)
    assert all(f["brand"].split()[0] in html[f["page"]] for f in images)


def test_some_pages_are_broken_misleading_or_mixed(market: Marketplace) -> None:
    html = pq.read_table(market.pages)["html"].to_pylist()
    facts = pq.read_table(market.truth / "pages.parquet").to_pylist()
    assert any("Ã" in h or "Â" in h or "â" in h for h in html)
    assert any("</html>" not in h.lower() for h in html)
    assert any(f["second_vertical"] for f in facts)
    nouns = {v.name: v.nouns[0] for v in VERTICALS}
    strangers = [
        sum(
            noun in _text(h).lower()
            for name, noun in nouns.items()
            if name not in (f["vertical"], f["second_vertical"])
        )
        for f, h in zip(facts, html, strict=True)
    ]
    assert np.mean(np.array(strangers) >= 2) > 0.1


@pytest.mark.parametrize(
    ("wrong", "name"),
    [({"n_pages": 99}, "n_pages"), ({"n_sessions": 0}, "n_sessions"), ({"days": 0}, "days"), ({"seed": -1}, "seed")],
)
def test_wrong_parameters_are_named(wrong: dict[str, int], name: str, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=f"^{name} must be"):
        simulate_marketplace(tmp_path / "m", **wrong)
    assert not (tmp_path / "m").exists()


def test_the_smallest_marketplace_works(tmp_path: Path) -> None:
    assert simulate_marketplace(tmp_path / "m", n_pages=100, n_sessions=1, days=1).n_searches >= 1


def test_other_folders_are_not_replaced_and_marketplaces_are(tmp_path: Path) -> None:
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "letter.txt").write_text("dear")
    with pytest.raises(CannotWrite, match="not a marketplace"):
        simulate_marketplace(tmp_path / "mine", n_pages=100, n_sessions=10)
    assert (tmp_path / "mine" / "letter.txt").read_text() == "dear"
    simulate_marketplace(tmp_path / "m", n_pages=100, n_sessions=10)
    simulate_marketplace(tmp_path / "m", n_pages=120, n_sessions=10)
    assert Marketplace.open(tmp_path / "m").n_pages == 120
    assert sorted(p.name for p in tmp_path.iterdir()) == ["m", "mine"]


def test_a_failure_leaves_the_older_marketplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    simulate_marketplace(tmp_path / "m", n_pages=100, n_sessions=10)

    def full(*_: object) -> Iterator[None]:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(marketplace, "draw_searches", full)
    with pytest.raises(CannotWrite, match="No space left"):
        simulate_marketplace(tmp_path / "m", n_pages=120, n_sessions=10)
    assert Marketplace.open(tmp_path / "m").n_pages == 100
    assert [p.name for p in tmp_path.iterdir()] == ["m"]


def test_unknown_names_and_folders_are_refused(market: Marketplace, pages: Names, tmp_path: Path) -> None:
    with pytest.raises(BadInput, match=r"1 of 2 names are not a page of .* first is 'nowhere'"):
        truth_matrix(market.folder, Names.of([pages[0], "nowhere"]), Names.of([]))
    with pytest.raises(BadInput, match="not a query"):
        truth_matrix(market.folder, pages, Names.of(["xyzzy"]))
    with pytest.raises(MissingFile, match="simulate_marketplace"):
        truth_matrix(tmp_path, pages, Names.of([]))
    with pytest.raises(MissingFile, match="not a marketplace"):
        Marketplace.open(tmp_path)
    (tmp_path / "market.json").write_text("{")
    with pytest.raises(BadArtifact, match="damaged"):
        Marketplace.open(tmp_path)
