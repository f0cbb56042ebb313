"""Vetting of signals: planted faults must be found, sound ones pass: python -m benchmarks.signal_vetting

    python -m benchmarks.signal_vetting --generated          # the log on which the standard bounds were chosen
    python -m benchmarks.signal_vetting --data POSTS.parquet # the reddit stream, on which they are proved

Each signal is vetted by itself beside the base signals of its log, by the standard rules, in one pass each. Prints a
JSON line for each signal, with the rules that it breaks and those that it should break, and one for all.
"""

import argparse
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from numpy.typing import NDArray

from benchmarks.common import DATA, tell
from broadmatch.registry import VettingReport, vet_signal
from broadmatch.signals import Description

DAY = 86_400
START = 1_700_000_000 // DAY * DAY
PLANTED: dict[str, tuple[Any, set[str]]] = {
    "leaks": ("categorical", {"leaks the label"}),
    "after_click": ({"kind": "number", "buckets": "log"}, {"leaks the label", "values only with clicks"}),
    "noon": ("categorical", {"drift within a day"}),
    "same": ("categorical", {"constant"}),
    "explodes": ("categorical", {"cardinality explodes"}),
    "useless": ("categorical", {"adds nothing"}),
}
"""What is planted, its settings, and the rules that it must break."""
GENERATED: dict[str, Any] = {
    "ad": "categorical",
    "query": "categorical",
    "country": "categorical",
    "position": "categorical",
    "price": {"kind": "number", "buckets": "log"},
    "hour": {"kind": "hour", "column": "time"},
}
REDDIT_BASE: dict[str, Any] = {"subreddit": "categorical", "title": "text"}
REDDIT: dict[str, Any] = {
    "title": "text",
    "domain": "categorical",
    "is_self": "categorical",
    "length": {"kind": "number", "buckets": "log"},
    "hour": {"kind": "hour", "column": "time"},
}


