"""Where an index is, and where reports for it wait, a folder or postgresql://…; without opening it."""

import hashlib
import os
from pathlib import Path

from broadmatch.errors import MissingFile

FILE = "signals.db"
"""The index in its folder."""
HEAD = "2"
"""The last step of the migrations."""


def check_there(address: str) -> None:
    """Refuse a folder that holds no index, so that a mistyped one is not taken for one that is down."""
    if "://" not in address and not (Path(address) / FILE).exists():
        raise MissingFile(
            f"There is no signal index in {address}; correct the name, or make one there with `broadmatch signals add`."
        )


def spool_of(address: str) -> Path:
    """Where reports for an index wait if nothing else is said: in the user's folder of state."""
    base = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    absolute = address if "://" in address else str(Path(address).resolve())
    return Path(base) / "broadmatch" / "signals" / hashlib.blake2b(absolute.encode(), digest_size=8).hexdigest()
