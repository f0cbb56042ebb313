"""Published models: whole or not at all, the same twice is once, back again and pinned, nothing forged is served."""

import json
import multiprocessing
import os
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import broadmatch
from broadmatch.clicks import FTRL, ClickModel
from broadmatch.errors import BadArtifact, BadInput, BadParameter, BroadmatchError, MissingFile
from broadmatch.serve.publishing import PublishedModels, version_of
from broadmatch.serve.serving import ServedArm, Serving
from broadmatch.signals import Categorical, Description

DESCRIBED = Description(signals=[Categorical("ad")])


def model(seed=0):
    learner = FTRL()
    learner.learn_one([seed + 1], 1.0)
    return ClickModel(DESCRIBED, {"ftrl": learner.to_serving()})


def main(models):
    return models.serving().clicks[0]


@pytest.fixture
def models(tmp_path):
    model().save(tmp_path / "clicks")
    return PublishedModels(tmp_path)


def test_a_folder_begins_with_its_own_models(models, tmp_path):
    serving = models.serving()
    assert serving.clicks == (ServedArm("main", 1.0, "initial"),)
    assert models.path("clicks", "initial") == tmp_path / "clicks"
    assert models.path("recommender", serving.recommender) == tmp_path / "recommender"
    assert models.versions("clicks") == []


def test_what_is_published_is_served_with_its_facts(models):
    assert models.publish("clicks", model(1), version="v1", facts={"learned": 5}) == "v1"
    assert (main(models).version, main(models).previous) == ("v1", ("initial",))
    (version,) = models.versions("clicks")
    assert version.facts == {"learned": 5}
    loaded = broadmatch.load(models.path("clicks", "v1"))
    assert loaded.variant().predict_one([2]) == model(1).variant().predict_one([2])


def test_the_same_version_twice_is_once(models):
    models.publish("clicks", model(1), version="v1")
    before = models.path("clicks", "v1").stat().st_ino
    models.publish("clicks", model(2), version="v2")
    assert models.publish("clicks", model(3), version="v1") == "v1"
    assert main(models).version == "v2"
    assert models.path("clicks", "v1").stat().st_ino == before


def test_a_publication_that_was_killed_before_it_was_in_service_is_completed(models):
    models.publish("clicks", model(1), version="v1", serve=False)
    assert main(models).version == "initial"
    models.publish("clicks", model(1), version="v1")
    assert main(models).version == "v1"


def test_rolled_back_stays_until_released(models):
    for name in ("v1", "v2"):
        models.publish("clicks", model(), version=name)
    assert models.roll_back("clicks") == "v1"
    models.publish("clicks", model(), version="v3")
    assert (main(models).version, main(models).pinned) == ("v1", True)
    models.release("main")
    models.publish("clicks", model(), version="v2")  # was taken out of service by hand
    assert main(models).version == "v1"
    models.publish("clicks", model(), version="v4")
    assert main(models).version == "v4"
    assert models.roll_back("clicks", "v2") == "v2"
    assert "v2" not in main(models).rolled_back
    with pytest.raises(MissingFile, match="v9"):
        models.roll_back("clicks", "v9")
    assert models.roll_back("clicks", "initial") == "initial"
    with pytest.raises(BadInput, match="before"):
        models.roll_back("clicks")


def test_arms_have_shares_and_versions_of_their_own(models):
    models.publish("clicks", model(), version="v1")
    models.set_arms({"main": 0.9, "b": 0.1})
    models.publish("clicks", model(), version="v2", arm="b")
    assert [(one.name, one.share, one.version) for one in models.serving().clicks] == [
        ("main", 0.9, "v1"),
        ("b", 0.1, "v2"),
    ]
    with pytest.raises(BadParameter, match="main, b"):
        models.publish("clicks", model(), version="v3", arm="c")
    assert not models.path("clicks", "v3").exists()
    for wrong in ({"main": 0.5}, {}, {"main": float("nan")}, {"main": 1.5, "b": -0.5}, {"../x": 1.0}):
        with pytest.raises(BadParameter):
            models.set_arms(wrong)


def test_prune_keeps_the_newest_and_what_is_in_service(models):
    models.set_arms({"main": 0.5, "b": 0.5})
    models.publish("clicks", model(), version="b1", arm="b")
    for i in range(5):
        models.publish("clicks", model(), version=f"v{i}")
    assert models.prune(keep=2) == ["v0", "v1", "v2"]
    assert {version.name for version in models.versions("clicks")} == {"b1", "v3", "v4"}
    assert models.roll_back("clicks") == "v3"


