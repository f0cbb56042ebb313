"""What an auction promises: prices, order, truth, draws; and what it does with input that is no good."""

import itertools
import time

import numpy as np
import pytest

import broadmatch
from broadmatch.ads import Auction
from broadmatch.errors import BadInput, BadParameter
from broadmatch.io import artifacts

EFFECTS = (1.0, 0.6, 0.4, 0.28)
EVERY = list(itertools.product(("gsp", "vcg", "first"), (0.0, 0.5, 1.0), (0.0, 0.05), (None, "ucb", "thompson")))


def market(n, width=8, seed=0, owners=6):
    """Random auctions of 0 to `width` candidates, of which some belong to the same advertiser; ties and zeros too."""
    rng = np.random.default_rng(seed)
    offsets = np.concatenate([[0], np.cumsum(rng.integers(0, width + 1, n))])
    rows = int(offsets[-1])
    bid, q = rng.lognormal(0, 1, rows), rng.beta(1, 8, rows)
    bid[rng.random(rows) < 0.1] = 1.0
    q[rng.random(rows) < 0.1] = 0.125
    q[rng.random(rows) < 0.02] = 0.0
    return {"bid": bid, "probability": q, "offsets": offsets, "advertiser": rng.integers(0, owners, rows),
            "uncertainty": rng.exponential(0.5, rows)}  # fmt: skip


def places_of(result):
    """The place of every candidate from 0; the number of places for who is not shown."""
    place = np.full(len(result.score), result.row.shape[1])
    at, where = np.nonzero(result.shown)
    place[result.row[at, where]] = where
    return place


# 54 settings, 2,000 auctions each: 108,000
@pytest.mark.parametrize(("rule", "squashing", "reserve", "explore"), EVERY)
def test_no_price_is_above_the_bid_and_a_higher_bid_never_stands_lower(rule, squashing, reserve, explore):
    auction = Auction(rule=rule, squashing=squashing, reserve=reserve, explore=explore, effects=EFFECTS)
    given = market(2_000, seed=EVERY.index((rule, squashing, reserve, explore)))
    result = auction.run(**given)
    bid = given["bid"]
    assert result.shown.sum() > 1_000
    assert (result.price[result.shown] <= bid[result.row[result.shown]]).all()
    scores = np.where(result.shown, result.score[result.row], 0.0)
    assert (np.diff(scores, axis=1) <= 0).all()
    assert (scores[result.shown] >= reserve).all()

    rng = np.random.default_rng(1)
    width = np.diff(given["offsets"])
    one = (given["offsets"][:-1] + (rng.random(2_000) * width).astype(int))[width > 0]
    raised = bid.copy()
    raised[one] *= rng.choice([1.0 + 1e-15, 1.1, 2.0, 50.0], len(one))
    assert (places_of(auction.run(**{**given, "bid": raised}))[one] <= places_of(result)[one]).all()


def utility(result, given, value, one):
    place = places_of(result)[one]
    effects = np.array([*EFFECTS, 0.0])
    price = np.zeros(len(result.score))
    price[result.row[result.shown]] = result.price[result.shown]
    return effects[place] * given["probability"][one] * (value - price[one])


@pytest.mark.parametrize(("rule", "squashing", "reserve"), [("vcg", 1.0, 0.0), ("vcg", 0.5, 0.1), ("gsp", 1.0, 0.0)])
def test_vcg_is_truthful_and_gsp_is_not(rule, squashing, reserve):
    n, width = 100_000, 6
    rng = np.random.default_rng(3)
    given = {"bid": rng.lognormal(0, 1, n * width), "probability": rng.beta(1, 8, n * width)}
    given["offsets"] = np.arange(n + 1) * width
    auction = Auction(rule=rule, squashing=squashing, reserve=reserve, effects=EFFECTS)
    one = given["offsets"][:-1] + rng.integers(0, width, n)
    value = given["bid"][one]
    honest = auction.run(**given)
    # lies: any bid, none, and just above or below that of another
    rival = given["offsets"][:-1] + rng.integers(0, width, n)
    near = honest.score[rival] / np.maximum(given["probability"][one] ** squashing, 1e-300)
    lie = np.choose(rng.integers(0, 4, n), [rng.lognormal(0, 2, n), np.zeros(n), near * (1 + 1e-9), near * (1 - 1e-9)])
    bid = given["bid"].copy()
    bid[one] = np.minimum(lie, 1e9)
    gain = utility(auction.run(**{**given, "bid": bid}), given, value, one) - utility(honest, given, value, one)
    assert (gain < -1e-6).mean() > 0.1  # lies change something
    assert (gain.max() <= 1e-9) == (rule == "vcg")


