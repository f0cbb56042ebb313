"""Who consumes what: reports go in, consumers and the board come out; functions over a connection."""

from collections.abc import Iterable, Sequence
from typing import Any

import sqlalchemy as sa

from broadmatch.registry.names import key_of_text, parse_name, shown_name, version_name
from broadmatch.registry.notices import NoticeText, inserting, put_notices
from broadmatch.registry.records import (
    ALLOWED,
    DEPRECATED,
    PROPOSED,
    RETIRED,
    TRAINING,
    BoardRow,
    Consumer,
    ConsumptionReport,
    day_of,
    now_us,
)
from broadmatch.registry.schema import audit, edges, models, signals, versions

_AT_ONCE = 5000
"""Keys that are asked for in one statement."""
_LAST = sa.case((edges.c.use == TRAINING, models.c.last_training), else_=models.c.last_serving)
IS_OPEN = sa.and_(models.c.active, edges.c.last_seen >= _LAST)
"""Whether a model still consumes a version: its last report for that use has it."""


def write_reports(connection: sa.Connection, reports: Sequence[ConsumptionReport]) -> None:
    """Take reports in: models, edges, signals that nobody defined, and notices of what should not be consumed.

    Everybody writes rows in the same order, so that writers wait for each other, and never in a circle.
    """
    reports = sorted(reports, key=lambda one: (_model_key(one), one.use, one.seen))
    places = {name: parse_name(name) for report in reports for name in report.signals}
    wanted = set(places.values())
    known = _known(connection, wanted)
    if missing := wanted - known.keys():
        _define(connection, sorted(missing, key=lambda one: (key_of_text(one[0]), one[1])))
        known = _known(connection, wanted)
    ids, rows = {_model_key(one): _upsert_model(connection, one) for one in reports}, list[dict[str, Any]]()
    for report in reports:
        model = ids[_model_key(report)]
        about = {"model": model, "use": report.use, "first_seen": report.seen, "last_seen": report.seen}
        rows += [{"version": known[places[n]].id, "coverage": c, **about} for n, c in report.signals.items()]
        _note_reason(connection, report)
        _warn(connection, report, [known[places[name]] for name in report.signals])
    if rows:
        _upsert_edges(connection, rows)


def consumers_of(connection: sa.Connection, version: int) -> list[Consumer]:
    """The models that consume a version or did, those that still do first."""
    columns = models.c.name.label("model"), models.c.team, models.c.environment, models.c.contact, models.c.active
    times = edges.c.use, edges.c.first_seen, edges.c.last_seen, edges.c.coverage
    query = sa.select(*columns, *times, IS_OPEN.label("open")).join_from(edges, models)
    found = connection.execute(query.where(edges.c.version == version)).mappings()
    consumers = [Consumer(**{**row, "open": bool(row["open"])}) for row in found]
    return sorted(consumers, key=lambda one: (not one.open, one.team, one.environment, one.model, one.use))