def planted(table: pa.Table, clicked: NDArray[np.bool_], known: str, rng: np.random.Generator) -> pa.Table:
    """The log with signals that are not sound; `known` is the column that a change at noon renames.

    - leaks: says in 99 of 100 rows whether there was a click;
    - after_click: how long the page was looked at, which is known of clicks only;
    - noon: sound up to a noon in the middle of the log, when its values get other names;
    - same: one value; explodes: a name of the request, each used once or twice; useless: dice.
    """
    n = len(table)
    seconds = table["time"].to_numpy()
    codes = table[known].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
    noon = seconds[n // 2] // DAY * DAY + DAY // 2
    flipped = rng.random(n) < 0.01
    columns = {
        "leaks": np.where(clicked ^ flipped, "b", "a"),
        "after_click": pa.array(np.round(rng.lognormal(3, 1, n), 1), mask=~clicked),
        "noon": np.where(seconds < noon, codes, codes + 1_000_000),
        "same": np.full(n, "en"),
        "explodes": np.arange(n) * 2 // 3 + 7_000_000,
        "useless": rng.integers(0, 100, n),
    }
    for name, column in columns.items():
        table = table.append_column(name, pa.array(column) if isinstance(column, np.ndarray) else column)
    return table


def generated(n: int = 200_000, days: int = 14, seed: int = 0) -> tuple[pa.Table, NDArray[np.bool_]]:
    """A log of known truth: Zipf ads (new ones every day) and queries, countries that come and go with the hour."""
    rng = np.random.default_rng(seed)
    hour = rng.choice(24, n, p=(weights := 1.2 + np.sin((np.arange(24) - 9) / 24 * 2 * np.pi)) / weights.sum())
    seconds = np.sort(START + rng.integers(0, days, n) * DAY + hour * 3600 + rng.integers(0, 3600, n))
    day, hour = (seconds - START) / DAY, seconds % DAY / 3600
    shift = np.sin((hour[:, None] - np.linspace(0, 24, 6, endpoint=False)) / 24 * 2 * np.pi)
    country = (rng.gumbel(size=(n, 6)) + 0.3 * shift).argmax(axis=1)
    rank = np.minimum((20 * (rng.random(n) ** -1.2 - 1)).astype(np.int64), 3000)
    ad = rank + 10_000 * ((day + rng.integers(0, 20, 3001)[rank]) // 20).astype(np.int64)  # each runs for 20 days
    query = np.minimum(rng.zipf(1.2, n), 200_000)
    position, price = rng.integers(1, 5, n), np.round(rng.lognormal(2, 1, n), 2)

    def effect(codes: NDArray[Any], size: float) -> NDArray[np.float64]:
        _, place = np.unique(codes, return_inverse=True)
        return np.asarray(rng.normal(0, size, place.max() + 1)[place])

    score = -1.2 + effect(ad, 0.6) + effect(query, 0.5) + effect(country, 0.4) - 0.4 * position - 0.3 * np.log(price)
    score += 0.5 * np.sin(hour / 24 * 2 * np.pi)
    clicked = rng.random(n) < 1 / (1 + np.exp(-score))
    columns = {"time": seconds, "clicked": clicked, "ad": ad, "query": query, "country": country}
    table = pa.table({**columns, "position": position, "price": price})
    return planted(table, clicked, "country", rng), clicked


def reddit(path: Path) -> pa.Table:
    """The reddit stream; a click is a post with 100 comments."""
    table = pq.read_table(path)
    clicked = table["comments"].to_numpy() >= 100
    table = table.append_column("clicked", pa.array(clicked))
    table = table.append_column("length", pc.utf8_length(table["title"]))
    return planted(table, clicked, "is_self", np.random.default_rng(0))


def vetted(log: Path, name: str, signal: Any, base: Mapping[str, Any], settings: Mapping[str, float]) -> VettingReport:
    """One signal beside the base signals."""
    signals = {**{one: given for one, given in base.items() if one != name}, name: signal}
    description = Description.from_dict({"label": "clicked", "time": "time", "signals": signals})
    return vet_signal(name, log, description, settings=settings)


def compared(
    log: Path, of: str, sound: Mapping[str, Any], base: Mapping[str, Any], settings: Mapping[str, float]
) -> bool:
    """Vet every signal, tell what was found, and say whether it is what was planted."""
    right = True
    for name, (signal, wanted) in {**{s: (given, set[str]()) for s, given in sound.items()}, **PLANTED}.items():
        began = time.process_time()
        report = vetted(log, name, signal, base, settings)
        broken = {finding.rule for finding in report.failed}
        found = wanted <= broken if wanted else not broken
        right &= found
        figures = {key: value for key, value in report.figures.items() if isinstance(value, int | float)}
        seconds = round(time.process_time() - began, 1)
        tell(log=of, signal=name, right=found, broken=sorted(broken), should=sorted(wanted), seconds=seconds,
             **{key: round(value, 4) for key, value in figures.items()})  # fmt: skip
    return right


def peak_of_a_command(folder: Path, name: str, base: Mapping[str, Any]) -> float:
    """The most memory, in MB, that vetting takes as a process of its own."""
    signals = {**base, name: PLANTED[name][0]}
    description = Description.from_dict({"label": "clicked", "time": "time", "signals": signals})
    (folder / "log.toml").write_text(description.to_toml())
    words = ["-m", "broadmatch", "signals", "vet", name, str(folder / "log.parquet")]
    command = [sys.executable, *words, "--description", str(folder / "log.toml"), "--json"]
    subprocess.run(command, check=False, stdout=subprocess.DEVNULL)
    return resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--data", type=Path, default=DATA / "reddit" / "posts.parquet")
    parser.add_argument("--generated", "--small", action="store_true", help="the generated log instead")
    given = parser.parse_args()
    small = given.generated or not given.data.exists()
    base = GENERATED if small else REDDIT_BASE
    with tempfile.TemporaryDirectory() as folder:
        log = Path(folder) / "log.parquet"
        pq.write_table(generated()[0] if small else reddit(given.data), log, row_group_size=65_536)
        if small:
            right = compared(log, "generated", GENERATED, base, {"alpha": 0.1})
        else:
            right = compared(log, "reddit", REDDIT, base, {"alpha": 0.5, "l1": 1.0})
        peak = round(peak_of_a_command(Path(folder), "explodes", base))
    tell(log="generated" if small else "reddit", all_right=right, peak_mb=peak)
    sys.exit(not right)


if __name__ == "__main__":
    main()
