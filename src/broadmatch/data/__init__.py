"""What comes in and goes out: events, pages, and matrices with their names."""

from broadmatch.data.convert import as_features, as_labels
from broadmatch.data.csr import CSR
from broadmatch.data.dataset import Dataset
from broadmatch.data.event_rows import Piece, Position, Rows
from broadmatch.data.event_stream import EventStream
from broadmatch.data.events import ClickLog
from broadmatch.data.hierarchy import Hierarchy, with_ancestors
from broadmatch.data.hierarchy_file import read_hierarchy
from broadmatch.data.impressions import Batch, Impressions
from broadmatch.data.matrices import read_dataset, write_dataset
from broadmatch.data.names import Names
from broadmatch.data.pages import Page, read_pages, write_pages
from broadmatch.data.rejects import Rejects

__all__ = [
    "CSR",
    "Batch",
    "ClickLog",
    "Dataset",
    "EventStream",
    "Hierarchy",
    "Impressions",
    "Names",
    "Page",
    "Piece",
    "Position",
    "Rejects",
    "Rows",
    "as_features",
    "as_labels",
    "read_dataset",
    "read_hierarchy",
    "read_pages",
    "with_ancestors",
    "write_dataset",
    "write_pages",
]