def board_of(connection: sa.Connection) -> list[BoardRow]:
    """What is deprecated or retired, those that most models still have to replace first."""
    counted = (
        sa.select(
            edges.c.version,
            sa.func.sum(sa.case((IS_OPEN, 1), else_=0)).label("open"),
            sa.func.count().label("all"),
        )
        .join_from(edges, models)
        .join(versions, versions.c.id == edges.c.version)
        .where(versions.c.status.in_((DEPRECATED, RETIRED)))
        .group_by(edges.c.version)
        .subquery()
    )
    other, its_signal = versions.alias(), signals.alias()
    query = (
        sa.select(
            signals.c.name, versions.c.number, signals.c.owner, versions.c.status, versions.c.by_date,
            its_signal.c.name.label("other"), other.c.number.label("other_number"), counted.c.open, counted.c["all"],
        )
        .join_from(versions, signals, versions.c.signal == signals.c.id)
        .outerjoin(counted, counted.c.version == versions.c.id)
        .outerjoin(other, other.c.id == versions.c.replacement)
        .outerjoin(its_signal, its_signal.c.id == other.c.signal)
        .where(versions.c.status.in_((DEPRECATED, RETIRED)))
    )  # fmt: skip
    rows, now = list[BoardRow](), now_us()
    for row in connection.execute(query):
        n_open, n_all = int(row.open or 0), int(row.all or 0)
        if row.status == RETIRED and not n_open:
            continue
        overdue = bool(n_open) and (row.status == RETIRED or (row.by_date is not None and row.by_date < now))
        replacement = None if row.other is None else version_name(row.other, row.other_number)
        about = {"owner": row.owner, "replacement": replacement, "by_date": day_of(row.by_date), "overdue": overdue}
        name = version_name(row.name, row.number)
        rows.append(BoardRow(signal=name, status=row.status, open=n_open, done=n_all - n_open, **about))
    return sorted(rows, key=lambda one: (not one.overdue, -one.open, one.signal))


def unused_since(connection: sa.Connection, time_us: int) -> list[int]:
    """The versions that no model reported since a time, and that were there before it."""
    used = sa.select(edges.c.version).where(edges.c.version == versions.c.id, edges.c.last_seen >= time_us)
    query = sa.select(versions.c.id).where(versions.c.created < time_us, ~used.exists())
    return list(connection.scalars(query))


def _model_key(report: ConsumptionReport) -> str:
    return key_of_text(report.team, report.environment, report.model)


def _known(connection: sa.Connection, wanted: Iterable[tuple[str, int]]) -> dict[tuple[str, int], Any]:
    """The rows of versions by name and number."""
    keys, found = sorted({key_of_text(name) for name, _ in wanted}), dict[tuple[str, int], Any]()
    for at in range(0, len(keys), _AT_ONCE):
        query = sa.select(signals.c.name, versions.c.number, versions.c.id, versions.c.status)
        query = query.join_from(versions, signals).where(signals.c.key.in_(keys[at : at + _AT_ONCE]))
        found |= {(row.name, row.number): row for row in connection.execute(query)}
    return found


def _define(connection: sa.Connection, missing: Sequence[tuple[str, int]]) -> None:
    """Put signals that are consumed and that nobody defined into the index, as proposed and owned by nobody."""
    blank = {"owner": "", "description": "", "made_by": "", "revision": 1}
    rows = [{"key": key_of_text(name), "name": name, **blank} for name in dict.fromkeys(name for name, _ in missing)]
    connection.execute(inserting(connection, signals).on_conflict_do_nothing(index_elements=["key"]), rows)
    ids: dict[str, int] = {}
    for at in range(0, len(rows), _AT_ONCE):
        keys = [row["key"] for row in rows[at : at + _AT_ONCE]]
        found = connection.execute(sa.select(signals.c.name, signals.c.id).where(signals.c.key.in_(keys)))
        ids |= {row.name: row.id for row in found}
    blanks: dict[str, Any] = {"kind": "", "settings": {}, "status": PROPOSED, "reason": "", "created": now_us()}
    blanks |= {"platforms": [], "domains": [], "data": {}}
    insert = inserting(connection, versions).on_conflict_do_nothing(index_elements=["signal", "number"])
    connection.execute(insert, [{"signal": ids[name], "number": number, **blanks} for name, number in missing])


def _upsert_model(connection: sa.Connection, report: ConsumptionReport) -> int:
    last = f"last_{report.use}"
    about = {"key": _model_key(report), "name": report.model, "team": report.team, "environment": report.environment}
    times = {"first_seen": report.seen, "last_seen": report.seen, last: report.seen}
    insert = inserting(connection, models).values(**about, contact=report.contact, active=True, **times)
    new, old = insert.excluded, models.c
    changed: dict[str, Any] = {name: _later(old[name], new[name]) for name in ("last_seen", last)}
    changed["first_seen"] = sa.case((new.first_seen < old.first_seen, new.first_seen), else_=old.first_seen)
    changed["contact"] = sa.case((new.contact != "", new.contact), else_=old.contact)
    changed["active"] = True
    upsert = insert.on_conflict_do_update(index_elements=["key"], set_=changed).returning(models.c.id)
    return int(connection.execute(upsert).scalar_one())