def test_the_lowest_envy_free_equilibrium_of_gsp_pays_what_vcg_pays():
    """Edelman, Ostrovsky and Schwarz 2007, theorem 1; Varian 2007: r_i = what VCG takes from the place above, by x."""
    n, width, places = 100_000, 7, len(EFFECTS)
    rng = np.random.default_rng(4)
    value, q = rng.lognormal(0, 1, n * width), rng.beta(2, 8, n * width)
    offsets = np.arange(n + 1) * width
    vcg = Auction(rule="vcg", effects=EFFECTS).run(value, q, offsets=offsets)
    bid = value.copy()  # who is not shown bids the truth, and the first may bid anything above
    above, below = vcg.row[:, :-1], vcg.row[:, 1:]
    bid[below] = vcg.price[:, :-1] * q[above] / q[below]
    gsp = Auction(rule="gsp", effects=EFFECTS).run(bid, q, offsets=offsets)
    assert np.array_equal(gsp.row, vcg.row)
    np.testing.assert_allclose(gsp.price, vcg.price, rtol=1e-9)
    # nobody would rather have another's place at its price per impression
    x, v = np.array(EFFECTS), value[gsp.row]
    paid = gsp.price * q[gsp.row]
    for t, other in itertools.permutations(range(places), 2):
        mine = x[t] * (v[:, t] * q[gsp.row[:, t]] - paid[:, t])
        theirs = x[other] * (v[:, t] * q[gsp.row[:, t]] - paid[:, other])
        assert (theirs - mine).max() <= 1e-9


def test_the_price_of_gsp_just_keeps_the_place():
    given = market(2_000, seed=5) | {"advertiser": None}
    auction = Auction(squashing=0.7, reserve=0.02)
    result = auction.run(**given)
    at, t = np.nonzero(result.shown & (result.price > 0))
    _, only = np.unique(at, return_index=True)  # one winner an auction
    one, price = result.row[at, t][only], result.price[at, t][only]
    before = places_of(result)[one]
    tied = price == given["bid"][one]
    for factor, stays in ((1 + 1e-9, True), (1 - 1e-9, False)):
        bid = given["bid"].copy()
        bid[one] = price * factor
        after = places_of(auction.run(**{**given, "bid": bid}))[one]
        assert ((after == before) == stays)[~tied].all()


def test_the_same_seed_gives_the_same_bits_whatever_the_batch():
    given = market(300, seed=6)
    starts, key = given.pop("offsets"), np.arange(300) * 7 + 2**62
    auction = Auction(explore="thompson", squashing=0.5, rule="vcg")
    whole = auction.run(**given, offsets=starts, key=key)
    for a in range(300):
        rows = slice(starts[a], starts[a + 1])
        alone = auction.run(**{name: column[rows] for name, column in given.items()}, key=key[[a]])
        assert np.array_equal(alone.row[0], np.where(whole.row[a] >= 0, whole.row[a] - starts[a], -1))
        assert alone.price[0].tobytes() == whole.price[a].tobytes()
        assert alone.score.tobytes() == whole.score[rows].tobytes()
    assert not np.array_equal(Auction(explore="thompson", seed=1).run(**given, offsets=starts, key=key).row, whole.row)
    assert not np.array_equal(auction.run(**given, offsets=starts).row, whole.row)


def test_thompson_draws_the_log_odds():
    n = 40_000
    auction = Auction(explore="thompson", scale=0.5, places=1)
    q = auction.run(np.ones(n), np.full(n, 0.2), uncertainty=np.full(n, 2.0), offsets=np.arange(n + 1)).score
    odds = np.log(q / (1 - q))
    assert odds.mean() == pytest.approx(np.log(0.25), abs=0.03)
    assert odds.std() == pytest.approx(1.0, abs=0.02)
    assert ((odds - np.log(0.25)) ** 4).mean() == pytest.approx(3.0, abs=0.2)


def test_it_is_fast_enough():
    """A tenth of what it does; docs/ads.md has the figures."""
    n, width = 20_000, 20
    rng = np.random.default_rng(8)
    given = {"bid": rng.lognormal(0, 1, n * width), "probability": rng.beta(1, 20, n * width)}
    for rule in ("gsp", "vcg"):
        auction, seconds = Auction(rule=rule), []
        for _ in range(4):
            started = time.process_time()
            auction.run(**given, offsets=np.arange(n + 1) * width)
            seconds.append(time.process_time() - started)
        assert n / min(seconds) > 200_000


def test_few_bidders_ties_and_a_reserve_above_all():
    for rule in ("gsp", "vcg", "first"):
        auction = Auction(rule=rule, places=2)
        alone = auction.run([3.0], [0.5])
        assert alone.row.tolist() == [[0, -1]]
        assert alone.price[0, 0] == (3.0 if rule == "first" else 0.0)
        assert Auction(rule=rule, reserve=0.5).run([3.0], [0.5]).price[0, 0] == pytest.approx(
            3 if rule == "first" else 1
        )
        tied = auction.run([1.0, 1.0, 1.0], [0.5, 0.5, 0.5])
        assert tied.row.tolist() == [[0, 1]]  # the first of equal ones
        assert tied.price.tolist() == [[1.0, 1.0]]
        nobody = Auction(rule=rule, reserve=2.0).run([3.0, 1.0], [0.5, 1.0])
        assert not nobody.shown.any()
        assert nobody.counts["score below the reserve"] == 2
        assert auction.run([], []).row.tolist() == [[-1, -1]]
        assert len(auction.run([], [], offsets=[0])) == 0
        never = auction.run([5.0, 1.0], [0.0, 0.1])
        assert never.row.tolist() == [[1, -1]]


