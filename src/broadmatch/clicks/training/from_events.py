"""Learning from an event log while it is written: what was learned is a function of the log alone.

Time is that of the events. The watermark is the largest time among the events so far, in the order of the log. When it
enters a new minute, a tick, impressions whose window has passed are closed and learned from; when it passes a multiple
of `every_minutes`, the calibration is refreshed and a model is published, named by that time. So how the log is cut
into reads, when it is read and how often the process is killed changes no bit of what is learned and published: the
position in the log, the learner, the join, the calibration and the guard's sums are one checkpoint.

An event that is more than a day ahead of the watermark is put aside and counted, for a wrong clock must not close all
impressions for good. If 100 of them come in a row, with no other event in between, the log has had a gap, and the last
of them counts.
"""

import json
import logging
import os
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, NamedTuple, Protocol

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.clicks._table import find_all
from broadmatch.clicks.calibration.base import WholeCalibration
from broadmatch.clicks.calibration.sliced import SlicedCalibration
from broadmatch.clicks.ftrl import FTRL
from broadmatch.clicks.learner import ClickLearner
from broadmatch.clicks.model import MODEL, ClickModel
from broadmatch.clicks.training._from_events import MINUTE, WATERMARK, follow_clock
from broadmatch.clicks.training._join import AFTER, BEFORE
from broadmatch.clicks.training.event_columns import EventColumns
from broadmatch.clicks.training.guard import SUMS, GuardResult, ModelGuard, plain_figures
from broadmatch.clicks.training.join import ClickJoin
from broadmatch.clicks.training.training import compare_runs, parameters_of
from broadmatch.data import Batch
from broadmatch.errors import BadArtifact, BadInput, BadParameter, PositionLost
from broadmatch.io import EventBatch, EventLog, EventPosition, Rejects
from broadmatch.io.artifacts import opening
from broadmatch.io.checkpoints import KIND, Checkpoints
from broadmatch.kernels import F64
from broadmatch.layout import Axes, Within
from broadmatch.params import Number, Whole
from broadmatch.signals import Description
from broadmatch.state import State, restore, unpack

log = logging.getLogger("broadmatch")

_MINUTE, _DAY, _IN_A_ROW = 60_000_000, 86_400_000_000, 100
EVENTS_AT_ONCE = 1 << 15
"""Events that are read at a time: enough that what Python does for a read does not count."""
_WAIT_SECONDS, _CHECKPOINT_SECONDS, _PUBLISHED_SECONDS = 0.5, 60.0, 15.0
"""Seconds to wait for events, between two checkpoints, and between two of which the second is due to a publication."""
_SAMPLED = 16
"""Of one in so many impressions the features are looked up that the model in service does not know."""
_FARTHEST = 1 << 61
_SAVED = {
    "clock": Annotated[NDArray[np.int64], Axes(3), Within(BEFORE, AFTER)],
    "guard": Annotated[NDArray[np.float64], Axes(len(SUMS)), Within()],
    "read": int,
    "set_aside": int,
    "served": str | None,
    "position": dict,
    "rejects": dict,
}


class InService(NamedTuple):
    """What is in service: the name of the version and, of one that was learned from events, the time in the log."""

    version: str
    time: int | None


class ClickService(Protocol):
    """Where models go that were learned, and what is in service there."""

    def current(self) -> InService | None:
        """What is in service."""
        ...

    def open(self, version: str) -> ClickModel | None:
        """The model of a version; None if it is no longer there."""
        ...

    def publish(self, model: ClickModel, time: int, facts: Mapping[str, Any], serve: bool) -> str | None:
        """Keep a model under the name of a time in the log, once, and put it in service if it may `serve`.

        Gives its name if it is, or was already, in service.
        """
        ...

    def prune(self) -> None:
        """Remove old models, none that is in service."""
        ...


