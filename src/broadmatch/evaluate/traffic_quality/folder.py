"""The hours in a folder: one small Parquet file each, and the last one as JSON for whoever shows it."""

import json
import logging
import math
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from broadmatch.errors import BadInput
from broadmatch.evaluate.traffic_quality.figures import Figure, HourFigures
from broadmatch.evaluate.traffic_quality.watch import HOUR
from broadmatch.io.files import replacing_file
from broadmatch.io.values import arrow_of, texts_to_arrow

if TYPE_CHECKING:
    import pyarrow as pa

log = logging.getLogger("broadmatch")

NOW = "now.json"
_HOUR_FILE = re.compile(r"hour-(\d{8}T\d{2})\.parquet")
_STAMP = "%Y%m%dT%H"
_MOST_BYTES, _MOST_GAUGES, _LONGEST = 1 << 23, 10_000, 200
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class QualityGauge(NamedTuple):
    """What a value of the last hour is of; as labels of a metric of Prometheus."""

    metric: str
    model: str
    slicing: str
    slice: str


class QualityFolder:
    """The figures of hours in a folder; those older than `keep_days` before the last one are removed.

    A file is named by its hour and holds nothing else than its figures: written again after a kill, it has the same
    bytes. Columns: `model`, `slicing`, `slice`, `bucket_start`, `bucket_end` (UTC), `metric`, `value`, `n`; those of a
    `ProgressiveReport` mean the same there.
    """

    def __init__(self, path: Path, keep_days: int = 30) -> None:
        self.path, self.keep_days = path, keep_days

    def write(self, hour: HourFigures) -> None:
        """Keep the figures of an hour, and remove old ones."""
        import pyarrow.parquet as pq

        with replacing_file(self.path / f"hour-{_moment(hour.start):{_STAMP}}.parquet") as out:
            pq.write_table(to_table(hour), out, compression="zstd", write_page_checksum=True)
        listed = [[*f[:4], f.value if math.isfinite(f.value) else None, f.n] for f in hour.figures]
        with replacing_file(self.path / NOW) as out:
            out.write(json.dumps({"start": hour.start, "figures": listed}).encode())
        for start, file in self._files():
            if start < hour.start - self.keep_days * 24 * HOUR:
                file.unlink(missing_ok=True)

    def newest(self) -> int | None:
        """When the last hour that is kept starts; None if there is none."""
        return max((start for start, _ in self._files()), default=None)

    def hours(self, since: int | None = None) -> Iterator[HourFigures]:
        """The hours that are kept, from a time on, in order; `BadInput` names a file that is damaged."""
        import pyarrow as pa
        import pyarrow.parquet as pq

        for start, file in self._files():
            if since is not None and start < since:
                continue
            try:
                rows = pq.read_table(file, columns=["metric", "model", "slicing", "slice", "value", "n"]).to_pylist()
            except (pa.ArrowException, OSError, KeyError) as error:
                raise BadInput(f"{file} is damaged ({str(error)[:100]}); remove it.") from error
            figures = [Figure(**{**row, "value": math.nan if row["value"] is None else row["value"]}) for row in rows]
            yield HourFigures(start, tuple(figures))

    def _files(self) -> list[tuple[int, Path]]:
        found = []
        for file in self.path.glob("hour-*.parquet"):
            if name := _HOUR_FILE.fullmatch(file.name):
                moment = datetime.strptime(name[1], _STAMP).replace(tzinfo=UTC)
                found.append(((moment - _EPOCH) // timedelta(microseconds=1), file))
        return sorted(found)


def to_table(hour: HourFigures) -> "pa.Table":
    """The figures of an hour as a table in long format."""
    import pyarrow as pa

    figures, n = hour.figures, len(hour.figures)

    def named(values: list[str]) -> pa.Array:
        return texts_to_arrow(values).cast(pa.string()).dictionary_encode()

    def stamp(time: int) -> pa.Array:
        return arrow_of(np.full(n, time)).cast(pa.timestamp("us", tz="UTC"))

    values = np.array([f.value for f in figures], np.float64)
    return pa.table(
        {
            "model": named([f.model for f in figures]),
            "slicing": named([f.slicing for f in figures]),
            "slice": named([f.slice for f in figures]),
            "bucket_start": stamp(hour.start),
            "bucket_end": stamp(hour.start + HOUR),
            "metric": named([f.metric for f in figures]),
            "value": arrow_of(values, ~np.isfinite(values)),
            "n": arrow_of(np.array([f.n for f in figures], np.int64)),
        }
    )


def quality_gauges(folder: Path) -> dict[QualityGauge, float]:
    """The figures of the last hour in a folder, for metrics; none if there is no hour yet.

    A damaged file is said to the log and left alone. `Hour` has the start of the hour, in seconds since 1970.
    """
    path = folder / NOW
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
    except FileNotFoundError:
        return {}
    try:
        if len(content) > _MOST_BYTES:
            raise ValueError("it is too long")
        plain = json.loads(content)
        found = {QualityGauge("Hour", "", "all", "all"): float(plain["start"]) / 1e6}
        for metric, model, slicing, name, value, _ in plain["figures"][:_MOST_GAUGES]:
            texts = (metric, model, slicing, name)
            if not all(isinstance(text, str) and len(text) <= _LONGEST for text in texts):
                raise ValueError("a name is none")
            if value is not None:
                found[QualityGauge(*texts)] = float(value)
    except (ValueError, TypeError, KeyError, RecursionError, OverflowError) as error:
        log.warning("%s is damaged (%s); its figures are left out.", path, str(error)[:100])
        return {}
    return found


def _moment(time: int) -> datetime:
    try:
        return _EPOCH + timedelta(microseconds=time)
    except OverflowError as error:
        raise BadInput(f"{time} is no time in microseconds since 1970; correct the times of the events.") from error
