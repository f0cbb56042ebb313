"""Names of signals and their versions: `price@2` is version 2 of `price`, and `price` is version 1."""

import hashlib
import re

from broadmatch.errors import BadInput

LONGEST = 10_000
"""Characters of a name, and of any other text that is kept."""
_VERSIONED = re.compile(r"(.+)@([1-9][0-9]{0,8})", re.DOTALL)


def parse_name(text: str) -> tuple[str, int]:
    """The name of a signal and the number of its version: the last "@" counts, if digits follow it.

    >>> parse_name("price@2"), parse_name("price"), parse_name("me@home@3"), parse_name("me@home")
    (('price', 2), ('price', 1), ('me@home', 3), ('me@home', 1))
    """
    found = _VERSIONED.fullmatch(text) if isinstance(text, str) else None
    name, number = (text, 1) if found is None else (found[1], int(found[2]))
    return checked_text("A name of a signal", name, least=1), number


def version_name(name: str, number: int) -> str:
    """What a version is called.

    >>> version_name("price", 2)
    'price@2'
    """
    return f"{name}@{number}"


def described_name(name: str, number: int) -> str:
    """What a version is called in a description, where the first one has the plain name.

    >>> described_name("price", 1), described_name("price", 2)
    ('price', 'price@2')
    """
    return name if number == 1 else version_name(name, number)


def key_of_text(*parts: str) -> str:
    """What a text is found by: no index of a database holds 10,000 letters, but each holds their hash."""
    whole = b"".join(len(part.encode()).to_bytes(8, "big") + part.encode() for part in parts)
    return hashlib.blake2b(whole, digest_size=16).hexdigest()


def checked_text(what: str, text: object, *, least: int = 0) -> str:
    """A text that every database can keep, as it is."""
    if not isinstance(text, str) or not least <= len(text) <= LONGEST:
        raise BadInput(f"{what} must be a text of {least} to {LONGEST:,} letters, but it is {str(text)[:40]!r}.")
    try:
        text.encode()
    except UnicodeEncodeError:
        raise BadInput(f"{what} has half a character, which no file can keep: {text[:40]!r}.") from None
    if "\0" in text:
        raise BadInput(f"{what} must not hold the character 0, but it does: {text[:40]!r}.")
    return text


def shown_name(text: str) -> str:
    """A name as messages show it, so that 10,000 letters do not fill a screen.

    >>> shown_name("price")
    "'price'"
    """
    return repr(text if len(text) <= 80 else f"{text[:60]}…{text[-15:]}")
