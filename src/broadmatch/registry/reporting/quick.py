"""Versions of an index in a folder, read without loading SQLAlchemy: most checks before learning find nothing wrong."""

import contextlib
import json
import sqlite3
from collections.abc import Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import Any
from urllib.parse import quote

from broadmatch.registry.names import key_of_text, parse_name
from broadmatch.registry.records import SignalVersion, version_of
from broadmatch.registry.reporting.addresses import FILE, HEAD

_MOST, _SECONDS = 5000, 5.0
_JSON = ("settings", "platforms", "domains", "data")
_VERSIONS = """
    SELECT v.*, s.name, s.owner, s.description, s.made_by, s.revision, r.name AS other, o.number AS other_number
    FROM versions v JOIN signals s ON s.id = v.signal
    LEFT JOIN versions o ON o.id = v.replacement LEFT JOIN signals r ON r.id = o.signal
    WHERE s.key IN (SELECT value FROM json_each(?))
"""


def find_in_folder(address: str, names: Sequence[str]) -> dict[str, SignalVersion] | None:
    """What `SignalIndex.find` gives; None where it has to be asked: no folder, not up to date, locked, damaged.

    >>> import tempfile
    >>> from broadmatch.registry import SignalIndex
    >>> folder = tempfile.mkdtemp()
    >>> added = SignalIndex.open(folder).add("price", kind="number", owner="anna", by="anna")
    >>> find_in_folder(folder, ["price", "prize"]) == {"price": added}, find_in_folder("postgresql://host/db", [])
    (True, None)
    """
    if "://" in address or len(names) > _MOST:
        return None
    wanted = {name: parse_name(name) for name in names}
    keys = json.dumps(sorted({key_of_text(plain) for plain, _ in wanted.values()}))
    file = f"file:{quote(str(Path(address).resolve() / FILE))}?mode=ro"
    try:
        with contextlib.closing(sqlite3.connect(file, uri=True, timeout=_SECONDS)) as connection:
            if connection.execute("SELECT version_num FROM alembic_version").fetchone() != (HEAD,):
                return None
            cursor = connection.execute(_VERSIONS, (keys,))
            columns = [one[0] for one in cursor.description]
            rows = [_row(dict(zip(columns, values, strict=True))) for values in cursor]
    except (sqlite3.Error, ValueError, KeyError, TypeError, AttributeError):
        return None
    found = {(row.name, row.number): version_of(row) for row in rows}
    return {name: found[place] for name, place in wanted.items() if place in found}


def _row(plain: dict[str, Any]) -> Any:
    return SimpleNamespace(**plain | {name: json.loads(plain[name]) for name in _JSON})
