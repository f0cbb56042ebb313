"""`models`: what is served and since when, what the guard said, how right it is, and what the click model weighs."""

import math
from typing import Annotated, Any

import numpy as np
from msgspec import Meta

from broadmatch.clicks import ClickModel
from broadmatch.evaluate import reliability
from broadmatch.evaluate.click_metrics import equal_mass_bins
from broadmatch.evaluate.reliability import wilson_interval
from broadmatch.kernels import F64, Flags
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import Name, Reply, Request
from broadmatch.serve.problems import Problem
from broadmatch.serve.publishing import MODEL_KINDS, PublishedModels, Version
from broadmatch.serve.service import LiveService, ServiceArm
from broadmatch.serve.serving import MAIN, ServedArm, Serving
from broadmatch.serve.studio.served_traffic import WINDOW, ServedTraffic, TrafficReader
from broadmatch.serve.studio.traffic_curves import CurvesReply, CurvesRequest, read_curves
from broadmatch.serve.studio.work import StudioWork
from broadmatch.signals import FeatureNames

_SMALL = 1 << 12
_BINS, _SLICES, _LEAST = 10, 12, 100
"""Bins of a curve, slices that are answered, and the impressions that one needs."""
ArmName = Annotated[str, Meta(min_length=1, max_length=64)]
Point = tuple[float, float, float, float, float]
"""Where a bin stands, what was found there, from and to (95 %), and its impressions."""


class ServingArm(Reply, frozen=True):
    """An arm of the click model: its share, its version, when that was published (seconds), and what was before."""

    name: str
    share: float
    version: str
    published_at: float | None
    pinned: bool
    previous: list[str]
    rolled_back: list[str]
    n_features: int
    n_nonzero: int
    calibration: str | None
    training: dict[str, Any]


class KeptVersion(Reply, frozen=True):
    """A model that was published: by the learner of which arm, where it is served, and what the guard said of it."""

    name: str
    kind: str
    arm: str | None
    published_at: float
    in_service: list[str]
    decision: str | None
    reason: str | None
    figures: dict[str, float]


class ModelPagesReply(Reply, frozen=True):
    """What is served, all since one moment (seconds since 1970), and what was published, the newest first."""

    since: float
    arms: list[ServingArm]
    versions: list[KeptVersion]
    recommender: str | None
    recommender_version: str | None
    n_ads: int
    n_bids: int


class ReliabilityRequest(Request, frozen=True):
    """The column to slice by: one of those that the answer lists."""

    slicing: Name = "all"


class SliceReliability(Reply, frozen=True):
    """Click rates by prediction on a slice, before and after calibration: points are prediction, click rate, from, to,
    impressions; `error` is the mean distance of both, `bias` how far predictions are too high in all."""

    slice: str
    n: int
    clicks: int
    before: list[Point]
    after: list[Point]
    errors: tuple[float, float]
    biases: tuple[float | None, float | None]


class ReliabilityReply(Reply, frozen=True):
    """How right what was served is, by slice, and by u(x): points are u(x), the error in log-odds, from, to, n."""

    n: int
    n_young: int
    n_gone: int
    window: float
    slicings: list[str]
    slices: list[SliceReliability]
    uncertainty: list[Point]


class FeaturesRequest(Request, frozen=True):
    """The features of the model of an arm; `top` of each signal."""

    arm: ArmName = MAIN
    top: Annotated[int, Meta(ge=1, le=100)] = 10


class WeighedFeature(Reply, frozen=True):
    """A feature with its coefficient, and its learning rate: the smaller, the more often it was seen."""

    signal: str
    value: str
    weight: float
    rate: float


class FeaturesReply(Reply, frozen=True):
    """The features with the largest coefficients of each signal.

    Names are kept by the model, or else those of what the log shows: `n_unnamed` features with larger coefficients than
    the last of the list have none.
    """

    version: str
    named_by: str
    n_features: int
    n_nonzero: int
    n_unnamed: int
    features: list[WeighedFeature]


