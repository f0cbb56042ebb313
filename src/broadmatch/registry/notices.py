"""What owners of models and signals are told: each thing once, written down before it is sent."""

import json
import logging
import re
import shlex
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

import sqlalchemy as sa

from broadmatch.registry.names import key_of_text, shown_name
from broadmatch.registry.records import Consumer, SignalVersion, now_us, shown_time
from broadmatch.registry.schema import notices
from broadmatch.registry.sending import send

if TYPE_CHECKING:
    from broadmatch.registry.database import Database

log = logging.getLogger("broadmatch")
_CLAIM = 60_000_000
"""Microseconds after which a notice that somebody began to send, and did not finish, is anybody's again."""


class NoticeText(NamedTuple):
    """A notice that is to be kept: its kind, what makes it the same as another, to whom, and what it says."""

    kind: str
    same: tuple[str, ...]
    recipient: str
    message: dict[str, Any]


@dataclass(frozen=True, kw_only=True)
class SignalNotice:
    """A notice as the index has it; `sent` is None while it waits."""

    id: str
    kind: str
    recipient: str
    message: dict[str, Any]
    created: int
    sent: int | None

    def to_dict(self) -> dict[str, Any]:
        """Everything, in what JSON has."""
        sent = None if self.sent is None else shown_time(self.sent)
        return asdict(self) | {"created": shown_time(self.created), "sent": sent}


def inserting(connection: sa.Connection, table: sa.Table) -> Any:
    """An insert that can say what becomes of a row that is there already."""
    if connection.dialect.name == "sqlite":
        from sqlalchemy.dialects.sqlite import insert as of_sqlite

        return of_sqlite(table)
    from sqlalchemy.dialects.postgresql import insert as of_postgresql  # a dialect takes a while to import

    return of_postgresql(table)


def put_notices(connection: sa.Connection, texts: Iterable[NoticeText]) -> None:
    """Keep notices to be sent; one that was kept before is not kept again."""
    rows = [
        {"key": key_of_text(*one.same), "kind": one.kind, "recipient": one.recipient, "message": one.message}
        for one in texts
    ]
    if rows:
        insert = inserting(connection, notices).on_conflict_do_nothing(index_elements=["key"])
        connection.execute(insert, [{**row, "created": now_us()} for row in rows])


def deprecation_texts(version: SignalVersion, consumers: Sequence[Consumer]) -> list[NoticeText]:
    """What the owners of the consumers of a deprecated version are told."""
    until = "" if version.by_date is None else f" until {version.by_date}"
    instead = "" if version.replacement is None else f"; use {shown_name(version.replacement)} instead"
    why = f" ({version.reason})" if version.reason else ""
    text = f"{shown_name(version.full_name)}, which ", f", is deprecated{until}{instead}{why}."
    return [_to_consumer("deprecated", version, one, text) for one in consumers]


def version_texts(version: SignalVersion, before: SignalVersion, consumers: Sequence[Consumer]) -> list[NoticeText]:
    """What consumers of earlier versions are told of a new one, with what tries it."""
    command, line = trying(version, before)
    how = f". To try it, add to the description: {line} and run: {command}"
    text = f"{shown_name(version.full_name)} is a new version of what ", how
    return [_to_consumer("new version", version, one, text, {"command": command, "line": line}) for one in consumers]


def vetting_texts(version: SignalVersion, consumers: Sequence[Consumer]) -> list[NoticeText]:
    """What owners and consumers are told of a signal in use that failed its vetting."""
    text = f"{shown_name(version.full_name)}, which ", ", failed its vetting."
    same = ("vetting", version.full_name, str(version.revision), "owner")
    to_owner = NoticeText("vetting", same, version.owner, {"signal": version.full_name, "text": "you own".join(text)})
    return [to_owner] * bool(version.owner) + [_to_consumer("vetting", version, one, text) for one in consumers]


def trying(version: SignalVersion, before: SignalVersion) -> tuple[str, str]:
    """The command that compares a new version with one before in one pass, and the line that a description needs."""
    new, old = (re.sub(r"[\s,\[\]*]", "?", one.described_as) for one in (version, before))  # patterns, as without= has
    variants = shlex.quote(f"before: without={new}"), shlex.quote(f"new: without={old}")
    command = (
        "broadmatch clicks train DATA --describe TOML --out compared/ --predictions compared.p/ "
        f"--variant {variants[0]} --variant {variants[1]} && broadmatch clicks validate compared.p/"
    )
    return command, description_line(version)


def description_line(version: SignalVersion) -> str:
    """The line of a description that uses a version; without a column of its own, the one behind it or its name."""
    if version.kind == "cross":
        return f"{_toml(version.described_as)} = {{ cross = {_toml(version.settings['cross'])} }}"
    columns = version.data.get("columns", ())
    column = columns[0] if len(columns) == 1 else version.name
    settings = {"kind": version.kind, "column": column, **version.settings}
    inner = ", ".join(f"{key} = {_toml(value)}" for key, value in settings.items())
    return f"{_toml(version.described_as)} = {{ {inner} }}"


def _toml(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _to_consumer(
    kind: str, version: SignalVersion, one: Consumer, text: tuple[str, str], more: dict[str, Any] | None = None
) -> NoticeText:
    """A notice to whoever owns a model; what it does with the signal stands between the two parts of the text."""
    same = (kind, version.full_name, str(version.revision), one.team, one.environment, one.model, one.use)
    about: dict[str, Any] = {"signal": version.full_name, "model": one.model, "team": one.team, "use": one.use}
    about |= {"replacement": version.replacement, "by": None if version.by_date is None else str(version.by_date)}
    whole = f"{shown_name(one.model)} consumes in {one.use}".join(text)
    return NoticeText(kind, same, one.contact or one.team or one.model, {**about, **(more or {}), "text": whole})


def list_notices(connection: sa.Connection, *, waiting: bool) -> list[SignalNotice]:
    """Notices, the oldest first: those that wait to be sent, or all."""
    query = sa.select(notices).order_by(notices.c.id)
    rows = connection.execute(query.where(notices.c.sent.is_(None)) if waiting else query)
    return [
        SignalNotice(
            id=row.key, kind=row.kind, recipient=row.recipient, message=row.message, created=row.created, sent=row.sent
        )
        for row in rows
    ]


def send_notices(database: "Database", *, webhook: str | None, command: Sequence[str] | None) -> tuple[int, int]:
    """Send what waits, each by one sender only; gives how many were sent, and how many failed and wait on.

    A sender that is killed between sending and noting leaves a notice that is sent again, with the same id.
    """
    n_sent = n_failed = 0
    with database.read() as connection:
        waiting = list_notices(connection, waiting=True)
    for notice in waiting:
        now = now_us()
        free = sa.or_(notices.c.claimed.is_(None), notices.c.claimed < now - _CLAIM)
        claim = notices.update().where(notices.c.key == notice.id, notices.c.sent.is_(None), free).values(claimed=now)
        with database.write() as connection:
            if not connection.execute(claim).rowcount:
                continue
        body = {"id": notice.id, "kind": notice.kind, "to": notice.recipient, **notice.message}
        error = send(body, webhook=webhook, command=command)
        done: dict[str, Any] = {"sent": now_us()} if error is None else {"claimed": None}
        with database.write() as connection:
            connection.execute(notices.update().where(notices.c.key == notice.id).values(**done))
        n_sent, n_failed = n_sent + (error is None), n_failed + (error is not None)
        if error is not None:
            log.error("A notice to %s could not be sent: %s; it waits.", shown_name(notice.recipient), error)
            break
    return n_sent, n_failed
