"""What the studio's pages of signals ask and get."""

from typing import Annotated, Any, Literal

from msgspec import Meta

from broadmatch.serve.endpoints.signals import SignalName, SignalText
from broadmatch.serve.messages import Reply, Request

_Offset = Annotated[int, Meta(ge=0, le=10_000_000)]
_Limit = Annotated[int, Meta(ge=1, le=200)]


class SignalSearch(Request, frozen=True):
    """Which signals are looked for, and which of those found are shown."""

    text: SignalText = ""
    status: Literal["proposed", "vetted", "white-listed", "deprecated", "retired"] | None = None
    owner: SignalText = ""
    order: Literal["name", "newest", "owner", "due"] = "name"
    offset: _Offset = 0
    limit: _Limit = 50


class FoundSignal(Reply, frozen=True):
    """A version in a list; `open` is how many models consume it now."""

    name: str
    status: str
    owner: str
    kind: str
    about: str
    by_date: str | None
    open: int


class FoundSignalsReply(Reply, frozen=True):
    """Some of the versions that were found, and how many there are, also by status."""

    found: list[FoundSignal]
    total: int
    by_status: dict[str, int]


class SignalNamed(Request, frozen=True):
    """A signal, by its name."""

    name: SignalName


class SignalHistoryLine(Reply, frozen=True):
    """Who changed what: fields with what they were and are, shortened."""

    time: str
    who: str
    what: str
    changes: list[tuple[str, str, str]]


class SignalFinding(Reply, frozen=True):
    """What a rule of vetting found."""

    rule: str
    value: float | None
    bound: str
    passed: bool
    text: str


class SignalPicture(Reply, frozen=True):
    """A picture of a vetting: lines of points, along days since 1970 where `dates` says so."""

    title: str
    dates: bool
    lines: list[tuple[str, list[tuple[float, float | None]]]]


class SignalPageReply(Reply, frozen=True):
    """A version with all that belongs to it: `next` says what to do with it, `facts` what it is.

    `vettings` are verdicts, the last one first, whose findings and pictures are given. Who changes it names `revision`.
    """

    name: str
    status: str
    revision: int
    replacement: str | None
    by_date: str | None
    reason: str
    next: str
    facts: list[tuple[str, list[str]]]
    versions: list[tuple[str, str]]
    consumers: list[dict[str, Any]]
    n_consumers: int
    n_open: int
    vettings: list[tuple[str, bool]]
    findings: list[SignalFinding]
    pictures: list[SignalPicture]
    history: list[SignalHistoryLine]
    may_change: bool


class SignalGraphReply(Reply, frozen=True):
    """Signals and models around a signal, in layers from left to right, and what leads from one to the other.

    An edge is source, target (places in all nodes, layer after layer) and kind. Of `n_models` as many are there as can
    be drawn.
    """

    layers: list[tuple[str, list[dict[str, Any]]]]
    edges: list[tuple[int, int, str]]
    n_models: int


class SignalBoardRequest(Request, frozen=True):
    """Which rows of the board are shown."""

    offset: _Offset = 0
    limit: _Limit = 50


class SignalBoardReply(Reply, frozen=True):
    """Rows of the board, each with the teams that still have something to do, and how many there are in all."""

    found: list[dict[str, Any]]
    total: int
    overdue: int
