"""A learner beside a server: what it takes over from the model in service, what it publishes, and that it goes on."""

import shutil

import pytest

import broadmatch
from broadmatch.clicks import FTRL, ClickModel, IsotonicCalibration, Poisson, PoissonCalibration, SlicedCalibration
from broadmatch.errors import BadInput, BadParameter, CannotWrite
from broadmatch.io.event_log.opening import open_event_log
from broadmatch.serve import PublishedModels
from broadmatch.serve.learning import PublishedClicks, ServerLearning
from broadmatch.signals import Categorical, Description
from tests.clicks.training.event_streams import DESCRIPTION, START, ListLog, traffic

MINUTE = 60_000_000
MADE = {
    "learner": "FTRL",
    "parameters": {"alpha": "0.3", "l1": "0.01", "encoding": "'float32'", "inclusion": "Poisson(p=0.5)", "seed": "3"},
}


def initial(folder, **changes):
    given = {"calibration": PoissonCalibration(half_life=99), "training": MADE} | changes
    ClickModel(DESCRIPTION, {"ftrl": FTRL().to_serving()}, **given).save(folder / "clicks")


def learn(folder, events, **how):
    with ServerLearning(folder, **how).training(ListLog(events), window=120.0, every_minutes=5) as training:
        training.run(follow=False)
        return training


def test_a_learner_takes_over_what_the_model_in_service_was_learned_with(tmp_path):
    initial(tmp_path)
    training = learn(tmp_path, [])
    assert (training.learner.alpha, training.learner.encoding, training.learner.seed) == (0.3, "float32", 3)
    assert training.learner.inclusion == Poisson(0.5)
    assert isinstance(training.calibration, PoissonCalibration)
    assert training.calibration.half_life == 99
    assert training.description == DESCRIPTION


def test_what_is_given_counts(tmp_path):
    initial(tmp_path, calibration=None)
    given = Description(signals=[Categorical("ad")], slices=["city"])
    training = learn(tmp_path, [], description=given, parameters={"alpha": 0.7}, calibrate_by=("city",))
    assert (training.learner.alpha, training.learner.seed, training.description) == (0.7, 3, given)
    assert isinstance(training.calibration, SlicedCalibration)
    PublishedModels(tmp_path).set_arms({"main": 0.5, "b": 0.5})
    assert isinstance(learn(tmp_path, [], arm="b").calibration, IsotonicCalibration)


def test_it_publishes_and_goes_on_whatever_is_in_service_by_then(tmp_path):
    initial(tmp_path)
    events, models = traffic(3000), PublishedModels(tmp_path)
    first = learn(tmp_path, events[:2500])
    names = [version.name for version in models.versions("clicks")]
    assert names
    assert models.serving().clicks[0].version in names
    assert models.facts("clicks", names[0])["event_time"] % (5 * MINUTE) == START % (5 * MINUTE)
    other = ClickModel(Description(signals=[Categorical("ad")]), {"m": FTRL().to_serving()})
    models.publish("clicks", other, version="by-hand")
    second = learn(tmp_path, events)
    assert second.description == DESCRIPTION
    assert second.learner.n_learned > first.learner.n_learned > 0
    assert models.serving().clicks[0].version == "by-hand"
    held = [one for one in models.versions("clicks") if one.facts.get("guard", {}).get("decision") == "hold"]
    assert "other signals" in held[-1].facts["guard"]["reason"]
    for version in models.versions("clicks"):
        broadmatch.load(models.path("clicks", version.name))


def test_a_rolled_back_arm_stays_with_its_version(tmp_path):
    initial(tmp_path)
    events, models = traffic(3000), PublishedModels(tmp_path)
    learn(tmp_path, events[:2500])
    before = models.roll_back("clicks", "initial"), len(models.versions("clicks"))
    learn(tmp_path, traffic(6000))
    assert models.serving().clicks[0].version == before[0] == "initial"
    assert len(models.versions("clicks")) > before[1]


def test_only_one_learner_of_an_arm_runs(tmp_path):
    initial(tmp_path)
    PublishedModels(tmp_path).set_arms({"main": 0.5, "b": 0.5})
    with ServerLearning(tmp_path).training(ListLog([])):
        with pytest.raises(CannotWrite, match="Another process learns"):
            learn(tmp_path, [])
        learn(tmp_path, [], arm="b")
    with ServerLearning(tmp_path).training(ListLog([])):
        pass


def test_without_a_model_or_with_a_strange_one_it_says_what_to_do(tmp_path):
    with pytest.raises(BadInput, match="give a description"):
        learn(tmp_path, [])
    initial(tmp_path, training={"learner": "FTRL", "parameters": {"inclusion": "__import__('os')"}})
    with pytest.raises(BadParameter, match="cannot be read"):
        learn(tmp_path, [])
    for arm in ("../x", "b"):
        with pytest.raises(BadParameter, match="arm must be"):
            learn(tmp_path, [], arm=arm)


def test_a_version_that_is_gone_is_not_opened(tmp_path):
    initial(tmp_path)
    clicks = PublishedClicks(PublishedModels(tmp_path))
    assert clicks.open("gone") is None


@pytest.mark.parametrize("address", ["kafka://", "kafka://server", "kafka:///topic", "kafka://a/b/c"])
def test_wrong_addresses_of_logs(address):
    with pytest.raises(BadParameter, match="kafka://SERVER"):
        open_event_log(address)


def test_it_goes_on_from_the_coefficients_in_service_also_if_it_dies_before_its_first_checkpoint(tmp_path):
    known = learn_anew(tmp_path / "before", traffic(2000))
    for name in ("straight", "killed"):
        initial(tmp_path / name, calibration=None)
        ClickModel(DESCRIPTION, {"ftrl": known.to_serving()}).save(tmp_path / name / "clicks")
    straight = learn(tmp_path / "straight", traffic(3000)).learner
    with ServerLearning(tmp_path / "killed").training(ListLog(traffic(3000)), window=120.0, every_minutes=5) as dead:
        dead.step()  # publishes, and is then gone
    shutil.rmtree(tmp_path / "killed" / "learning" / "main" / "checkpoints", ignore_errors=True)
    again = learn(tmp_path / "killed", traffic(3000)).learner
    fresh = learn_anew(tmp_path / "fresh", traffic(3000))
    assert fresh.to_state().arrays["numbers"].tobytes() != straight.to_state().arrays["numbers"].tobytes()
    for name, array in straight.to_state().arrays.items():
        assert array.tobytes() == again.to_state().arrays[name].tobytes()


def learn_anew(folder, events):
    initial(folder, calibration=None, training={})
    return learn(folder, events).learner
