"""What an artifact is made of, and how an estimator is taken apart and put together again.

What is saved is declared, not listed: the parameters of an estimator, and the attributes that it declares by
`broadmatch.params.learned()`. Types come from these declarations, never from a file.
"""

import importlib
import threading
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self, TypeVar, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadParameter, NotFitted
from broadmatch.layout import SavedLayout, require
from broadmatch.params import Estimator

Value = TypeVar("Value")

KINDS = {
    "dataset": "broadmatch.data:Dataset",
    "hierarchy": "broadmatch.data:Hierarchy",
    "feature_names": "broadmatch.signals:FeatureNames",
    "ftrl": "broadmatch.clicks:FTRL",
    "rda": "broadmatch.clicks:RDA",
    "fobos": "broadmatch.clicks:FOBOS",
    "ogd": "broadmatch.clicks:OGD",
    "click_serving": "broadmatch.clicks:ServingModel",
    "many_models": "broadmatch.clicks:ManyModels",
    "single_value": "broadmatch.clicks:SingleValue",
    "click_model": "broadmatch.clicks:ClickModel",
    "checkpoint": "broadmatch.io.checkpoints:Checkpoints",
    "click_embeddings": "broadmatch.features:ClickEmbeddings",
    "page_vectorizer": "broadmatch.features:PageVectorizer",
    "pivoted_vectorizer": "broadmatch.features:PivotedVectorizer",
    "rocchio_selector": "broadmatch.features:RocchioSelector",
    "mlrf": "broadmatch.labels:MLRF",
    "fastxml": "broadmatch.labels:FastXML",
    "pfastrexml": "broadmatch.labels:PfastreXML",
    "swiftxml": "broadmatch.labels:SwiftXML",
    "one_vs_rest": "broadmatch.labels:OneVsRest",
    "adaboost_lc": "broadmatch.labels:AdaBoostLC",
    "recommender": "broadmatch.labels:Recommender",
    "ksp": "broadmatch.ads:KSP",
    "bid_phrase": "broadmatch.ads:BidPhraseModel",
    "kex": "broadmatch.labels:KEX",
    "metalabeler": "broadmatch.sets:MetaLabeler",
    "rcut": "broadmatch.sets:RCut",
    "pcut": "broadmatch.sets:PCut",
    "scut": "broadmatch.sets:SCut",
    "threshold": "broadmatch.sets:Threshold",
    "target_cut": "broadmatch.sets:TargetCut",
    "hierarchical_labels": "broadmatch.sets:HierarchicalLabels",
    "batch": "broadmatch.data:Batch",
    "click_join": "broadmatch.clicks:ClickJoin",
    "ad_postings": "broadmatch.ads:AdIndex",
    "subsampler": "broadmatch.clicks:Subsampler",
    "poisson_calibration": "broadmatch.clicks:PoissonCalibration",
    "isotonic_calibration": "broadmatch.clicks:IsotonicCalibration",
    "sliced_calibration": "broadmatch.clicks:SlicedCalibration",
    "auction": "broadmatch.ads:Auction",
    "traffic_quality": "broadmatch.evaluate:TrafficQuality",
}
"""Where the class of each kind is; `restore` imports it on demand."""


@dataclass
class State:
    """What an object is made of: parameters and facts for the manifest, arrays for the `.npy` files.

    `parts` are the states of the objects it holds; their arrays are filed under `part.array.npy`.
    """

    kind: str
    params: Mapping[str, Any]
    arrays: Mapping[str, NDArray[Any]]
    facts: Mapping[str, Any] = field(default_factory=dict)
    parts: "Mapping[str, State]" = field(default_factory=dict)


def restore(state: State) -> Any:
    """Make the object that `state` describes."""
    module, _, name = KINDS[state.kind].partition(":")
    return getattr(importlib.import_module(module), name).from_state(state)


def pack(kind: str, values: Mapping[str, Any], params: Mapping[str, Any] | None = None) -> State:
    """A state of named values: arrays, plain values, named tuples of these, and objects that have a state.

    >>> from broadmatch.data import CSR
    >>> sorted(pack("dataset", {"x": CSR.from_rows([[1]], 2), "n": 3}).arrays)
    ['x_data', 'x_indices', 'x_indptr']
    """
    state = State(kind, dict(params or {}), {}, {}, {})
    for name, value in values.items():
        _pack(name.rstrip("_"), value, state)
    return state


def unpack(hints: Mapping[str, Any], state: State, lengths: Mapping[str, int] | None = None) -> dict[str, Any]:
    """The values of which `pack` made `state`, checked; `hints` are their names and types, `lengths` those of axes."""
    layout = SavedLayout(lengths)
    values = {name: _unpack(name.rstrip("_"), "", hint, state, layout) for name, hint in hints.items()}
    layout.check()
    return values


def unpack_value(kind: type[Value], state: State, lengths: Mapping[str, int]) -> Value:
    """A value that is kept member by member, of the state of these, checked."""
    value = kind(*unpack(members(kind), state, lengths).values())
    if hasattr(value, "_check_whole"):
        value._check_whole()
    return value


