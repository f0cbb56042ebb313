"""Alerts: told once when a rule begins to be broken, and once when it no longer is.

What is to be sent is written down before it is sent, and crossed out after: a process that is killed in between sends
it again, and never not at all. Each message has an id, by which whoever gets it can tell that it is the same.
"""

import hashlib
import json
import logging
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import NamedTuple

from broadmatch.errors import BadInput
from broadmatch.evaluate.traffic_quality import HourFigures
from broadmatch.io.files import replacing_file
from broadmatch.registry.rules import STANDARD, AlertRule, read_rules
from broadmatch.registry.sending import send

log = logging.getLogger("broadmatch")

_MOST_BYTES, _MOST_UNSENT, _MOST_ALERTS = 1 << 24, 1000, 10_000
_FORGOTTEN = 24
"""Hours without its figure after which an alert ends."""


Key = tuple[str, str, str, str]
"""Rule, model, slicing and slice."""


class AlertMessage(NamedTuple):
    """What is sent when an alert begins or ends; `hour` and `since` are starts of hours in UTC."""

    id: str
    alert: str
    state: str
    figure: str
    model: str
    slice: str
    value: float | None
    bound: str
    hour: str
    since: str
    text: str


@dataclass
class _Watched:
    """A figure that breaks a rule: for how many hours, since when it is an alert, for how long it was not seen."""

    broken: int = 0
    since: int | None = None
    unseen: int = 0


@dataclass
class _AlertState:
    """What is kept between hours."""

    hour: int | None = None
    watched: dict[Key, _Watched] = field(default_factory=dict)
    unsent: list[AlertMessage] = field(default_factory=list)
    n_sent: int = 0
    n_failed: int = 0
    n_dropped: int = 0

    def take(self, rules: Sequence[AlertRule], hour: HourFigures) -> list[AlertMessage]:
        """Bring what is watched up to an hour; gives what is to be told."""
        messages: list[AlertMessage] = []
        seen: set[Key] = set()
        by_name = {rule.name: rule for rule in rules}
        for rule in rules:
            for figure in filter(rule.concerns, hour.figures):
                if (broken := rule.broken_by(figure)) is not None:
                    key = (rule.name, *figure[1:4])
                    seen.add(key)
                    messages += self._judge(rule, key, figure.value, broken, hour.start)
        for key in [key for key in self.watched if key not in seen]:
            watched, rule_of = self.watched[key], by_name.get(key[0])
            watched.unseen += 1
            if rule_of is None or watched.unseen >= _FORGOTTEN:
                del self.watched[key]
                if rule_of is not None and watched.since is not None:
                    messages.append(_message(rule_of, key, None, "end", hour.start, watched.since))
        self.hour = hour.start
        return messages

    def _judge(self, rule: AlertRule, key: Key, value: float, broken: bool, hour: int) -> list[AlertMessage]:
        watched = self.watched.get(key)
        if not broken:
            since = None if watched is None else self.watched.pop(key).since
            return [] if since is None else [_message(rule, key, value, "end", hour, since)]
        if watched is None:
            if len(self.watched) >= _MOST_ALERTS:
                return []
            watched = self.watched[key] = _Watched()
        watched.broken, watched.unseen = watched.broken + 1, 0
        if watched.since is not None or watched.broken < rule.for_hours:
            return []
        watched.since = hour
        return [_message(rule, key, value, "begin", hour, hour)]


