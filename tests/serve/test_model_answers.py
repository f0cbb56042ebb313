"""What the page of models asks: what is served, curves, how right it is, features, and what is behind a phrase."""

import numpy as np
import pytest

from broadmatch.errors import BadArtifact
from broadmatch.evaluate import reliability
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.excluded import ExcludedPhrase, ExcludedPhrases
from broadmatch.serve.publishing import PublishedModels
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.market import read_run
from broadmatch.serve.studio.served_traffic import TrafficReader
from tests.serve.shop import Sink, call, make_folder
from tests.serve.studio_shop import ADDRESS, CITIES, EMOJI, RTL, add_loop, make_studio

BASE = "/v1/studio/models"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return make_studio(tmp_path_factory.mktemp("studio") / "engine")


@pytest.fixture(scope="module")
def app(folder):
    return make_app(ServeConfig(folder=folder), LiveService(folder), Sink())


@pytest.fixture(scope="module")
def bare(tmp_path_factory):
    """A server with nothing but ads."""
    path = make_folder(tmp_path_factory.mktemp("bare") / "engine")
    return make_app(ServeConfig(folder=path), LiveService(path), Sink())


def ask(app, path, body=None, status=200):
    (answer,) = call(app, ("GET", path) if body is None else ("POST", path, body))
    assert answer.status_code == status, answer.text
    return answer.json()


def test_what_is_served_and_what_was_held_back(app, bare):
    found = ask(app, BASE)
    (arm,) = found["arms"]
    assert (arm["name"], arm["version"], arm["calibration"]) == ("main", "initial", "PoissonCalibration")
    assert found["recommender"] == "MLRF" and found["n_ads"] == 8
    (version,) = found["versions"]
    assert version["decision"] == "hold" and version["in_service"] == [] and version["figures"]["log_loss"] == 0.4
    assert ask(bare, BASE)["versions"] == [] and ask(bare, BASE)["recommender"] is None


def test_curves_are_the_hours_that_were_kept(app, bare):
    found = ask(app, f"{BASE}/curves", {})
    assert len(found["hours"]) == 5 and {one["model"] for one in found["curves"]} == {"served", "learned"}
    assert found["curves"][0]["values"] == pytest.approx([0.4 - 1 / 30 - h / 50 for h in range(5)])
    by_city = ask(app, f"{BASE}/curves", {"slicing": "city"})
    assert [one["slice"] for one in by_city["curves"]] == list(reversed(CITIES)) and "city" in by_city["slicings"]
    assert ask(app, f"{BASE}/curves", {"metric": "Bias"})["curves"][0]["values"][2] is None
    assert ask(app, f"{BASE}/curves", {"arm": "b"})["hours"] == ask(bare, f"{BASE}/curves", {})["hours"] == []
    ask(app, f"{BASE}/curves", {"arm": "../x"}, 422)


def test_reliability_is_that_of_what_was_served_in_its_place(app, folder, bare):
    traffic = TrafficReader(folder, None).read()
    assert traffic.n_gone == 0 and traffic.n_young == 3 * 30 and len(traffic) == 3 * 370
    found = ask(app, f"{BASE}/reliability", {"slicing": "city"})
    assert set(found["slicings"]) == {"all", "city", "ad", "position"}
    slices = {one["slice"]: one for one in found["slices"]}
    assert set(slices) == {"all", *CITIES} and sum(slices[city]["n"] for city in CITIES) == found["n"] == len(traffic)
    assert slices["all"]["clicks"] == traffic.clicked.sum() > 100
    twin = [reliability(traffic.clicked, p, n_bins=10) for p in (traffic.raw, traffic.probability)]
    assert slices["all"]["errors"] == [one.error for one in twin] and slices["all"]["errors"][0] != twin[1].error
    assert [point[0] for point in slices["all"]["after"]] == twin[1].probability.tolist()
    u, error, low, high, n = np.array(found["uncertainty"]).T
    assert (np.diff(u) > 0).all() and n.sum() == len(traffic) and (low <= error).all() and (error <= high).all()
    assert "cannot be sliced by" in ask(app, f"{BASE}/reliability", {"slicing": "nothing"}, 404)["detail"]
    assert "no event log" in ask(bare, f"{BASE}/reliability", {}, 404)["detail"]


def test_features_have_the_names_of_the_log(app, folder):
    found = ask(app, f"{BASE}/features", {"top": 2})
    model = LiveService(folder).current.arms[0].engine.clicks.variant()
    assert found["named_by"] == "log" and found["n_features"] == model.n_features
    weights = [abs(one["weight"]) for one in found["features"]]
    assert weights == sorted(weights, reverse=True)
    by_signal = {one["signal"] for one in found["features"]}
    assert {"ad", "city", "position", "constant"} <= by_signal
    assert max(sum(one["signal"] == name for one in found["features"]) for name in by_signal) == 2
    ask(app, f"{BASE}/features", {"arm": "nobody"}, 404)


