"""What becomes of an hour of traffic in the folder of a server: its figures are kept, and its alerts sent."""

import logging
from collections.abc import Callable, Sequence
from pathlib import Path

from broadmatch.errors import BroadmatchError
from broadmatch.evaluate import HourFigures, QualityFolder, TrafficQuality, quality_gauges
from broadmatch.registry import Alerts
from broadmatch.serve.config import ServeFolder
from broadmatch.signals import Description

log = logging.getLogger("broadmatch")


def watch_of(description: Description, signal_names: Sequence[str], window: float) -> TrafficQuality:
    """The watch over the traffic of a learner: `signal_names` are its encoder's, `window` that of its click join."""
    signals = description.without_times(signal_names)
    return TrafficQuality(window=window, slices=tuple(description.slices), signals=signals)


def hours_kept_in(folder: Path, arm: str = "main", keep_days: int = 30) -> Callable[[HourFigures], None]:
    """What `TrafficQuality.after_hour` is to be for a server's folder; wrong rules of alerts are an error here.

    The hours of the learner of another arm than main are in a folder of its name below the others.
    Figures that cannot be written are an error in the log and no reason to stop learning.
    """
    own = ServeFolder(folder).quality if arm == "main" else ServeFolder(folder).quality / arm
    hours, alerts = QualityFolder(own, keep_days), Alerts(ServeFolder(folder).alerts, own / "alerts.json")

    def keep(hour: HourFigures) -> None:
        for step in (hours.write, alerts.check):
            try:
                step(hour)
            except BroadmatchError as error:
                log.error("%s", error)

    return keep


def quality_page(folder: Path) -> bytes:
    """The figures of the last hour of a server's folder as Prometheus reads them; nothing if there is none yet."""
    found = quality_gauges(ServeFolder(folder).quality)
    if not found:
        return b""
    lines = ["# HELP broadmatch_quality Figures of the last full hour of traffic.", "# TYPE broadmatch_quality gauge"]
    for gauge, value in found.items():
        labels = ",".join(f'{name}="{text.translate(_ESCAPED)}"' for name, text in gauge._asdict().items())
        lines.append(f"broadmatch_quality{{{labels}}} {value!r}")
    return ("\n".join(lines) + "\n").encode("utf-8", "replace")


_ESCAPED = str.maketrans({"\\": r"\\", '"': r"\"", "\n": r"\n"})
