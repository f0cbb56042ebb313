"""What a server consumes, told to the signal index: by each model when it is put in service, and every day after."""

from typing import TYPE_CHECKING

from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import Service
from broadmatch.signals import Description

if TYPE_CHECKING:
    from broadmatch.registry import Reporter

_CLOSE_SECONDS = 2.0


class ServedSignals:
    """Reports the signals of the models in service, in the background; without an index it does nothing."""

    def __init__(self, config: ServeConfig) -> None:
        self._reporter = None if config.signals is None else _reporter(config.signals)
        self._server = config.folder.resolve().name

    def report(self, service: Service) -> None:
        """Report what models in service consume, each arm as a model of its own."""
        if self._reporter is None:
            return
        from broadmatch.registry import ConsumptionReport
        from broadmatch.registry.records import reporting_as

        for arm in service.arms:
            description, name = arm.engine.clicks.description, f"{self._server}/{arm.name}"
            if isinstance(description, Description):
                signals = dict.fromkeys(signal.name for signal in description.signals)
                self._reporter.report(ConsumptionReport(model=name, signals=signals, use="serving", **reporting_as()))

    def close(self, seconds: float = _CLOSE_SECONDS) -> None:
        """Send what waits, as far as that is quick."""
        if self._reporter is not None:
            self._reporter.close(seconds)


def _reporter(address: str) -> "Reporter":
    from broadmatch.registry import Reporter

    return Reporter(address)
