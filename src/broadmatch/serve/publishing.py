"""Models that were published for a server, and which of them it serves: whole folders, and one file that names them.

A model is written beside the others, whole or not at all, and then one small file is replaced that says which versions
are in service. A server that reads the file at any moment finds versions that are whole.
"""

import contextlib
import fcntl
import json
import os
import re
import secrets
import shutil
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple, TypeAlias, get_args

from broadmatch.errors import BadArtifact, BadInput, BadParameter, MissingFile
from broadmatch.io.artifacts import Saveable, replacing, save, sync_folder
from broadmatch.io.files import replacing_file
from broadmatch.params import Number, Whole
from broadmatch.serve.config import ServeFolder
from broadmatch.serve.serving import INITIAL, MAIN, ServedArm, Serving, check_name, check_shares

ModelKind: TypeAlias = Literal["clicks", "recommender"]
MODEL_KINDS: tuple[ModelKind, ...] = get_args(ModelKind)
_MODEL, _FACTS = "model", "published.json"
_MOST_FACTS = 1 << 20
_REMAINS = re.compile(r"\..+\.(tmp|old)")
_OLD_SECONDS = 3600.0
"""When what is left of a publication that was killed is removed: nobody writes one for so long."""


class Version(NamedTuple):
    """A model that was published: its name, when (seconds since 1970), and what its publisher said of it."""

    name: str
    published_at: float
    facts: dict[str, Any]


