"""Which versions of its models a server has in service, by arm of an experiment, as one small file says."""

import json
import math
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from broadmatch.errors import BadArtifact, BadParameter

INITIAL, MAIN = "initial", "main"
"""The version that the folder of a server itself has, and the arm that all traffic takes unless it is split."""
_FORMAT = 1
_MOST_BYTES, _MOST_ARMS, _MOST_PREVIOUS = 1 << 20, 64, 50
_NAME = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]{0,63}")


@dataclass(frozen=True)
class ServedArm:
    """An arm: its share of the traffic, the version it serves, those before it (the last one last), and its state.

    An arm that is `pinned` keeps its version whatever is published. `rolled_back` are versions that were taken out of
    service by hand.
    """

    name: str
    share: float
    version: str
    previous: tuple[str, ...] = ()
    pinned: bool = False
    rolled_back: tuple[str, ...] = ()

    def knows(self, version: str) -> bool:
        """Whether a version is or was in service here."""
        return version == self.version or version in self.previous or version in self.rolled_back

    def with_version(self, version: str) -> "ServedArm":
        """The arm when it serves a new version."""
        return replace(self, version=version, previous=(*self.previous, self.version)[-_MOST_PREVIOUS:])

    def rolled_back_to(self, version: str) -> "ServedArm":
        """The arm when it went back to a version, which it keeps."""
        if version == self.version:
            return replace(self, pinned=True)
        at = self.previous.index(version) if version in self.previous else len(self.previous)
        undone = (*self.rolled_back, *self.previous[at + 1 :], self.version)
        left = tuple(name for name in dict.fromkeys(undone) if name != version)
        return replace(
            self, version=version, previous=self.previous[:at], pinned=True, rolled_back=left[-_MOST_PREVIOUS:]
        )


_FIRST = ServedArm(MAIN, 1.0, INITIAL)


@dataclass(frozen=True)
class Serving:
    """What is in service: the arms of the click model, whose shares add up to 1, and the phrase model.

    >>> Serving.read(Path("server/serving.json")).clicks[0]
    ServedArm(name='main', share=1.0, version='initial', previous=(), pinned=False, rolled_back=())
    """

    clicks: tuple[ServedArm, ...] = (_FIRST,)
    phrases: ServedArm = _FIRST

    @property
    def recommender(self) -> str:
        """The version of the phrase model."""
        return self.phrases.version

    def of(self, kind: str) -> tuple[ServedArm, ...]:
        """The arms of a kind of model."""
        return self.clicks if kind == "clicks" else (self.phrases,)

    def with_arm(self, kind: str, arm: ServedArm) -> "Serving":
        """The same with one arm changed."""
        if kind != "clicks":
            return replace(self, phrases=arm)
        return replace(self, clicks=tuple(arm if one.name == arm.name else one for one in self.clicks))

    def to_json(self) -> bytes:
        """What the file holds."""
        return json.dumps({"format": _FORMAT, **asdict(self)}, indent=1).encode() + b"\n"

    @classmethod
    def read(cls, file: Path) -> "Serving":
        """What a file says, checked, for anybody may have written it; if there is none, the initial models."""
        try:
            with file.open("rb") as stream:
                text = stream.read(_MOST_BYTES + 1)
        except FileNotFoundError:
            return cls()
        except OSError as error:
            raise BadArtifact(f"{file} cannot be read: {error.strerror}.") from error
        try:
            return cls._of(json.loads(text if len(text) <= _MOST_BYTES else b""))
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadArtifact(
                f"{file} is damaged ({error}): bring it back, or remove it to serve the initial models and then put "
                "versions in service with `broadmatch publish rollback --to`."
            ) from error

    @classmethod
    def _of(cls, plain: dict[str, Any]) -> "Serving":
        if plain["format"] != _FORMAT:
            raise ValueError(f"format {plain['format']!r} instead of {_FORMAT}")
        arms = tuple(_arm_of(one) for one in plain["clicks"])
        shares = {one.name: one.share for one in arms}
        if len(shares) != len(arms):
            raise ValueError("an arm stands twice")
        check_shares(shares)
        return cls(arms, _arm_of(plain["phrases"]))


def check_name(what: str, name: object) -> str:
    """A name of a version or an arm, which can name a folder and never leads out of one."""
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise BadParameter(f"{what} must be 1 to 64 of 0-9 A-Z a-z . _ - and not begin with a dot, but it is {name!r}.")
    return name


def check_shares(shares: Mapping[str, float]) -> None:
    """Refuse arms that do not split all traffic."""
    for name, share in shares.items():
        check_name("arm", name)
        if isinstance(share, bool) or not isinstance(share, int | float) or not 0 <= share <= 1:
            raise BadParameter(f"The share of arm {name!r} must be from 0 to 1, but it is {share!r}.")
    if not 0 < len(shares) <= _MOST_ARMS or not math.isclose(sum(shares.values()), 1.0, abs_tol=1e-6):
        raise BadParameter(f"The shares of 1 to {_MOST_ARMS} arms must add up to 1, but they are {dict(shares)!r}.")


def _arm_of(plain: dict[str, Any]) -> ServedArm:
    if not isinstance(plain["pinned"], bool):
        raise TypeError("pinned is neither true nor false")
    names = {"previous": plain["previous"], "rolled_back": plain["rolled_back"]}
    for what, listed in names.items():
        if not isinstance(listed, list) or len(listed) > _MOST_PREVIOUS:
            raise ValueError(f"{what} is no list of at most {_MOST_PREVIOUS} versions")
    lists = {what: tuple(check_name("version", name) for name in listed) for what, listed in names.items()}
    share = plain["share"]
    check_shares({"arm": share, "rest": 1.0 - share})
    name, version = check_name("arm", plain["name"]), check_name("version", plain["version"])
    return ServedArm(name, float(share), version, lists["previous"], plain["pinned"], lists["rolled_back"])
