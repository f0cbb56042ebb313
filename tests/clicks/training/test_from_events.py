"""Learning from events is a function of the log alone: however it is read and killed, the bits are the same."""

import json
import logging
import threading
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from broadmatch.clicks import (
    FTRL,
    ClickJoin,
    ClickModel,
    EventTraining,
    IsotonicCalibration,
    ModelGuard,
    SlicedCalibration,
)
from broadmatch.clicks.training._from_events import follow_clock
from broadmatch.clicks.training.event_columns import EventColumns
from broadmatch.errors import BadArtifact, BadInput, BadParameter, PositionLost
from broadmatch.io import Event, EventBatch, KafkaEventLog, Rejects
from broadmatch.signals import Categorical, Description, Encoder, Hour
from tests.clicks.logs import same_state
from tests.clicks.training.event_streams import (
    DAY,
    DESCRIPTION,
    MINUTE,
    SECOND,
    START,
    ListLog,
    MemoryService,
    click,
    impression,
    traffic,
)
from tests.io.test_event_log import TOPICS, broker
from tests.reference import event_training as reference

__all__ = ["broker"]

WINDOW = 120.0
names = st.sampled_from(["a", "b", "c", "d", "7"])
ads = st.sampled_from(['"x"', '"y"', "7", "null", '"\\u00fc"', "[1]"])
bad = st.sampled_from([b"{}", b'{"ad":}', b'{"impression":null}', b'{"impression":{}}', b'{"impression":""}'])


@pytest.fixture(autouse=True, scope="module")
def without_waiting_for_the_disk():
    """Checkpoints here survive what the tests do to them without being synced."""
    with patch("os.fsync"):
        yield


@st.composite
def logs(draw):
    """Events of some minutes, mostly in order, with repeats, late ones, wrong clocks, gaps and bad payloads."""
    events, at = [], START
    for i in range(draw(st.integers(0, 40))):
        at += draw(st.sampled_from([0, SECOND, 20 * SECOND, MINUTE, 7 * MINUTE]))
        t = at + draw(st.sampled_from([0, 0, 0, 0, -SECOND, -90 * SECOND, -10 * MINUTE, 2 * DAY]))
        kind = draw(st.sampled_from(["impressions", "impressions", "clicks", "clicks", "bounces"]))
        name = draw(names)
        payload = f'{{"impression":"{name}"}}'.encode()
        if kind == "impressions":
            payload = f'{{"ad":{draw(ads)},"city":"c{i % 2}","query":"red shoes"}}'.encode()
        if draw(st.integers(0, 9)) == 0:
            payload = draw(bad)
        events.append(Event(name if kind == "impressions" else f"{kind}{i}", t, kind, payload))
    return events


def make(events, folder=None, service=None, **changes):
    given_ = {"window": WINDOW, "calibration": IsotonicCalibration(min_clicks=0.5), "every_minutes": 2}
    given_ |= {"guard": ModelGuard(min_impressions=3, errors=1.0), "service": service, "checkpoints": folder}
    return EventTraining(ListLog(events), DESCRIPTION, FTRL(alpha=0.5, l1=0.01), **given_ | changes)


def finish(training):
    training.run(follow=False)
    training.pass_time(START + 10 * 60 * MINUTE)
    return training


def assert_same(one, other, services):
    same_state(one.learner.to_state(), other.learner.to_state())
    same_state(one.calibration.to_state(), other.calibration.to_state())
    assert one.guard.sums.tobytes() == other.guard.sums.tobytes()
    assert one.counts() == other.counts()
    ours, theirs = services
    assert ours.served == theirs.served
    assert ours.facts == theirs.facts
    assert all(same_state(ours.states[name], theirs.states[name]) for name in theirs.states)


