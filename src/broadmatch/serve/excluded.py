"""Phrases that are never recommended, everywhere or on one page: a file of the server's folder, which is honoured.

It is no cure of a model: the votes that brought a phrase stay, and only the answer leaves it out.
"""

import contextlib
import fcntl
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import msgspec
from msgspec import Meta, Struct

from broadmatch.errors import BadArtifact, BadInput
from broadmatch.io.files import replacing_file
from broadmatch.serve.messages import PageAddress, PhraseText

_FORMAT, _MOST_BYTES = 1, 1 << 24
MOST_EXCLUDED = 10_000


class ExcludedPhrase(Struct, frozen=True, forbid_unknown_fields=True):
    """A phrase that is not recommended, on one page or on all (`address` is null), why, and since when (seconds)."""

    phrase: PhraseText
    address: PageAddress | None = None
    reason: Annotated[str, Meta(max_length=1_000)] = ""
    since: float = 0.0


class _ExcludedFile(Struct, frozen=True, forbid_unknown_fields=True):
    format: int
    excluded: list[ExcludedPhrase]


@dataclass(frozen=True)
class ExcludedPhrases:
    """The phrases that a server leaves out; several processes may change and read them at once.

    >>> excluded = ExcludedPhrases(Path("server/excluded.json"))
    >>> excluded.add(ExcludedPhrase("free pizza", reason="of a page that is no restaurant's"))
    True
    >>> excluded.of("https://any.example/")
    frozenset({'free pizza'})
    >>> excluded.remove("free pizza")
    True
    """

    file: Path

    def read(self) -> list[ExcludedPhrase]:
        """All of them, the oldest first; none if there is no file."""
        try:
            with self.file.open("rb") as stream:
                content = stream.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return []
        except OSError as error:
            raise BadArtifact(f"{self.file} cannot be read: {error.strerror}.") from error
        try:
            found = msgspec.json.decode(content if len(content) <= _MOST_BYTES else b"", type=_ExcludedFile)
        except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
            raise BadArtifact(f"{self.file} is damaged ({error}): bring it back, or remove it.") from error
        if found.format != _FORMAT:
            raise BadArtifact(
                f"{self.file} has format {found.format} instead of {_FORMAT}: bring it back, or remove it."
            )
        return found.excluded

    def of(self, address: str | None = None) -> frozenset[str]:
        """The phrases that are left out on a page."""
        return excluded_on(self.read(), address)

    def add(self, one: ExcludedPhrase) -> bool:
        """Leave a phrase out from now on; whether that is new."""
        with self._changing() as known:
            if any((other.phrase, other.address) == (one.phrase, one.address) for other in known):
                return False
            if len(known) >= MOST_EXCLUDED:
                raise BadInput(f"{MOST_EXCLUDED:,} phrases are excluded already; train without their labels.")
            since = one.since or time.time()
            self._write([*known, ExcludedPhrase(one.phrase, one.address, one.reason, since)])
            return True

    def remove(self, phrase: str, address: str | None = None) -> bool:
        """Let a phrase be recommended again; whether it was left out."""
        with self._changing() as known:
            left = [one for one in known if (one.phrase, one.address) != (phrase, address)]
            if len(left) < len(known):
                self._write(left)
            return len(left) < len(known)

    def _write(self, excluded: list[ExcludedPhrase]) -> None:
        with replacing_file(self.file) as out:
            out.write(msgspec.json.format(msgspec.json.encode(_ExcludedFile(_FORMAT, excluded)), indent=1))

    @contextlib.contextmanager
    def _changing(self) -> Iterator[list[ExcludedPhrase]]:
        """Hold the lock between processes, while the file changes."""
        self.file.parent.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.file.with_name(f".{self.file.name}.lock"), os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.read()
        finally:
            os.close(lock)


def excluded_on(excluded: Iterable[ExcludedPhrase], address: str | None) -> frozenset[str]:
    """The phrases that are left out on a page: those of all pages, and its own."""
    return frozenset(one.phrase for one in excluded if one.address is None or one.address == address)