class LearningWatch(Protocol):
    """Looks at the traffic as it is learned from."""

    def add(self, batch: Batch, served: F64 | None, learned: F64, delay: NDArray[np.int64] | None = None) -> None:
        """Take closed impressions, with what was said of them before, and how long after each its click came."""
        ...

    def unknown(self, n_unknown: int, n_features: int) -> None:
        """Take how many of some features the model in service does not know."""
        ...

    def tick(self, time_us: int, counts: Mapping[str, int] | None = None) -> None:
        """The log has come to a whole minute; `counts` are totals of what became of its events."""
        ...

    def to_state(self) -> State:
        """Everything that has to be kept."""
        ...


@dataclass
class EventTraining:
    """One learner on one event log: `step()` or `run()` it; it goes on by itself from its last checkpoint.

    `description` says what the columns of the impressions' payloads are; ids and times are those of the events.
    `window` is how many seconds after an impression clicks count. `calibration` is refreshed, and a model is published
    to `service`, every `every_minutes` of the log's time, if the `guard` does not hold it back (without a guard,
    always). `checkpoints` is a folder. With `from_begin`, a checkpoint whose position the log no longer has goes on
    from the log's begin. `watch` sees all that is learned from.

    >>> from broadmatch.clicks import FTRL
    >>> from broadmatch.io import EmbeddedEventLog, Event
    >>> from broadmatch.signals import Categorical
    >>> second, events = 1_000_000, EmbeddedEventLog("events", write=True)
    >>> _ = events.append([
    ...     Event("i1", 0, "impressions", b'{"ad":"shoes"}'),
    ...     Event("c1", 9 * second, "clicks", b'{"impression":"i1"}'),
    ...     Event("i2", 900 * second, "impressions", b'{"ad":"boots"}'),
    ... ])
    >>> training = EventTraining(events, Description(signals=[Categorical("ad")]), FTRL(), window=600)
    >>> training.run(follow=False)
    >>> training.counts()["learned"], training.model().predict_one({"ad": "shoes"}) > 0.5
    (1, True)
    """

    log: EventLog
    description: Description
    learner: ClickLearner
    window: float
    calibration: SlicedCalibration | WholeCalibration | None = None
    service: ClickService | None = None
    guard: ModelGuard | None = field(default_factory=ModelGuard)
    every_minutes: int = 15
    checkpoints: str | os.PathLike[str] | None = None
    from_begin: bool = False
    rejects: Rejects | None = None
    watch: LearningWatch | None = None

    def __post_init__(self) -> None:
        self._check()
        self._rejects = Rejects() if self.rejects is None else self.rejects
        self._kept = None if self.checkpoints is None else Checkpoints(self.checkpoints)
        self._columns = EventColumns(self.description, self._rejects, fields=self.watch is not None)
        self.join, self._clock = ClickJoin(window=self.window), np.array([BEFORE, 0, 0], np.int64)
        self.join.check_params()
        self._n_read = self._n_aside = 0
        self._served_name: str | None = None
        self._served: ClickModel | None = None
        self._written, self._dirty, self._published = time.monotonic(), False, False
        last = None if self._kept is None else self._kept.last()
        if last is None:
            self.position = self.log.begin
            current = None if self.service is None else self.service.current()
            self._stand_beside(None if current is None else current.version)
            self.checkpoint()  # if it is killed before the next, it begins again beside the same model
        else:
            self._take_up(last)

    def step(self, limit: int = EVENTS_AT_ONCE) -> int:
        """Read and learn from up to so many events, more or less; gives how many, 0 at the end of the log."""
        events, position = self._read(limit)
        n = len(events)
        if not n:
            return 0
        if self._clock[WATERMARK] == BEFORE:
            self._clock[:2] = events.time[0], events.time[0] // _MINUTE * _MINUTE
        before = self._clock.item(MINUTE)
        accepted, cuts = np.empty(n, np.bool_), np.empty(n, np.int64)
        given = np.ascontiguousarray(events.time), self._clock, _MINUTE, _DAY, _IN_A_ROW, accepted, cuts
        cuts = cuts[: follow_clock(*given)]
        ticks = events.time[cuts] // _MINUTE * _MINUTE
        if not accepted.all():
            self._put_aside(events.take(np.flatnonzero(~accepted)))
            cuts, events = np.cumsum(accepted)[cuts] - 1, events.take(np.flatnonzero(accepted))
        first, *others = self._columns.parts(events, cuts.tolist())
        self._take(first.shown, first.clicks)
        for tick, part in zip(ticks.tolist(), others, strict=True):
            self._tick(tick, before)
            self._take(part.shown, part.clicks)
            before = tick
        self.position, self._n_read, self._dirty = position, self._n_read + n, True
        self._keep_up()
        return n

    def pass_time(self, time: int) -> None:
        """Say that the log is complete until a time, in microseconds: what is due until then is closed and published.

        For a log that has ended, or that is replayed; while it grows, its events say what time it is.
        """
        if not -_FARTHEST < time < _FARTHEST:
            raise BadInput(f"The time must be in microseconds since 1970, but it is {time}.")
        if self._clock[WATERMARK] == BEFORE:
            return
        self._clock[WATERMARK] = max(self._clock[WATERMARK], time)
        minute, before = time // _MINUTE * _MINUTE, self._clock.item(MINUTE)
        if minute > before:
            self._clock[MINUTE] = minute
            self._tick(minute, before)
        self._dirty = True
        self._keep_up()

    def run(self, *, follow: bool = True, stop: threading.Event | None = None) -> None:
        """Learn until the end of the log, or with `follow` until `stop` is set; then all is in a checkpoint."""
        with progress.task("Learning", unit="events") as task:
            while stop is None or not stop.is_set():
                n = self.step()
                task.advance(n)
                if not n and not (follow and self._more(stop)):
                    break
        if self._dirty:
            self.checkpoint()

    def model(self) -> ClickModel:
        """The model as it stands now, ready to serve."""
        served = {MODEL: self.learner.to_serving()}
        return ClickModel(self.description, served, calibration=self.calibration, training=self.made_by())

    def made_by(self) -> dict[str, Any]:
        """How the model is made, to be kept beside it."""
        made = {"learner": type(self.learner).__name__, "parameters": parameters_of(self.learner)}
        if isinstance(self.learner, FTRL):
            made["chosen"] = str(self.learner.chosen)
        return {"impressions": self.learner.n_learned, **made, "window": self.window}

    def counts(self) -> dict[str, int]:
        """What happened to the events: read, learned, rejected, too far ahead; and what the join says."""
        counts = {"read": self._n_read, "learned": self.learner.n_learned, "rejected": self._rejects.count}
        return counts | {"too_far_ahead": self._n_aside} | self.join.counts

    def checkpoint(self) -> None:
        """Keep where everything stands; what was published before it is older than what it says."""
        self._dirty = self._published = False
        if self._kept is not None:
            facts = {
                "run": self._run_facts(),
                "position": self.position.to_json(),
                "read": self._n_read,
                "set_aside": self._n_aside,
                "served": self._served_name,
                "rejects": self._rejects.checkpoint(),
            }
            sums = np.zeros(len(SUMS)) if self.guard is None else self.guard.sums
            held = {"learner": self.learner, "join": self.join, "calibration": self.calibration, "watch": self.watch}
            parts = {name: part.to_state() for name, part in held.items() if part is not None}
            self._kept.write(State(KIND, {}, {"clock": self._clock, "guard": sums}, facts, parts))
        self._written = time.monotonic()
        if self.service is not None:
            self.service.prune()  # only now: a run that goes on from the checkpoint before might need one of them

    def _read(self, limit: int) -> tuple[EventBatch, EventPosition]:
        """Events from several reads, if one gives few."""
        parts, position, n = list[EventBatch](), self.position, 0
        while n < limit:
            try:
                events, position = self.log.read(position, limit - n)
            except PositionLost as error:
                raise PositionLost(
                    f"{error} What was learned is kept: pass from_begin=True to go on with it from the log's begin, or "
                    f"remove {self.checkpoints} to start anew."
                ) from error
            if not len(events):
                break
            parts.append(events)
            n += len(events)
        return EventBatch.concatenate(parts), position

    def _more(self, stop: threading.Event | None) -> bool:
        """Wait until there are events to go on with; False if it is to stop."""
        while not self.log.wait(self.position, _WAIT_SECONDS):
            if stop is not None and stop.is_set():
                return False
            self._keep_up()
        return True

    def _keep_up(self) -> None:
        """Write a checkpoint if the last is old; after a publication sooner, but a learner that is behind goes on."""
        age = time.monotonic() - self._written
        if self._dirty and age >= (_PUBLISHED_SECONDS if self._published else _CHECKPOINT_SECONDS):
            self.checkpoint()

    def _put_aside(self, events: EventBatch) -> None:
        self._n_aside += len(events)
        reason = "the time is more than a day after that of all events before it"
        for event in events:
            self._rejects.add("events", None, reason, event.payload.decode("utf-8", "replace"))

    def _take(self, shown: Batch, clicks: Batch) -> None:
        if len(shown):
            self.join.add_impressions(shown)
        if len(clicks):
            self.join.add_clicks(clicks.id, clicks.time)

    def _tick(self, minute: int, before: int) -> None:
        """The log has come from one minute to another: close what is due, and publish if that is due in between."""
        every = self.every_minutes * _MINUTE
        due = minute // every * every
        if due > before:
            self._close(due)
            self._publish(due)
        if minute > max(due, before):
            self._close(minute)

    def _close(self, until: int) -> None:
        """Learn from the impressions whose clicks cannot come any more."""
        self.join.pass_until(until)
        closed = self.join.ready()
        if len(closed):
            self._learn(closed)
        if self.watch is not None:
            self.watch.tick(until, self.join.counts)

    def _learn(self, closed: Batch) -> None:
        impressions, served = closed.impressions, self._served
        theirs = None if served is None else served.serve_many(impressions, closed.slices)[0]
        raw = self.learner.learn_many(impressions, encoded=True)
        learned, calibration = raw, self.calibration
        if isinstance(calibration, SlicedCalibration):
            learned = calibration.apply(raw, closed.slices)
            calibration.learn_many(raw, impressions.clicked, closed.slices, impressions.weight)
        elif calibration is not None:
            learned = calibration.apply(raw)
            calibration.learn_many(raw, impressions.clicked, impressions.weight)
        if self.guard is not None and theirs is not None:
            self.guard.add(impressions.clicked, learned, theirs)
        if self.watch is not None:
            self.watch.add(closed, theirs, learned, self.join.delays)
            if served is not None:
                some = impressions.take(np.arange(0, len(closed), _SAMPLED)).keys
                missing = find_all(served.variant().words, some, 0, len(some), np.empty(len(some), np.int64))
                self.watch.unknown(int(missing), len(some))

    def _publish(self, due: int) -> None:
        """Refresh the calibration, and publish a model if it is not held back."""
        calibration = self.calibration
        fitted = calibration is not None and calibration.__sklearn_is_fitted__()
        if calibration is not None and fitted and calibration.sums_.values[..., 1].sum() > 0:
            calibration.refresh()  # without any click there would be nothing to fit
        if self.service is None:
            return
        self._look_who_serves(due)
        result = self._judge()
        if result is not None and result.decision == "wait":
            return
        facts: dict[str, Any] = {"event_time": due, "learned": self.learner.n_learned}
        if result is not None:
            facts["guard"] = plain_figures(result)
        serve = result is None or result.decision == "publish"
        name = self.service.publish(self.model(), due, facts, serve)
        self._published = True
        if name is not None and serve:
            self._stand_beside(name)
        elif result is not None and self.guard is not None and result.decision == "hold":
            log.warning("The model of %s was held back: %s.", _shown(due), result.reason)
            self.guard.fade()

    def _judge(self) -> GuardResult | None:
        """What the guard says; None if nothing is to be compared."""
        if self.guard is None or self._served_name is None:
            return None
        if self._served is None:
            reason = (
                "the model in service reads other signals or is gone, so that they cannot be compared; put a version "
                "in service by hand with `broadmatch publish rollback --to`, then `publish release`"
            )
            return GuardResult("hold", reason, {})
        return self.guard.result()

    def _look_who_serves(self, due: int) -> None:
        """Notice that somebody put another model in service; one of later than now was published before a kill."""
        current = None if self.service is None else self.service.current()
        if current is None or current.version == self._served_name:
            return
        if current.time is None or current.time < due:
            self._stand_beside(current.version)

    def _stand_beside(self, version: str | None) -> None:
        """From now on, be judged beside another version."""
        self._served_name = version
        if self.guard is not None:
            self.guard.restart()
        self._open_served()

    def _open_served(self) -> None:
        self._served = None
        if self.service is None or self._served_name is None:
            return
        model = self.service.open(self._served_name)
        if model is not None and _reads_the_same(model, self.description):
            self._served = model

    def _check(self) -> None:
        self.learner.check_params()
        if self.calibration is not None:
            self.calibration.check_params()
            missing = [name for name in getattr(self.calibration, "by", ()) if name not in self.description.slices]
            if missing:
                raise BadParameter(f"The calibration is by {missing[0]!r}: name it in the description's slices.")
        Whole(1, 1 << 20).check("every_minutes", self.every_minutes)
        Number(0, 1e9).check("window", self.window)

    def _run_facts(self) -> dict[str, Any]:
        """What must be the same when it goes on."""
        facts = {
            "description": self.description.to_dict(),
            "learner": type(self.learner).__name__,
            "parameters": parameters_of(self.learner),
            "window": self.window,
            "calibration": None if self.calibration is None else parameters_of(self.calibration),
            "every_minutes": self.every_minutes,
        }
        return dict(json.loads(json.dumps(facts)))

    def _take_up(self, last: State) -> None:
        """Go on from a checkpoint."""
        run, folder = last.facts.get("run"), self.checkpoints or ""
        if not isinstance(run, dict) or "position" not in last.facts:
            raise BadArtifact(f"{folder} is not a folder of checkpoints of learning from events; choose another.")
        compare_runs(run, self._run_facts(), f"by removing {folder}")
        with opening(folder):
            known = unpack(_SAVED, last)
            for name in ("learner", "join", "calibration", "watch"):
                if (fresh := getattr(self, name)) is not None and (name != "watch" or name in last.parts):
                    part = restore(last.parts[name])
                    if type(part) is not type(fresh):
                        raise KeyError(name)
                    if name == "watch":
                        part.after_hour = getattr(fresh, "after_hour", None)  # what it calls is not kept
                    setattr(self, name, part)
            self._rejects.resume(known["rejects"])
            self.position = EventPosition.from_json(known["position"])
        self._clock[:] = known["clock"]
        self._n_read, self._n_aside, self._served_name = known["read"], known["set_aside"], known["served"]
        if self.guard is not None:
            self.guard.sums[:] = known["guard"]
        self._open_served()
        if self.from_begin:
            try:
                self.log.wait(self.position, 0.0)
            except BadInput:  # it is lost, or one of another log
                self.position = self.log.begin


def _reads_the_same(model: ClickModel, description: Description) -> bool:
    """Whether a model can predict what was encoded for another."""
    theirs, by = model.description, getattr(model.calibration, "by", ())
    return (
        isinstance(theirs, Description)
        and theirs.to_dict()["signals"] == description.to_dict()["signals"]
        and set(by) <= set(description.slices)
    )


def _shown(microseconds: int) -> str:
    return str(np.datetime64(microseconds, "us").astype("datetime64[s]"))
