"""What goes into the signal index and comes out of it."""

import os
import time
import uuid
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import UTC, date, datetime
from typing import Any, Literal, Protocol, TypedDict, get_args

from broadmatch.errors import BadInput
from broadmatch.registry.names import checked_text, described_name, parse_name, version_name

DAY = 86_400_000_000
Status = Literal["proposed", "vetted", "white-listed", "deprecated", "retired"]
STATUSES: tuple[Status, ...] = get_args(Status)
PROPOSED, VETTED, ALLOWED, DEPRECATED, RETIRED = STATUSES
SignalUse = Literal["training", "serving"]
TRAINING: SignalUse = "training"
_LATEST = 1 << 62


def now_us() -> int:
    """The time, in microseconds since 1970."""
    return time.time_ns() // 1000


def shown_time(time_us: int) -> str:
    """A time as people read it.

    >>> shown_time(0)
    '1970-01-01T00:00:00Z'
    """
    return datetime.fromtimestamp(time_us // 1_000_000, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")


def day_of(time_us: int | None) -> date | None:
    """The day of a time in UTC."""
    return None if time_us is None else datetime.fromtimestamp(time_us // 1_000_000, UTC).date()


@dataclass(frozen=True, kw_only=True)
class SignalVersion:
    """A version of a signal as the index has it; `settings` are those of a description, without kind and column.

    `data` says what is behind it, by "files", "tables" and "columns". Without `platforms` or `domains` it may be used
    on all. `revision` counts the changes of the signal: whoever changes it names the one that they saw.
    """

    name: str
    version: int
    kind: str
    settings: Mapping[str, Any]
    status: str
    owner: str
    description: str
    made_by: str
    replacement: str | None
    by_date: date | None
    reason: str
    platforms: tuple[str, ...]
    domains: tuple[str, ...]
    data: Mapping[str, tuple[str, ...]]
    created: int
    revision: int

    @property
    def full_name(self) -> str:
        """The name with the version."""
        return version_name(self.name, self.version)

    @property
    def described_as(self) -> str:
        """The name that it has in a description."""
        return described_name(self.name, self.version)

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        plain = asdict(self) | {"full_name": self.full_name, "created": shown_time(self.created)}
        return plain | {"by_date": None if self.by_date is None else self.by_date.isoformat()}


def version_of(row: Any) -> SignalVersion:
    """A row with all that belongs to a version as that version."""
    return SignalVersion(
        name=row.name,
        version=row.number,
        kind=row.kind,
        settings=row.settings,
        status=row.status,
        owner=row.owner,
        description=row.description,
        made_by=row.made_by,
        replacement=None if row.other is None else version_name(row.other, row.other_number),
        by_date=day_of(row.by_date),
        reason=row.reason,
        platforms=tuple(row.platforms),
        domains=tuple(row.domains),
        data={what: tuple(listed) for what, listed in row.data.items()},
        created=row.created,
        revision=row.revision,
    )


@dataclass(frozen=True, kw_only=True)
class SignalModel:
    """A model that reports what it consumes; one of a name for each team and environment."""

    name: str
    team: str
    environment: str
    contact: str
    active: bool
    first_seen: int
    last_seen: int

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        return asdict(self) | {name: shown_time(getattr(self, name)) for name in ("first_seen", "last_seen")}


@dataclass(frozen=True, kw_only=True)
class Consumer:
    """A model that consumes a version, or did; `open` while the last report of the model still has it."""

    model: str
    team: str
    environment: str
    contact: str
    active: bool
    use: str
    first_seen: int
    last_seen: int
    coverage: float | None
    open: bool

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        return asdict(self) | {name: shown_time(getattr(self, name)) for name in ("first_seen", "last_seen")}


@dataclass(frozen=True, kw_only=True)
class BoardRow:
    """A deprecated or retired version on the board: how many models still consume it, and how many did and stopped."""

    signal: str
    status: str
    owner: str
    replacement: str | None
    by_date: date | None
    overdue: bool
    open: int
    done: int

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        return asdict(self) | {"by_date": None if self.by_date is None else self.by_date.isoformat()}


@dataclass(frozen=True, kw_only=True)
class ConsumptionReport:
    """What a model consumes: signals with their coverage (the share of rows that have them), or None.

    `reason` says why it was used in spite of what the index says. A report that arrives twice counts once.

    >>> report = ConsumptionReport(model="ctr", team="ads", use="training", signals={"price@2": 0.98})
    >>> ConsumptionReport.from_dict(report.to_dict()) == report
    True
    """

    model: str
    signals: Mapping[str, float | None]
    use: SignalUse = "training"
    team: str = ""
    environment: str = ""
    contact: str = ""
    reason: str = ""
    seen: int = field(default_factory=now_us)
    id: str = field(default_factory=lambda: uuid.uuid4().hex)

    def __post_init__(self) -> None:
        checked_text("The name of a model", self.model, least=1)
        for what in ("team", "environment", "contact", "reason"):
            checked_text(f"The {what} of a model", getattr(self, what))
        if self.use not in ("training", "serving"):
            raise BadInput(f"The use of a signal is training or serving, but it is {str(self.use)[:40]!r}.")
        if not isinstance(self.seen, int) or isinstance(self.seen, bool) or not 0 <= self.seen < _LATEST:
            raise BadInput(f"The time of a report is microseconds since 1970, but it is {str(self.seen)[:40]!r}.")
        if not isinstance(self.id, str) or len(self.id) != 32 or not self.id.isalnum():
            raise BadInput(f"The id of a report has 32 letters and digits, but it is {str(self.id)[:40]!r}.")
        if not isinstance(self.signals, Mapping):
            raise BadInput("The signals of a report are names with their coverage.")
        for name, coverage in self.signals.items():
            parse_name(name)
            number = isinstance(coverage, int | float) and not isinstance(coverage, bool)
            if coverage is not None and not (number and 0 <= coverage <= 1):
                raise BadInput(f"A coverage is a share from 0 to 1, but it is {coverage!r}.")

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        return asdict(self) | {"signals": dict(self.signals)}

    @classmethod
    def from_dict(cls, plain: Mapping[str, Any]) -> "ConsumptionReport":
        """What `to_dict` gave; `BadInput` if it did not."""
        try:
            return cls(**plain)
        except TypeError as error:
            raise BadInput(f"This is no report of consumption: {str(error)[:100]}.") from error


class ReportingAs(TypedDict):
    """Whose model it is that reports."""

    team: str
    contact: str
    environment: str


def reporting_as() -> ReportingAs:
    """Whose models this process reports, by BROADMATCH_TEAM, BROADMATCH_CONTACT and BROADMATCH_ENVIRONMENT."""
    team, contact, environment = (os.environ.get(f"BROADMATCH_{w}", "") for w in ("TEAM", "CONTACT", "ENVIRONMENT"))
    return {"team": team, "contact": contact, "environment": environment}


class VettingResult(Protocol):
    """What vetting a signal gave."""

    @property
    def passed(self) -> bool:
        """Whether the signal may be white-listed."""
        ...

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        ...
