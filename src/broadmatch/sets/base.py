"""What everything has in common that turns the ranking of a label model into sets."""

import logging
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, clone

from broadmatch.data import CSR, Names, as_features, as_labels
from broadmatch.errors import BadInput, NotFitted
from broadmatch.evaluate import micro_f1
from broadmatch.io import artifacts
from broadmatch.labels import OneVsRest
from broadmatch.labels.base import LabelModel, Row
from broadmatch.parallel import blocks
from broadmatch.params import Parameters, Rule
from broadmatch.sets.ranked import as_rows, to_matrix
from broadmatch.state import State, restore

log = logging.getLogger("broadmatch")
_CELLS = 1 << 22  # scores held at a time while predicting
_OF_THE_WHOLE = ("label_names", "feature_names", "point_names", "checkpoint")


class AnyLabelModel(Rule):
    """A rule: a label model of the package, or None."""

    def holds(self, value: object) -> bool:
        """Say whether `value` is one."""
        return value is None or isinstance(value, LabelModel)

    def text(self) -> str:
        """Name the rule."""
        return "a label model, as those of broadmatch.labels, or None"


@dataclass(frozen=True)
class Training:
    """The points that a cut is learned from, and the fitted model whose ranking it cuts.

    `unseen` says that the model was not trained on these points; then its scores of them are what it would say of new
    ones. Otherwise such scores come from models that are trained without them, fold by fold.
    """

    model: LabelModel
    X: CSR
    Y: CSR
    unseen: bool
    more: dict[str, Any]

    def new_scores(self, k: int, folds: int, seed: int) -> Iterator[tuple[NDArray[np.int64], CSR]]:
        """Rows and their k best labels, scored by a model that has not seen them; each point comes once."""
        n = self.X.n_rows
        if self.unseen:
            yield np.arange(n), self.scores(k)
            return
        if n < 2:
            raise BadInput("Scores of new points cannot be had from one point; give at least two.")
        order = np.random.default_rng(seed).permutation(n)
        for fold in range(min(folds, n)):
            held = np.zeros(n, np.bool_)
            held[order[fold::folds]] = True
            rest, rows = np.flatnonzero(~held), np.flatnonzero(held)
            yield rows, self._without(rest, self.X.take(rows), k)
            log.info("Scored fold %d of %d by a model trained without it.", fold + 1, min(folds, n))

    def scores(self, k: int) -> CSR:
        """The k best labels of all points by the model itself."""
        return as_rows(self.model.predict_topk(self.X, k))

    def _without(self, rest: NDArray[np.int64], held: CSR, k: int) -> CSR:
        labels = self.Y.take(rest)
        if not labels.nnz:  # nothing to learn there, so nothing is ranked
            return CSR.from_rows([[]] * held.n_rows, labels.n_cols)
        model = clone(self.model).fit(self.X.take(rest), labels, **self.more)
        return as_rows(model.predict_topk(held, k))


