"""A guard of the benchmark of bid phrases: on a small marketplace the model beats what looks at words alone."""

import json

import numpy as np
import pytest

from benchmarks.ads_bid_phrases import inventory_of, which_phrase
from broadmatch.data import Names
from broadmatch.simulate import meaning_distances, simulate_marketplace


@pytest.fixture(scope="module")
def market(tmp_path_factory):
    return simulate_marketplace(tmp_path_factory.mktemp("some") / "market", n_pages=200, n_sessions=10_000, seed=7)


def test_the_model_beats_words_alone(market, capsys):
    which_phrase(market, inventory_of(market), 7, n_trees=20, max_pairs=40_000)
    lines = [json.loads(line) for line in capsys.readouterr().out.splitlines()]
    right = next(line for line in lines if "gain" in line)
    assert right["queries"] > 200
    assert right["gain"] > 1
    assert next(line for line in lines if "us_a_pair" in line)["us_a_pair"] < 100
    assert next(line for line in lines if "error" in line)["error"] < 0.05


def test_what_is_right(market):
    texts = Names.of(["cheap flowers", "flowers", "flower delivery", "car insurance", "unheard of"])
    far = meaning_distances(market.folder, texts, texts, np.repeat(np.arange(5), 5), np.tile(np.arange(5), 5))
    table = far.reshape(5, 5)
    assert (table == table.T).all()
    assert np.diag(table)[:4].tolist() == [0, 0, 0, 0]
    assert table[0, 1] == 0.5  # another intent
    assert table[1, 2] == 0.0  # another word for the same
    assert np.isinf(table[1, 3])
    assert np.isinf(table[4]).all()
