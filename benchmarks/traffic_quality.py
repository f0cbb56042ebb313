"""Quality of traffic: rows a second, and at which hour planted drifts are found: python -m benchmarks.traffic_quality

The log is that of the synthetic marketplace, five days, with a device for each session. A click model learns from it as
it goes and is put in service at each full hour, as a server does; the standard rules of alerts look at every hour. The
first day is left out: the model knows nothing yet, and drift has nothing to be compared with. Quiet: the three days
after it. Then, from the first hour of the fifth day on, one thing is broken at a time.
"""

import argparse
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from benchmarks.common import tell
from broadmatch.clicks import FTRL, ServingModel
from broadmatch.data import Batch, Impressions
from broadmatch.evaluate import HourFigures, TrafficQuality
from broadmatch.kernels.hashing import keys_of_integers
from broadmatch.registry.alerts import replayed
from broadmatch.registry.rules import STANDARD, read_rules
from broadmatch.serve.quality_hours import watch_of
from broadmatch.signals import Categorical, Cross, Description, Encoder, Hour, Text
from broadmatch.simulate import simulate_marketplace

HOUR, DAY = 3_600_000_000, 24
DAYS = 5
BROKEN = (DAYS - 1) * DAY
DEVICES = ["mobile"] * 58 + ["desktop"] * 35 + ["tablet"] * 7
WINDOW = 600.0
DESCRIPTION = Description(
    label="clicked",
    time="time",
    slices=["device", "position"],
    signals=[
        Categorical("query"), Categorical("page"), Categorical("site"), Categorical("device"), Categorical("position"),
        Text("query", name="words"), Hour("time"), Cross("query", "page"), Cross("words", "site"),
        Cross("page", "device"),
    ],
)  # fmt: skip
PLANTED = ("nothing", "signal missing", "values renamed", "clicks of a slice lost", "clicks of a slice down by 40 %")
EXPECTED = {
    "signal missing": ("drift of a signal", "signal=site"),
    "values renamed": ("drift of a signal", "signal=device"),
    "clicks of a slice lost": ("calibration of the model in service", "device=tablet"),
    "clicks of a slice down by 40 %": ("calibration of the model in service", "device=desktop"),
}


@dataclass
class Replay:
    """One pass over the log with one thing broken."""

    planted: str
    watch: TrafficQuality
    hours: list[HourFigures] = field(default_factory=list)
    learner: FTRL = field(default_factory=lambda: FTRL(alpha=0.1))
    served: ServingModel | None = None
    seconds: float = 0.0
    n_rows: int = 0

    def run(self, table: pa.Table, first: int) -> None:
        """Hour by hour: what is closed, what was served and learned, and the model of the next hour."""
        encoder = Encoder(DESCRIPTION)
        self.watch.after_hour = self.hours.append
        times = table["time"].cast(pa.timestamp("us")).cast(pa.int64()).to_numpy()
        for hour in range(DAYS * DAY):
            start = first + hour * HOUR
            rows = slice(*np.searchsorted(times, (start, start + HOUR)).tolist())
            for piece in _pieces(_broken(table.slice(rows.start, rows.stop - rows.start), self.planted, hour)):
                self._take(encoder.encode(piece))
            self.served = self.learner.to_serving()
            begun = time.process_time()
            self.watch.tick(start + HOUR + round(WINDOW * 1e6))
            self.seconds += time.process_time() - begun

    def _take(self, batch: Batch) -> None:
        served = None if self.served is None else self.served.predict_many(batch.impressions, encoded=True)
        learned = self.learner.learn_many(batch.impressions, encoded=True)
        delay = np.where(batch.impressions.clicked > 0, 40_000_000, -1)
        begun = time.process_time()
        self.watch.add(batch, served, learned, delay)
        if self.served is not None:
            self.watch.unknown(0, len(batch.impressions.keys))
        self.seconds += time.process_time() - begun
        self.n_rows += len(batch)


def _pieces(table: pa.Table) -> Iterator[pa.RecordBatch]:
    yield from table.combine_chunks().to_batches(max_chunksize=4096)


def _broken(table: pa.Table, planted: str, hour: int) -> pa.Table:
    """The rows of an hour as they would have come with something broken since the last day."""
    if hour < BROKEN or not len(table):
        return table
    device, clicked = np.array(table["device"].to_pylist()), table["clicked"].to_numpy().astype(bool)
    rng = np.random.default_rng(hour)
    columns = {
        "signal missing": lambda: ("site", pa.nulls(len(table), pa.string())),
        "values renamed": lambda: ("device", pa.array(np.char.upper(device))),
        "clicks of a slice lost": lambda: ("clicked", pa.array(clicked & (device != "tablet"))),
        "clicks of a slice down by 40 %": lambda: (
            "clicked", pa.array(clicked & ((device != "desktop") | (rng.random(len(table)) < 0.6)))
        ),
    }  # fmt: skip
    if planted not in columns:
        return table
    name, column = columns[planted]()
    return table.set_column(table.column_names.index(name), name, column)


