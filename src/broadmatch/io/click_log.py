"""Click logs and impression logs in CSV, TSV, JSON lines and Parquet, read by DuckDB; bad rows are kept aside.

Our columns are `query`, `page`, and where the log has them `time`, `clicks` (how many; 1 a row otherwise) and `clicked`
(0 or 1: an impression log, of which only the rows with 1 are clicks).
"""

from collections.abc import Mapping, Sequence
from datetime import UTC, date, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from broadmatch.errors import BadInput, BadParameter
from broadmatch.io.duck import clear_errors, text
from broadmatch.io.files import PACKED, Source, expand, open_binary
from broadmatch.io.log_files import FORMATS, Kind, look_at, reading
from broadmatch.io.rejects import Rejects
from broadmatch.params import OneOf

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

COLUMNS = ("query", "page", "time", "clicks", "clicked")
REQUIRED = ("query", "page")
FAULTS = {
    1: "the line is not a JSON object",
    2: "the query is empty",
    3: "the page is empty",
    4: "clicks is not a whole number",
    5: "clicks is negative",
    6: "clicked is neither 0 nor 1",
    7: "the time cannot be read",
    8: "the line repeats the column names",
}
"""Why a row is rejected, by the number that stands in the column `fault`."""

_MALFORMED = {
    "MISSING COLUMNS": "the line has too few fields",
    "TOO MANY COLUMNS": "the line has too many fields",
    "UNQUOTED VALUE": "the quotes of a field are broken",
    "INVALID ENCODING": "the line is not UTF-8",
    "LINE SIZE OVER MAXIMUM": "the line is longer than two megabytes",
}
_KEPT = 1000


