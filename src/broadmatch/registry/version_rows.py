"""A version of a signal as its row in the index: checked before it is written, joined with its signal when read."""

from collections.abc import Mapping, Sequence
from typing import Any

import sqlalchemy as sa

from broadmatch.errors import BadInput
from broadmatch.registry.names import checked_text, shown_name
from broadmatch.registry.records import PROPOSED, now_us
from broadmatch.registry.schema import signals, versions

FEATURES = "features"
"""The kind of what is features already: a matrix, a namespace of Vowpal Wabbit's text."""
_OTHER, _OTHER_SIGNAL = versions.alias(), signals.alias()
ALL_VERSIONS = (
    sa.select(
        versions,
        signals.c.name, signals.c.owner, signals.c.description, signals.c.made_by, signals.c.revision,
        _OTHER_SIGNAL.c.name.label("other"), _OTHER.c.number.label("other_number"),
    )
    .join_from(versions, signals, versions.c.signal == signals.c.id)
    .outerjoin(_OTHER, _OTHER.c.id == versions.c.replacement)
    .outerjoin(_OTHER_SIGNAL, _OTHER_SIGNAL.c.id == _OTHER.c.signal)
)  # fmt: skip
_DATA = ("files", "tables", "columns")


def version_row(
    name: str,
    kind: str,
    settings: Mapping[str, Any] | None,
    data: Mapping[str, Sequence[str]] | None,
    platforms: Sequence[str],
    domains: Sequence[str],
) -> dict[str, Any]:
    """A version to be written, checked as a description would be."""
    from broadmatch.signals.signal import KINDS, signal_from  # who only reads does without what it loads

    given = dict(settings or {})
    if kind == "cross":
        signal_from(name, given)
    elif kind != FEATURES or given:
        if kind not in KINDS:
            kinds = ", ".join([*KINDS, "cross", FEATURES])
            raise BadInput(f"The kind of {shown_name(name)} must be one of {kinds}, but it is {str(kind)[:40]!r}.")
        signal_from(name, {"kind": kind, "column": name, **given})
    known = {what: [checked_text(what, one, least=1) for one in (data or {}).get(what, ())] for what in _DATA}
    if unknown := set(data or {}) - set(_DATA):
        raise BadInput(f"The data behind a signal are files, tables and columns, but there is {sorted(unknown)[0]!r}.")
    lists = {"platforms": platforms, "domains": domains}
    where = {what: [checked_text(what, one, least=1) for one in listed] for what, listed in lists.items()}
    row: dict[str, Any] = {"kind": kind, "settings": given, "status": PROPOSED, "reason": "", "created": now_us()}
    return row | {"data": {what: listed for what, listed in known.items() if listed}, **where}
