from collections import defaultdict
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from broadmatch.ads import BidTable, check_inventory
from broadmatch.ads.inventory import InventoryReport
from broadmatch.ads.inventory_rows import InventoryBuilder
from broadmatch.errors import BadParameter
from broadmatch.simulate import Marketplace, Users, new_ads, simulate_marketplace


@pytest.fixture(scope="module")
def report(market: Marketplace) -> InventoryReport:
    return check_inventory(market.ads)


@pytest.fixture(scope="module")
def bids(market: Marketplace) -> pa.Table:
    return pq.read_table(market.bids)


def test_the_inventory_has_no_errors_and_covers_the_bids(
    market: Marketplace, report: InventoryReport, bids: pa.Table
) -> None:
    assert not report.errors
    assert {problem.what.split("' ")[-1] for problem in report.problems} <= {"is long"}
    inventory = report.inventory
    assert len(inventory.phrases) == bids.num_rows == market.n_bids
    np.testing.assert_array_equal(inventory.bids.astype(np.float32), bids["bid"].to_numpy())
    assert list(inventory.ads) == list(dict.fromkeys(map(str, bids["ad"].to_pylist())))
    users = Users(market.world(), market.seed)
    assert users.page_numbers(inventory.pages).tolist() == [int(ad) for ad in inventory.ads]
    assert len(inventory.advertisers) < len(inventory.campaigns) < len(inventory.ads)


def test_a_table_of_bids_is_one_as_before(market: Marketplace, bids: pa.Table) -> None:
    table = BidTable(market.bids)
    read = pa.Table.from_batches(table.read())
    assert (read.num_rows, table.rejects.count) == (market.n_bids, 0)
    assert read["page"].to_pylist() == bids["page"].to_pylist()


def test_some_campaigns_are_short_of_money(market: Marketplace, report: InventoryReport, bids: pa.Table) -> None:
    budget = dict(zip(bids["campaign"].to_pylist(), bids["budget"].to_pylist(), strict=True))
    campaign = dict(zip(bids["page"].to_pylist(), bids["campaign"].to_pylist(), strict=True))
    spent: defaultdict[str, float] = defaultdict(float)
    shown = pq.read_table(market.impressions, columns=["page", "price", "clicked"]).to_pydict()
    for page, price, clicked in zip(*shown.values(), strict=True):
        if clicked and page in campaign:
            spent[campaign[page]] += price / market.days
    limited = np.mean([b is not None and spent[name] > b for name, b in budget.items()])
    assert 0.15 < limited < 0.45
    assert 0.05 < np.mean([b is None for b in budget.values()]) < 0.3
    inventory = report.inventory
    assert {None if np.isnan(b) else b for b in inventory.budgets} == set(budget.values())


def test_an_ad_says_what_it_is_for(market: Marketplace, bids: pa.Table) -> None:
    facts = {row["page"]: row for row in pq.read_table(market.truth / "pages.parquet").to_pylist()}
    ads = {row["page"]: f"{row['title']} {row['text']}".lower() for row in bids.to_pylist()}
    assert all(any(product in text for product in facts[page]["products"]) for page, text in ads.items())
    local = [facts[page]["city"].lower() in text for page, text in ads.items() if facts[page]["city"]]
    assert np.mean(local) > 0.6
    assert not any("&amp;" in text for text in ads.values())


def test_negatives_are_a_few_and_block_no_own_phrase(market: Marketplace, report: InventoryReport) -> None:
    table = pq.read_table(market.negatives)
    assert table.column_names == ["advertiser", "campaign", "phrase", "match"]
    assert set(table["match"].to_pylist()) == {"campaign negative broad", "campaign negative phrase"}
    each = np.bincount(report.inventory.negative_campaign, minlength=len(report.inventory.campaigns))
    assert (each.min(), each.max()) == (0, 4)
    assert (report.inventory.negative_group == -1).all()
    # `check_inventory` would warn of a negative that blocks a phrase: see what it does with one
    own = report.inventory.phrases[0]
    rows = [{"campaign": "a", "ad": "x", "page": "p", "phrase": own, "match": "exact", "bid": 1.0}]
    rows += [{"campaign": "a", "phrase": own, "match": "campaign negative phrase"}]
    builder = InventoryBuilder()
    for number, row in enumerate(rows):
        builder.add("", number, row)
    assert builder.report().errors


def test_a_tenth_of_the_ads_begins_later(market: Marketplace) -> None:
    day = new_ads(market, 7)
    assert len(day) == market.n_pages
    assert 0.05 < (day > 0).mean() < 0.15
    assert set(day[day > 0].tolist()) == set(range(1, 7))
    np.testing.assert_array_equal(new_ads(market, 7), day)
    np.testing.assert_array_equal(new_ads(market, 3) > 0, day > 0)
    assert not new_ads(market, 1).any()
    with pytest.raises(BadParameter, match=r"^days must be"):
        new_ads(market, 0)


def test_the_smallest_marketplace_has_an_inventory(tmp_path: Path) -> None:
    market = simulate_marketplace(tmp_path / "m", n_pages=100, n_sessions=300, days=1)
    assert not check_inventory(market.ads).errors
    assert simulate_marketplace(tmp_path / "m", n_pages=100, n_sessions=1, days=1).n_bids == 0
    assert pq.read_table(tmp_path / "m" / "negatives.parquet").num_rows == 0
