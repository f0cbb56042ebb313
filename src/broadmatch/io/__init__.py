"""One way in and out of files: logs, pages, tables, matrices, models."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broadmatch.io.click_log import ClickLog
    from broadmatch.io.hierarchies import read_hierarchy
    from broadmatch.io.matrices.datasets import read_dataset, read_features, write_dataset
    from broadmatch.io.pages import Page, PageSource, read_pages, write_pages
    from broadmatch.io.rejects import Rejects
    from broadmatch.io.streams import Position, RecordStream
    from broadmatch.io.tables import read_pairs
    from broadmatch.io.vw import VWStream

_HOMES = {
    "ClickLog": "click_log",
    "Page": "pages",
    "PageSource": "pages",
    "Position": "streams",
    "RecordStream": "streams",
    "Rejects": "rejects",
    "VWStream": "vw",
    "read_dataset": "matrices.datasets",
    "read_features": "matrices.datasets",
    "read_hierarchy": "hierarchies",
    "read_pages": "pages",
    "read_pairs": "tables",
    "write_dataset": "matrices.datasets",
    "write_pages": "pages",
}
__all__ = [
    "ClickLog",
    "Page",
    "PageSource",
    "Position",
    "RecordStream",
    "Rejects",
    "VWStream",
    "read_dataset",
    "read_features",
    "read_hierarchy",
    "read_pages",
    "read_pairs",
    "write_dataset",
    "write_pages",
]


def __getattr__(name: str) -> Any:
    """Import what is asked for only: a model opens without the readers of logs."""
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
