"""Which columns of a file are ours: those that a user maps (`ours=yours`), or else the usual names, in any case."""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from difflib import get_close_matches

from broadmatch.errors import BadInput, BadParameter

_SHOWN = 3


@dataclass(frozen=True)
class ColumnMap:
    """Our names of columns, each with those that are looked for, in this order, where `given` does not map it.

    A name as it stands comes first; then case, blanks and punctuation do not matter. `optional` ones may be absent,
    unless they are mapped. `option` is how a user maps them, for errors.

    >>> names = ColumnMap({"name": ("name", "page url"), "html": ("html", "body")}, {"html": "source"})
    >>> names.find("pages.csv", ["Page URL", "source"])
    {'name': 'Page URL', 'html': 'source'}
    """

    usual: Mapping[str, Sequence[str]]
    given: Mapping[str, str] = field(default_factory=dict)
    optional: Collection[str] = ()
    option: str = "columns"

    def __post_init__(self) -> None:
        for ours in self.given:
            if ours not in self.usual:
                raise BadParameter(f"{self.option} must map {_listed(self.usual)}, but it maps {ours!r}.")

    def find(self, place: object, present: Collection[str], others: Collection[str] = ()) -> dict[str, str]:
        """The column of each of our names among those of `place`, or else among `others` that it may have as well.

        `BadInput` names all that are needed and absent.
        """
        found = self._found(others) | self._found(present)
        needed = [ours for ours in self.usual if ours in self.given or ours not in self.optional]
        missing = [ours for ours in needed if ours not in found]
        if not missing:
            return found
        wanted = [f"{_some(self.candidates(ours))} for our {ours!r}" for ours in missing]
        near = _near([name for ours in missing for name in self.candidates(ours)[:1]], present)
        which, mapping = "they are" if missing[1:] else "it is", ", ".join(f"{ours!r}: ..." for ours in missing)
        raise ColumnsMissing(
            f"{place} has no column {' and none '.join(wanted)}; its columns are {_listed(present)}{near}",
            f"say which {which} with {self.option}={{{mapping}}}",
        )

    def match(self, present: Collection[str]) -> dict[str, str]:
        """The column of each of our names among those present; nothing unless all that are needed are there."""
        found = self._found(present)
        return found if all(ours in found or ours in self.optional for ours in self.usual) else {}

    def candidates(self, ours: str) -> Sequence[str]:
        """The names that a column of ours may have."""
        return (self.given[ours],) if ours in self.given else self.usual[ours]

    def _found(self, present: Collection[str]) -> dict[str, str]:
        alike: dict[str, str] = {}
        for name in present:
            alike.setdefault(_plain(name), name)
        found = {}
        for ours in self.usual:
            names = self.candidates(ours)
            theirs = next((name for name in names if name in present), None)
            theirs = theirs or next((alike[_plain(name)] for name in names if _plain(name) in alike), None)
            if theirs is not None:
                found[ours] = theirs
        return found


class ColumnsMissing(BadInput):
    """A table lacks columns of ours: what is wrong, and what can be done."""

    def __init__(self, what: str, advice: str) -> None:
        super().__init__(what, advice)
        self.what = what

    def __str__(self) -> str:
        return ": ".join(map(str, self.args)) + "."


def no_columns(
    place: object, missing: Sequence[str], present: Collection[str], advice: str = "correct the name"
) -> BadInput:
    """The error for columns that are absent: all of them, what is there, and what may have been meant."""
    what = f"column{'s' if missing[1:] else ''} {_listed(missing)}"
    return BadInput(f"{place} has no {what}; its columns are {_listed(present)}{_near(missing, present)}: {advice}.")


def _plain(name: str) -> str:
    """A name without what people write differently.

    >>> _plain("Landing_page + query string") == _plain("landing page query string")
    True
    """
    return "".join(character for character in name.casefold() if character.isalnum()) or name


def _near(wanted: Iterable[str], present: Collection[str]) -> str:
    near = dict.fromkeys(name for one in wanted for name in get_close_matches(one, list(present), 1, 0.5))
    return f" (did you mean {' and '.join(map(repr, near))}?)" if near else ""


def _some(names: Sequence[str]) -> str:
    return f"{' or '.join(map(repr, names[:_SHOWN]))}{' or the like' if names[_SHOWN:] else ''}"


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names)) or "none"
