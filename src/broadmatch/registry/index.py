"""The signal index: which signals there are, in which versions, who consumes them, and may they (002 §8)."""

import contextlib
import os
from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, date, datetime
from typing import Any

import sqlalchemy as sa

from broadmatch.errors import BadInput, BadParameter, Conflict, MissingFile
from broadmatch.registry.browsing import ORDERS, SignalPage, having, page_of, related_to, teams_waited_for
from broadmatch.registry.consumption import IS_OPEN, board_of, consumers_of, unused_since, write_reports
from broadmatch.registry.database import Database
from broadmatch.registry.names import checked_text, key_of_text, parse_name, shown_name, version_name
from broadmatch.registry.notices import (
    SignalNotice,
    deprecation_texts,
    list_notices,
    put_notices,
    send_notices,
    version_texts,
    vetting_texts,
)
from broadmatch.registry.records import (
    ALLOWED,
    DAY,
    DEPRECATED,
    PROPOSED,
    RETIRED,
    STATUSES,
    VETTED,
    BoardRow,
    Consumer,
    ConsumptionReport,
    SignalModel,
    SignalVersion,
    VettingResult,
    now_us,
    shown_time,
    version_of,
)
from broadmatch.registry.reporting.addresses import check_there
from broadmatch.registry.schema import (
    audit,
    edges,
    models,
    signals,
    versions,
    vettings,
)
from broadmatch.registry.version_rows import ALL_VERSIONS, version_row