@dataclass(frozen=True)
class PublishedModels:
    """The models that were published into the folder of a server; several processes may publish and read at once.

    >>> from broadmatch.clicks import FTRL, ClickModel
    >>> from broadmatch.signals import Categorical, Description
    >>> learned = ClickModel(Description(signals=[Categorical("ad")]), {"ftrl": FTRL().to_serving()})
    >>> learned.save("server/clicks")
    >>> models = PublishedModels(Path("server"))
    >>> models.serving().clicks[0].version
    'initial'
    >>> models.publish("clicks", learned, version="20261118T020500.000000")
    '20261118T020500.000000'
    >>> models.roll_back("clicks")
    'initial'
    >>> models.serving().clicks[0].pinned
    True
    """

    folder: Path

    def publish(
        self,
        kind: ModelKind,
        model: Saveable,
        *,
        version: str | None = None,
        arm: str = MAIN,
        facts: Mapping[str, Any] | None = None,
        serve: bool = True,
    ) -> str:
        """Write a model as a version, and put it in service for an arm; gives the name of the version.

        A version that is there is left as it is, and one that was in service already, or was rolled back, is not put
        there again: to publish the same twice does nothing. An arm that is pinned keeps what it serves. Without
        `serve`, the model is only written.
        """
        _check_kind(kind, model)
        name = check_name("version", version_of(time.time_ns() // 1000) if version is None else version)
        if name == INITIAL:
            raise BadParameter(f"version must be another name than {INITIAL!r}, which the folder's own models have.")
        with self._changing() as serving:
            served = _arm_of(serving, kind, arm)
            self._write(kind, name, model, dict(facts or {}))
            if serve and not served.pinned and not served.knows(name):
                self._replace(serving.with_arm(kind, served.with_version(name)))
        return name

    def serving(self) -> Serving:
        """What is in service; without a file that says so, the models that the folder itself has."""
        return Serving.read(ServeFolder(self.folder).serving)

    def arm(self, kind: ModelKind, arm: str = MAIN) -> ServedArm:
        """What an arm serves."""
        return _arm_of(self.serving(), kind, arm)

    def path(self, kind: ModelKind, version: str) -> Path:
        """Where the model of a version is, to be opened with `broadmatch.load`."""
        if check_name("version", version) == INITIAL:
            return self.folder / _kind(kind)
        return self._folder(kind, version) / _MODEL

    def versions(self, kind: ModelKind) -> list[Version]:
        """All models that were published, the oldest first."""
        found = [Version(name, *_read_facts(self._folder(kind, name) / _FACTS)) for name in self._names(kind)]
        return sorted(found, key=lambda one: (one.published_at, one.name))

    def facts(self, kind: ModelKind, version: str) -> dict[str, Any]:
        """What the publisher of a version said of it."""
        return _read_facts(self._folder(kind, version) / _FACTS)[1]

    def roll_back(self, kind: ModelKind, version: str | None = None, arm: str = MAIN) -> str:
        """Serve the version before, or a named one, and pin it: what is published from now on is not put in service.

        Gives the version that is in service now; `release` lets the arm take up new models again.
        """
        with self._changing() as serving:
            served = _arm_of(serving, kind, arm)
            wanted = self._previous(kind, served) if version is None else check_name("version", version)
            if not self.path(kind, wanted).is_dir():
                raise MissingFile(f"There is no version {wanted!r} of {kind} in {self.folder}; `publish list` has all.")
            self._replace(serving.with_arm(kind, served.rolled_back_to(wanted)))
            return wanted

    def release(self, arm: str = MAIN, kind: ModelKind = "clicks") -> None:
        """Let an arm that was pinned take up the next model that is published."""
        with self._changing() as serving:
            self._replace(serving.with_arm(kind, replace(_arm_of(serving, kind, arm), pinned=False)))

    def set_arms(self, shares: Mapping[str, float]) -> None:
        """Split the traffic into arms by these shares; an arm that is new begins with the model of the first one."""
        check_shares(shares)
        with self._changing() as serving:
            known = {one.name: one for one in serving.clicks}
            new = ServedArm(name="", share=0.0, version=serving.clicks[0].version)
            arms = [replace(known.get(name, new), name=name, share=float(share)) for name, share in shares.items()]
            self._replace(replace(serving, clicks=tuple(arms)))

    def set_share(self, arm: str, share: float) -> None:
        """Give one arm a share of the traffic, and the others the rest in the proportions they have."""
        Number(0, 1).check("share", share)
        others = {one.name: one.share for one in self.serving().clicks if one.name != arm}
        total = sum(others.values())
        if not total and share < 1:
            raise BadParameter(f"share must be 1 where no other arm has traffic, but it is {share!r}; use set_arms.")
        scaled = {name: old / total * (1 - share) if total else 0.0 for name, old in others.items()}
        self.set_arms({**scaled, arm: share})

    def prune(self, keep: int = 10) -> list[str]:
        """Remove all but the newest versions of each kind, never one that is in service nor the one before it."""
        Whole(1).check("keep", keep)
        removed: list[str] = []
        with self._changing() as serving:
            for kind in MODEL_KINDS:
                used = {name for one in serving.of(kind) for name in (one.version, *one.previous[-1:])}
                oldest = sorted(self._names(kind), key=lambda name: (self._published_at(kind, name), name))
                for name in oldest[: max(0, len(oldest) - keep)]:
                    if name not in used:
                        self._remove(self._folder(kind, name))
                        removed.append(name)
                self._sweep(kind)
        return removed

    def _write(self, kind: ModelKind, name: str, model: Saveable, facts: dict[str, Any]) -> None:
        target = self._folder(kind, name)
        if target.is_dir():
            return
        said = {"published_at": time.time(), "facts": facts}
        try:
            text = json.dumps(said, allow_nan=False).encode()
        except (TypeError, ValueError) as error:
            raise BadParameter(f"facts must be plain values that JSON has: {error}.") from error
        with replacing(target) as folder:
            save(model, folder / _MODEL)
            with (folder / _FACTS).open("wb") as out:
                out.write(text)
                out.flush()
                os.fsync(out.fileno())

    def _previous(self, kind: ModelKind, served: ServedArm) -> str:
        for name in reversed(served.previous):
            if self.path(kind, name).is_dir():
                return name
        raise BadInput(f"There is no version before {served.version!r} of {kind} to roll back to; name one.")

    @contextlib.contextmanager
    def _changing(self) -> Iterator[Serving]:
        """Hold the lock between processes, while what is in service changes."""
        self.folder.mkdir(parents=True, exist_ok=True)
        lock = os.open(self.folder / "serving.lock", os.O_RDWR | os.O_CREAT, 0o644)
        try:
            fcntl.flock(lock, fcntl.LOCK_EX)
            yield self.serving()
        finally:
            os.close(lock)

    def _replace(self, serving: Serving) -> None:
        with replacing_file(ServeFolder(self.folder).serving) as out:
            out.write(serving.to_json())
        sync_folder(self.folder)

    def _folder(self, kind: ModelKind, version: str) -> Path:
        return ServeFolder(self.folder).published / _kind(kind) / check_name("version", version)

    def _names(self, kind: ModelKind) -> list[str]:
        folder = ServeFolder(self.folder).published / _kind(kind)
        return [one.name for one in folder.iterdir() if one.name[0] != "."] if folder.is_dir() else []

    def _published_at(self, kind: ModelKind, name: str) -> float:
        """When a version was published; what is damaged is the oldest."""
        try:
            return _read_facts(self._folder(kind, name) / _FACTS)[0]
        except BadArtifact:
            return 0.0

    def _remove(self, folder: Path) -> None:
        """Remove a version: first its name, so that nobody finds half of it."""
        hidden = folder.with_name(f".{folder.name}.{secrets.token_hex(4)}.old")
        folder.rename(hidden)
        shutil.rmtree(hidden, ignore_errors=True)

    def _sweep(self, kind: ModelKind) -> None:
        """Remove what publishers left that were killed."""
        folder = ServeFolder(self.folder).published / kind
        for entry in folder.iterdir() if folder.is_dir() else ():
            with contextlib.suppress(OSError):
                if _REMAINS.fullmatch(entry.name) and entry.stat().st_mtime < time.time() - _OLD_SECONDS:
                    shutil.rmtree(entry, ignore_errors=True)


def version_of(microseconds: int) -> str:
    """The name of what was published at a time, in microseconds since 1970: names in order are times in order.

    >>> version_of(1_763_431_500_123_456)
    '20251118T020500.123456'
    """
    seconds, rest = divmod(microseconds, 1_000_000)
    return f"{datetime.fromtimestamp(seconds, UTC):%Y%m%dT%H%M%S}.{rest:06d}"


def _kind(kind: ModelKind) -> ModelKind:
    if kind not in MODEL_KINDS:
        raise BadParameter(f"kind must be one of {', '.join(MODEL_KINDS)}, but it is {kind!r}.")
    return kind


def _arm_of(serving: Serving, kind: ModelKind, arm: str) -> ServedArm:
    found = next((one for one in serving.of(_kind(kind)) if one.name == arm), None)
    if found is None:
        there = ", ".join(one.name for one in serving.of(kind))
        raise BadParameter(f"arm must be one of {there}, but it is {arm!r}; `publish arms` makes others.")
    return found


def _check_kind(kind: ModelKind, model: object) -> None:
    """Refuse a model that a server could not use as that kind."""
    from broadmatch.clicks import ClickModel
    from broadmatch.labels import KEX, Recommender

    wanted: tuple[type, ...] = (ClickModel,) if _kind(kind) == "clicks" else (Recommender, KEX)
    if not isinstance(model, wanted):
        names = " or a ".join(one.__name__ for one in wanted)
        raise BadInput(f"What is published as {kind} must be a {names}, not a {type(model).__name__}.")
    if isinstance(model, ClickModel) and isinstance(model.description, str):
        raise BadInput("The click model was trained on vw text; a server needs one that was trained on columns.")


def _read_facts(file: Path) -> tuple[float, dict[str, Any]]:
    try:
        with file.open("rb") as stream:
            plain = json.loads(stream.read(_MOST_FACTS))
        at, facts = plain["published_at"], plain["facts"]
        Number(0).check("published_at", at)
        if not isinstance(facts, dict):
            raise TypeError("its facts are no mapping")
    except (OSError, ValueError, KeyError, TypeError, RecursionError) as error:
        raise BadArtifact(
            f"{file} is missing or damaged; remove the folder {file.parent}, or bring it back."
        ) from error
    return float(at), facts