class Alerts:
    """The rules of a file, checked against the figures of each hour; what is known is kept in another file.

    Without a file of rules, the standard ones hold, and alerts go to the log only. A file that is damaged is an error
    at first; later, when it is read again for each hour, the rules of before hold and the log says so.

    >>> import tempfile
    >>> from broadmatch.evaluate.traffic_quality import Figure
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "alerts.toml").write_text('[[rule]]\\nname = "few"\\nfigure = "Clicks"\\nbelow = 10')
    >>> alerts = Alerts(folder / "alerts.toml", folder / "alerts.json")
    >>> for hour, clicks in enumerate([20.0, 3.0, 4.0, 30.0]):
    ...     figures = (Figure("Clicks", "", "all", "all", clicks, 100),)
    ...     print([message.state for message in alerts.check(HourFigures(hour * 3_600_000_000, figures))])
    []
    ['begin']
    []
    ['end']
    """

    def __init__(self, rules: Path, state: Path) -> None:
        self._rules_path, self._path = rules, state
        self._rules = self._read_rules()
        self._state = _AlertState() if not state.exists() else _read_state(state)

    def check(self, hour: HourFigures) -> list[AlertMessage]:
        """Take the figures of an hour, send what begins and ends with it and what could not be sent before.

        An hour that was checked before, as after a kill, begins and ends nothing.
        """
        try:
            self._rules = self._read_rules()
        except BadInput as error:
            log.error("%s The rules of before hold.", error)
        state, messages = self._state, list[AlertMessage]()
        if state.hour is None or hour.start > state.hour:
            messages = state.take(self._rules, hour)
            for message in messages:
                log.log(logging.WARNING if message.state == "begin" else logging.INFO, "%s", message.text)
            targets = {rule.name for rule in self._rules if rule.webhook or rule.command}
            state.unsent += [message for message in messages if message.alert in targets]
            if (n_more := len(state.unsent) - _MOST_UNSENT) > 0:
                log.error("%d alerts could not be sent, and are dropped.", n_more)
                state.n_dropped += n_more
                del state.unsent[:n_more]
            self._write()
        self._send()
        return messages

    @property
    def counts(self) -> dict[str, int]:
        """How many alerts are on, and how many messages were sent, failed, wait to be sent again, or were dropped."""
        state, on = self._state, sum(watched.since is not None for watched in self._state.watched.values())
        waiting = {"unsent": len(state.unsent), "dropped": state.n_dropped}
        return {"on": on, "sent": state.n_sent, "failed": state.n_failed, **waiting}

    def _send(self) -> None:
        """Send what waits, in order; where one fails, the others of its rule wait too, for the next hour."""
        by_name, failed = {rule.name: rule for rule in self._rules}, set[str]()
        for message in list(self._state.unsent):
            if message.alert in failed:
                continue
            rule = by_name.get(message.alert)
            error = None if rule is None else _sent(rule, message)
            if error is None:
                self._state.unsent.remove(message)
                self._state.n_sent += rule is not None
            else:
                failed.add(message.alert)
                self._state.n_failed += 1
                log.error("The alert %r could not be sent: %s; it is sent with the next hour.", message.alert, error)
            self._write()

    def _read_rules(self) -> tuple[AlertRule, ...]:
        return read_rules(self._rules_path if self._rules_path.exists() else STANDARD)

    def _write(self) -> None:
        state = self._state
        plain = {
            **{name: getattr(state, name) for name in ("hour", "n_sent", "n_failed", "n_dropped")},
            "watched": [
                [*key, watched.broken, watched.since, watched.unseen] for key, watched in state.watched.items()
            ],
            "unsent": [message._asdict() for message in state.unsent],
        }
        with replacing_file(self._path) as out:
            out.write(json.dumps(plain).encode())


def replayed(rules: Sequence[AlertRule], hours: Iterable[HourFigures]) -> list[AlertMessage]:
    """What rules would have sent for hours, from nothing known; nothing is sent or written."""
    state = _AlertState()
    return [message for hour in hours for message in state.take(rules, hour)]


def _message(rule: AlertRule, key: Key, value: float | None, state: str, hour: int, since: int) -> AlertMessage:
    _, model, slicing, name = key
    where = "all traffic" if slicing == "all" else f"{slicing}={name}"
    bounds = (("above", rule.above), ("below", rule.below))
    bound = " or ".join(f"{word} {number:g}" for word, number in bounds if number is not None)
    of = f"{rule.figure} of {where}{f', model {model},' if model else ''}"
    is_now = "is no longer measured" if value is None else f"is {value:.4g}"
    text = f"{rule.name}: {of} {is_now}, {'' if state == 'begin' else 'no longer '}{bound}, from {_shown(hour)} on."
    ident = hashlib.blake2b(json.dumps([key, since, state]).encode(), digest_size=12).hexdigest()
    finite = None if value is None or math.isinf(value) else value
    facts = rule.figure, model, where, finite, bound, _shown(hour), _shown(since), text
    return AlertMessage(ident, rule.name, state, *facts)


def _sent(rule: AlertRule, message: AlertMessage) -> str | None:
    """Send a message to where its rule says; what went wrong, if something did."""
    return send(message._asdict(), webhook=rule.webhook, command=rule.command)


def _read_state(path: Path) -> _AlertState:
    """What was kept; of a damaged file nothing, which is said: alerts that are on begin once more."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        plain = json.loads(content)
        state = _AlertState(plain["hour"])
        for name in ("n_sent", "n_failed", "n_dropped"):
            setattr(state, name, int(plain[name]))
        for *key, broken, since, unseen in plain["watched"][:_MOST_ALERTS]:
            rule, model, slicing, name = map(str, key)
            since = None if since is None else int(since)
            state.watched[rule, model, slicing, name] = _Watched(int(broken), since, int(unseen))
        state.unsent = [AlertMessage(**message) for message in plain["unsent"][:_MOST_UNSENT]]
        if not isinstance(state.hour, int | None) or any(not isinstance(m.alert, str) for m in state.unsent):
            raise ValueError("an hour or a name is none")
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        log.error("%s is damaged (%s): alerts that are on begin once more.", path, str(error)[:100])
        return _AlertState()
    return state


def _shown(time: int) -> str:
    try:
        return (datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=time)).strftime("%Y-%m-%dT%H:%MZ")
    except OverflowError:
        return f"{time} µs"