class SignalIndex:
    """An index of signals in a folder, or in PostgreSQL; `open` it.

    Whoever changes a signal may name the `revision` that they saw: if somebody changed it since, that is a `Conflict`.

    >>> import tempfile
    >>> index = SignalIndex.open(tempfile.mkdtemp())
    >>> index.add("price", kind="number", owner="anna", by="anna", settings={"buckets": "log"}).full_name
    'price@1'
    >>> index.report(ConsumptionReport(model="ctr", team="ads", signals={"price": 0.98}))
    >>> [(one.model, one.use, one.coverage) for one in index.consumers("price@1")]
    [('ctr', 'training', 0.98)]
    """

    def __init__(self, database: Database) -> None:
        self._database = database

    @classmethod
    def open(cls, address: str | os.PathLike[str], *, make: bool = True) -> "SignalIndex":
        """Open the index of a folder, which is made if it is not there, or of postgresql://USER@HOST:PORT/NAME."""
        text = os.fspath(address)
        if not make:
            check_there(text)
        return cls(Database(text))

    def close(self) -> None:
        """Let go of the database."""
        self._database.close()

    def __enter__(self) -> "SignalIndex":
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # -- signals and versions

    def add(
        self,
        name: str,
        *,
        kind: str,
        owner: str,
        by: str,
        settings: Mapping[str, Any] | None = None,
        description: str = "",
        made_by: str = "",
        data: Mapping[str, Sequence[str]] | None = None,
        platforms: Sequence[str] = (),
        domains: Sequence[str] = (),
    ) -> SignalVersion:
        """Add a signal as proposed; one that was only reported so far gets an owner.

        `kind` and `settings` are as in a description; `made_by` says how it is made, `data` what is behind it.
        """
        plain, number = parse_name(name)
        if number != 1:
            raise BadInput(f"{shown_name(name)} is a later version; give it to add_version, with the name {plain!r}.")
        about = {"owner": checked_text("The owner", owner, least=1), "description": description, "made_by": made_by}
        for what in ("description", "made_by"):
            checked_text(what, about[what])
        row = version_row(plain, kind, settings, data, platforms, domains)
        with self._database.write() as c:
            found = c.execute(sa.select(signals).where(signals.c.key == key_of_text(plain))).one_or_none()
            if found is not None and found.owner:
                raise BadInput(f"{shown_name(plain)} is there already, owned by {found.owner}; add a version instead.")
            if found is None:
                values = {"key": key_of_text(plain), "name": plain, "revision": 1, **about}
                c.execute(signals.insert().values(values))
            else:
                self._bump(c, found.id, found.revision, **about)
            self._put_version(c, plain, 1, row)
            return self._noted(c, plain, 1, by, "add", None)

    def add_version(
        self,
        name: str,
        *,
        by: str,
        kind: str | None = None,
        settings: Mapping[str, Any] | None = None,
        data: Mapping[str, Sequence[str]] | None = None,
        platforms: Sequence[str] | None = None,
        domains: Sequence[str] | None = None,
        revision: int | None = None,
    ) -> SignalVersion:
        """Add the next version of a signal; consumers of the others get a notice with a command that tries it.

        What is not given is as in the last version.
        """
        plain, _ = parse_name(name)
        with self._database.write() as c:
            numbers = sa.select(versions.c.number).join_from(versions, signals)
            found = c.scalars(numbers.where(signals.c.key == key_of_text(plain)).order_by(versions.c.number)).all()
            if not found:
                raise _unknown(plain)
            before = self._get(c, plain, found[-1])
            self._check_revision(before, revision)
            settings = before.settings if settings is None and kind in (None, before.kind) else settings
            given = (kind or before.kind, settings, before.data if data is None else data)
            platforms = before.platforms if platforms is None else platforms
            domains = before.domains if domains is None else domains
            self._bump(c, self._ids(c, before)[0], before.revision)
            self._put_version(c, plain, found[-1] + 1, version_row(plain, *given, platforms, domains))
            added = self._noted(c, plain, found[-1] + 1, by, "add version", None)
            for number in found:
                old = self._get(c, plain, number)
                put_notices(c, version_texts(added, old, self._open_consumers(c, old)))
            return added

    def get(self, name: str) -> SignalVersion:
        """A version; `MissingFile` if it is not in the index."""
        with self._database.read() as c:
            return self._get(c, *parse_name(name))

    def signals(self, *, status: str | None = None, search: str = "") -> list[SignalVersion]:
        """All versions, or those of a status, or those with a text in name, owner or description; by name."""
        query = ALL_VERSIONS.order_by(signals.c.name, versions.c.number)
        if status is not None:
            query = query.where(versions.c.status == _checked_status(status))
        if search:
            query = query.where(having(search))
        with self._database.read() as c:
            return [version_of(row) for row in c.execute(query)]

    def page(
        self,
        *,
        search: str = "",
        status: str | None = None,
        owner: str = "",
        order: str = "name",
        offset: int = 0,
        limit: int = 50,
    ) -> SignalPage:
        """Some of the versions with a text, a status and a text in the owner; `order` is a key of `ORDERS`."""
        if order not in ORDERS:
            raise BadParameter(f"order must be one of {', '.join(ORDERS)}, but it is {order[:40]!r}.")
        status = None if status is None else _checked_status(status)
        with self._database.read() as c:
            return page_of(c, text=search, status=status, owner=owner, order=order, offset=offset, limit=limit)

    def related(self, name: str) -> list[SignalVersion]:
        """All versions of a signal, with their parts, what is crossed with them, and what replaces what."""
        with self._database.read() as c:
            return related_to(c, parse_name(name)[0])

    def find(self, names: Sequence[str]) -> dict[str, SignalVersion]:
        """The versions of these names that are in the index, in one question for all."""
        wanted = {name: parse_name(name) for name in names}
        keys = sorted({key_of_text(plain) for plain, _ in wanted.values()})
        with self._database.read() as c:
            rows = [row for at in range(0, len(keys), 5000)
                    for row in c.execute(ALL_VERSIONS.where(signals.c.key.in_(keys[at : at + 5000])))]  # fmt: skip
        found = {(row.name, row.number): version_of(row) for row in rows}
        return {name: found[place] for name, place in wanted.items() if place in found}

    def edit(self, name: str, *, by: str, revision: int | None = None, **changes: str) -> SignalVersion:
        """Change owner, description or made_by of a signal."""
        for what, text in changes.items():
            if what not in ("owner", "description", "made_by"):
                raise BadParameter(f"owner, description and made_by of a signal can be changed, but not {what!r}.")
            checked_text(what, text)
        with self._changing(name, by, "edit", revision) as (c, before):
            c.execute(signals.update().where(signals.c.id == self._ids(c, before)[0]).values(**changes))
        return self.get(name)

    # -- what may be consumed

    def record_vetting(self, name: str, report: VettingResult, *, by: str = "vetting") -> None:
        """Keep what vetting gave; consumers of a white-listed version that failed are told."""
        with self._changing(name, by, "vetting passed" if report.passed else "vetting failed", None) as (c, before):
            version, passed = self._ids(c, before)[1], bool(report.passed)
            row = {"version": version, "time": now_us(), "passed": passed, "report": report.to_dict()}
            c.execute(vettings.insert().values(row))
            if before.status in (PROPOSED, VETTED):
                self._set(c, version, status=VETTED if passed else PROPOSED)
            elif not passed:
                put_notices(c, vetting_texts(before, self._open_consumers(c, before)))

    def vettings(self, name: str) -> list[dict[str, Any]]:
        """What vetting gave, the latest first: time, passed, report."""
        with self._database.read() as c:
            version = self._ids(c, self._get(c, *parse_name(name)))[1]
            rows = c.execute(sa.select(vettings).where(vettings.c.version == version).order_by(vettings.c.id.desc()))
            return [{"time": shown_time(row.time), "passed": row.passed, "report": row.report} for row in rows]

    def allow(self, name: str, *, by: str, revision: int | None = None) -> SignalVersion:
        """White-list a version whose last vetting passed; one that was deprecated is so no longer."""
        with self._changing(name, by, "allow", revision) as (c, before):
            if before.status == RETIRED:
                raise BadInput(f"{shown_name(before.full_name)} is retired; add a new version instead.")
            version = self._ids(c, before)[1]
            last = sa.select(vettings.c.passed).where(vettings.c.version == version).order_by(vettings.c.id.desc())
            if not c.scalar(last.limit(1)):
                how = f"`broadmatch signals vet {before.described_as[:80]} DATA` does it"
                raise BadInput(f"{shown_name(before.full_name)} needs a passed vetting to be white-listed; {how}.")
            self._set(c, version, status=ALLOWED, replacement=None, by_date=None, reason="")
        return self.get(name)

    def deprecate(
        self,
        name: str,
        *,
        by: str,
        use: str | None = None,
        by_date: date | None = None,
        reason: str = "",
        revision: int | None = None,
    ) -> list[Consumer]:
        """Deprecate a version in favour of another, by a date; gives who still consumes it, whose owners get notices.

        What is deprecated already is changed only by whoever names the `revision` they saw.
        """
        checked_text("reason", reason)
        if by_date is not None and by_date < datetime.now(UTC).date():
            raise BadInput(f"{by_date} has passed; give a date by which consumers can have replaced it.")
        with self._changing(name, by, "deprecate", revision) as (c, before):
            if before.status == RETIRED or (before.status == DEPRECATED and revision is None):
                how = f" (revision {before.revision}); name that revision to change it" * (before.status == DEPRECATED)
                raise Conflict(f"{shown_name(before.full_name)} is {before.status} already{how}.")
            version, other = self._ids(c, before)[1], None if use is None else self._get(c, *parse_name(use))
            if other is not None:
                self._check_replacement(c, before, other)
            until = None if by_date is None else int(datetime(*by_date.timetuple()[:3], tzinfo=UTC).timestamp()) * 10**6
            replacement = None if other is None else self._ids(c, other)[1]
            end = None if until is None else until + DAY - 1  # the day itself still counts
            self._set(c, version, status=DEPRECATED, replacement=replacement, by_date=end, reason=reason)
            consumers = self._open_consumers(c, before)
            put_notices(c, deprecation_texts(self._get(c, before.name, before.version), consumers))
        return consumers

    def retire(
        self, name: str, *, by: str, reason: str = "", force: bool = False, revision: int | None = None
    ) -> SignalVersion:
        """End a version that nobody consumes any more, or with `force` any: it cannot be trained with from now on."""
        checked_text("reason", reason)
        with self._changing(name, by, "retire", revision) as (c, before):
            consumers = self._open_consumers(c, before)
            if consumers and not force:
                listed = ", ".join(shown_name(one.model) for one in consumers[:5])
                raise BadInput(
                    f"{shown_name(before.full_name)} is consumed by {len(consumers):,} models ({listed}); "
                    "deprecate it, or retire it by force."
                )
            self._set(c, self._ids(c, before)[1], status=RETIRED, reason=reason or before.reason)
        return self.get(name)

    # -- consumption

    def report(self, *reports: ConsumptionReport) -> None:
        """Take reports of models in, all or none; one that was taken in before changes nothing."""
        if reports:
            with self._database.write() as c:
                write_reports(c, reports)

    def consumers(self, name: str) -> list[Consumer]:
        """The models that consume a version, or did."""
        with self._database.read() as c:
            return consumers_of(c, self._ids(c, self._get(c, *parse_name(name)))[1])

    def models(self) -> list[SignalModel]:
        """All models that ever reported."""
        names = ("name", "team", "environment", "contact", "active", "first_seen", "last_seen")
        with self._database.read() as c:
            rows = c.execute(sa.select(*(models.c[name] for name in names)).order_by(models.c.name)).mappings()
            return [SignalModel(**row) for row in rows]

    def set_active(self, model: str, active: bool, *, by: str, team: str = "", environment: str = "") -> None:
        """Say that a model is no longer in use, or is again; a report makes it active by itself."""
        key = key_of_text(team, environment, model)
        with self._database.write() as c:
            if not c.execute(models.update().where(models.c.key == key).values(active=active)).rowcount:
                raise MissingFile(
                    f"No model {shown_name(model)} of team {team!r} in environment {environment!r} reported."
                )
            after = {"model": model, "team": team, "environment": environment, "active": active}
            c.execute(audit.insert().values(time=now_us(), who=by, what="set active", after=after))

    def edges(self, name: str | None = None) -> list[tuple[SignalVersion, Consumer]]:
        """Which version every model consumes now, of one signal or of all: the lineage."""
        with self._database.read() as c:
            query = (
                ALL_VERSIONS if name is None else ALL_VERSIONS.where(signals.c.key == key_of_text(parse_name(name)[0]))
            )
            found = {row.id: version_of(row) for row in c.execute(query)}
            columns = models.c.name, models.c.team, models.c.environment, models.c.contact, models.c.active
            lines = sa.select(edges, *columns, IS_OPEN.label("open")).join_from(edges, models).where(IS_OPEN)
            if name is not None:
                lines = lines.where(edges.c.version.in_(list(found)))
            return [
                (
                    found[row.version],
                    Consumer(
                        model=row.name, team=row.team, environment=row.environment, contact=row.contact,
                        active=row.active, use=row.use, first_seen=row.first_seen, last_seen=row.last_seen,
                        coverage=row.coverage, open=True,
                    ),
                )
                for row in c.execute(lines)
            ]  # fmt: skip

    def board(self) -> list[BoardRow]:
        """What is deprecated, and retired but still consumed, with how much is left to do; the most urgent first."""
        with self._database.read() as c:
            return board_of(c)

    def waiting_for(self, names: Sequence[str]) -> dict[str, dict[str, int]]:
        """How many models of which team still consume deprecated versions."""
        with self._database.read() as c:
            return teams_waited_for(c, names)

    def unused(self, days: float, *, now: int | None = None) -> list[SignalVersion]:
        """The versions that no model reported for so many days."""
        since = (now_us() if now is None else now) - int(days * DAY)
        with self._database.read() as c:
            ids = set(unused_since(c, since))
            return [
                version_of(row)
                for row in c.execute(ALL_VERSIONS.order_by(signals.c.name, versions.c.number))
                if row.id in ids
            ]

    # -- notices and the trail

    def notices(self, *, waiting: bool = False) -> list[SignalNotice]:
        """What owners were told, or, if `waiting`, what is still to be sent."""
        with self._database.read() as c:
            return list_notices(c, waiting=waiting)

    def send_notices(self, *, webhook: str | None = None, command: Sequence[str] | None = None) -> tuple[int, int]:
        """Send what waits to a webhook or a command, once each; gives how many were sent and how many failed."""
        return send_notices(self._database, webhook=webhook, command=command)

    def audit(self, name: str | None = None, *, limit: int = 1000) -> list[dict[str, Any]]:
        """Who changed what, the latest first: of one signal, or of all."""
        query = sa.select(audit, signals.c.name).outerjoin_from(audit, signals).order_by(audit.c.id.desc()).limit(limit)
        if name is not None:
            query = query.where(signals.c.key == key_of_text(parse_name(name)[0]))
        with self._database.read() as c:
            return [
                {"time": shown_time(row.time), "who": row.who, "what": row.what, "signal": row.name,
                 "before": row.before, "after": row.after}
                for row in c.execute(query)
            ]  # fmt: skip

    # -- within

    def _get(self, c: sa.Connection, name: str, number: int) -> SignalVersion:
        query = ALL_VERSIONS.where(signals.c.key == key_of_text(name), versions.c.number == number)
        row = c.execute(query).one_or_none()
        if row is None:
            raise _unknown(version_name(name, number))
        return version_of(row)

    def _ids(self, c: sa.Connection, version: SignalVersion) -> tuple[int, int]:
        """The numbers of the rows of a signal and its version."""
        query = sa.select(signals.c.id, versions.c.id).join_from(versions, signals)
        of = signals.c.key == key_of_text(version.name), versions.c.number == version.version
        signal, number = c.execute(query.where(*of)).one()
        return signal, number

    @contextlib.contextmanager
    def _changing(
        self, name: str, by: str, what: str, revision: int | None
    ) -> Iterator[tuple[sa.Connection, SignalVersion]]:
        """A change of a version: counted, noted in the trail, refused if somebody else was faster."""
        plain, number = parse_name(name)
        checked_text("by", by, least=1)
        with self._database.write() as c:
            before = self._get(c, plain, number)
            self._check_revision(before, revision)
            self._bump(c, self._ids(c, before)[0], before.revision)
            yield c, before
            self._noted(c, plain, number, by, what, before)

    def _check_revision(self, seen: SignalVersion, revision: int | None) -> None:
        if revision is not None and revision != seen.revision:
            raise _changed(seen.full_name, revision, seen.revision)

    def _bump(self, c: sa.Connection, signal: int, revision: int, **more: Any) -> None:
        """Count a change of a signal; of two at once, the second finds another revision."""
        own = signals.c.id == signal, signals.c.revision == revision
        if not c.execute(signals.update().where(*own).values(revision=revision + 1, **more)).rowcount:
            name = str(c.scalar(sa.select(signals.c.name).where(signals.c.id == signal)))
            raise _changed(name, revision, None)

    def _set(self, c: sa.Connection, version: int, **values: Any) -> None:
        c.execute(versions.update().where(versions.c.id == version).values(**values))

    def _put_version(self, c: sa.Connection, name: str, number: int, row: dict[str, Any]) -> None:
        signal = c.scalar(sa.select(signals.c.id).where(signals.c.key == key_of_text(name)))
        known = versions.c.signal == signal, versions.c.number == number
        if not c.execute(versions.update().where(*known).values(**row)).rowcount:
            c.execute(versions.insert().values(signal=signal, number=number, **row))

    def _noted(
        self, c: sa.Connection, name: str, number: int, by: str, what: str, before: SignalVersion | None
    ) -> SignalVersion:
        """The version as it is now, with a line in the trail that says what was changed."""
        after = self._get(c, name, number)
        new = after.to_dict()
        old = {} if before is None else before.to_dict()
        changed = [key for key in new if new[key] != old.get(key) and key != "revision"]
        row = {"time": now_us(), "who": checked_text("by", by, least=1), "what": what}
        of = {key: old[key] for key in changed if key in old} or None, {key: new[key] for key in changed}
        trail = audit.insert().values(signal=self._ids(c, after)[0], before=of[0], after=of[1], **row)
        c.execute(trail)
        return after

    def _open_consumers(self, c: sa.Connection, version: SignalVersion) -> list[Consumer]:
        return [one for one in consumers_of(c, self._ids(c, version)[1]) if one.open]

    def _check_replacement(self, c: sa.Connection, version: SignalVersion, other: SignalVersion) -> None:
        """Refuse what replaces itself, in however many steps, and what is gone itself."""
        if other.status == RETIRED:
            raise BadInput(f"{shown_name(other.full_name)} is retired itself; name another to use instead.")
        steps = [version.full_name]
        at: SignalVersion | None = other
        while at is not None:
            steps.append(at.full_name)
            if at.full_name == version.full_name:
                circle = " → ".join(shown_name(one) for one in steps[:10])
                raise BadInput(f"The replacements would go in a circle: {circle}; name another to use instead.")
            at = None if at.replacement is None else self._get(c, *parse_name(at.replacement))


def _checked_status(status: str) -> str:
    if status not in STATUSES:
        raise BadParameter(f"status must be one of {', '.join(STATUSES)}, but it is {status[:40]!r}.")
    return status


def _unknown(name: str) -> MissingFile:
    return MissingFile(f"There is no signal {shown_name(name)} in the index; `broadmatch signals list` shows all.")


def _changed(name: str, seen: int, now: int | None) -> Conflict:
    since = "" if now is None else f", it is at {now}"
    return Conflict(
        f"{shown_name(name)} was changed by somebody else since revision {seen}{since}; "
        "look at it again, then change it."
    )
