"""Vowpal Wabbit lines, read the obvious way: split lines, split words, a dictionary a row."""

import re
from dataclasses import dataclass, field

import numpy as np

from broadmatch.kernels.hashing import key_of

BLANKS = re.compile(rb"[\x00-\x20]+")
NUMBER = re.compile(rb"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?")
SMALLEST, LARGEST = 1.17549435e-38, 3.4028234e38


class Bad(Exception):
    """The line is rejected."""


@dataclass
class Row:
    """What one good line says; `features` has (field, value) by key."""

    line: int
    clicked: float = float("nan")
    weight: float = 1.0
    name: int | None = None
    features: dict[int, tuple[int, np.float32]] = field(default_factory=dict)


def number(word: bytes) -> float:
    """A plain decimal number that a float32 can hold."""
    if not NUMBER.fullmatch(word):
        raise Bad("a value is not a finite number")
    value = float(word)
    if value and not SMALLEST <= abs(value) < LARGEST:
        raise Bad("a value is too large or too small for a 32-bit number")
    return value


def label(word: bytes) -> float:
    """1 is a click, 0 and -1 are none."""
    try:
        return {1.0: 1.0, 0.0: 0.0, -1.0: 0.0}[number(word)]
    except (Bad, KeyError):
        raise Bad("the label is none of 1, 0 and -1") from None


def key(signal: bytes, value: bytes) -> int:
    """The key of a feature; names that are not UTF-8 are not of interest here."""
    return int(key_of(signal.decode(), value.decode()))


def read(text: bytes) -> tuple[list[Row], list[tuple[int, str]], list[str]]:
    """The rows, the number and reason of each line that is rejected, and the names of the signals."""
    rows, bad, signals = [], [], ["constant"]
    for line, content in enumerate(text.split(b"\n"), 1):
        for name in re.findall(rb"\|([^\x00-\x20|:]*)", content):
            if (name.decode() or "feature") not in signals:
                signals.append(name.decode() or "feature")
        if not BLANKS.sub(b"", content):
            continue
        row = Row(line)
        add(row, int(key_of("constant", 1)), 0, np.float32(1))
        try:
            vw_line(row, content, signals)
            if not all(np.isfinite(value) for _, value in row.features.values()):
                raise Bad("a value is too large or too small for a 32-bit number")
        except Bad as reason:
            bad.append((line, str(reason)))
            continue
        row.features = {k: (f, value) for k, (f, value) in row.features.items() if value != 0}
        rows.append(row)
    return rows, bad, signals


def add(row: Row, k: int, place: int, value: np.float32) -> None:
    """Values of the same feature are added up, where it stood first."""
    first, so_far = row.features.get(k, (place, np.float32(0)))
    with np.errstate(over="ignore", invalid="ignore"):
        row.features[k] = first, np.float32(so_far + value)


def vw_line(row: Row, content: bytes, signals: list[str]) -> None:
    head, *spaces = content.split(b"|")
    if not spaces:
        raise Bad("the line has no |")
    vw_head(row, head)
    for space in spaces:
        name, *features = BLANKS.split(space)
        name, _, scale_word = name.partition(b":")
        scale = number(scale_word) if b":" in space[: len(name) + 1] else 1.0
        signal = name or b"feature"
        for feature in filter(None, features):
            word, colon, value_word = feature.partition(b":")
            if not word:
                raise Bad("a feature has no name before its colon")
            value = number(value_word) if colon else 1.0
            with np.errstate(over="ignore", under="ignore"):
                add(row, key(signal, word), signals.index(signal.decode()), np.float32(value * scale))


def vw_head(row: Row, head: bytes) -> None:
    words = list(filter(None, BLANKS.split(head)))
    if words and (head.endswith(words[-1]) or words[-1].startswith(b"'")):
        tag = words.pop().removeprefix(b"'")
        row.name = key(b"id", tag) if tag else None
    if words:
        row.clicked = label(words[0])
    if len(words) > 1:
        try:
            row.weight = number(words[1])
        except Bad:
            row.weight = -1
        if row.weight < 0:
            raise Bad("the importance is not a number of at least 0")
    if len(words) > 2 and not (NUMBER.fullmatch(words[2]) and float(words[2]) == 0):
        raise Bad("a base prediction other than 0 is not supported")
    if len(words) > 3:
        raise Bad("more than a label, an importance and a base stand before the tag")
