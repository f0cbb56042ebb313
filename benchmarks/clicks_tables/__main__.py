"""The tables of the paper on our streams: python -m benchmarks.clicks_tables [--small] [--only NAME …] [--out FOLDER]

Prints one JSON line a measurement, and writes `clicks_tables.md` with its figures and `clicks_tables.json`, all
numbers. `--only` measures some sections again and takes the others from `clicks_tables.json`. `--small` takes 200,000
rows of each stream and, unless told where to write, writes nothing.
"""

import argparse
import json
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from benchmarks.clicks_tables import calibrated, memory, sparsity, subsampling, threads, uncertainty, variants
from benchmarks.clicks_tables.measures import base_alpha
from benchmarks.clicks_tables.page import write
from benchmarks.clicks_tables.streams import load
from benchmarks.common import need_data, tell

DOCS = Path(__file__).parents[2] / "docs"
STREAMS = ("reddit", "log")
SECTIONS: dict[str, Callable[..., dict[str, Any]]] = {
    "table_1": sparsity.table_1,
    "rates": sparsity.rates,
    "inclusion": memory.inclusion,
    "encodings": memory.encodings,
    "counts": memory.counts,
    "subsampling": subsampling.subsampling,
    "variants": variants.variants,
    "uncertainty": uncertainty.uncertainty,
    "calibration": calibrated.calibration,
    "threads": threads.threads,
}


def measured(name: str, small: bool, sections: list[str]) -> dict[str, Any]:
    """All wanted sections of one stream."""
    stream = load(name, small)
    alpha = base_alpha(stream)
    facts = {
        "rows": stream.n_rows,
        "click_rate": float(stream.clicked.mean()),
        "features_a_row": len(stream.usual.keys) / stream.n_rows,
        "alpha": alpha,
    }
    tell(benchmark="clicks_tables", stream=name, **facts)
    results: dict[str, Any] = {"facts": facts}
    for section in sections:
        if section == "calibration" and name != "reddit":
            continue
        started = time.perf_counter()
        say = partial(tell, benchmark="clicks_tables", stream=name, section=section)
        results[section] = SECTIONS[section](stream, alpha, say)
        say(section_seconds=time.perf_counter() - started)
    return results


def main() -> None:
    """Measure, and write the page."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true")
    parser.add_argument("--only", nargs="+", choices=tuple(SECTIONS), metavar="NAME", help=", ".join(SECTIONS))
    parser.add_argument("--out", type=Path)
    parser.add_argument("--page", action="store_true", help="measure nothing, write the page anew")
    asked = parser.parse_args()
    out = asked.out or (None if asked.small else DOCS)
    known: dict[str, Any] = {}
    numbers = out / "clicks_tables.json" if out else None
    if numbers and numbers.exists() and (asked.only or asked.page):
        known = json.loads(numbers.read_text(encoding="utf-8"))
    if not asked.page:
        need_data()
        for name in STREAMS:
            known[name] = known.get(name, {}) | measured(name, asked.small, asked.only or list(SECTIONS))
            if numbers:  # what is done is kept, whatever comes after
                text = json.dumps(known, ensure_ascii=False, separators=(",", ":"))
                numbers.write_text(text + "\n", encoding="utf-8")
    if out:
        write(known, out)


if __name__ == "__main__":
    main()
