"""The words of the simulated marketplace, out of verticals.toml: what is sold, where, and what brands are called."""

import tomllib
from dataclasses import dataclass
from importlib import resources
from typing import Any


@dataclass(frozen=True)
class Vertical:
    """One trade: what it is called, what it sells, how that is qualified, and how its pages are worded.

    `nouns` name the trade in queries, the commonest first; `generic` are phrases that its pages use and users type,
    but that do not tell what is wanted; `brands` are the hand-written ones; `local` is the share
    of its pages that serve one city; `related` names the verticals that page templates link to, though the page
    sells nothing of the kind; `family` is what verticals whose pages may be mixed have in common.
    """

    name: str
    nouns: tuple[str, ...]
    products: tuple[str, ...]
    attributes: tuple[str, ...]
    questions: tuple[str, ...]
    copy: tuple[str, ...]
    generic: tuple[str, ...]
    brands: tuple[str, ...]
    suffixes: tuple[str, ...]
    local: float = 0.3
    related: tuple[str, ...] = ()
    family: str = ""


def _tuples(table: dict[str, Any]) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in table.items()}


_WORDS = _tuples(tomllib.loads(resources.files("broadmatch.simulate").joinpath("verticals.toml").read_text("utf-8")))

VERTICALS = tuple(Vertical(**_tuples(table)) for table in _WORDS["verticals"])
CITIES: tuple[str, ...] = _WORDS["cities"]
STATES: tuple[str, ...] = _WORDS["states"]
"""The state of each city."""
SYLLABLES = tuple(tuple(line.split()) for line in _WORDS["syllables"])
"""Of invented brands: what the first, the second and the third may be."""
GENERIC_MODIFIERS: tuple[str, ...] = _WORDS["generic_modifiers"]
BRAND_MODIFIERS: tuple[str, ...] = _WORDS["brand_modifiers"]
PRICE_MODIFIERS: tuple[str, ...] = _WORDS["price_modifiers"]
BOILERPLATE: tuple[str, ...] = _WORDS["boilerplate"]
MENU: tuple[str, ...] = _WORDS["menu"]
NEGATIVE_WORDS: tuple[str, ...] = _WORDS["negative_words"]
"""What advertisers do not want to be found by."""
