"""Where a learner that follows a server's event log finds what is in service, and publishes what it learned."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from broadmatch.clicks import ClickModel
from broadmatch.clicks.training.from_events import InService
from broadmatch.io.artifacts import load
from broadmatch.serve.publishing import PublishedModels, version_of
from broadmatch.serve.serving import INITIAL, MAIN


@dataclass(frozen=True)
class PublishedClicks:
    """The click models of one arm of a server, as `EventTraining` takes them; the newest `keep` are kept."""

    models: PublishedModels
    arm: str = MAIN
    keep: int = 10

    def current(self) -> InService | None:
        """What is in service; None if the arm, or its model, is not there."""
        version = next((one.version for one in self.models.serving().clicks if one.name == self.arm), None)
        if version is None or not self.models.path("clicks", version).is_dir():
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
        served = next((one for one in self.models.serving().clicks if one.name == self.arm), None)
        return name if served is not None and served.knows(name) else None

    def prune(self) -> None:
        """Remove old models, none that is in service."""
        self.models.prune(self.keep)