class ModelPages:
    """Answers for the page of models."""

    def __init__(self, live: LiveService, work: StudioWork, events: str | None) -> None:
        self._live, self._work = live, work
        self._traffic = TrafficReader(live.folder.path, events)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What is served, curves, reliability, features."""
        base = "/v1/studio/models"
        return (
            Endpoint(
                "studio", "GET", base, "read", "What is served, was published, and was held back.",
                self.models, None, ModelPagesReply,
            ),
            Endpoint(
                "studio", "POST", f"{base}/curves", "read", "Figures of the traffic by hour.", self.curves,
                CurvesRequest, CurvesReply, _SMALL, problems=(503,),
            ),
            Endpoint(
                "studio", "POST", f"{base}/reliability", "read", "How right what was served is, by slice.",
                self.reliability, ReliabilityRequest, ReliabilityReply, _SMALL, problems=(404, 503),
            ),
            Endpoint(
                "studio", "POST", f"{base}/features", "read", "The features with the largest coefficients.",
                self.features, FeaturesRequest, FeaturesReply, _SMALL, problems=(404, 503),
            ),
        )  # fmt: skip

    async def models(self) -> ModelPagesReply:
        """What is served."""
        return await self._work.run(served_models, self._live)

    async def curves(self, request: CurvesRequest) -> CurvesReply:
        """Figures by hour."""
        return await self._work.run(read_curves, self._live.folder, request)

    async def reliability(self, request: ReliabilityRequest) -> ReliabilityReply:
        """How right it is."""
        return await self._work.run(lambda: reliability_of(self._traffic.read(), request.slicing))

    async def features(self, request: FeaturesRequest) -> FeaturesReply:
        """What is weighed."""
        return await self._work.run(self._features, request)

    def _features(self, request: FeaturesRequest) -> FeaturesReply:
        arm = next((one for one in self._live.current.arms if one.name == request.arm), None)
        if arm is None:
            raise Problem(404, f"There is no arm {request.arm!r}; see /v1/models.")
        clicks = arm.engine.clicks
        if clicks.names is not None:
            return weighed_features(clicks, clicks.names, "model", arm.version, request.top)
        names = self._traffic.names(arm.encoder.description)
        return weighed_features(clicks, names, "log", arm.version, request.top)


def served_models(live: LiveService) -> ModelPagesReply:
    """What a server serves, and what was published into its folder."""
    service, published = live.current, PublishedModels(live.folder.path)
    serving = published.serving()
    versions = [(kind, one) for kind in MODEL_KINDS for one in published.versions(kind)]
    times = {one.name: one.published_at for kind, one in versions if kind == "clicks"}
    states = {one.name: one for one in serving.clicks}
    newest = sorted(versions, key=lambda pair: -pair[1].published_at)
    recommender, index = service.recommender, service.arms[0].engine.index
    return ModelPagesReply(
        since=service.since,
        arms=[_arm(arm, states.get(arm.name), times.get(arm.version)) for arm in service.arms],
        versions=[_kept(kind, one, serving) for kind, one in newest],
        recommender=None if recommender is None else type(getattr(recommender, "model", recommender)).__name__,
        recommender_version=service.recommender_version,
        n_ads=index.view().n_ads,
        n_bids=index.n_bids,
    )


def _arm(arm: ServiceArm, state: ServedArm | None, published_at: float | None) -> ServingArm:
    model, state = arm.engine.clicks, state or ServedArm(arm.name, arm.share, arm.version)
    return ServingArm(
        name=arm.name,
        share=arm.share,
        version=arm.version,
        published_at=published_at,
        pinned=state.pinned,
        previous=list(state.previous),
        rolled_back=list(state.rolled_back),
        n_features=model.variant().n_features,
        n_nonzero=model.variant().n_nonzero,
        calibration=None if model.calibration is None else type(model.calibration).__name__,
        training=model.training,
    )


def _kept(kind: str, one: Version, serving: Serving) -> KeptVersion:
    said = one.facts.get("guard")
    guard = said if isinstance(said, dict) else {}
    return KeptVersion(
        name=one.name,
        kind=kind,
        arm=_text(one.facts.get("arm")),
        published_at=one.published_at,
        in_service=[arm.name for arm in serving.of(kind) if arm.version == one.name],
        decision=_text(guard.get("decision")),
        reason=_text(guard.get("reason")),
        figures={name: float(value) for name, value in guard.items() if _is_number(value)},
    )


def reliability_of(traffic: ServedTraffic, slicing: str) -> ReliabilityReply:
    """How right predictions were on each of the largest slices, and by u(x)."""
    names = traffic.slices.get(slicing)
    if names is None and slicing != "all":
        raise Problem(404, f"The log cannot be sliced by {slicing!r}; {', '.join(['all', *traffic.slices])} can.")
    slices = [("all", np.ones(len(traffic), np.bool_))] if len(traffic) else []
    if names is not None:
        values, code = np.unique(np.array(names, object).astype(str), return_inverse=True)
        order = np.argsort(-np.bincount(code, minlength=len(values)), kind="stable")[:_SLICES]
        slices += [(str(values[i]), code == i) for i in order.tolist()]
    return ReliabilityReply(
        n=len(traffic),
        n_young=traffic.n_young,
        n_gone=traffic.n_gone,
        window=WINDOW,
        slicings=["all", *traffic.slices],
        slices=[_slice(name, traffic, of) for name, of in slices if name == "all" or of.sum() >= _LEAST],
        uncertainty=_by_uncertainty(traffic),
    )


def _slice(name: str, traffic: ServedTraffic, of: Flags) -> SliceReliability:
    clicked = traffic.clicked[of]
    found = [reliability(clicked, p[of], n_bins=_BINS) for p in (traffic.raw, traffic.probability)]
    before, after = (
        list(zip(*(getattr(one, part).tolist() for part in _PARTS), strict=True)) for one in found
    )  # fmt: skip
    biases: Any = tuple(one.bias if math.isfinite(one.bias) else None for one in found)
    return SliceReliability(
        slice=name, n=len(clicked), clicks=int(clicked.sum()), before=before, after=after,
        errors=(found[0].error, found[1].error), biases=biases,
    )  # fmt: skip


_PARTS = ("probability", "rate", "low", "high", "mass")


def _by_uncertainty(traffic: ServedTraffic) -> list[Point]:
    """In bins of u(x) of equal mass: the distance of click rate and mean prediction, in log-odds, with its interval."""
    if len(traffic) < _LEAST:
        return []
    _, code = np.unique(traffic.uncertainty, return_inverse=True)
    counts = np.bincount(code).astype(np.float64)
    bin_of = equal_mass_bins(counts, _BINS, counts.sum())[code]
    n = np.bincount(bin_of).astype(np.float64)
    used = n > 0
    u, p, rate = (
        np.bincount(bin_of, weights=part)[used] / n[used]
        for part in (traffic.uncertainty, traffic.probability, traffic.clicked.astype(np.float64))
    )
    low, high = wilson_interval(rate, n[used])
    sides = [_log_odds(one) - _log_odds(p) for one in (rate, low, high)]
    points: list[Point] = [
        (u.item(i), abs(sides[0].item(i)), *_absolute(sides[1].item(i), sides[2].item(i)), n[used].item(i))
        for i in range(len(u))
    ]
    return points


def _absolute(low: float, high: float) -> tuple[float, float]:
    """The interval of a size, from that of a signed number."""
    return (0.0 if low <= 0 <= high else min(abs(low), abs(high))), max(abs(low), abs(high))


def _log_odds(p: F64) -> F64:
    held = np.clip(p, 1e-6, 1 - 1e-6)
    found: F64 = np.log(held / (1 - held))
    return found


def weighed_features(clicks: ClickModel, names: FeatureNames, named_by: str, version: str, top: int) -> FeaturesReply:
    """The features of each signal with the largest coefficients, as far as they have names."""
    serving = clicks.variant()
    keys, weights, rates = serving.items()
    order = np.argsort(-np.abs(weights), kind="stable")
    order = order[weights[order] != 0]
    found: list[WeighedFeature] = []
    counts: dict[str, int] = {}
    unnamed, at_last = 0, 0
    for start in range(0, len(order), 4096):
        block = order[start : start + 4096]
        for (signal, value), i in zip(names.lookup(keys[block]), block.tolist(), strict=True):
            if signal == "?":
                unnamed += 1
            elif counts.get(signal, 0) < top:
                counts[signal], at_last = counts.get(signal, 0) + 1, unnamed
                weight, rate = weights.item(i), rates.item(i)
                found.append(WeighedFeature(signal=signal, value=value, weight=weight, rate=rate))
    return FeaturesReply(
        version=version, named_by=named_by, n_features=len(keys), n_nonzero=len(order), n_unnamed=at_last,
        features=found,
    )  # fmt: skip


def _text(value: Any) -> str | None:
    return value if isinstance(value, str) else None


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
