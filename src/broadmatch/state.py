"""What an artifact is made of, and how an estimator is taken apart and put together again.

What is saved is declared, not listed: the parameters of an estimator, and the attributes that it declares by
`broadmatch.params.learned()`. Types come from these declarations, never from a file.
"""

import importlib
import threading
import types
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Self, Union, get_args, get_origin, get_type_hints

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadArtifact, BadParameter, NotFitted
from broadmatch.params import Estimator

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
    "metalabeler": "broadmatch.sets:MetaLabeler",
    "rcut": "broadmatch.sets:RCut",
    "pcut": "broadmatch.sets:PCut",
    "scut": "broadmatch.sets:SCut",
    "threshold": "broadmatch.sets:Threshold",
    "target_cut": "broadmatch.sets:TargetCut",
    "hierarchical_labels": "broadmatch.sets:HierarchicalLabels",
    "batch": "broadmatch.data:Batch",
    "click_join": "broadmatch.clicks:ClickJoin",
    "subsampler": "broadmatch.clicks:Subsampler",
    "poisson_calibration": "broadmatch.clicks:PoissonCalibration",
    "isotonic_calibration": "broadmatch.clicks:IsotonicCalibration",
    "sliced_calibration": "broadmatch.clicks:SlicedCalibration",
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


def unpack(hints: Mapping[str, Any], state: State) -> dict[str, Any]:
    """The values of which `pack` made `state`; `hints` are their names and types."""
    return {name: _unpack(name.rstrip("_"), hint, state) for name, hint in hints.items()}


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
        for name, value in values.items():
            setattr(estimator, name, value)
        if values:
            estimator._derive()
        return estimator

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


def _unpack(key: str, hint: Any, state: State) -> Any:
    if get_origin(hint) is Annotated:
        hint = get_args(hint)[0]
    if get_origin(hint) in (Union, types.UnionType):
        if key in state.facts and state.facts[key] is None:
            return None
        (hint,) = (option for option in get_args(hint) if option is not types.NoneType)
    kind = get_origin(hint) or hint
    if kind is np.ndarray:
        return _typed(key, hint, state.arrays[key])
    if isinstance(kind, type) and members(kind):
        hints = get_type_hints(kind)
        return kind(*(_unpack(f"{key}_{member}", hints.get(member, Any), state) for member in members(kind)))
    if key in state.parts:
        restored = restore(state.parts[key])
        if isinstance(kind, type) and not isinstance(restored, kind):
            raise BadArtifact(f"{key} should be a {kind.__name__}, but it is a {type(restored).__name__}.")
        return restored
    value = state.arrays[key] if key in state.arrays and kind is Any else state.facts[key]
    return kind(value) if kind in (float, int, bool, str, tuple, list, dict) else value


def _typed(key: str, hint: Any, array: NDArray[Any]) -> NDArray[Any]:
    """The array, if it holds the numbers that were declared."""
    declared = [get_args(part)[0] for part in get_args(hint) if get_origin(part) is np.dtype]
    if declared and isinstance(declared[0], type) and array.dtype != np.dtype(declared[0]):
        raise BadArtifact(f"{key} should hold {np.dtype(declared[0])}, but it holds {array.dtype}.")
    return array


def members(cls: type) -> tuple[str, ...]:
    """What a value that is kept member by member is made of: a named tuple, or a class with `_saved_members`."""
    found: tuple[str, ...] = getattr(cls, "_saved_members", getattr(cls, "_fields", ()))
    return found


def _learned_hints(cls: type[Estimator]) -> dict[str, Any]:
    hints = get_type_hints(cls, include_extras=True)
    return {name: hints[name] for name in cls.learned_fields}
