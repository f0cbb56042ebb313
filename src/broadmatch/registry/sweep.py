"""What can go with signals that nobody consumes: data behind them, lines of descriptions. Nothing is deleted here."""

import tomllib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from broadmatch.errors import BroadmatchError
from broadmatch.io.files import Source, expand, read_text
from broadmatch.registry.index import SignalIndex
from broadmatch.registry.names import shown_name
from broadmatch.registry.records import SignalVersion
from broadmatch.signals import Description

_LONGEST_ENTRY = 200
"""Lines that the entry of a signal may have."""


@dataclass(frozen=True)
class DescriptionLines:
    """Lines of a description, counted from 1, the last one included; `note` says what has to be done by hand."""

    file: str
    first: int
    last: int
    text: str
    note: str = ""


@dataclass(frozen=True)
class SweptSignal:
    """A version that nobody consumes, with all that is there for it alone."""

    signal: str
    owner: str
    status: str
    files: tuple[str, ...]
    tables: tuple[str, ...]
    columns: tuple[str, ...]
    lines: tuple[DescriptionLines, ...]


@dataclass(frozen=True)
class SweepPlan:
    """What to delete, for people to read and to do."""

    days: float
    signals: tuple[SweptSignal, ...]
    unread: tuple[str, ...] = ()
    """Descriptions that could not be read."""

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        return asdict(self)

    def to_markdown(self) -> str:
        """The plan as a page."""
        parts = [f"# Signals that no model consumed for {self.days:g} days\n\nNothing was deleted.\n"]
        for one in self.signals:
            parts.append(f"\n## {one.signal}\n\n{one.status}, owned by {one.owner or 'nobody'}\n")
            for what in ("files", "tables", "columns"):
                parts += [f"- {what[:-1]}: {name}\n" for name in getattr(one, what)]
            for at in one.lines:
                where = f"{at.first}" if at.first == at.last else f"{at.first}-{at.last}"
                parts.append(f"- {at.file}:{where}{f' ({at.note})' if at.note else ''}: {at.text}\n")
        parts += [f"\nNot read: {name}\n" for name in self.unread]
        return "".join(parts)


def sweep_plan(index: SignalIndex, days: float, descriptions: Source = (), *, now: int | None = None) -> SweepPlan:
    """What can be deleted of signals that no model consumed for so many days.

    Data that a signal in use has too stays. `descriptions` are files and folders of TOML.
    """
    unused = index.unused(days, now=now)
    names = {one.full_name for one in unused}
    kept = [one for one in index.signals() if one.full_name not in names]
    needed = {
        what: {name for one in kept for name in one.data.get(what, ())} for what in ("files", "tables", "columns")
    }
    texts, unread = _read(descriptions)
    swept = []
    for one in unused:
        lines = [at for file, text in texts.items() for at in lines_of(file, text, one.described_as)]
        swept.append(_swept(one, needed, lines))
    return SweepPlan(days, tuple(swept), tuple(unread))


def _swept(one: SignalVersion, needed: Mapping[str, set[str]], lines: Iterable[DescriptionLines]) -> SweptSignal:
    data = {what: tuple(name for name in one.data.get(what, ()) if name not in taken) for what, taken in needed.items()}
    return SweptSignal(one.full_name, one.owner, one.status, lines=tuple(lines), **data)


def lines_of(file: str, text: str, name: str) -> list[DescriptionLines]:
    """The lines of a description that go with a signal: its own, and those of crosses with it.

    What is left without them is the same description without the signal: that is tried.

    >>> lines_of("ads.toml", '[signals]\\nad = "text"\\nprice = "number"\\n', "price")
    [DescriptionLines(file='ads.toml', first=3, last=3, text='price = "number"', note='')]
    """
    plain = tomllib.loads(text)
    signals = plain.get("signals", {})
    crosses = [one for one, given in signals.items() if isinstance(given, dict) and name in given.get("cross", ())]
    found, lines = list[DescriptionLines](), text.splitlines(keepends=True)
    for one in [name] * (name in signals) + crosses:
        at = _entry(lines, plain, one)
        if at is None:
            note = f"{shown_name(one)} has no lines of its own here: take it out by hand"
            found.append(DescriptionLines(file, 1, max(len(lines), 1), shown_name(one), note))
        else:
            note = "" if one == name else f"a cross with {shown_name(name)}"
            shown = "".join(lines[at[0] : at[1]]).strip()
            found.append(DescriptionLines(file, at[0] + 1, at[1], shown, note))
    if found and name in plain.get("slices", ()):
        found.append(
            DescriptionLines(file, 1, len(lines), "slices", f"{shown_name(name)} is among the slices: take it out")
        )
    return found


def _entry(lines: Sequence[str], plain: Mapping[str, Any], name: str) -> tuple[int, int] | None:
    """The fewest lines without which the file says the same but for one signal; None if there are no such."""
    signals = {one: given for one, given in plain["signals"].items() if one != name}
    wanted = {**plain, "signals": signals}
    for n_lines in range(1, min(len(lines), _LONGEST_ENTRY) + 1):
        for first in range(len(lines) - n_lines + 1):
            if not lines[first].strip() or not _may_begin(lines[first], name):
                continue
            try:
                left = tomllib.loads("".join([*lines[:first], *lines[first + n_lines :]]))
            except (tomllib.TOMLDecodeError, RecursionError):
                continue
            if {"signals": {}, **left} == wanted:
                return first, first + n_lines
    return None


def _may_begin(line: str, name: str) -> bool:
    """Whether an entry of this name can begin here: the name stands there, or an escape that it may hide behind."""
    return name in line or "\\" in line


def _read(descriptions: Source) -> tuple[dict[str, str], list[str]]:
    """The texts of descriptions by file, and what is none."""
    if isinstance(descriptions, Sequence) and not descriptions:
        return {}, []
    texts, unread = dict[str, str](), list[str]()
    for file in expand(descriptions, [".toml"], empty=True):
        try:
            Description.read(file)
            texts[str(file)] = read_text(file)
        except (BroadmatchError, RecursionError) as error:
            unread.append(f"{file}: {str(error)[:200]}")
    return texts, unread


def write_plan(plan: SweepPlan, path: Path) -> None:
    """Write a plan: as JSON if the name says so, else as a page of text."""
    import json

    from broadmatch.io.files import replacing_file

    text = json.dumps(plan.to_dict(), ensure_ascii=False, indent=1) if path.suffix == ".json" else plan.to_markdown()
    with replacing_file(path) as out:
        out.write(text.encode())