def _upsert_edges(connection: sa.Connection, rows: Sequence[dict[str, Any]]) -> None:
    """Write edges in one statement, in which each may stand once."""
    merged: dict[tuple[int, int, str], dict[str, Any]] = {}
    for row in rows:
        known = merged.setdefault((row["version"], row["model"], row["use"]), row)
        if known is not row:
            newer, older = (row, known) if row["last_seen"] >= known["last_seen"] else (known, row)
            coverage = older["coverage"] if newer["coverage"] is None else newer["coverage"]
            known |= {"first_seen": min(row["first_seen"], known["first_seen"]), "last_seen": newer["last_seen"]}
            known["coverage"] = coverage
    insert = inserting(connection, edges)
    new, old = insert.excluded, edges.c
    measured = sa.and_(new.coverage.is_not(None), new.last_seen >= old.last_seen)
    changed = {
        "first_seen": sa.case((new.first_seen < old.first_seen, new.first_seen), else_=old.first_seen),
        "last_seen": _later(old.last_seen, new.last_seen),
        "coverage": sa.case((measured, new.coverage), else_=old.coverage),
    }
    ordered = [merged[key] for key in sorted(merged)]
    if connection.dialect.name == "sqlite":
        connection.execute(insert.on_conflict_do_update(index_elements=list(edges.primary_key), set_=changed), ordered)
        return
    source = insert.from_select([column.name for column in edges.columns], _unnested(ordered))
    connection.execute(source.on_conflict_do_update(index_elements=list(edges.primary_key), set_=changed))


def _unnested(rows: Sequence[dict[str, Any]]) -> Any:
    """Rows as PostgreSQL takes them at once: an array for each column."""
    arrays = {
        column.name: sa.cast([row[column.name] for row in rows], sa.ARRAY(column.type)) for column in edges.columns
    }
    return sa.select(sa.func.unnest(*arrays.values()).table_valued(*arrays).render_derived())


def _later(old: Any, new: Any) -> Any:
    return sa.case((sa.or_(old.is_(None), new > old), new), else_=old)


def _note_reason(connection: sa.Connection, report: ConsumptionReport) -> None:
    """Keep why signals were used in spite of what the index says; once, however often the report arrives."""
    if report.reason:
        after = {"model": report.model, "team": report.team, "reason": report.reason, "signals": sorted(report.signals)}
        who = report.contact or report.team or report.model
        row = {"key": report.id, "time": report.seen, "who": who, "what": "used in spite of the index", "after": after}
        connection.execute(inserting(connection, audit).values(row).on_conflict_do_nothing(index_elements=["key"]))


def _warn(connection: sa.Connection, report: ConsumptionReport, rows: Sequence[Any]) -> None:
    """A notice, once, to whoever owns a model that consumes what is not white-listed."""
    wrong = sorted((version_name(row.name, row.number), row.status) for row in rows if row.status != ALLOWED)
    if not wrong:
        return
    listed = ", ".join(f"{shown_name(name)} ({status})" for name, status in wrong[:20])
    more = f" and {len(wrong) - 20:,} more" if len(wrong) > 20 else ""
    text = f"{shown_name(report.model)} consumes signals that are not white-listed: {listed}{more}."
    key = ("consumed", _model_key(report), *(part for pair in wrong for part in pair))
    message = {"model": report.model, "team": report.team, "signals": [name for name, _ in wrong], "text": text}
    put_notices(connection, [NoticeText("consumed", key, report.contact or report.team or report.model, message)])