class SetModel(Parameters, BaseEstimator):
    """Base of all that decide how many labels: features in, sets of labels out.

    A class fills in `_tune(training)`, `_sets(X)`, `_set_of_row(x)`, `_learned()` and `_take_learned(state)`.
    """

    _kind: ClassVar[str]
    _models: ClassVar[tuple[str, ...]] = ("model",)

    model: LabelModel | None
    model_: LabelModel
    tuning_seconds_: float

    def fit(self, X: Any, Y: Any, **more: Any) -> Self:
        """Train the model on X and Y, then learn how many of its labels are right.

        A model that is fitted already is used as it is, and never trained again: give points that it has not seen.
        `more` (`label_names`, `label_features`, …) goes to the model's own `fit`. `tuning_seconds_` is the time that
        was spent beyond the training of the model.
        """
        self.check_params()
        features = as_features(X)
        labels, names = as_labels(Y)
        if features.n_rows != labels.n_rows:
            raise BadInput(f"X has {features.n_rows:,} rows and Y has {labels.n_rows:,}; they must be the same points.")
        unseen = self.model is not None and fitted(self.model)
        if self.model is not None and unseen:
            model, labels = self.model, _by_its_numbers(self.model, labels, names, more)
        else:
            known = more if names is None else {"label_names": names, **more}
            model = self._fresh().fit(features, labels, **known)
        start = time.perf_counter()
        parts = {name: value for name, value in more.items() if name not in _OF_THE_WHOLE}
        self._tune(Training(model, features, labels, unseen, parts))
        self.tuning_seconds_ = time.perf_counter() - start
        self.model_ = model  # last, so that a fit that was interrupted does not pass for one that ended
        return self

    def predict(self, X: Any) -> sp.csr_matrix:
        """The set of labels of each row with their scores, as a sparse matrix of points × labels.

        A stored entry is a label of the set, whatever its score.
        """
        self._check_fitted()
        features = as_features(X, n_features=self.model_.n_features_in_)
        return to_matrix([self._sets(block) for block in self._blocks(features)], len(self.label_names_))

    def predict_one(self, x: Any) -> Row:
        """The set of one row, best label first, and the scores."""
        self._check_fitted()
        return self._set_of_row(x)

    def counts(self, X: Any) -> NDArray[np.int64]:
        """How many labels each row gets."""
        return np.diff(self.predict(X).indptr).astype(np.int64)

    def score(self, X: Any, Y: Any) -> float:
        """Micro-F1, for scikit-learn's searches."""
        self._check_fitted()
        labels, names = as_labels(Y)
        return micro_f1(labels if names is None else self.model_._renumbered(labels, names), self.predict(X))

    @property
    def label_names_(self) -> Names:
        """The names of the labels, in the order of the columns of sets."""
        self._check_fitted()
        return self.model_.label_names_

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model and what was learned about it as a folder; `broadmatch.load` opens it again."""
        self._check_fitted()
        artifacts.save(self, path)

    def to_state(self) -> State:
        """Give everything that has to be kept, the model inside."""
        self._check_fitted()
        arrays, facts, parts = self._learned()
        params = {name: v for name, v in self.get_params(deep=False).items() if name not in self._models}
        given = {name: _how(getattr(self, name)) for name in self._models}
        inside = {"model": self.model_.to_state(), **parts}
        return State(self._kind, params, arrays, {**facts, "given": given}, inside)

    @classmethod
    def from_state(cls, state: State) -> Self:
        """What was saved; a model that had been given is given again, fitted or not as it was."""
        inside = {name: restore(part) for name, part in state.parts.items()}
        given = {name: _again(inside[name], state.facts["given"][name]) for name in cls._models}
        one = cls(**state.params, **given)
        one.model_ = inside["model"]
        one._take_learned(state, inside)
        return one

    def _tune(self, training: Training) -> None:
        raise NotImplementedError

    def _sets(self, X: CSR) -> CSR:
        raise NotImplementedError

    def _set_of_row(self, x: Any) -> Row:
        raise NotImplementedError

    def _learned(self) -> tuple[dict[str, NDArray[Any]], dict[str, Any], dict[str, State]]:
        """Arrays, facts and parts that `_tune` found."""
        raise NotImplementedError

    def _take_learned(self, state: State, parts: dict[str, Any]) -> None:
        raise NotImplementedError

    def _width(self) -> int:
        """How many labels of a point are looked at."""
        raise NotImplementedError

    def _blocks(self, X: CSR) -> Iterator[CSR]:
        width = max(1, min(self._width(), len(self.label_names_)))
        for start, stop in blocks(X.n_rows, max(1, _CELLS // width)):
            yield X if stop - start == X.n_rows else X.take(np.arange(start, stop))

    def _fresh(self) -> LabelModel:
        return OneVsRest() if self.model is None else clone(self.model)

    def _check_fitted(self) -> None:
        if not hasattr(self, "model_"):
            raise NotFitted(f"This {type(self).__name__} is not fitted; call fit, or load a trained one.")


def fitted(model: LabelModel) -> bool:
    """Whether a label model was fitted or loaded."""
    return hasattr(model, "label_names_")


def _by_its_numbers(model: LabelModel, labels: CSR, names: Names | None, more: dict[str, Any]) -> CSR:
    """The labels as a model numbers them that is fitted already."""
    if more:
        raise BadInput(f"The model is fitted already, so it takes no {', '.join(more)}; give one that is not fitted.")
    if names is not None:
        return model._renumbered(labels, names)
    if labels.n_cols != len(model.label_names_):
        raise BadInput(
            f"Y has {labels.n_cols:,} labels, but the model knows {len(model.label_names_):,}; give their names "
            "instead, or the columns that the model was fitted with."
        )
    return labels


def _how(given: LabelModel | None) -> str:
    return "none" if given is None else "fitted" if fitted(given) else "unfitted"


def _again(model: Any, how: str) -> Any:
    if how == "none":
        return None
    return model if how == "fitted" else clone(model)
