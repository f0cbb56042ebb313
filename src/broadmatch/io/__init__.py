"""One way in and out of files: logs, pages, matrices, models."""

from broadmatch.io.click_log import ClickLog
from broadmatch.io.hierarchies import read_hierarchy
from broadmatch.io.matrices.datasets import read_dataset, write_dataset
from broadmatch.io.pages import Page, read_pages, write_pages
from broadmatch.io.rejects import Rejects
from broadmatch.io.rows import Piece, Position, Rows
from broadmatch.io.streams import EventStream
from broadmatch.io.vw import ExampleText

__all__ = [
    "ClickLog",
    "EventStream",
    "ExampleText",
    "Page",
    "Piece",
    "Position",
    "Rejects",
    "Rows",
    "read_dataset",
    "read_hierarchy",
    "read_pages",
    "write_dataset",
    "write_pages",
]
