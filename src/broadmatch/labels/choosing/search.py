"""A search for good parameters within a budget of seconds: one parameter after the other, small trials first."""

import logging
from collections.abc import Mapping
from typing import Any

from broadmatch.errors import BroadmatchError
from broadmatch.labels.choosing import trials as clock
from broadmatch.labels.choosing.held_out import SHARE
from broadmatch.labels.choosing.trials import FEWER, Settings, Trial, Trials, Tried, in_words
from broadmatch.params import Among, Range, Tries

log = logging.getLogger("broadmatch")
TIMES = 10
"""The default budget, in trainings of the default."""
_PARTS, _PARTS_OF_TREES = (0.5, 1.0), (0.3, 0.45)
"""The parts of the budget that may be spent after small trials, and after trials in full; trees get the rest."""
_FINALISTS = 3  # of the small trials
_MARGIN = 1.1  # on what the training in the end is expected to take
_LIGHT = 0.4  # what a trial is expected to take where the parts are there, until one was seen


class BudgetedSearch:
    """Goes from the default to what scores best on the held-out points.

    First parameters that change no finished part are climbed in full, a step at a time and on in a direction that
    helps; then all others by small trials, of which the best few are tried in full, and around the best of these both
    again. Where trees are better than a fifth of them, the last training gets as many as there is time for. No trial is
    begun that would not leave the time to train what it may choose on all points.
    """

    def __init__(self, trials: Trials, spaces: Mapping[str, Tries], budget: float | None) -> None:
        self.trials, self.spaces, self.budget = trials, dict(spaces), budget
        self.started = clock.now()
        self.best: Settings = {}
        self._light_cost = 0.0
        self.full = True

    def run(self) -> Settings:
        """The settings that are best; those of the default where none is better."""
        first = self.trials.run({}, True)
        expected = first.cost * FEWER
        if self.budget is not None and self._spent() + expected + self._of_all(expected) > self.budget:
            self.full = False
            if self._spent() + first.cost + self._of_all(expected) > self.budget:
                log.warning("The budget of %.0f s is too short to try anything but the default.", self.budget)
                return {}
            log.info("The budget of %.0f s is for small trials only.", self.budget)
        else:
            whole = self.trials.run({}, False)
            if self.budget is None:
                self.budget = TIMES * whole.training * whole.cost / (1 - SHARE)
        grows = self.trials.grows if self.trials.grows in self.spaces else None
        steps = [name for name in self.spaces if name != grows]
        light = [name for name in steps if self._is_light(name)]
        heavy = [name for name in steps if name not in light]
        screen, climb = _PARTS if grows is None else _PARTS_OF_TREES
        if not self.full:
            self.best = self._climb({}, steps, True, 1.0)
            return self.best
        self.best = self._climb({}, light, False, screen)
        self._climb(self.best, heavy, True, screen)
        self._finals(climb)
        self.best = self._climb(self.best, light, False, climb)
        self.best = self._climb(self.best, heavy, False, climb)
        return self.best if grows is None else self._grow(grows)

    def _finals(self, share: float) -> None:
        """Try the best of the small trials in full."""
        small = [one.trial for one in self.trials.found.values() if one.trial.small]
        least, start = self._score(self.best, True), self.best
        better = [trial for trial in small if trial.score.value > least]
        for trial in sorted(better, key=lambda one: -one.score.value)[:_FINALISTS]:
            self._take_if_better(trial.settings, start, share)
            self.trials.keep_only(self.best)

    def _grow(self, name: str) -> Settings:
        """Of trees all that there is time for, where few are worse; of rounds twice as many while that helps."""
        at, space = self._value(self.best, name), self.spaces[name]
        if self.trials.of_trees and isinstance(space, Range):
            if self._score(self.best, False) <= self._score(self.best, True):
                return self.best
            each = self._of_all(self._cost(self.best, False)) / at
            possible = int((self.limit - self._spent()) / max(each, 1e-9))
            return self._with(self.best, name, max(at, min(possible, int(space.high))))
        more = [value for value in space.around(at) if value > at]
        if not more or not self._take_if_better(self._with(self.best, name, more[0]), self.best):
            return self.best
        return self._grow(name)

    def _climb(self, start: Settings, names: list[str], small: bool, share: float = 1.0) -> Settings:
        """Change one parameter after the other while that helps, until nothing does or the time is over."""
        current, moved = start, True
        while moved:
            moved = False
            for name in names:
                found = self._along(current, name, small, share)
                moved |= found != current
                current = found
                if not small:
                    self.best = current
                    self.trials.keep_only(current)
        return current

    def _along(self, start: Settings, name: str, small: bool, share: float) -> Settings:
        """The best value of one parameter, the others as they are."""
        space, current, came = self.spaces[name], start, {self._value(start, name)}
        while True:
            at = self._value(current, name)
            values = [value for value in space.around(at) if value not in came]
            before = current
            for value in values:
                came.add(value)
                step = self._with(before, name, value)
                if self._is_better(step, current, before, small, share):
                    current = step
                    if not (isinstance(space, Among) and not space.ordered) and len(values) <= 2:
                        break  # on in this direction
            if current == before:
                return current

    def _take_if_better(self, settings: Settings, base: Settings, share: float = 1.0) -> bool:
        if self._is_better(settings, self.best, base, False, share):
            self.best = settings
            return True
        return False

    def _is_better(self, settings: Settings, than: Settings, base: Settings, small: bool, share: float) -> bool:
        """Whether settings score higher; what does not fit into the time, or together, does not."""
        known = self.trials.known(settings, small)
        if known is None and not self._fits(settings, base, small, share):
            return False
        try:
            tried = self.trials.run(settings, small)
        except KeyboardInterrupt:
            raise
        except BroadmatchError as error:
            log.info("%s: not possible: %s", in_words(settings), error)
            return False
        if not small and known is None and self.trials.light(settings, base):
            self._light_cost = max(self._light_cost, tried.trial.seconds)
        return tried.trial.score.value > self._score(than, small)

    def _fits(self, settings: Settings, base: Settings, small: bool, share: float) -> bool:
        """Whether there is time for a trial, and for training on all points what it may choose."""
        cost, few = self._expected(settings, base, small), self.trials.known(settings, True)
        whole = self._in_full(cost) if small else cost
        if not small and self._grown(settings, base):
            cost -= self._cost(base, False)
        elif not small and self.trials.light(settings, base):
            whole, cost = self._cost(base, False), self._light_cost or _LIGHT * self._cost(base, False)
        elif not small and few is not None and self.trials.of_trees:  # its trees are there
            cost -= few.cost
        limit = self.limit
        kept = max(self._of_all(whole), self._of_all(self._cost(self.best, False)))
        spent = self._spent() + cost
        return spent + kept <= limit and spent <= share * limit

    def _expected(self, settings: Settings, base: Settings, small: bool) -> float:
        """What a trial takes if nothing is kept: by a small one, or by settings that are near and half as much more."""
        if not small and (few := self.trials.known(settings, True)) is not None:
            return self._in_full(few.cost)
        cost = self._cost(base, small)
        for name in settings.keys() | base.keys():
            old, new = self._value(base, name), self._value(settings, name)
            if old == new:
                continue
            both = all(isinstance(v, int | float) and not isinstance(v, bool) and v > 0 for v in (old, new))
            cost *= max(1.0, new / old) if both and name == self.trials.grows else 1.5
        return cost

    def _grown(self, settings: Settings, base: Settings) -> bool:
        name = self.trials.grows
        return name is not None and self._value(settings, name) != self._value(base, name)

    def _cost(self, settings: Settings, small: bool) -> float:
        """The seconds of a trial; where there was none of this size, by the other size."""
        tried = self.trials.known(settings, small)
        if tried is not None:
            return tried.cost
        other = self._tried(settings, not small)
        return other.cost / FEWER if small else self._in_full(other.cost)

    def _in_full(self, small: float) -> float:
        """The seconds of a trial in full, by those of a small one."""
        whole, first = self.trials.known({}, False), self._tried({}, True)
        return small * (FEWER if whole is None else whole.cost / max(first.cost, 1e-9))

    def _of_all(self, cost: float) -> float:
        """The seconds of a training on all points, by those of a trial."""
        first = self.trials.known({}, False) or self._tried({}, True)
        return _MARGIN * first.training * cost / (1 - SHARE)

    def _tried(self, settings: Settings, small: bool) -> Tried:
        tried = self.trials.known(settings, small)
        return tried if tried is not None else self.trials.run(settings, small)

    def _score(self, settings: Settings, small: bool) -> float:
        return self._tried(settings, small).trial.score.value

    def _is_light(self, name: str) -> bool:
        """Whether another value of a parameter leaves all finished parts as they are."""
        values = self.spaces[name].around(self._value({}, name))
        return bool(values) and self.trials.light(self._with({}, name, values[0]), {})

    def _value(self, settings: Settings, name: str) -> Any:
        """The value of a parameter, or what None stands for where that is known."""
        value = settings[name] if name in settings else self.trials.given[name]
        return self.trials.meant.get(name) if value is None else value

    def _with(self, settings: Settings, name: str, value: object) -> Settings:
        """Settings with another value; what is as in the default is left out, so that equal ones look equal."""
        return {k: v for k, v in {**settings, name: value}.items() if v != self._value({}, k)}

    @property
    def chosen(self) -> Trial:
        """The trial of the best settings, in full if there was time for that."""
        return self._tried(self.best, not self.full).trial

    @property
    def limit(self) -> float:
        """The budget in seconds."""
        return self.budget or 0.0

    def _spent(self) -> float:
        return clock.now() - self.started
