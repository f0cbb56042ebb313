"""What a server is started with, and where everything is in its folder."""

from dataclasses import dataclass
from pathlib import Path
from typing import Literal

SIGNALS = "BROADMATCH_SIGNALS"
"""The variable that names the signal index; its address may hold a password, which a command line would show."""
Clock = Literal["server", "request"]
"""Whose time counts: that of the server, or the one that each request gives, to replay a log."""


@dataclass(frozen=True, kw_only=True)
class ServeConfig:
    """What `broadmatch serve` was asked for."""

    folder: Path
    host: str = "127.0.0.1"
    port: int = 8080
    workers: int = 1
    events: str | None = None
    """The event log: a folder, or kafka://SERVER[,SERVER]/TOPIC; if not given, `events` in the folder."""
    max_age: float | None = 30 * 86_400.0
    """Seconds that events are kept."""
    clock: Clock = "server"
    signals: str | None = None
    """The signal index: a folder or postgresql://…"""


@dataclass(frozen=True)
class ServeFolder:
    """The folder of a server: that of an `AdEngine`, with what serving adds to it."""

    path: Path

    @property
    def recommender(self) -> Path:
        """The phrase model that the server begins with, if there is one."""
        return self.path / "recommender"

    @property
    def expansion(self) -> Path:
        """What expands phrases, if there is one."""
        return self.path / "ksp"

    @property
    def pages(self) -> Path:
        """The pages that are known by their address, if there are some."""
        return self.path / "pages.parquet"

    @property
    def events(self) -> Path:
        """The embedded event log."""
        return self.path / "events"

    @property
    def published(self) -> Path:
        """The models that were published, by kind and version."""
        return self.path / "published"

    @property
    def serving(self) -> Path:
        """The file that says which versions are in service."""
        return self.path / "serving.json"

    @property
    def quality(self) -> Path:
        """The hourly figures of the traffic."""
        return self.path / "quality"

    @property
    def keys(self) -> Path:
        """The hashes of the API keys."""
        return self.path / "keys.json"

    @property
    def secret(self) -> Path:
        """What the ids of impressions are signed with."""
        return self.path / "secret"

    @property
    def excluded(self) -> Path:
        """The phrases that are never recommended."""
        return self.path / "excluded.json"

    @property
    def alerts(self) -> Path:
        """The rules of the alerts."""
        return self.path / "alerts.toml"