@pytest.mark.parametrize("name", ["", ".", "..", "../x", "a/b", ".hidden", "x" * 65, "ä", "initial", None, 7])
def test_names_never_lead_out_of_the_folder(models, name):
    if name is not None:
        with pytest.raises(BadParameter):
            models.publish("clicks", model(), version=name)
    if name != "initial":
        with pytest.raises(BadParameter):
            models.path("clicks", name)


def test_only_models_that_a_server_can_use_are_published(models):
    for kind, wrong in (("clicks", FTRL()), ("recommender", model()), ("labels", model())):
        with pytest.raises(BroadmatchError):
            models.publish(kind, wrong)
    with pytest.raises(BadInput, match="vw"):
        models.publish("clicks", ClickModel("vw", {"ftrl": FTRL().to_serving()}))
    with pytest.raises(BadParameter, match="facts"):
        models.publish("clicks", model(), facts={"x": object()})
    assert models.versions("clicks") == []


GOOD = json.loads(Serving().to_json())


def forged(**changes):
    return {**GOOD, "clicks": [{**GOOD["clicks"][0], **changes}]}


@pytest.mark.parametrize(
    "plain",
    [
        [],
        {},
        {**GOOD, "format": 2},
        {**GOOD, "clicks": []},
        {**GOOD, "clicks": GOOD["clicks"] * 2},
        {**GOOD, "phrases": None},
        forged(version="../../etc"),
        forged(previous=["/etc"]),
        forged(previous="v1"),
        forged(rolled_back=["v"] * 51),
        forged(share=0.5),
        forged(share="1"),
        forged(share=True),
        forged(pinned=1),
        forged(name="a b"),
    ],
)
def test_a_forged_serving_file_is_refused_with_what_to_do(models, tmp_path, plain):
    (tmp_path / "serving.json").write_text(json.dumps(plain))
    with pytest.raises(BadArtifact, match="remove it to serve the initial models"):
        models.serving()
    with pytest.raises(BadArtifact):
        models.publish("clicks", model(), version="v1")


@given(st.binary(max_size=200))
def test_damaged_bytes_are_refused(tmp_path_factory, junk):
    file = tmp_path_factory.getbasetemp() / "serving.json"
    file.write_bytes(junk)
    with pytest.raises(BadArtifact):
        Serving.read(file)


def test_a_file_of_deep_lists_or_many_bytes_is_refused(tmp_path):
    for text in ("[" * 100_000, " " * (2 << 20) + "{}"):
        (tmp_path / "serving.json").write_text(text)
        with pytest.raises(BadArtifact):
            Serving.read(tmp_path / "serving.json")


def test_damaged_facts_are_named(models):
    models.publish("clicks", model(), version="v1")
    file = models.path("clicks", "v1").parent / "published.json"
    file.write_text('{"published_at": "now", "facts": {}}')
    with pytest.raises(BadArtifact, match=r"published\.json"):
        models.versions("clicks")
    models.publish("clicks", model(), version="v2")
    models.publish("clicks", model(), version="v3")
    assert models.prune(keep=1) == ["v1"]


def test_remains_of_a_killed_publication_go(models, tmp_path):
    models.publish("clicks", model(), version="v1")
    left = tmp_path / "published" / "clicks" / ".v0.abc.tmp"
    left.mkdir()
    models.prune()
    assert left.exists()  # somebody may be writing it
    os.utime(left, (0, 0))
    models.prune()
    assert not left.exists()


def publish_some(folder, numbers):
    models = PublishedModels(Path(folder))
    for number in numbers:
        models.publish("clicks", model(), version=f"v{number}")


def test_processes_that_publish_at_once_lose_nothing(models, tmp_path):
    context = multiprocessing.get_context("fork")
    workers = [context.Process(target=publish_some, args=(str(tmp_path), range(i, 10, 2))) for i in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
        assert worker.exitcode == 0
    served = main(models)
    assert {served.version, *served.previous} == {"initial", *(f"v{i}" for i in range(10))}


def test_versions_in_order_are_times_in_order():
    times = np.sort(np.random.default_rng(0).integers(0, 4 * 10**15, 100)).tolist()
    assert sorted(map(version_of, times)) == [version_of(time) for time in times]
