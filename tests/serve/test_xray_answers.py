"""An auction taken apart: the same bits as a served one while nothing is changed, and what changes move."""

import math

import pytest

from broadmatch.ads import AdEngine, Auction, Inventory
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from tests.serve.shop import Sink, call, model

SEARCH = {"query": "cheap red shoes", "context": {"city": "rome", "hour": 7}, "key": "00000000000000ff"}


def xray(app, **changes):
    (answer,) = call(app, ("POST", "/v1/studio/xray", SEARCH | changes))
    assert answer.status_code == 200, answer.text
    return answer.json()


def by_ad(found):
    return {one["ad"]: one for one in found["candidates"]}


def test_untouched_it_has_the_bits_of_a_served_answer_and_logs_nothing(app, sink):
    found = xray(app)
    assert not sink.events and not sink.batches
    (served,) = call(app, ("POST", "/v1/match", SEARCH))
    shown = {one["place"]: one for one in found["candidates"] if one["place"]}
    assert len(shown) == 4 == len(served.json()["places"])
    for place in served.json()["places"]:
        ours = shown[place["place"]]
        for name in ("ad", "page", "title", "phrase", "match", "bid", "price", "probability", "uncertainty"):
            assert ours[name] == place[name], name
        assert ours["own_bid"] == ours["bid"] and ours["gsp"] == ours["price"] >= ours["vcg"] >= 0
    assert found["versions"] == served.json()["versions"] and found["served"] == found["terms"]
    assert len(sink.events) == 4


def test_shares_of_all_features_add_up_to_the_log_odds(app):
    for one in xray(app)["candidates"]:
        shares = [share for signal in one["shares"] for _, share, _ in signal["features"]]
        assert len(shares) > 10
        assert math.fsum(shares) == pytest.approx(one["log_odds"])
        assert math.fsum(signal["amount"] for signal in one["shares"]) == pytest.approx(one["log_odds"])
        assert 1 / (1 + math.exp(-one["log_odds"])) == pytest.approx(one["raw"])
        parts = [part for signal in one["shares"] for _, _, part in signal["features"]]
        assert math.fsum(parts) == pytest.approx(one["uncertainty"])
        odds = [p / (1 - p) for p in (one["low"], one["probability"], one["high"])]
        assert [math.log(odds[i + 1] / odds[i]) for i in (0, 1)] == pytest.approx([one["uncertainty"]] * 2)


def test_a_bid_a_reserve_and_squashing_move_it_and_the_engine_stays(app, live):
    before = xray(app)
    best, last = before["candidates"][0], before["candidates"][5]
    bid = 2 * last["bid"] * best["score"] / last["score"]
    moved = xray(app, bids={last["ad"]: bid})
    first = moved["candidates"][0]
    assert (first["ad"], first["place"], first["bid"], first["own_bid"]) == (last["ad"], 1, bid, last["bid"])
    assert first["probability"] == last["probability"]
    dear = xray(app, reserve=before["candidates"][1]["score"] * 0.999)
    assert [one["place"] for one in dear["candidates"][:3]] == [1, 2, 0]
    assert dear["candidates"][2]["outcome"] == "score below the reserve"
    assert dear["candidates"][2]["needed"] == dear["terms"]["reserve"] > dear["served"]["reserve"]
    by_bid = xray(app, squashing=0.0)["candidates"]
    assert [one["score"] for one in by_bid] == pytest.approx(sorted((one["bid"] for one in by_bid), reverse=True))
    paid = xray(app, rule="vcg", places=2)
    assert [one["price"] for one in paid["candidates"] if one["place"]] == [
        one["vcg"] for one in paid["candidates"] if one["place"]
    ]
    assert paid["terms"]["places"] == 2 and paid["served"]["places"] == 4
    assert live.current.arms[0].engine.auction.rule == "gsp"
    assert xray(app) == before


def test_what_keeps_ads_out_is_said(tmp_path):
    ads = (("v1", "a1", 9.0), ("v1", "a2", 8.0), ("v2", "a3", 2.0), ("v3", "a4", 0.001), ("v4", "a5", 1.0))
    same = {"page": "https://shop.example/", "phrase": "shoes", "match": "broad"}
    rows = [{"advertiser": v, "campaign": v, "ad": ad, "bid": bid, **same} for v, ad, bid in ads]
    path = tmp_path / "engine"
    engine = AdEngine.create(path, Inventory.from_rows(rows), clicks=model(), auction=Auction(places=1, reserve=0.01))
    with engine.index.change() as change:
        change.set_negatives("a5", [("cheap", "broad")])
    app = make_app(ServeConfig(folder=path), LiveService(path), Sink())
    found = by_ad(xray(app, ad="a5"))
    assert {ad: one["outcome"] for ad, one in found.items()} == {
        "a1": "shown",
        "a2": "another ad of its advertiser is shown",
        "a3": "outranked",
        "a4": "score below the reserve",
    }
    assert found["a3"]["needed"] == found["a1"]["score"] == found["a2"]["needed"]
    assert "negative 'cheap' of its ad blocks it" in xray(app, ad="a5")["asked"]
    assert "no ad 'zz'" in xray(app, ad="zz")["asked"] and xray(app, ad="a1")["asked"] is None
    assert xray(app, query="nothing like it")["candidates"] == []
    assert xray(app, query="")["candidates"] == []


@pytest.mark.parametrize(
    "wrong", [{"bids": {"a1": -1}}, {"squashing": 11}, {"reserve": "x"}, {"context": {"ad": "a1"}}, {"rule": "third"}]
)
def test_what_cannot_be_tried_says_why(app, wrong):
    (answer,) = call(app, ("POST", "/v1/studio/xray", SEARCH | wrong))
    assert answer.status_code == 422 and answer.json()["detail"].endswith("."), answer.text