def test_bad_numbers_take_no_part_and_are_counted():
    bid = [1.0, np.nan, np.inf, -1.0, 0.0, 1e12, 1.0, 1.0]
    q = [0.1, 0.1, 0.1, 0.1, 0.1, 1e-9, np.nan, 1.1]
    result = Auction(explore="ucb").run(bid, q, uncertainty=[0.0] * 8)
    assert result.row.tolist() == [[5, 0, -1, -1]]
    invalid = "not a valid bid, probability or uncertainty"
    assert [v.row for v in result.why() if v.outcome == invalid] == [1, 2, 3, 6, 7]
    assert result.counts == {**dict.fromkeys(result.counts, 0), "shown": 2, invalid: 5, "score below the reserve": 1}


def test_why():
    auction = Auction(places=2, reserve=0.05, floor=0.02)
    result = auction.run([1.0, 1.0, 1.0, 0.1, 9.0, 1.0, 2.0], [0.5, 0.4, 0.3, 0.1, 0.01, 0.2, 0.4],
                         advertiser=[7, 7, 8, 9, 10, 11, 12],
                         in_budget=[True] * 6 + [False])  # fmt: skip
    said = [(v.place, v.outcome, v.price, v.needed) for v in result.why(0)]
    assert said[0][:2] == (1, "shown")
    assert said[0][2] == pytest.approx(0.3 / 0.5)
    assert said[1][1:] == ("another ad of its advertiser is shown", 0.0, 0.5)
    assert said[2][:2] == (2, "shown")
    assert said[2][2] == pytest.approx(0.2 / 0.3)
    assert said[3][1:] == ("score below the reserve", 0.0, 0.05)
    assert said[4][1] == "probability below the floor"
    assert said[5][1:] == ("outranked", 0.0, 0.3)
    assert said[6][1] == "kept back by its budget"


def test_it_is_saved_with_its_settings(tmp_path):
    auction = Auction(rule="vcg", effects=EFFECTS, explore="thompson", seed=3)
    artifacts.save(auction, tmp_path / "auction")
    loaded = broadmatch.load(tmp_path / "auction")
    assert loaded.get_params() == auction.get_params()
    given = market(50)
    assert loaded.run(**given).price.tobytes() == auction.run(**given).price.tobytes()


def test_read_only_and_strided_columns():
    given = market(50)
    expected = Auction().run(given["bid"], given["probability"], offsets=given["offsets"])
    bid = np.repeat(given["bid"], 2)[::2]
    q = given["probability"].copy()
    q.flags.writeable = False
    assert Auction().run(bid, q, offsets=given["offsets"].astype(np.int32)).price.tobytes() == expected.price.tobytes()


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"probability": [0.1]}, "probability has 1 rows, but 2 are wanted"),
        ({"probability": [[0.1, 0.2]]}, "probability must be one column"),
        ({"bid": ["a", "b"]}, "bid must be a column of numbers"),
        ({"offsets": [0, 1]}, "offsets of auctions must rise from 0 to the number of candidates, 2"),
        ({"offsets": [0, 2, 1, 2]}, "offsets of auctions must rise"),
        ({"offsets": []}, "offsets of auctions must rise"),
        ({"advertiser": [0.5, 1.5]}, "advertiser must be one column of whole numbers"),
        ({"advertiser": [1, 2, 3]}, "advertiser has 3 rows"),
        ({"in_budget": [1, 0]}, "in_budget must be one column of True and False"),
        ({"key": [1, 2]}, "key has 2 rows, but 1 are wanted"),
    ],
)
def test_columns_that_do_not_fit_are_refused(more, sentence):
    with pytest.raises(BadInput, match=sentence):
        Auction().run(**{"bid": [1.0, 2.0], "probability": [0.1, 0.2], **more})


def test_settings_are_checked_also_when_they_change():
    auction = Auction()
    auction.run([1.0], [0.1])
    for name, value in (("rule", "third"), ("places", 0), ("squashing", -1.0), ("reserve", np.nan), ("floor", 2.0),
                        ("explore", "greedy"), ("effects", (1.0, 2.0)), ("effects", np.ones(4)),
                        ("effects", (0.5,)), ("effects", (1.0, 0.0)), ("scale", -1.0)):  # fmt: skip
        with pytest.raises(BadParameter, match=f"^{name} must be"):
            Auction().set_params(**auction.get_params()).set_params(**{name: value}).run([1.0], [0.1])
    with pytest.raises(BadParameter, match="There are 4 places, but effects of 2"):
        auction.set_params(effects=(1.0, 0.5)).run([1.0], [0.1])
    assert auction.set_params(places=2).run([1.0], [0.1]).row.shape == (1, 2)
    with pytest.raises(BadInput, match="explores by ucb needs the uncertainty"):
        Auction(explore="ucb").run([1.0], [0.1])
