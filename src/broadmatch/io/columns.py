"""Which columns of a file are ours: those that a user maps (`ours=yours`), or else the usual names."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from broadmatch.errors import BadInput, BadParameter


@dataclass(frozen=True)
class ColumnMap:
    """Our names of columns, each with those that are looked for, in this order, where `given` does not map it.

    `optional` ones may be absent, unless they are mapped. `option` is how a user maps them, for errors.

    >>> names = ColumnMap({"name": ("name", "url"), "html": ("html", "body")}, {"html": "source"})
    >>> names.find("pages.csv", ["url", "source"])
    {'name': 'url', 'html': 'source'}
    """

    usual: Mapping[str, Sequence[str]]
    given: Mapping[str, str] = field(default_factory=dict)
    optional: Collection[str] = ()
    option: str = "columns"

    def __post_init__(self) -> None:
        for ours in self.given:
            if ours not in self.usual:
                raise BadParameter(f"{self.option} must map {_listed(self.usual)}, but it maps {ours!r}.")

    def find(self, place: object, present: Collection[str]) -> dict[str, str]:
        """The column of each of our names among those of `place`; `BadInput` if one that is needed is absent."""
        for ours in self.usual:
            wanted = self.candidates(ours)
            if not any(name in present for name in wanted) and (ours in self.given or ours not in self.optional):
                raise no_column(place, wanted, present, ours, f"say which it is with {self.option}={{{ours!r}: ...}}")
        return self.match(present)

    def match(self, present: Collection[str]) -> dict[str, str]:
        """The column of each of our names among those present; nothing unless all that are needed are there."""
        found = {}
        for ours in self.usual:
            theirs = next((name for name in self.candidates(ours) if name in present), None)
            if theirs is not None:
                found[ours] = theirs
            elif ours not in self.optional:
                return {}
        return found

    def candidates(self, ours: str) -> Sequence[str]:
        """The names that a column of ours may have."""
        return (self.given[ours],) if ours in self.given else self.usual[ours]


def no_column(
    place: object, wanted: Iterable[str], present: Collection[str], ours: str = "", advice: str = "correct the name"
) -> BadInput:
    """The error for a column that is absent: what was looked for, what is there, and what may have been meant."""
    names = list(wanted)
    what = f"{' or '.join(map(repr, names))} for our {ours!r}" if ours else repr(names[0])
    near = get_close_matches(names[0], list(present), 1, 0.5)
    hint = f" (did you mean {near[0]!r}?)" if near else ""
    return BadInput(f"{place} has no column {what}; its columns are {_listed(present)}{hint}: {advice}.")


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
