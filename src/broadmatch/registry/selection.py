"""Which signals to train with: forward and backward, by the single-value structure, over any number of candidates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from broadmatch import progress
from broadmatch.clicks import ManyModels, SingleValue, Variant
from broadmatch.clicks.training.batches import BatchStream
from broadmatch.clicks.variants.variant_models import MOST
from broadmatch.errors import BadInput, BadParameter
from broadmatch.io import Rejects
from broadmatch.io.files import Source
from broadmatch.io.formats import STANDARD_INPUT
from broadmatch.params import OneOf, Whole
from broadmatch.registry.vetting.paired import Interval, PairedLosses
from broadmatch.signals import Cross, Description

DIRECTIONS = ("forward", "backward", "both")
EXACT = 8
"""The weakest signals of a round backward, of which models of their own tell whether they can go."""


@dataclass(frozen=True)
class SelectionStep:
    """One signal as it was tried: what it adds to the others of its round, and whether it was taken or left out."""

    round: int
    step: str
    signal: str
    gain: Interval
    chosen: bool


@dataclass(frozen=True)
class SignalSelection:
    """The signals that were chosen, each step on the way, and how a model of them does beside one of all.

    `loss` is the progressive log loss of the model of the chosen signals, `change` by what share it is lower than that
    of all candidates; both are exact (`ManyModels`), the steps are not (`SingleValue`).
    """

    signals: tuple[str, ...]
    steps: tuple[SelectionStep, ...]
    description: Description
    loss: Interval | None
    change: Interval | None
    passes: int

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        steps = [
            {"round": one.round, "step": one.step, "signal": one.signal, **one.gain._asdict(), "chosen": one.chosen}
            for one in self.steps
        ]
        exact = {
            name: None if of is None else of._asdict() for name, of in (("loss", self.loss), ("change", self.change))
        }
        return {
            "signals": list(self.signals),
            "steps": steps,
            **exact,
            "passes": self.passes,
            "description": self.description.to_dict(),
        }


def select_signals(
    source: Source,
    description: Description,
    *,
    direction: str = "both",
    most: int | None = None,
    settings: Mapping[str, Any] | None = None,
) -> SignalSelection:
    """Choose among the signals of a description those that lower the progressive log loss beyond chance.

    Forward: the signal that adds most is taken, as long as the 95 % interval of what it adds is above 0, up to `most`.
    Backward: the one that adds least is left out, as long as its interval is not. Both: forward, then backward. The
    candidates of a round are variants of a single-value structure (§4.4 of KDD 2013), 63 and the current set each,
    several side by side in one pass where there are more; backward, the 8 weakest of them are then tried exactly, in a
    second pass. A cross comes with its parts, and goes with either.
    """
    OneOf(DIRECTIONS).check("direction", direction)
    Whole(1, none=True).check("most", most)
    if source == STANDARD_INPUT:
        raise BadInput(
            "Selection goes over the data several times, and standard input can be read but once; name files."
        )
    search = _Search(source, description, dict(settings or {}))
    chosen = set(search.names) if direction == "backward" else set[str]()
    if direction != "backward":
        chosen = search.forward(len(search.names) if most is None else most)
    if direction != "forward" and chosen:
        chosen = search.backward(chosen)
    if not chosen:
        raise BadInput("No signal adds anything beyond chance; give more data, or other signals.")
    names = tuple(name for name in search.names if name in chosen)
    loss, change = search.compared(chosen)
    return SignalSelection(names, tuple(search.steps), search.described(names), loss, change, search.passes)


class _Search:
    """The rounds of a selection."""

    def __init__(self, source: Source, description: Description, settings: dict[str, Any]) -> None:
        self._source, self._settings = source, settings
        stream = BatchStream(source, description, rejects=Rejects())
        self._description = stream.encoder.description
        self._place = {name: i for i, name in enumerate(stream.encoder.signal_names)}
        self._parts = {s.name: set(s.parts) if isinstance(s, Cross) else set() for s in self._description.signals}
        self.names = tuple(self._parts)
        self._constant = len(self._place) - 1
        self.steps: list[SelectionStep] = []
        self.passes, self._round = 0, 0

    def forward(self, most: int) -> set[str]:
        chosen: set[str] = set()
        while len(chosen) < most:
            tried = {name: chosen | {name} | self._parts[name] for name in self.names if name not in chosen}
            gains = self._tried(chosen, tried, "Adding") if tried else {}
            best = max(gains, key=lambda name: gains[name].value, default=None)
            taken = best is not None and gains[best].low > 0
            self._note("add", gains, best if taken else None)
            if best is None or not taken:
                break
            chosen = tried[best]
        return chosen

    def backward(self, chosen: set[str]) -> set[str]:
        while len(chosen) > 1:
            tried = {name: self._without(chosen, name) for name in self.names if name in chosen}
            tried = {name: left for name, left in tried.items() if left}
            gains = _turned(self._tried(chosen, tried, "Removing"))
            self._note("rank", gains, None)
            # Signals that say the same share what they say: with the single values, none of them can be missed. So
            # the structure only ranks, and whether the weakest can go is told by models of their own.
            weakest = sorted(gains, key=lambda name: gains[name].value)[:EXACT]
            gains = _turned(self._tried(chosen, {name: tried[name] for name in weakest}, "Confirming", exact=True))
            least = min(gains, key=lambda name: gains[name].value, default=None)
            removed = least is not None and gains[least].low <= 0
            self._note("remove", gains, least if removed else None)
            if least is None or not removed:
                break
            chosen = tried[least]
        return chosen

    def compared(self, chosen: set[str]) -> tuple[Interval | None, Interval | None]:
        """The exact log loss of the chosen signals, and by what share it is lower than that of all."""
        both = ManyModels({"chosen": self._variant(chosen), "all": self._variant(set(self.names))})
        own, change = PairedLosses(), PairedLosses()
        for rows in self._batches("Comparing"):
            p = both.learn_many(rows, encoded=True)
            clicked, weight = rows.clicked == 1, rows.weight.astype(np.float64)
            own.add(clicked, weight, p[:, 0], p[:, 1])
            change.add(clicked, weight, p[:, 1], p[:, 0])
        return own.loss(), change.gain()

    def described(self, names: Sequence[str]) -> Description:
        """The description with these signals only."""
        plain = self._description.to_dict()
        kept = {name: given for name, given in plain["signals"].items() if name in names}
        return Description.from_dict(plain | {"signals": kept})

    def _tried(
        self, current: set[str], tried: Mapping[str, set[str]], what: str, *, exact: bool = False
    ) -> dict[str, Interval]:
        """What each candidate set gains against the current one, in one pass; structures of 64 stand side by side."""
        self._round += not exact
        names, structure_of = list(tried), ManyModels if exact else SingleValue
        groups = [names[i : i + MOST - 1] for i in range(0, len(names), MOST - 1)]
        structures = [
            structure_of([("", self._variant(current)), *((name, self._variant(tried[name])) for name in group)])
            for group in groups
        ]
        losses = {name: PairedLosses() for name in names}
        for rows in self._batches(f"Round {self._round}: {what.lower()}"):
            clicked, weight = rows.clicked == 1, rows.weight.astype(np.float64)
            for group, structure in zip(groups, structures, strict=True):
                p = structure.learn_many(rows, encoded=True)
                for column, name in enumerate(group, 1):
                    losses[name].add(clicked, weight, p[:, 0], p[:, column])
        gains = {name: losses[name].gain() for name in names}
        return {name: gain for name, gain in gains.items() if gain is not None}

    def _batches(self, what: str) -> Any:
        self.passes += 1
        n = 0
        with progress.task(what, unit="impressions") as task:
            for batch, _ in BatchStream(self._source, self._description, rejects=Rejects()):
                if len(batch):
                    yield batch.impressions
                n += len(batch)
                task.advance(len(batch))
        if n < 2:
            raise BadInput("There was no impression to select signals by: the files hold no good rows.")

    def _variant(self, names: set[str]) -> Variant:
        fields = [self._place[name] for name in names]
        try:
            return Variant(fields=[*fields, self._constant], **self._settings)
        except TypeError as error:
            raise BadParameter("settings can be alpha, beta, l1 and l2.") from error

    def _without(self, chosen: set[str], name: str) -> set[str]:
        return {one for one in chosen if one != name and name not in self._parts[one]}

    def _note(self, step: str, gains: Mapping[str, Interval], best: str | None) -> None:
        ordered = sorted(gains, key=lambda name: -gains[name].value)
        self.steps += [SelectionStep(self._round, step, name, gains[name], name == best) for name in ordered]


def _turned(gains: Mapping[str, Interval]) -> dict[str, Interval]:
    """What signals add, from what is gained without them."""
    return {name: Interval(-one.value, -one.high, -one.low) for name, one in gains.items()}