def log_of(folder: Path, n_sessions: int, seed: int) -> tuple[pa.Table, int]:
    """The impressions in order of time, with a device and the site of each page; and the time of the first hour."""
    market = simulate_marketplace(folder / "market", n_pages=1500, n_sessions=n_sessions, days=DAYS, seed=seed)
    table = pq.read_table(market.impressions, columns=["time", "session", "query", "page", "position", "clicked"])
    table = table.sort_by("time")
    sessions = table["session"].combine_chunks().dictionary_encode()
    drawn = keys_of_integers(np.uint64(7), np.arange(len(sessions.dictionary))) % np.uint64(100)
    device = pa.array([DEVICES[i] for i in drawn.tolist()]).take(sessions.indices)
    pages = table["page"].combine_chunks().dictionary_encode()
    sites = pa.array(
        [page.split("/")[2] if "//" in page else page.split("/")[0] for page in pages.dictionary.to_pylist()]
    )
    table = table.append_column("device", device).append_column("site", sites.take(pages.indices))
    first = table["time"].cast(pa.timestamp("us")).cast(pa.int64())[0].as_py() // (DAY * HOUR) * DAY * HOUR
    return table, first


def measure(table: pa.Table, first: int, planted: str) -> dict[str, Any]:
    """What the standard rules tell, and when."""
    names = Encoder(DESCRIPTION).signal_names
    replay = Replay(planted, watch_of(DESCRIPTION, names, WINDOW))
    replay.run(table, first)
    messages = replayed(read_rules(STANDARD), [hour for hour in replay.hours if hour.start >= first + DAY * HOUR])
    begun = [(m, int(np.datetime64(m.hour[:-1]).astype("datetime64[us]").astype(np.int64))) for m in messages]
    begun = [(m, (at - first) // HOUR) for m, at in begun if m.state == "begin"]
    quiet = [m for m, at in begun if at < BROKEN]
    hours = sorted({int(at) for _, at in begun if at < BROKEN})
    after = [(m, at) for m, at in begun if at >= BROKEN]
    right = [(m, at) for m, at in after if (m.alert, m.slice) == EXPECTED.get(planted)]
    found = {
        "planted": planted,
        "rows": replay.n_rows,
        "rows_an_hour": round(replay.n_rows / (DAYS * DAY)),
        "rows_a_cpu_second": round(replay.n_rows / replay.seconds),
        "false_alarms_in_72_quiet_hours": len(quiet),
        "in_hours": hours,
        "which": sorted({f"{m.alert}: {m.slice}" for m in quiet}),
        "alerts_of_the_last_day": sorted({f"{m.alert}: {m.slice}, hour +{at - BROKEN}" for m, at in after}),
    }
    if planted != "nothing":
        found["found_after_hours"] = min((at - BROKEN + 1 for _, at in right), default=None)
        found["figure"] = next((f"{m.figure} {m.slice} {m.value:.3g}" for m, _ in right), None)
    return found


def speed(rows: int, n_signals: int) -> dict[str, Any]:
    """Rows a second of CPU on random rows, one feature of each signal, three slicings."""
    rng, names = np.random.default_rng(0), tuple(f"s{i}" for i in range(n_signals))
    n = 200_000
    shown = Impressions(
        np.arange(n + 1) * n_signals,
        rng.integers(1, 2**63, n * n_signals).astype(np.uint64),
        np.empty(0, np.float32),
        np.tile(np.arange(n_signals), n).astype(np.int16),
        (rng.random(n) < 0.05).astype(np.float32),
        np.ones(n, np.float32),
    )
    values = {"a": 5, "b": 50, "c": 1000}
    slices = {s: pa.array([f"v{j}" for j in rng.integers(0, m, n)]).dictionary_encode() for s, m in values.items()}
    batch = Batch(shown, time=np.sort(rng.integers(0, HOUR, n)), slices=slices)
    p, best = rng.random(n) * 0.1, float("inf")
    for _ in range(4):
        watch = TrafficQuality(window=60, slices=tuple(values), signals=names)
        pieces = [(batch.between(i, i + rows), p[i : i + rows]) for i in range(0, n, rows)]
        begun = time.process_time()
        for piece, q in pieces:
            watch.add(piece, q, q)
        watch.tick(2 * HOUR)
        best = min(best, time.process_time() - begun)
    return {"rows_a_batch": rows, "features_a_row": n_signals, "slicings": 3, "rows_a_cpu_second": round(n / best)}


def main() -> None:
    """Print one line a measurement."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="a fifth of the traffic")
    parser.add_argument("--seed", type=int, default=11, help="of the marketplace; 3 was used to choose the defaults")
    asked = parser.parse_args()
    for rows in (1_000, 10_000, 100_000):
        tell(benchmark="traffic_quality.speed", **speed(rows, 20))
    with tempfile.TemporaryDirectory() as folder:
        table, first = log_of(Path(folder), 50_000 if asked.small else 250_000, asked.seed)
        for planted in PLANTED:
            tell(benchmark="traffic_quality.drift", **measure(table, first, planted))


if __name__ == "__main__":
    main()
