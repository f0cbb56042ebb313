"""The page of all tables, from the numbers: what the paper says, what is seen here, and whether it is the same."""

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from benchmarks.clicks_tables.figures import TITLES, sparsity_figure, uncertainty_figure
from benchmarks.clicks_tables.page_memory import counts, encodings, inclusion
from benchmarks.clicks_tables.page_others import calibration, subsampling, threads, uncertainty, variants
from benchmarks.clicks_tables.page_parts import prose
from benchmarks.clicks_tables.page_sparsity import rates, table_1

Numbers = dict[str, Any]
SECTIONS: dict[str, Callable[[Numbers], Sequence[str]]] = {
    "table_1": table_1,
    "rates": rates,
    "inclusion": inclusion,
    "encodings": encodings,
    "counts": counts,
    "variants": variants,
    "subsampling": subsampling,
    "uncertainty": uncertainty,
    "calibration": calibration,
    "threads": threads,
}


def write(known: Numbers, folder: Path) -> None:
    """Write `clicks_tables.md` and its figures."""
    parts = [*opening(known)]
    for name, section in SECTIONS.items():
        there = {stream: found for stream, found in known.items() if name in found}
        parts += section(there) if there else []
    if all("table_1" in found for found in known.values()):
        sparsity_figure(known, folder / "clicks_sparsity.svg")
    if all("uncertainty" in found for found in known.values()):
        uncertainty_figure(known, folder / "clicks_uncertainty.svg")
    (folder / "clicks_tables.md").write_text("\n\n".join(parts) + "\n", encoding="utf-8")


def opening(known: Numbers) -> list[str]:
    """What the streams are and how everything is measured."""
    facts = {TITLES[name]: found["facts"] for name, found in known.items()}
    lines = [
        f"- **{name}**: {f['rows']:,} impressions, {100 * f['click_rate']:.1f} % clicked, "
        f"{f['features_a_row']:.1f} features each; FTRL's α = {f['alpha']:g}."
        for name, f in facts.items()
    ]
    return [
        "# The tables of the click prediction paper, on our data",
        prose("""
            McMahan et al., *Ad click prediction: a view from the trenches* (KDD 2013), tells what each of its tricks
            is worth on Google's traffic; this page tells what they are worth here. It is written by one command,
            `python -m benchmarks.clicks_tables`, from what that measures; all numbers are in
            [clicks_tables.json](clicks_tables.json). What the parts do is told in [clicks](clicks.md).
        """),
        "\n".join(lines),
        prose("""
            On reddit an impression is a post, in the order of time, and a click is a hundred comments; its features
            are subreddit, domain, whether it is a self post, hour, and the words of the title. The click log is
            synthetic: twenty Zipf fields, each value with a weight of its own drawn from one normal distribution, so
            that no signal is useless and nothing changes with time.
        """),
        prose("""
            All figures are progressive: each impression is predicted before it is learned, in one pass. Whatever is
            tuned is tuned on the first fifth of a stream, for the least AucLoss unless told otherwise, and all figures
            are about the other four fifths. FTRL has β = 1 and neither l1 nor l2 unless told. Changes are in percent
            of the baseline's value, with their paired 95 % interval in brackets; AucLoss is 1 − AUC, and smaller is
            better for all.
        """),
    ]
