"""When to tell somebody: the rules of alerts, from a file."""

import math
import re
import tomllib
from collections.abc import Collection
from dataclasses import dataclass, fields
from difflib import get_close_matches
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from broadmatch.errors import BadInput, MissingFile
from broadmatch.evaluate.traffic_quality import METRICS, Figure

STANDARD = Path(__file__).with_name("standard_alerts.toml")
"""The rules of a folder that has none."""
_MOST_BYTES, _MOST_RULES, _LONGEST, _MOST_HOURS = 1 << 20, 1000, 200, 24 * 30
_OWN = ("all", "signal", "counted")
_HEAD = re.compile(r"\s*\[\[\s*[\"']?rule[\"']?\s*\]\]")


@dataclass(frozen=True)
class AlertRule:
    """An alert while a figure is above or below a bound for `for_hours` hours in a row.

    `slice` is "SLICING=VALUE", "SLICING=*" for each of them, or "*" for each slice there is; without it the rule is of
    all traffic, or of each signal. A figure of fewer than `least` impressions (or whatever it is made of) says nothing.
    """

    name: str
    figure: str
    model: str | None = None
    slice: str | None = None
    above: float | None = None
    below: float | None = None
    for_hours: int = 1
    least: int = 0
    webhook: str | None = None
    command: tuple[str, ...] | None = None

    def concerns(self, figure: Figure) -> bool:
        """Whether the rule is about this figure."""
        if figure.metric != self.figure or self.model not in (None, figure.model):
            return False
        if self.slice is None:
            return figure.slicing in _OWN
        slicing, _, value = self.slice.partition("=")
        return self.slice == "*" or (figure.slicing == slicing and value in ("*", figure.slice))

    def broken_by(self, figure: Figure) -> bool | None:
        """Whether a figure is beyond a bound; None if it says nothing."""
        if figure.n < self.least or math.isnan(figure.value):
            return None
        over = self.above is not None and figure.value > self.above
        return over or (self.below is not None and figure.value < self.below)


def read_rules(path: Path, figures: Collection[str] = METRICS) -> tuple[AlertRule, ...]:
    """The rules of a TOML file with tables [[rule]]; `BadInput` names the line to correct."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        text = content.decode()
        plain = tomllib.loads(text)
    except FileNotFoundError as error:
        raise MissingFile(f"There is no file {path}.") from error
    except tomllib.TOMLDecodeError as error:
        raise BadInput(f"{path} is not TOML: {str(error).rstrip('.')}; correct it there.") from error
    except (OSError, UnicodeDecodeError, RecursionError) as error:
        raise BadInput(f"{path} cannot be read as UTF-8 text: {error}.") from error
    listed = plain.get("rule", [])
    if len(content) > _MOST_BYTES or not isinstance(listed, list) or len(listed) > _MOST_RULES:
        raise BadInput(f"{path} must hold at most {_MOST_RULES:,} tables [[rule]].")
    for key in plain:
        if key != "rule":
            raise _wrong(path, text, 0, key, f"the key {key!r} is unknown; the file has tables [[rule]] only")
    rules: list[AlertRule] = []
    for number, table in enumerate(listed, 1):
        rules.append(_rule(path, text, number, table, figures))
        if any(rule.name == rules[-1].name for rule in rules[:-1]):
            raise _wrong(path, text, number, "name", f"two rules are called {rules[-1].name!r}; rename one")
    return tuple(rules)


def _rule(path: Path, text: str, number: int, table: Any, figures: Collection[str]) -> AlertRule:
    """One table, checked."""
    known = [field.name for field in fields(AlertRule)]
    if not isinstance(table, dict):
        raise _wrong(path, text, number, "", "a rule must be a table [[rule]]")
    for key, value in table.items():
        if key not in known:
            raise _wrong(path, text, number, key, f"the key {key!r} is unknown{_nearest(key, known)}")
        if (what := _must_be(key, value, figures)) is not None:
            raise _wrong(path, text, number, key, f"{key} must be {what}, but it is {value!r}")
    for key in ("name", "figure"):
        if key not in table:
            raise _wrong(path, text, number, "", f"the rule has no {key}; add one")
    if "above" not in table and "below" not in table:
        raise _wrong(path, text, number, "figure", "the rule has no bound; add above or below")
    if "webhook" in table and "command" in table:
        raise _wrong(path, text, number, "command", "the rule has a webhook and a command; keep one of them")
    command = table.get("command")
    return AlertRule(**{**table, "command": None if command is None else tuple(command)})


def _must_be(key: str, value: Any, figures: Collection[str]) -> str | None:
    """What the value of a key must be, if it is not."""
    texts = isinstance(value, str) and 0 < len(value) <= _LONGEST and value.isprintable()
    number = isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)
    whole = isinstance(value, int) and not isinstance(value, bool)
    if key == "figure" and value not in figures:
        return f"one of {', '.join(figures)}"
    if key in ("name", "model") and not texts:
        return f"a text of up to {_LONGEST} letters"
    if key == "slice" and not (texts and (value == "*" or all(value.partition("=")))):
        return '"SLICING=VALUE", "SLICING=*" or "*"'
    if key in ("above", "below") and not number:
        return "a number"
    if key == "for_hours" and not (whole and 1 <= value <= _MOST_HOURS):
        return f"a whole number from 1 to {_MOST_HOURS}"
    if key == "least" and not (whole and value >= 0):
        return "a whole number of at least 0"
    if key == "webhook" and not (texts and _is_address(value)):
        return "an address such as https://example.org/hook"
    if key == "command" and not (isinstance(value, list) and value and all(isinstance(w, str) and w for w in value)):
        return 'a list of words such as ["mail-it", "ops"]'
    return None


def _is_address(text: str) -> bool:
    try:
        found = urlsplit(text)
        return found.scheme in ("http", "https") and bool(found.hostname) and (found.port is None or found.port > 0)
    except ValueError:
        return False


def _wrong(path: Path, text: str, number: int, key: str, what: str) -> BadInput:
    """The error about a key of a rule (counted from 1; 0: before the first), with its line, or that of the rule."""
    written = re.compile(rf"\s*(?:\[+\s*rule\s*\.)?\[*\s*[\"']?{re.escape(key)}[\"']?\s*[=.\]]")
    rule, found = 0, dict[str, int]()
    for at, line in enumerate(text.splitlines(), 1):
        is_head = _HEAD.match(line) is not None
        rule += is_head
        if rule == number and (is_head or (key and written.match(line))):
            found.setdefault("rule" if is_head else "key", at)
    at_line = found.get("key", found.get("rule"))
    return BadInput(f"{path}{'' if at_line is None else f', line {at_line}'}: {what}.")


def _nearest(word: str, words: Collection[str]) -> str:
    close = get_close_matches(word, words, 1, 0.6)
    return f" (is it {close[0]!r}?)" if close else f"; a rule has {', '.join(words)}"
