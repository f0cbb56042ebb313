"""Curves of the traffic: figures of the hours that a learner has kept, by model and slice."""

import math
from typing import Annotated

from msgspec import Meta

from broadmatch.evaluate import HourFigures, QualityFolder
from broadmatch.evaluate.traffic_quality.figures import METRICS
from broadmatch.serve.config import ServeFolder
from broadmatch.serve.messages import Name, Reply, Request
from broadmatch.serve.serving import MAIN, check_name

_HOUR = 3_600_000_000
_SLICES = 12
"""The largest slices that are answered."""


class CurvesRequest(Request, frozen=True):
    """Which figure of which slicing, by the learner of which arm, of the last days."""

    arm: Annotated[str, Meta(min_length=1, max_length=64)] = MAIN
    metric: Name = "LogLoss"
    slicing: Name = "all"
    days: Annotated[int, Meta(ge=1, le=60)] = 7


class TrafficCurve(Reply, frozen=True):
    """A figure by hour: of a model ("served", "learned", or neither) on a slice; null in hours without."""

    model: str
    slice: str
    values: list[float | None]
    n: list[int]


class CurvesReply(Reply, frozen=True):
    """The hours (seconds since 1970), the curves of the largest slices, and what else could be asked for."""

    hours: list[float]
    curves: list[TrafficCurve]
    metrics: dict[str, str]
    slicings: list[str]


def read_curves(folder: ServeFolder, request: CurvesRequest) -> CurvesReply:
    """The curves of a folder; empty, if no learner has kept an hour yet."""
    own = folder.quality if request.arm == MAIN else folder.quality / check_name("arm", request.arm)
    kept = QualityFolder(own)
    newest = kept.newest()
    hours = list(kept.hours(since=newest - request.days * 24 * _HOUR)) if newest is not None else []
    seen: dict[str, None] = {}
    slicings: dict[str, None] = {}
    sizes: dict[str, int] = {}
    for hour in hours:
        for one in hour.figures:
            seen[one.metric] = None
            if one.metric == request.metric:
                slicings[one.slicing] = None
                if one.slicing == request.slicing:
                    sizes[one.slice] = sizes.get(one.slice, 0) + one.n
    largest = sorted(sizes, key=lambda name: (-sizes[name], name))[:_SLICES]
    return CurvesReply(
        hours=[hour.start / 1e6 for hour in hours],
        curves=_curves(hours, request, largest),
        metrics={name: METRICS.get(name, "") for name in seen},
        slicings=list(slicings),
    )


def _curves(hours: list[HourFigures], request: CurvesRequest, slices: list[str]) -> list[TrafficCurve]:
    place = {name: i for i, name in enumerate(slices)}
    curves: dict[tuple[int, str], TrafficCurve] = {}
    for h, hour in enumerate(hours):
        for one in hour.figures:
            if one.metric != request.metric or one.slicing != request.slicing or one.slice not in place:
                continue
            curve = curves.get((place[one.slice], one.model))
            if curve is None:
                empty: list[float | None] = [None] * len(hours)
                curve = TrafficCurve(model=one.model, slice=one.slice, values=empty, n=[0] * len(hours))
                curves[place[one.slice], one.model] = curve
            curve.values[h] = one.value if math.isfinite(one.value) else None
            curve.n[h] = one.n
    return [curves[key] for key in sorted(curves)]
