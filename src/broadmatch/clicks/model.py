"""A click model as it is used: the description of its columns, what serves, a calibration, and names to read it by."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from numpy.typing import NDArray

from broadmatch.clicks.serving import ServingModel
from broadmatch.data import Batch, Impressions
from broadmatch.errors import BadInput, BadParameter
from broadmatch.io.artifacts import Artifact
from broadmatch.layout import require
from broadmatch.signals import Description, Encoder, FeatureNames
from broadmatch.state import State, restore, unpack

if TYPE_CHECKING:
    from broadmatch.clicks.calibration.base import WholeCalibration
    from broadmatch.clicks.calibration.sliced import SlicedCalibration
    from broadmatch.signals.tables import Tabular

MODEL = "model"
"""The name of the only model."""


@dataclass(frozen=True)
class Feature:
    """One feature of a model, as `ClickModel.top_features` lists it."""

    signal: str
    value: str
    weight: float
    rate: float


class ClickModel(Artifact):
    """What `ClickTraining.model` gives and `broadmatch clicks train` saves: from the columns of a log to probabilities.

    `models` are serving models by name; the first is the one that is calibrated, and used unless another is named.
    `training` says how it was made.
    """

    def __init__(
        self,
        description: Description | str,
        models: Mapping[str, ServingModel],
        *,
        calibration: "SlicedCalibration | WholeCalibration | None" = None,
        names: FeatureNames | None = None,
        training: Mapping[str, Any] | None = None,
    ) -> None:
        self.description, self.models, self.calibration, self.names = description, dict(models), calibration, names
        self.training = dict(training or {})
        self._encoder: Encoder | None = None

    def variant(self, name: str | None = None) -> ServingModel:
        """The model of that name, or the first."""
        chosen = next(iter(self.models)) if name is None else name
        if chosen not in self.models:
            raise BadParameter(f"model must be one of {', '.join(self.models)}, but it is {chosen!r}.")
        return self.models[chosen]

    def predict_many(self, rows: "Batch | Tabular", *, model: str | None = None) -> NDArray[np.float64]:
        """The click probability of each row of Arrow or an encoded batch, calibrated if that was learned.

        Rows of Arrow are a record batch, a table, or a data frame that gives itself as Arrow (pandas 2.2 on, polars).

        A column that is absent is missing in every row, as in `predict_one`.
        """
        serving, is_first = self.variant(model), model in (None, next(iter(self.models)))
        batch = rows if isinstance(rows, Batch) else self._known_encoder().encode(rows, labelled=False)
        self._check_offset(batch.impressions)
        p = serving.predict_many(batch.impressions, encoded=batch is not rows)
        return self._calibrated(p, batch.slices) if is_first else p

    def serve_many(
        self, impressions: Impressions, slices: Mapping[str, Any]
    ) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The click probability, calibrated, and u(x) of each row that an encoder made, in one pass."""
        self._check_offset(impressions)
        p, uncertainty = self.variant().serve_many(impressions, encoded=True)
        return self._calibrated(p, slices), uncertainty

    def uncertainty_many(self, rows: "Batch | Tabular", *, model: str | None = None) -> NDArray[np.float64]:
        """u(x) of each row, in log-odds: how far one more example could move the prediction (§6)."""
        batch = rows if isinstance(rows, Batch) else self._known_encoder().encode(rows, labelled=False)
        return self.variant(model).uncertainty_many(batch.impressions)

    def predict_one(self, row: Mapping[str, Any]) -> float:
        """The click probability of one impression, given as column → value."""
        encoder = self._known_encoder()
        p = self.variant().predict_one(*encoder.encode_one(row), offset=encoder.offset_one(row))
        return p if self.calibration is None else float(self._calibrated([p], encoder.slices_one(row, self._by))[0])

    def uncertainty_one(self, row: Mapping[str, Any]) -> float:
        """u(x) of one impression, given as column → value."""
        keys, values = self._known_encoder().encode_one(row)
        return self.variant().uncertainty_one(keys, values)

    def top_features(
        self, *, top: int = 10, signals: Sequence[str] | None = None, model: str | None = None
    ) -> list[Feature]:
        """The `top` features of each signal with the largest coefficients, up and down; needs the names."""
        if self.names is None:
            raise BadInput("The names of the features were not kept; train with names=True to read the model.")
        keys, weights, rates = self.variant(model).items()
        order = np.argsort(-np.abs(weights), kind="stable")
        order = order[weights[order] != 0]
        found: list[Feature] = []
        counts: dict[str, int] = {}
        for start in range(0, len(order), 4096):
            block = order[start : start + 4096]
            for (signal, value), i in zip(self.names.lookup(keys[block]), block, strict=True):
                if (signals is None or signal in signals) and counts.get(signal, 0) < top:
                    counts[signal] = counts.get(signal, 0) + 1
                    found.append(Feature(signal, value, float(weights[i]), float(rates[i])))
        return sorted(found, key=lambda f: (f.signal, -f.weight))

    def to_state(self) -> State:
        """Everything, to be saved; tables open memory-mapped."""
        described: Any = self.description
        if isinstance(self.description, Description):
            described = self.description.to_dict()
            # The order of the signals is that of the features of a row, and a mapping in a manifest has none.
            described["signals"] = list(described["signals"].items())
        parts = {f"model_{i}": model.to_state() for i, model in enumerate(self.models.values())}
        if self.calibration is not None:
            parts["calibration"] = self.calibration.to_state()
        if self.names is not None:
            parts["names"] = self.names.to_state()
        facts = {"description": described, "models": list(self.models), "training": self.training}
        return State("click_model", {}, {}, facts, parts)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """Open a saved model."""
        plain, known = state.facts["description"], unpack({"models": list, "training": dict}, state)
        description = (
            plain if isinstance(plain, str) else Description.from_dict(plain | {"signals": dict(plain["signals"])})
        )
        names = [name for name in known["models"] if isinstance(name, str)]
        require(0 < len(names) == len(known["models"]) == len(set(names)), "its models have no names of their own")
        models = unpack({f"model_{i}": ServingModel for i in range(len(names))}, state).values()
        others = {name: restore(state.parts[name]) for name in ("calibration", "names") if name in state.parts}
        fits = isinstance(others.get("names"), FeatureNames | None)
        if "calibration" in others:
            from broadmatch.clicks.calibration.base import WholeCalibration
            from broadmatch.clicks.calibration.sliced import SlicedCalibration

            fits &= isinstance(others["calibration"], SlicedCalibration | WholeCalibration)
        require(fits, "its parts are of other kinds")
        return cls(description, dict(zip(names, models, strict=True)), training=known["training"], **others)

    def description_to_predict(self) -> Description | str:
        """What is read to predict: of the slices, only those by which the model is calibrated."""
        if isinstance(self.description, str):
            return self.description
        return Description.from_dict(self.description.to_dict() | {"slices": list(self._by)})

    @property
    def _by(self) -> tuple[str, ...]:
        """The slices by which the model is calibrated, if it is by any."""
        return tuple(getattr(self.calibration, "by", ()))

    def _calibrated(self, p: Any, slices: Mapping[str, Any]) -> NDArray[np.float64]:
        calibration: Any = self.calibration
        calibrated: NDArray[np.float64] = p
        if calibration is not None:
            calibrated = calibration.apply(p, slices) if self._by else calibration.apply(p)
        return calibrated

    def _check_offset(self, impressions: Impressions) -> None:
        """Refuse rows without the offset that the coefficients were learned beside: they would be wrong everywhere."""
        needed = isinstance(self.description, Description) and self.description.offset is not None
        if needed and not len(impressions.offset) and impressions.n_rows:
            raise BadInput(
                "This model was trained beside an offset, and these rows have none; let its encoder make them."
            )

    def _known_encoder(self) -> Encoder:
        if self._encoder is None or self._encoder.description.slices != self._by:
            description = self.description_to_predict()
            if isinstance(description, str):
                raise BadInput("This model was trained on vw text: it takes batches of keys, not columns.")
            self._encoder = Encoder(description)
        return self._encoder
