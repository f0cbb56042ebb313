"""`loop`: the arms of a closed loop by day, with intervals, as `broadmatch simulate --arms --json` printed them."""

import json
import math
from pathlib import Path
from typing import Any

from broadmatch.errors import BadArtifact
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import Reply
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.work import StudioWork

_MOST_BYTES, _MOST_DAYS, _MOST_ARMS = 1 << 25, 10_000, 100
Interval = tuple[float | None, float | None, float | None]
"""A value, and where 95 % of its bootstrap samples lie; null for what is not known."""


class LoopArm(Reply, frozen=True):
    """An arm: its figures of all days after the first few, in per cent of the first arm, and of each day."""

    name: str
    figures: dict[str, Interval]
    relative: dict[str, Interval]
    by_day: dict[str, list[Interval]]
    overspend: float | None
    searches: float | None


class LoopRun(Reply, frozen=True):
    """A run of a loop: its days, of which the first `burn_in` are left out of `figures`, and its arms."""

    name: str
    days: int
    burn_in: int
    arms: list[LoopArm]


class LoopReply(Reply, frozen=True):
    """All runs that are here."""

    runs: list[LoopRun]


class Market:
    """Shows what became of arms."""

    def __init__(self, folder: StudioFolder, work: StudioWork) -> None:
        self._folder, self._work = folder, work

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The one endpoint."""
        about = "The arms of simulated loops by day, with intervals."
        return (Endpoint("studio", "GET", "/v1/studio/loop", "read", about, self.answer, None, LoopReply),)

    async def answer(self) -> LoopReply:
        """All runs; none if there are none."""
        return LoopReply(runs=await self._work.run(read_runs, self._folder.loop))


def read_runs(folder: Path) -> list[LoopRun]:
    """The runs in a folder, one JSON file each, by name."""
    return [read_run(file) for file in sorted(folder.glob("*.json"))]


def read_run(file: Path) -> LoopRun:
    """A run, as `LoopReport.to_dict` gives it; anybody may have written it."""
    try:
        with file.open("rb") as stream:
            content = stream.read(_MOST_BYTES + 1)
        if len(content) > _MOST_BYTES:
            raise ValueError("it is too long")
        plain = json.loads(content)
        arms, days, burn_in = plain["arms"], int(plain["days"]), int(plain["burn_in"])
        if not 0 < len(arms) <= _MOST_ARMS or not 0 <= burn_in <= days <= _MOST_DAYS:
            raise ValueError("it has no days or no arms")
        return LoopRun(
            name=file.stem, days=days, burn_in=burn_in, arms=[_arm(name, one, days) for name, one in arms.items()]
        )
    except OSError as error:
        raise BadArtifact(f"{file} cannot be read: {error.strerror}.") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise BadArtifact(
            f"{file} is no result of a loop ({str(error)[:100]}); write it with `broadmatch simulate --arms --json`."
        ) from error


def _arm(name: str, plain: dict[str, Any], days: int) -> LoopArm:
    by_day = plain["by_day"]
    if len(by_day) != days:
        raise ValueError(f"the arm {name[:50]} has {len(by_day)} days of {days}")
    return LoopArm(
        name=name,
        figures={figure: _interval(value) for figure, value in plain["figures"].items()},
        relative={figure: _interval(value) for figure, value in plain["relative"].items()},
        by_day={figure: [_interval(day[figure]) for day in by_day] for figure in plain["figures"]},
        overspend=_number(plain["overspend"]),
        searches=_number(plain["totals"]["searches"]),
    )


def _interval(plain: dict[str, Any]) -> Interval:
    return _number(plain["value"]), _number(plain["low"]), _number(plain["high"])


def _number(value: Any) -> float | None:
    found = float(value)
    return found if math.isfinite(found) else None