def test_a_phrase_is_followed_to_the_training_pages_that_brought_it(app, bare):
    found = ask(app, "/v1/studio/trace", {"address": ADDRESS, "phrase": RTL})
    assert found["model"] == "MLRF" and found["n_trees"] == 3 and not found["excluded"] and found["place"] >= 1
    assert found["pages"] and sum(one["share"] for one in found["pages"]) == pytest.approx(1.0)
    assert all("taxi" in one["page"] and RTL in one["labels"] for one in found["pages"])
    assert sum(leaf["vote"] for leaf in found["leaves"]) / 3 == pytest.approx(found["score"])
    nothing = ask(app, "/v1/studio/trace", {"text": "pizza", "phrase": "airport taxi"})
    assert nothing["score"] == 0 and nothing["pages"] == []
    assert "No phrase model" in ask(bare, "/v1/studio/trace", {"text": "x", "phrase": "y"}, 404)["detail"]
    ask(app, "/v1/studio/trace", {"text": "x", "phrase": "never heard of"}, 422)


def test_an_excluded_phrase_is_not_recommended_until_it_is_brought_back(app):
    def phrases(page, **how):
        return [one["phrase"] for one in ask(app, "/v1/recommend", {**page, "k": 2, **how})["phrases"]]

    known, other = {"address": ADDRESS}, {"text": "order a taxi"}
    before = phrases(known)
    first = before[0]
    assert ask(app, "/v1/studio/excluded", {"phrase": first, "address": ADDRESS, "reason": "bad"})["changed"]
    assert not ask(app, "/v1/studio/excluded", {"phrase": first, "address": ADDRESS})["changed"]
    after = phrases(known)
    assert first not in after and len(after) == 2 and after[0] == before[1]
    assert phrases(other)[0] == first
    assert ask(app, "/v1/studio/trace", {"address": ADDRESS, "phrase": first})["excluded"]
    assert ask(app, "/v1/studio/excluded", {"phrase": EMOJI})["changed"]
    assert EMOJI not in phrases(other, k=50)
    (one, two) = ask(app, "/v1/studio/excluded")["excluded"]
    assert (one["phrase"], one["address"], one["reason"], two["address"]) == (first, ADDRESS, "bad", None)
    for gone in ({"phrase": first, "address": ADDRESS}, {"phrase": EMOJI}):
        assert ask(app, "/v1/studio/excluded/undo", gone)["changed"]
        assert not ask(app, "/v1/studio/excluded/undo", gone)["changed"]
    assert phrases(known) == before


def test_a_file_of_excluded_phrases_that_is_damaged_is_refused(tmp_path):
    excluded = ExcludedPhrases(tmp_path / "excluded.json")
    assert excluded.read() == [] and excluded.add(ExcludedPhrase("x"))
    for content in (
        b"",
        b"{",
        b'{"format": 2, "excluded": []}',
        b'{"format": 1, "excluded": [{"phrase": 7}]}',
        b"\xff",
    ):
        excluded.file.write_bytes(content)
        with pytest.raises(BadArtifact, match="bring it back"):
            excluded.read()


def test_traffic_of_a_model_that_is_gone_is_counted_and_not_judged(tmp_path):
    folder = make_studio(tmp_path / "engine")
    models = PublishedModels(folder)
    (folder / "clicks").rename(folder / "old")
    models.path("clicks", "worse").rename(folder / "clicks")
    found = TrafficReader(folder, None).read()
    assert len(found) == 0 and found.n_gone == 3 * 370


def test_arms_of_a_loop_by_day(app, folder, bare, tmp_path):
    (run,) = ask(app, "/v1/studio/loop")["runs"]
    assert (run["name"], run["days"], run["burn_in"], len(run["arms"])) == ("arms", 4, 1, 2)
    assert run["arms"][0]["by_day"]["clicks a search"][0] == pytest.approx([0.4, 0.3, 0.5])
    assert run["arms"][1]["by_day"]["regret"][1] == [None, None, None]
    assert ask(bare, "/v1/studio/loop")["runs"] == []
    add_loop(tmp_path, arms=("own",))
    file = tmp_path / "studio" / "loop" / "arms.json"
    assert len(read_run(file).arms) == 1
    for content in (
        "{",
        "[]",
        '{"days": 1, "burn_in": 0, "arms": {}}',
        '{"days": 2, "burn_in": 0, "arms": {"a": {"by_day": []}}}',
    ):
        file.write_text(content)
        with pytest.raises(BadArtifact, match="simulate --arms"):
            read_run(file)
