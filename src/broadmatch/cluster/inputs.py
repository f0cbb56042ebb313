"""Inputs cut into shards: parts of files, in their order, about equally large; what a task needs to read its own."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from broadmatch.errors import BadParameter
from broadmatch.io import ClickLog, Page, PageSource, Rejects, buckets
from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import packing_of_file
from broadmatch.io.formats import STANDARD_INPUT, TABLES, format_of
from broadmatch.io.pages import PageFile, PageReader
from broadmatch.io.streams import Mark, Span

# Measured by benchmarks/cluster_harvest.py: what a process holds at first, and what becomes of a byte of a log.
_BASE, _PLAIN, _PACKED = 300_000_000, 4, 24


class PageShard(NamedTuple):
    """Some pages of a source: parts of its files."""

    files: list[PageFile]
    columns: ColumnMap
    max_page_bytes: int

    def read(self, rejects: Rejects, seen: Iterable[str] = ()) -> Iterator[Page]:
        """The pages that are good and not named as one of those `seen`."""
        buckets.fetch_all(file.path for file in self.files)
        return PageReader(rejects, self.columns, self.max_page_bytes, seen).read(self.files)


def log_shards(log: ClickLog, n_shards: int) -> list[ClickLog]:
    """Cut a click log: Parquet by row groups, large files of plain text by lines, what is packed by files."""
    files = _on_disk(log.files)
    cuts = cut_files(files, log.marks, n_shards)
    return [log.between([Span(files[i], start, stop) for i, start, stop in cut]) for cut in cuts]


def shards_for(log: ClickLog, memory: int) -> int:
    """In how many shards a log is cut at least, so that a task with so much memory can gather one.

    >>> from pathlib import Path
    >>> _ = Path("log.csv").write_text("query,page\\n" + 1000 * "tea,a.html\\n")
    >>> shards_for(ClickLog("log.csv"), memory=10**9)
    1
    """
    sizes = [Path(file).stat().st_size * (_PLAIN if _is_plain(file) else _PACKED) for file in log.files]
    return -(-sum(sizes) // max(memory - _BASE, _BASE))


def page_shards(pages: PageSource, n_shards: int) -> list[PageShard]:
    """Cut a source of pages: Parquet by row groups, large CSV files by lines, all else by files."""
    files = _on_disk([str(file.path) for file in pages.files] or [STANDARD_INPUT])
    return [
        PageShard([PageFile(*pages.files[i][:2], a, b) for i, a, b in cut], pages.columns, pages.max_page_bytes)
        for cut in cut_files(files, pages.marks, n_shards)
    ]


def cut_files(
    files: Sequence[str], marks: Callable[[str], Sequence[Mark]], n_shards: int
) -> list[list[tuple[int, Mark, Mark | None]]]:
    """For each shard the numbers of its files, and from where to where it has them; large ones are cut at their marks.

    >>> from pathlib import Path
    >>> for name in "abc":
    ...     _ = Path(name).write_text("12345")
    >>> [[number for number, *_ in shard] for shard in cut_files(["a", "b", "c"], lambda file: [], 2)]
    [[0], [1, 2]]
    """
    sizes = [Path(file).stat().st_size for file in files]
    whole, before = max(sum(sizes), 1), 0.0
    shards: list[list[tuple[int, Mark, Mark | None]]] = [[] for _ in range(n_shards)]
    for number, (file, size) in enumerate(zip(files, sizes, strict=True)):
        ends = marks(file) if 2 * n_shards * size > whole and n_shards > 1 else ()
        rows, start = (ends[-1].rows if ends else 0), Mark()
        for at, end in enumerate(ends or [Mark()]):
            share = size * (end.rows - start.rows) / rows if rows else size
            shard = shards[min(int((before + share / 2) / whole * n_shards), n_shards - 1)]
            stop = end if at + 1 < len(ends) else None
            if shard and shard[-1][0] == number:
                shard[-1] = (number, shard[-1][1], stop)
            else:
                shard.append((number, start, stop))
            before, start = before + share, end
    return shards


def _is_plain(file: str) -> bool:
    return format_of(Path(file), TABLES) != "parquet" and packing_of_file(Path(file)) is None


def _on_disk(files: Sequence[str]) -> list[str]:
    if STANDARD_INPUT in files:
        raise BadParameter("Standard input cannot be read by several hosts; give files that all of them see.")
    return list(files)