class Saved(Estimator):
    """An estimator that can be saved: `kind` names it; parameters and learned attributes are kept."""

    kind: ClassVar[str]

    def to_state(self) -> State:
        """Everything that has to be kept."""
        self._check_fitted()
        state = pack(self.kind, {name: getattr(self, name) for name in self.learned_fields})
        params, parts, same = dict(state.params), dict(state.parts), {}
        for name, rule in self.rules.items():
            value = getattr(self, name)
            if not isinstance(value, Saved):
                params[name] = rule.to_plain(value)
                continue
            twin = next((n for n in self.learned_fields if getattr(self, n) is value), None)
            if twin is None:
                parts[f"given_{name}"] = value.to_state() if value.__sklearn_is_fitted__() else value._unfitted_state()
            else:
                same[name] = twin
        facts = {**state.facts, "same": same} if same else state.facts
        return State(state.kind, params, state.arrays, facts, parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """The estimator that was saved."""
        same: dict[str, str] = state.facts.get("same", {})
        values = {} if state.facts.get("unfitted") else unpack(_learned_hints(cls), state)
        params = {}
        for name, rule in cls.rules.items():
            if name in state.params:
                params[name] = rule.from_plain(state.params[name])
            else:
                params[name] = values[same[name]] if name in same else restore(state.parts[f"given_{name}"])
        estimator = cls(**params)
        estimator._check_restored()
        for name, value in values.items():
            setattr(estimator, name, value)
        if values:
            estimator._restored()
            estimator._derive()
        return estimator

    def _check_restored(self) -> None:
        """Check the parameters that were restored; a class that cannot save every value fills it in."""
        self.check_params()

    def _restored(self) -> None:
        """Refuse what was restored if its parts do not fit; a class fills in what its types do not say."""

    def _derive(self) -> None:
        """Make what is not kept from what was learned; a class that has something to make fills it in."""

    def _unfitted_state(self) -> State:
        params = {name: rule.to_plain(getattr(self, name)) for name, rule in self.rules.items()}
        return State(self.kind, params, {}, {"unfitted": True})

    def _check_fitted(self) -> None:
        if not self.__sklearn_is_fitted__():
            raise NotFitted.of(self)


_starting = threading.RLock()


class Online(Saved):
    """An estimator that learns from a stream: it answers from the start, and checks its parameters when first used."""

    def set_params(self, **given: Any) -> Self:
        """Set parameters by name, before anything is learned."""
        if self.__sklearn_is_fitted__():
            name = type(self).__name__
            raise BadParameter(f"This {name} learns with its parameters already; set them on a clone of it.")
        return super().set_params(**given)

    def to_state(self) -> State:
        """Everything that has to be kept: restored, it goes on as if it had never stopped."""
        self._ready()
        return super().to_state()

    def _ready(self) -> None:
        if self.__sklearn_is_fitted__():
            return
        with _starting:  # several threads may be the first
            if not self.__sklearn_is_fitted__():
                self.check_params()
                self._start()

    def _start(self) -> None:
        """Set what is learned to what it is before the first example, and before that what is derived."""
        raise NotImplementedError


def _pack(key: str, value: Any, state: Any) -> None:
    if isinstance(value, np.ndarray):
        state.arrays[key] = value
    elif hasattr(value, "to_state"):
        state.parts[key] = value.to_state()
    elif members(type(value)):
        for member in members(type(value)):
            _pack(f"{key}_{member}", getattr(value, member), state)
    else:
        state.facts[key] = value.item() if isinstance(value, np.generic) else value


def _unpack(key: str, scope: str, hint: Any, state: State, layout: SavedLayout) -> Any:
    hint, *marks = get_args(hint) if get_origin(hint) is Annotated else (hint,)
    if get_origin(hint) in (Union, types.UnionType):
        if key in state.facts and state.facts[key] is None:
            return None
        (hint,) = (option for option in get_args(hint) if option is not types.NoneType)
    kind = get_origin(hint) or hint
    if kind is np.ndarray:
        require(key in state.arrays, f"it has no {key!r}")
        value: Any = _typed(key, hint, state.arrays[key])
    elif members(kind):
        value = kind(*(_unpack(f"{key}_{name}", key, inner, state, layout) for name, inner in members(kind).items()))
    elif kind in _PLAIN:
        value = _plain(key, kind, state.facts[key])
    else:
        value = restore(state.parts[key])
        require(isinstance(value, kind), f"{key} is a {type(value).__name__} instead of a {kind.__name__}")
    layout.add(key, scope, value, marks)
    return value


_PLAIN: dict[type, Any] = {kind: kind for kind in (int, bool, str, list, dict)}
_PLAIN |= {float: (int, float), tuple: (list, tuple)}
"""The types of plain values, and those that JSON makes of them."""


def _plain(key: str, kind: Any, value: Any) -> Any:
    fits = isinstance(value, _PLAIN[kind]) and (kind is bool or not isinstance(value, bool))
    require(fits, f"{key} is {value!r} instead of a {kind.__name__}")
    return kind(value)


def _typed(key: str, hint: Any, array: NDArray[Any]) -> NDArray[Any]:
    """The array, if it holds the numbers that were declared."""
    (declared,) = (get_args(part)[0] for part in get_args(hint) if get_origin(part) is np.dtype)
    require(array.dtype == np.dtype(declared), f"{key} holds {array.dtype} instead of {np.dtype(declared)}")
    return array


def members(cls: Any) -> dict[str, Any]:
    """The names and types of a value that is kept member by member: a named tuple, or a class with `_saved_types`."""
    if hasattr(cls, "_fields"):
        return get_type_hints(cls, include_extras=True)
    found: dict[str, Any] = getattr(cls, "_saved_types", {})
    return found


def _learned_hints(cls: type[Estimator]) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in cls.learned_fields}
