"""A learner beside a server: it follows the event log, and publishes what it learned into the server's folder.

Its own things are in `learning/ARM` of the folder: the checkpoints, and `settings`, a model without features that says
what it learns with, so that a learner that is started again goes on with that, whatever is in service by then.
"""

import contextlib
import fcntl
import logging
import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broadmatch.clicks import FTRL, ClickModel, EventTraining, IsotonicCalibration, ServingModel
from broadmatch.clicks.calibration.base import WholeCalibration
from broadmatch.clicks.calibration.sliced import SlicedCalibration
from broadmatch.clicks.training.from_events import InService
from broadmatch.errors import BadInput, BadParameter, CannotWrite
from broadmatch.evaluate import TrafficQuality
from broadmatch.io import EventLog, Rejects
from broadmatch.io.artifacts import load
from broadmatch.params import Rule
from broadmatch.serve.publishing import PublishedModels, version_of
from broadmatch.serve.quality_hours import hours_kept_in, watch_of
from broadmatch.serve.serving import INITIAL, MAIN, check_name
from broadmatch.signals import Description, Encoder

log = logging.getLogger("broadmatch")
_HALF_LIFE = 500_000
"""Impressions after which one counts half in the calibration, where the model in service has none to take over."""
_INCLUSION = re.compile(r"(Poisson|Bloom)\(\w+=([0-9.e-]+)")


@dataclass(frozen=True)
class PublishedClicks:
    """The click models of one arm of a server, as `EventTraining` takes them; the newest `keep` are kept."""

    models: PublishedModels
    arm: str = MAIN
    keep: int = 10

    def current(self) -> InService | None:
        """What is in service; None if it is not there."""
        version = self.models.arm("clicks", self.arm).version
        if not self.models.path("clicks", version).is_dir():
            return None
        time = None if version == INITIAL else self.models.facts("clicks", version).get("event_time")
        return InService(version, time if isinstance(time, int) else None)

    def open(self, version: str) -> ClickModel | None:
        """The model of a version; None if it is no longer there.

        Its checksums are left to the server: what is opened here is compared with, not served.
        """
        path = self.models.path("clicks", version)
        model: ClickModel | None = load(path, ClickModel, verify=False) if path.is_dir() else None
        return model

    def publish(self, model: ClickModel, time: int, facts: Mapping[str, Any], serve: bool) -> str | None:
        """Keep a model under the name of a time in the log, once, and put it in service if it may `serve`."""
        name = self.models.publish(
            "clicks", model, version=version_of(time), arm=self.arm, facts={"arm": self.arm, **facts}, serve=serve
        )
        return name if self.models.arm("clicks", self.arm).knows(name) else None

    def prune(self) -> None:
        """Remove old models, none that is in service."""
        self.models.prune(self.keep)


@dataclass(frozen=True)
class ServerLearning:
    """How the click model of an arm of a server is learned from its events.

    What is not given (the description of the signals, parameters of FTRL, the columns to calibrate by) is as it was
    when the learner was started first, and then as in the model in service, from whose coefficients it goes on.
    """

    folder: Path
    arm: str = MAIN
    description: Description | None = None
    parameters: Mapping[str, Any] | None = None
    calibrate_by: tuple[str, ...] | None = None

    @property
    def place(self) -> Path:
        """Where the learner keeps its own things."""
        return self.folder / "learning" / check_name("arm", self.arm)

    @contextlib.contextmanager
    def training(
        self,
        log: EventLog,
        *,
        window: float = 1800.0,
        every_minutes: int = 15,
        from_begin: bool = False,
        rejects: Rejects | None = None,
    ) -> Iterator[EventTraining]:
        """The run, from its last checkpoint on, with a watch over the traffic; one process at a time has it."""
        with _only_one(self.place):
            service, checkpoints = PublishedClicks(PublishedModels(self.folder), self.arm), self.place / "checkpoints"
            service.models.arm("clicks", self.arm)
            begun = checkpoints.is_dir() and any(checkpoints.iterdir())
            known = self._known(service)
            description = self._description(known)
            after_hour, learner = hours_kept_in(self.folder, self.arm), self._learner(known)
            start = self._start(known, learner)
            training = EventTraining(
                log,
                description,
                learner.take_over(start) if start.n_features and not begun else learner,
                window=window,
                calibration=self._calibration(known),
                service=service,
                every_minutes=every_minutes,
                checkpoints=checkpoints,
                from_begin=from_begin,
                rejects=rejects,
                watch=watch_of(description, Encoder(description).signal_names, window),
            )
            if isinstance(training.watch, TrafficQuality):  # as it was restored
                training.watch.after_hour = after_hour
            if not begun:  # where it began is kept: what it publishes may be in service before its first checkpoint
                settings = ClickModel(training.description, {"start": start}, training=training.made_by())
                settings.calibration = _anew(training.calibration)
                settings.save(self.place / "settings")
            yield training

    def _known(self, service: PublishedClicks) -> ClickModel | None:
        settings = self.place / "settings"
        if settings.exists():
            found: ClickModel = load(settings, ClickModel)
            return found
        current = service.current()
        return None if current is None else service.open(current.version)

    def _description(self, known: ClickModel | None) -> Description:
        if self.description is not None:
            return self.description
        if known is None or not isinstance(known.description, Description):
            raise BadInput(f"{self.folder} has no click model that says what is learned from; give a description.")
        return known.description

    def _learner(self, known: ClickModel | None) -> FTRL:
        made = {} if known is None else known.training
        texts = made.get("parameters", {}) if made.get("learner") == FTRL.__name__ else {}
        values = {name: _value(FTRL.rules[name], str(text)) for name, text in texts.items() if name in FTRL.rules}
        learner = FTRL(**{**values, **(self.parameters or {})})
        learner.check_params()
        return learner

    def _start(self, known: ClickModel | None, learner: FTRL) -> ServingModel:
        """What the learner begins with: the coefficients of the model in service, or nothing if they do not fit."""
        if known is None or known.description != self._description(known):
            return learner.to_serving()
        if not learner.continues(known.variant()):
            log.warning("The model in service was learned with other rates; learning begins with nothing.")
            return learner.to_serving()
        return known.variant()

    def _calibration(self, known: ClickModel | None) -> SlicedCalibration | WholeCalibration:
        if self.calibrate_by is not None:
            return SlicedCalibration(by=self.calibrate_by)
        found = None if known is None else _anew(known.calibration)
        return IsotonicCalibration(half_life=_HALF_LIFE) if found is None else found


def _anew(calibration: SlicedCalibration | WholeCalibration | None) -> SlicedCalibration | WholeCalibration | None:
    """A calibration with the same parameters that has learned nothing."""
    return None if calibration is None else type(calibration)(**calibration.get_params(deep=False))


def _value(rule: Rule, text: str) -> Any:
    """What a parameter was, of the text that a model keeps of it."""
    found = _INCLUSION.match(text)
    value = rule.parse(f"{found[1].lower()}:{found[2]}" if found else text.strip("'").replace("None", "none"))
    if not rule.holds(value):
        raise BadParameter(f"The model in service was learned with a parameter that cannot be read: {text!r}; set it.")
    return value


@contextlib.contextmanager
def _only_one(place: Path) -> Iterator[None]:
    """Hold the lock of a learner, which ends with the process."""
    place.mkdir(parents=True, exist_ok=True)
    lock = os.open(place / "lock", os.O_RDWR | os.O_CREAT, 0o644)
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise CannotWrite(f"Another process learns in {place}; end that one first, or name another arm.") from error
        yield
    finally:
        os.close(lock)