class ClickLog:
    """The rows of a click or impression log, in one file or many.

    `source` is a file, a folder, a pattern, or a list of these. `columns` maps our names to the log's, such as
    `{"query": "search_term", "page": "url"}`; a column of ours that is not mapped is taken where it has our name.
    `names` lists the columns of CSV or TSV files that have no header line. `format` ("csv", "tsv", "jsonl", "parquet")
    is told from the file's suffix if not given. Times are ISO texts (UTC where no offset is given), timestamps, or
    seconds, milli-, micro- or nanoseconds since 1970, told apart by their size.
    """

    def __init__(
        self,
        source: Source,
        *,
        columns: Mapping[str, str] | None = None,
        names: Sequence[str] | None = None,
        format: str | None = None,
        rejects: Rejects | None = None,
    ) -> None:
        OneOf((None, *dict.fromkeys(FORMATS.values()))).check("format", format)
        self.mapping = dict(columns or {})
        for ours in self.mapping:
            OneOf(COLUMNS).check("a key of columns", ours)
        self.rejects = Rejects() if rejects is None else rejects
        self._has_header = names is None
        suffixes = [suffix + packed for suffix in FORMATS for packed in ("", *PACKED)]
        self.files = expand(source, None if format else suffixes)
        self._kinds: dict[Kind, list[Path]] = {}
        for file in self.files:
            kind = look_at(file, format, None if names is None else tuple(names))
            self._kinds.setdefault(kind, []).append(file)
        self.columns = self._our_columns()

    def _our_columns(self) -> tuple[str, ...]:
        """Which of our columns the log has; every file must have them all."""
        wanted = {*REQUIRED, *self.mapping}
        wanted |= {ours for ours in COLUMNS if all(ours in kind.columns for kind in self._kinds)}
        for kind, files in self._kinds.items():
            for ours in sorted(wanted):
                theirs = self._theirs(ours)
                if theirs not in kind.columns:
                    there = ", ".join(map(repr, kind.columns))
                    raise BadInput(
                        f"{files[0]} has no column {theirs!r} for our {ours!r}; its columns are {there}: "
                        f"say which it is with columns={{{ours!r}: ...}}."
                    )
        return tuple(ours for ours in COLUMNS if ours in wanted)

    def _theirs(self, ours: str) -> str:
        return self.mapping.get(ours, ours)

    def check_packed(self) -> None:
        """Read gzip and zstd files through once: DuckDB takes a damaged or cut one for a whole one."""
        for kind, files in self._kinds.items():
            for file in files if kind.packing != "none" else []:
                with open_binary(file) as stream:
                    while stream.read(1 << 22):
                        pass

    def sql(self, *, store_rejects: bool = False) -> str:
        """A SELECT of every row that has the right number of fields, good or bad.

        Its columns are query, page, time (microseconds since 1970, NULL without times), clicks, fault (NULL in a good
        row, otherwise a key of `FAULTS`), file, and row (the row as it came, as text).
        """
        return " UNION ALL ".join(self._select(kind, files, store_rejects) for kind, files in self._kinds.items())

    def _select(self, kind: Kind, files: list[Path], store_rejects: bool) -> str:
        wanted = [self._theirs(ours) for ours in self.columns]
        table, places, row = reading(kind, files, wanted, header=self._has_header, store_rejects=store_rejects)
        place = {ours: places[self._theirs(ours)] for ours in self.columns}
        faults = ["WHEN trim(coalesce(query, '')) = '' THEN 2", "WHEN trim(coalesce(page, '')) = '' THEN 3"]
        values = [
            f"CAST({place['query']} AS VARCHAR) AS query",
            f"CAST({place['page']} AS VARCHAR) AS page",
            f"{row} AS row",
            "filename AS file",
        ]
        clicks = "1"
        if kind.format in ("csv", "tsv") and self._has_header:
            # Files that were put together one after the other keep their header lines.
            query, page = text(self._theirs("query")), text(self._theirs("page"))
            faults.insert(0, f"WHEN query = {query} AND page = {page} THEN 8")
        if kind.format == "jsonl":
            values.append("fields IS NULL AS broken")
            faults.insert(0, "WHEN broken THEN 1")
        if "clicks" in place:
            values.append(f"TRY_CAST({place['clicks']} AS DOUBLE) AS n")
            faults += [f"WHEN n IS NULL OR isnan(n) OR abs(n) > {2**53} OR n != floor(n) THEN 4", "WHEN n < 0 THEN 5"]
            clicks = "CAST(n AS BIGINT)"
        if "clicked" in place:
            values.append(f"{_flag(place['clicked'])} AS clicked")
            faults.append("WHEN clicked IS NULL THEN 6")
            clicks = f"CASE WHEN clicked THEN {clicks} ELSE 0 END"
        if "time" in place:
            values.append(f"{_time(place['time'], kind.is_time(self._theirs('time')))} AS time")
            faults.append("WHEN time IS NULL THEN 7")
        else:
            values.append("CAST(NULL AS BIGINT) AS time")
        judged = f"(FROM (FROM {table} SELECT {', '.join(values)}) SELECT *, CASE {' '.join(faults)} END AS fault)"
        counted = f"CASE WHEN fault IS NULL THEN {clicks} END AS clicks"
        return f"(FROM {judged} SELECT query, page, time, {counted}, fault, file, row)"

    def settle(self, db: "DuckDBPyConnection", good: int, faults: Mapping[int, int]) -> None:
        """After a scan with `store_rejects`: file the bad rows, of which `faults` has the counts, and report them.

        A thousand lines that cannot be split and a thousand rows with bad values are filed one by one; of the others
        only the number is.
        """
        with clear_errors(self.files):
            self._settle_malformed(db)
            shown = self._shown(db, _KEPT // len(faults)) if faults else {}
            for fault, count in sorted(faults.items()):
                for kept in shown[fault]:
                    self.rejects.add(kept["file"], None, FAULTS[fault], kept["row"] or "")
                if count > len(shown[fault]):
                    self.rejects.add(self._place(), None, FAULTS[fault], "", count - len(shown[fault]))
        self.rejects.finish(good)

    def _shown(self, db: "DuckDBPyConnection", n: int) -> dict[int, list[dict[str, str]]]:
        """The first `n` rows of each fault, by file and text, in one more scan."""
        first = f"min(struct_pack(file := file, row := row), {n})"
        return dict(
            db.execute(f"FROM ({self.sql()}) SELECT fault, {first} WHERE fault IS NOT NULL GROUP BY fault").fetchall()
        )

    def _settle_malformed(self, db: "DuckDBPyConnection") -> None:
        """File the lines that DuckDB could not split into fields."""
        tables = {name for (name,) in db.execute("FROM duckdb_tables() SELECT table_name").fetchall()}
        if "reject_errors" not in tables:
            return
        db.execute(
            """CREATE OR REPLACE TEMP TABLE malformed AS FROM reject_errors JOIN reject_scans USING (scan_id, file_id)
            SELECT any_value(file_path) AS file, line, min(CAST(error_type AS VARCHAR)) AS why,
                any_value(csv_line) AS row
            GROUP BY scan_id, file_id, line"""
        )
        for file, line, why, row in db.execute(f"FROM malformed ORDER BY file, line LIMIT {_KEPT}").fetchall():
            self.rejects.add(file, line, _in_words(why), (row or "").rstrip("\r\n"))
        rest = (
            f"FROM (FROM malformed ORDER BY file, line OFFSET {_KEPT}) SELECT why, count(*) GROUP BY why ORDER BY why"
        )
        for why, count in db.execute(rest).fetchall():
            self.rejects.add(self._place(), None, _in_words(why), "", count)

    def _place(self) -> str:
        """Where rows are from that are only counted."""
        return str(self.files[0]) if len(self.files) == 1 else f"{self.files[0]} and {len(self.files) - 1} more"


def microseconds(moment: str | float | date | datetime) -> int:
    """A moment as microseconds since 1970: ISO text, date, datetime (UTC if it has no offset), or a number as in logs.

    >>> microseconds("2024-01-01") == microseconds(1704067200) == microseconds(1704067200000)
    True
    """
    try:
        if isinstance(moment, int | float):
            size = abs(moment)
            return int(moment * (10**6 if size < 1e11 else 10**3 if size < 1e14 else 1 if size < 1e17 else 1e-3))
        when = datetime.fromisoformat(moment if isinstance(moment, str) else moment.isoformat())
    except (ValueError, OverflowError, AttributeError) as error:
        raise BadParameter(f"A time must be ISO text such as '2024-01-31', but it is {moment!r}.") from error
    since = (when if when.tzinfo else when.replace(tzinfo=UTC)) - datetime(1970, 1, 1, tzinfo=UTC)
    return (since.days * 86_400 + since.seconds) * 10**6 + since.microseconds


def _time(place: str, is_time: bool) -> str:
    """SQL for microseconds since 1970, NULL if it cannot be read."""
    if is_time:
        return f"epoch_us(TRY_CAST({place} AS TIMESTAMPTZ))"
    number = f"TRY_CAST({place} AS DOUBLE)"
    units = ((1e11, "1e6"), (1e14, "1e3"), (1e17, "1"))
    unit = " ".join(f"WHEN abs({number}) < {size:.0f} THEN {factor}" for size, factor in units)
    since = f"TRY_CAST({number} * CASE {unit} ELSE 1e-3 END AS BIGINT)"
    read = f"epoch_us(TRY_CAST(CAST({place} AS VARCHAR) AS TIMESTAMPTZ))"
    return f"CASE WHEN {number} IS NULL THEN {read} ELSE {since} END"


def _flag(place: str) -> str:
    """SQL for true or false from 1, 0, true, false; NULL otherwise."""
    word = f"lower(trim(CAST({place} AS VARCHAR)))"
    return (
        f"CASE WHEN {word} = 'true' OR TRY_CAST({word} AS DOUBLE) = 1 THEN true "
        f"WHEN {word} = 'false' OR TRY_CAST({word} AS DOUBLE) = 0 THEN false END"
    )


def _in_words(error_type: str) -> str:
    return _MALFORMED.get(error_type, f"the line cannot be split into fields ({error_type.lower()})")
