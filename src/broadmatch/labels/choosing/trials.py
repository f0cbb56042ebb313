"""Trials of a search: a model with some parameters, trained without the held-out points, and what it reached there."""

import hashlib
import logging
import shutil
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from broadmatch import progress
from broadmatch.data import CSR
from broadmatch.evaluate import Report, paired_difference
from broadmatch.evaluate.report import Estimate
from broadmatch.labels.base import LabelModel
from broadmatch.labels.choosing.held_out import HeldOut
from broadmatch.params import clone

log = logging.getLogger("broadmatch")
FEWER = 5
"""A small trial has a fifth of the trees, which a trial in full takes up; without trees, a fifth of the points."""
_GROWS = ("n_trees", "rounds", "model__n_trees", "model__rounds")
"""Parameters that say how much is grown, each piece beside or after the others."""
Settings = dict[str, Any]


def now() -> float:
    """The time that a budget is of."""
    return time.monotonic()


class Trial(NamedTuple):
    """What was tried and what came out: `difference` is to the default in a trial of the same size."""

    settings: Settings
    small: bool
    score: Estimate
    difference: Estimate
    seconds: float

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        estimates = {name: getattr(self, name).__dict__ for name in ("score", "difference")}
        return {"settings": self.settings, "small": self.small, **estimates, "seconds": round(self.seconds, 3)}


@dataclass(frozen=True)
class Tried:
    """A trial with what the search needs of it: its report, the seconds that it takes with nothing kept, and which
    share of them is the training."""

    trial: Trial
    report: Report
    cost: float
    training: float


class Trials:
    """Runs trials, each once; finished parts of the best are kept in a folder, for those that differ in little."""

    def __init__(self, model: Any, X: CSR, Y: CSR, held: HeldOut, folder: Path, more: Mapping[str, Any]) -> None:
        self.model, self.held, self.folder, self.more = model, held, folder, more
        self.given = model.get_params()
        self.grows = next((name for name in _GROWS if name in self.given), None)
        self.of_trees = self.grows is not None and self.grows.endswith("n_trees")
        """Whether more of what grows cannot be too much: each tree is there beside the others."""
        whole = X.take(held.train), Y.take(held.train)
        self.meant = _meant(model, whole[0])
        """What parameters that are None stand for."""
        self._data = {False: whole, True: whole}
        if not self.of_trees:
            few = np.sort(np.random.default_rng(0).permutation(held.train)[: -(-len(held.train) // FEWER)])
            self._data[True] = X.take(few), Y.take(few)
        self.found: dict[tuple[str, bool], Tried] = {}
        self._kept: dict[Path, tuple[int, float]] = {}
        """Folders of finished parts, how many trees are in them, and the seconds of each."""

    @property
    def path(self) -> list[Trial]:
        """All trials in their order."""
        return [one.trial for one in self.found.values()]

    def known(self, settings: Settings, small: bool) -> Tried | None:
        """The trial of these settings, if there was one."""
        return self.found.get((_key(settings), small))

    def run(self, settings: Settings, small: bool) -> Tried:
        """Train and measure, or remember."""
        known = self.known(settings, small)
        if known is not None:
            return known
        started = now()
        model = clone(self.model).set_params(**settings)
        if small and self.of_trees:
            model.set_params(**{str(self.grows): -(-self._n_grown(model) // FEWER)})
        folder = self.parts_of(settings, small)
        more = dict(self.more) if folder is None else {**self.more, "checkpoint": folder}
        with progress.hidden(), _quiet():
            model.fit(*self._data[small], **more)
            trained = now() - started
            report = self.held.measured(model)
        seconds = now() - started
        first = self.known({}, small)
        name = self.held.metric.name
        difference = paired_difference(report, report if first is None else first.report, name)
        trial = Trial(settings, small, report[name], difference, seconds)
        cost = seconds if folder is None else self._cost(model, folder, seconds)
        tried = Tried(trial, report, cost, trained / max(seconds, 1e-9))
        self.found[_key(settings), small] = tried
        tell(trial, name)
        return tried

    def light(self, settings: Settings, other: Settings) -> bool:
        """Whether finished parts of the one serve the other."""
        one, two = self.parts_of(settings, False), self.parts_of(other, False)
        return one is not None and one == two

    def keep_only(self, settings: Settings) -> None:
        """Remove the finished parts of all others."""
        best = {self.parts_of(settings, small) for small in (True, False)}
        for folder in [one for one in self._kept if one not in best]:
            shutil.rmtree(folder, ignore_errors=True)
            del self._kept[folder]

    def parts_of(self, settings: Settings, small: bool) -> Path | None:
        """The folder of finished parts: that of the label model's parameters which they depend on."""
        model = clone(self.model).set_params(**settings)
        ranks = model if isinstance(model, LabelModel) else model.get_params(deep=False).get("model")
        if not isinstance(ranks, LabelModel) or "hierarchy" in self.more:
            return None
        shaping = {k: v for k, v in ranks.get_params().items() if k not in ranks.light}
        of_few = small and not self.of_trees
        return self.folder / hashlib.sha256(repr((sorted(shaping.items()), of_few)).encode()).hexdigest()[:16]

    def _cost(self, model: Any, folder: Path, seconds: float) -> float:
        """The seconds with nothing kept: those of a tree that was not there already, for each tree."""
        n = self._n_grown(model)
        before, each = self._kept.get(folder, (0, 0.0))
        if n > before:
            each = seconds / (n - before)
        self._kept[folder] = max(n, before), each
        return n * each

    def _n_grown(self, model: Any) -> int:
        return int(model.get_params()[self.grows]) if self.grows else 1


class _quiet:
    """Leave out what the library says of each fit: a trial says its own line."""

    def __enter__(self) -> None:
        self.level = log.level
        log.setLevel(logging.WARNING)

    def __exit__(self, *_: object) -> None:
        log.setLevel(self.level)


def tell(trial: Trial, name: str) -> None:
    """A line about a trial."""
    log.info("%s%s: %s %.2f [%.2f, %.2f], %+.2f [%+.2f, %+.2f] to the default, %.1f s.", in_words(trial.settings),
             " (small)" if trial.small else "", name, *(100 * v for v in trial.score.__dict__.values()),
             *(100 * v for v in trial.difference.__dict__.values()), trial.seconds)  # fmt: skip


def in_words(settings: Mapping[str, Any]) -> str:
    """Settings as one would give them.

    >>> in_words({}), in_words({"c": 2.0, "tail": 0.04})
    ('default', 'c=2, tail=0.04')
    """
    shown = (f"{n.replace('model__', '')}={v:g}" if isinstance(v, float) else f"{n.replace('model__', '')}={v}"
             for n, v in settings.items())  # fmt: skip
    return ", ".join(shown) or "default"


def _meant(model: Any, X: CSR) -> Settings:
    """What parameters that are None stand for on this data, also of a label model inside (`model__…`)."""
    if isinstance(model, LabelModel):
        return model.by_the_data(X)
    inner = model.get_params(deep=False).get("model")
    found = inner.by_the_data(X) if isinstance(inner, LabelModel) else {}
    return {f"model__{name}": value for name, value in found.items()}


def _key(settings: Settings) -> str:
    return repr(sorted(settings.items()))