@settings(max_examples=25, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(events=logs())
def test_it_learns_what_a_slow_reader_learns(events):
    training = make(events, service=(service := MemoryService()), guard=None)
    training.run(follow=False)
    learner, calibration = FTRL(alpha=0.5, l1=0.01), IsotonicCalibration(min_clicks=0.5)
    encoder = Encoder(Description.from_dict({k: v for k, v in DESCRIPTION.to_dict().items() if k != "slices"}))
    found = reference.follow(events, encoder, learner, calibration, round(WINDOW * SECOND), 2 * MINUTE)
    same_state(training.learner.to_state(), learner.to_state())
    same_state(training.calibration.to_state(), calibration.to_state())
    assert [(service.times[name], facts["learned"]) for name, facts in service.facts.items()] == found.due
    counts = training.counts()
    assert counts["too_far_ahead"] == found.counts["too_far_ahead"]
    assert counts["rejected"] - counts["too_far_ahead"] == found.counts["rejected"]


@settings(max_examples=25, phases=[Phase.explicit, Phase.reuse, Phase.generate])
@given(events=logs(), data=st.data())
def test_no_cut_and_no_kill_changes_a_bit(events, data, tmp_path_factory):
    straight = finish(make(events, service=(one := MemoryService())))
    folder, other = tmp_path_factory.mktemp("checkpoints"), MemoryService()
    training = make(events, folder, other)
    while training.step(data.draw(st.integers(1, 12))):
        happens = data.draw(st.sampled_from(["nothing", "nothing", "checkpoint", "kill"]))
        if happens == "checkpoint":
            training.checkpoint()
        elif happens == "kill":  # what came after the last checkpoint is forgotten, but not what was published
            training = make(events, folder, other)
    assert_same(straight, finish(training), (one, other))


def test_larger_traffic_is_the_same_by_any_cut(tmp_path):
    events = traffic(3000)
    first = make([]).model()
    straight = finish(make(events, service=(one := MemoryService(first)), calibration=SlicedCalibration(by=["city"])))
    rng, other, training = np.random.default_rng(1), MemoryService(first), None
    for _ in range(12):
        training = make(events, tmp_path / "k", other, calibration=SlicedCalibration(by=["city"]))
        for _ in range(int(rng.integers(1, 6))):
            training.step(int(rng.integers(1, 300)))
        if rng.random() < 0.7:
            training.checkpoint()
    assert_same(straight, finish(training), (one, other))
    assert len(one.served) > 3
    assert straight.learner.n_learned == 3000


def test_it_learns_what_the_closed_loop_learns():
    """As `simulate.loop.serving.ArmServer` does: a minute of impressions, the clicks that have arrived, then learn."""
    events, hour, maps = traffic(3000, per_second=0.5), 60 * MINUTE, []
    training = make(events, service=(service := MemoryService()), guard=None, every_minutes=60)
    training.run(follow=False)
    end = events[-1].time // hour * hour + hour
    training.pass_time(end)
    learner, calibration, join = FTRL(alpha=0.5, l1=0.01), IsotonicCalibration(min_clicks=0.5), ClickJoin(window=WINDOW)
    columns, done = EventColumns(DESCRIPTION, Rejects()), 0
    times = np.array([event.time for event in events])
    for now in range(START + MINUTE, end + 1, MINUTE):
        stop = int(np.searchsorted(times, now, side="right"))
        (part,) = columns.parts(EventBatch.of(events[done:stop]), [])
        done = stop
        join.add_impressions(part.shown)
        join.add_clicks(part.clicks.id, part.clicks.time)
        join.pass_until(now)
        closed = join.ready()
        if len(closed):
            calibration.learn_many(learner.learn_many(closed.impressions, encoded=True), closed.impressions.clicked)
        if now % hour == 0 and learner.n_learned:
            calibration.refresh()
            maps.append((now, learner.to_serving().to_state(), calibration.knots_y_.tobytes()))
    same_state(training.learner.to_state(), learner.to_state())
    same_state(training.calibration.to_state(), calibration.to_state())
    published = [(service.times[name], service.open(name)) for name in service.served if service.facts[name]["learned"]]
    assert len(published) == len(maps) > 1
    for (at, model), (now, state, knots) in zip(published, maps, strict=True):
        assert (at, model.calibration.knots_y_.tobytes()) == (now, knots)
        same_state(model.variant().to_state(), state)


class Watch:
    """Remembers what it is shown."""

    def __init__(self):
        self.rows, self.ticks, self.seen = [], [], [0, 0]

    def add(self, batch, served, learned, delay=None):
        assert len(batch) == len(learned) == len(served)
        self.rows += [(t, bool(y)) for t, y in zip(batch.time.tolist(), batch.impressions.clicked, strict=True)]

    def unknown(self, n_unknown, n_features):
        self.seen = [self.seen[0] + n_unknown, self.seen[1] + n_features]

    def tick(self, time_us, counts):
        self.ticks.append(time_us)


def test_a_watch_sees_everything_that_is_learned():
    watch, service = Watch(), MemoryService(make([]).model())
    training = finish(make(traffic(500), service=service, watch=watch))
    assert len(watch.rows) == training.learner.n_learned == 500
    assert sum(clicked for _, clicked in watch.rows) == training.counts()["joined_clicks"]
    assert watch.ticks == sorted(set(watch.ticks))
    assert all(tick % MINUTE == 0 for tick in watch.ticks)
    assert 0 < watch.seen[0] < watch.seen[1]


def test_a_worse_model_is_held_back_with_its_reason(caplog):
    events = traffic(2500)
    better = finish(make(events)).model()
    shuffled = [
        Event(e.id, e.time, e.kind, e.payload.replace(b"ad ", b"bd ") if i > 2000 else e.payload)
        for i, e in enumerate(events)
    ]
    service = MemoryService(better)
    with caplog.at_level(logging.WARNING):
        training = finish(make(shuffled, service=service, guard=ModelGuard(min_impressions=200)))
    held = [facts for facts in service.facts.values() if facts["guard"]["decision"] == "hold"]
    assert held
    assert "log loss" in held[0]["guard"]["reason"]
    assert "held back: its log loss" in caplog.text
    assert training.learner.n_learned == 2500


def test_a_model_of_other_signals_cannot_be_compared():
    other = ClickModel(Description(signals=[Categorical("ad")]), {"m": FTRL().to_serving()})
    service = MemoryService(other)
    finish(make(traffic(300), service=service))
    assert service.served == ["first"]
    assert all("other signals" in facts["guard"]["reason"] for facts in service.facts.values())
    assert service.facts


def test_somebody_else_may_change_what_is_in_service():
    service = MemoryService(first := make([]).model())
    training = make(events := traffic(1200), service=service)
    training.step(len(events) // 2)
    service.states["by hand"] = MemoryService(first).states["first"]
    service.served.append("by hand")
    while training.step(50) and training._served_name != "by hand":
        pass
    assert training._served_name == "by hand"
    assert training.guard.sums[0] == 0


def test_without_a_guard_every_model_is_put_in_service():
    service = MemoryService()
    training = finish(make(traffic(400), service=service, guard=None))
    assert len(service.served) == len(service.facts) > 1
    due = [service.times[name] for name in service.served]
    assert due == sorted(due)
    assert all(time % (2 * MINUTE) == 0 for time in due)
    same_state(training.learner.to_serving().to_state(), service.open(service.served[-1]).variant().to_state())


def test_a_wrong_clock_closes_nothing_and_a_gap_does_not_last():
    rejects = Rejects()
    wrong = [impression("i0", 0, ad="x"), impression("far", 30 * 86_400, ad="x"), click("i0", 5)]
    training = finish(make([*wrong, impression("i1", 300, ad="x")], rejects=rejects))
    assert training.counts()["too_far_ahead"] == 1
    assert training.counts()["joined_clicks"] == 1
    assert "more than a day after" in next(iter(rejects.reasons))
    gap = [impression("i0", 0, ad="x"), *(impression(f"j{i}", 5 * 86_400 + i, ad="x") for i in range(150))]
    training = make(gap)
    training.run(follow=False)
    assert training.counts()["too_far_ahead"] == 99
    assert training.learner.n_learned == 1


@given(
    times=st.lists(st.integers(-200, 400), max_size=30),
    start=st.integers(-50, 50),
    run=st.integers(0, 3),
)
def test_the_clock_against_a_slow_one(times, start, run):
    clock = np.array([start, start // 10 * 10, run], np.int64)
    accepted, cuts = np.empty(len(times), np.bool_), np.empty(len(times), np.int64)
    n = follow_clock(np.array(times, np.int64), clock, 10, 100, 4, accepted, cuts)
    watermark, minute, taken, found = start, start // 10 * 10, [], []
    for i, t in enumerate(times):
        far = t > watermark + 100 and run < 3
        run = run + 1 if far else 0
        taken.append(not far)
        if not far:
            watermark = max(watermark, t)
            if t // 10 * 10 > minute:
                minute = t // 10 * 10
                found.append(i)
    assert (accepted.tolist(), cuts[:n].tolist(), clock.tolist()) == (taken, found, [watermark, minute, run])


def test_a_lost_position_says_what_to_do(tmp_path):
    events = traffic(300)
    training = make(events, tmp_path / "k")
    training.step(100)
    training.checkpoint()
    again = make(events, tmp_path / "k")
    again.log.oldest = 200
    with pytest.raises(PositionLost, match="from_begin=True"):
        again.step()
    behind = ListLog(events, oldest=200)
    training = EventTraining(
        behind, DESCRIPTION, FTRL(alpha=0.5, l1=0.01), window=WINDOW, every_minutes=2, from_begin=True,
        calibration=IsotonicCalibration(min_clicks=0.5), checkpoints=tmp_path / "k",
    )  # fmt: skip
    assert training.position == behind.begin
    assert training.counts()["read"] == 100
    assert training.step() == len(events) - 200


def test_other_settings_and_other_folders_are_refused(tmp_path):
    make(traffic(50), tmp_path / "k").run(follow=False)
    with pytest.raises(BadInput, match=r"window was 120\.0 and is 60"):
        make([], tmp_path / "k", window=60)
    with pytest.raises(BadInput, match="removing"):
        make([], tmp_path / "k", every_minutes=3)
    with pytest.raises(BadParameter, match="slices"):
        make([], calibration=SlicedCalibration(by=["country"]))
    for wrong in ({"every_minutes": 0}, {"window": -1}):
        with pytest.raises(BadParameter):
            make([], **wrong)
    hourly = Description(signals=[Hour("when")], time={"column": "when", "format": "%H"})
    with pytest.raises(BadParameter, match="format of its own"):
        EventTraining(ListLog([]), hourly, FTRL(), window=1)


def test_a_forged_checkpoint_is_refused(tmp_path):
    training = make(traffic(50), tmp_path / "k")
    training.run(follow=False)
    folder = next((tmp_path / "k").iterdir())
    manifest = json.loads((folder / "manifest.json").read_text())
    from broadmatch.io.artifacts import _checksum

    def forge(**changes):
        facts = {**manifest["facts"], **changes}
        forged = {**{k: v for k, v in manifest.items() if k != "checksum"}, "facts": facts}
        (folder / "manifest.json").write_text(json.dumps({**forged, "checksum": _checksum(forged)}))

    for changes in (
        {"position": {"log": 1}},
        {"position": 7},
        {"read": "x"},
        {"served": 3},
        {"rejects": {}},
        {"run": 1},
    ):
        forge(**changes)
        with pytest.raises((BadArtifact, BadInput)):
            make([], tmp_path / "k")
    forge()
    make(traffic(50), tmp_path / "k")


def test_it_follows_until_it_is_stopped(tmp_path):
    training, stop = make(traffic(200), tmp_path / "k"), threading.Event()
    training.log.visible = 50
    waits = []

    def wait(position, timeout):
        waits.append(position)
        training.log.visible = len(training.log.events)
        if len(waits) > 2:
            stop.set()
        return position < training.log.end

    training.log.wait = wait
    training.run(stop=stop)
    assert training.position == training.log.end
    assert make(traffic(200), tmp_path / "k").position == training.position


def test_a_topic_of_kafka_is_learned_from_too(broker, tmp_path):
    events = traffic(300)

    def training(log):
        how = {"window": 7200.0, "checkpoints": tmp_path / "k"}
        return EventTraining(log, DESCRIPTION, FTRL(), **how)

    with KafkaEventLog(next(TOPICS), broker, write=True, settings={"fetch.wait.max.ms": 5}) as log:
        log.append(events[:200])
        training(log).run(follow=False)
        log.append(events[200:])
        again = training(log)
        again.run(follow=False)
        again.pass_time(START + 5 * 60 * MINUTE)
        assert again.counts()["read"] == len(events)
        assert again.learner.n_learned == 300
        assert again.position == log.end
