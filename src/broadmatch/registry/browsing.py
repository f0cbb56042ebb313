"""What people look through: signals page by page, what is related to one, and whom a deprecation waits for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import sqlalchemy as sa

from broadmatch.registry.consumption import IS_OPEN
from broadmatch.registry.names import checked_text, key_of_text, parse_name, version_name
from broadmatch.registry.records import DEPRECATED, RETIRED, SignalVersion, version_of
from broadmatch.registry.schema import edges, models, signals, versions
from broadmatch.registry.version_rows import ALL_VERSIONS

ORDERS: Mapping[str, tuple[Any, ...]] = {
    "name": (signals.c.name, versions.c.number),
    "newest": (versions.c.created.desc(), versions.c.id.desc()),
    "owner": (signals.c.owner, signals.c.name, versions.c.number),
    "due": (versions.c.by_date.is_(None), versions.c.by_date, signals.c.name, versions.c.number),
}
"""By what signals are sorted."""
_SEARCHED = (signals.c.name, signals.c.owner, signals.c.description)


@dataclass(frozen=True)
class SignalPage:
    """Some of the versions that were found, with how many models consume each now; `by_status` counts all of them."""

    found: tuple[tuple[SignalVersion, int], ...]
    total: int
    by_status: Mapping[str, int]


def having(text: str, columns: Sequence[Any] = _SEARCHED) -> Any:
    """The condition that a text stands in one of the columns, in small or in capital letters."""
    return sa.or_(*(one.icontains(checked_text("search", text), autoescape=True) for one in columns))


def page_of(
    connection: sa.Connection, *, text: str, status: str | None, owner: str, order: str, offset: int, limit: int
) -> SignalPage:
    """The versions from `offset` on that have a text, a status and a text in the owner."""
    asked = [having(text)] if text else []
    asked += [having(owner, (signals.c.owner,))] if owner else []
    counts = sa.select(versions.c.status, sa.func.count()).join_from(versions, signals).where(*asked)
    by_status = {one: int(n) for one, n in connection.execute(counts.group_by(versions.c.status))}
    query = ALL_VERSIONS.where(*asked, *([] if status is None else [versions.c.status == status]))
    rows = connection.execute(query.order_by(*ORDERS[order]).offset(offset).limit(limit)).all()
    n_open = _n_open(connection, [row.id for row in rows])
    total = sum(by_status.values()) if status is None else by_status.get(status, 0)
    return SignalPage(tuple((version_of(row), n_open.get(row.id, 0)) for row in rows), total, by_status)


def _n_open(connection: sa.Connection, ids: Sequence[int]) -> dict[int, int]:
    """How many models consume these versions now."""
    counted = sa.select(edges.c.version, sa.func.count(sa.distinct(edges.c.model))).join_from(edges, models)
    rows = connection.execute(counted.where(edges.c.version.in_(ids), IS_OPEN).group_by(edges.c.version))
    return {version: int(n) for version, n in rows}


def related_to(connection: sa.Connection, name: str) -> list[SignalVersion]:
    """All versions of a signal, their parts, what is crossed with them, and what replaces what of them."""
    own = connection.execute(ALL_VERSIONS.where(signals.c.key == key_of_text(name))).all()
    ids, others = [row.id for row in own], [row.replacement for row in own if row.replacement is not None]
    parts = {parse_name(part) for row in own for part in row.settings.get("cross", ())}
    near = sa.or_(
        versions.c.replacement.in_(ids),
        versions.c.id.in_(others),
        versions.c.kind == "cross",
        signals.c.key.in_({key_of_text(part) for part, _ in parts}),
    )
    found = {(row.name, row.number): version_of(row) for row in own}
    numbers = {(one.name, one.version) for one in found.values()}
    for row in connection.execute(ALL_VERSIONS.where(near)):
        crossed = {parse_name(part) for part in row.settings.get("cross", ())} & numbers
        if row.replacement in ids or row.id in others or (row.name, row.number) in parts or crossed:
            found.setdefault((row.name, row.number), version_of(row))
    return [found[place] for place in sorted(found)]


def teams_waited_for(connection: sa.Connection, names: Sequence[str]) -> dict[str, dict[str, int]]:
    """How many models of each team still consume what is deprecated or retired, those with most first."""
    n = sa.func.count(sa.distinct(edges.c.model)).label("n")
    query = (
        sa.select(signals.c.name, versions.c.number, models.c.team, n)
        .join_from(edges, models)
        .join(versions, versions.c.id == edges.c.version)
        .join(signals, signals.c.id == versions.c.signal)
        .where(
            signals.c.key.in_({key_of_text(parse_name(name)[0]) for name in names}),
            versions.c.status.in_((DEPRECATED, RETIRED)),
            IS_OPEN,
        )
        .group_by(signals.c.name, versions.c.number, models.c.team)
        .order_by(n.desc(), models.c.team)
    )
    found: dict[str, dict[str, int]] = {name: {} for name in names}
    for row in connection.execute(query):
        found.get(version_name(row.name, row.number), {})[row.team] = int(row.n)
    return found
