"""One spelling for queries that differ only in case, punctuation and spacing."""

import unicodedata
from typing import TYPE_CHECKING

from broadmatch.io.duck import create_text_function

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection


class _Characters(dict[int, int | None]):
    """What becomes of a character, found out once: letters, marks and numbers stay, invisible ones go, others part."""

    def __missing__(self, code: int) -> int | None:
        category = unicodedata.category(chr(code))
        self[code] = code if category[0] in "LMN" else None if category == "Cf" else 32
        return self[code]


_CHARACTERS = _Characters()


def normalise_query(query: str) -> str:
    """Lower case, Unicode NFKC, and a single space for every run of white space, punctuation and symbols.

    Letters, marks and numbers of every script stay; invisible format characters (joiners, soft hyphens) vanish. The
    result may be empty. Normalising twice changes nothing more.

    >>> normalise_query("  Cheap   PIZZA, near-me!! ")
    'cheap pizza near me'
    >>> normalise_query("ＦＵＬＬ Ｗｉｄｔｈ Ⅷ")
    'full width viii'
    """
    if query.isascii():
        return " ".join(query.lower().translate(_CHARACTERS).split())
    # Lowering may undo the composition and composing may bring capitals back, so both are done until nothing moves.
    before = ""
    while before != query:
        before = query
        query = " ".join(unicodedata.normalize("NFKC", query).lower().translate(_CHARACTERS).split())
    return query


def register_normalise(db: "DuckDBPyConnection") -> str:
    """Make `normalise_query` known to `db`; the SQL for it, with {} for the text. Plain ASCII never leaves DuckDB."""
    create_text_function(db, normalise_query)
    plain = "trim(regexp_replace(lower({0}), '[^a-z0-9]+', ' ', 'g'))"
    return f"CASE WHEN strlen({{0}}) = length({{0}}) THEN {plain} ELSE normalise_query({{0}}) END"
