"""Tables 2 and 3, coverage and figure 1 of the MLRF paper: python -m benchmarks.mlrf_paper [--small] [--write]

KEX, KEX+KSP, MLRF, MLRF+SSL and MLRF+SSL+KSP on marketplaces of three seeds, judged by the clicks of pages that none of
them has seen and by the truth behind these, and on real pages (libreoffice-help) judged by their keywords. With
--write, the tables become docs/mlrf_paper.md.
"""

import argparse
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.common import DATA, tell
from benchmarks.mlrf_paper import figure, page
from benchmarks.mlrf_paper.measure import Judged, Measured, measure, order_of
from benchmarks.mlrf_paper.sources import help_pages, judged_by_keywords, judged_by_market, market_pages
from benchmarks.mlrf_paper.systems import SYSTEMS, Answered, answer
from broadmatch.evaluate import Estimate
from broadmatch.simulate import simulate_marketplace


def main() -> None:
    """Measure, print, and write the page if asked to."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--small", action="store_true", help="one marketplace of 600 pages")
    parser.add_argument("--write", action="store_true", help="write docs/mlrf_paper.md")
    asked = parser.parse_args()
    seeds, n_pages = ((0,), 600) if asked.small else ((0, 1, 2), 2500)
    parts: list[Judged] = []
    made: list[Answered] = []
    shown: Any = None
    for seed in seeds:
        with tempfile.TemporaryDirectory() as folder:
            market = simulate_marketplace(Path(folder) / "market", n_pages=n_pages, n_sessions=100 * n_pages, seed=seed)
            pages = market_pages(market)
            made.append(answer(pages, seed))
            parts.append(judged_by_market(market, pages, made[-1]))
            if shown is None:
                shown = (
                    figure.examples(market, pages, parts[0]),
                    figure.precision_by_kind(market, pages, parts[0]),
                )
            tell(benchmark="mlrf_paper", data="marketplace", seed=seed, test_pages=len(parts[-1].clicked),
                 weights=_rounded(made[-1].weights), cpu_seconds=_rounded(made[-1].seconds))  # fmt: skip
            report(f"marketplace, seed {seed}", measure(parts[-1]))
    together = Judged.together(parts)
    found = {"with enough": measure(together.with_enough()), "all": measure(together)}
    for name, measured in found.items():
        report(f"marketplace, {name}", measured)
        for side in ("clicked", "true"):
            for metric in ("P@10", "edit distance@10"):
                for row in order_of(measured, side, metric):
                    tell(benchmark="mlrf_paper", data=f"marketplace, {name}", judged_by=side, metric=metric, **row)
    real = None
    if DATA.is_dir() and not asked.small:
        pages = help_pages(0)
        answered = answer(pages, 0)
        judged = judged_by_keywords(pages, answered)
        real = measure(judged), measure(judged.with_enough())
        report("libreoffice-help, all", real[0])
        report("libreoffice-help, with enough", real[1])
    if asked.write:
        page.write(found, made, shown, real)


def report(data: str, measured: Measured) -> None:
    """A line for each system, and for each other way to weigh the arms."""
    for name in measured.clicked:
        facts: dict[str, Any] = {"system": name, "pages": measured.n_pages}
        for side, reports in (("clicked", measured.clicked), ("true", measured.true)):
            if name in reports:
                facts[f"P@10 {side}"] = _percent(reports[name]["P@10"])
                facts[f"edit distance@10 {side}"] = _percent(reports[name]["edit distance@10"])
        if name in SYSTEMS:
            facts |= {metric: round(e.value, 4) for metric, e in measured.phrases[name].metrics.items()}
        tell(benchmark="mlrf_paper", data=data, **facts)


def _percent(estimate: Estimate) -> list[float]:
    return [round(100 * value, 2) for value in (estimate.value, estimate.low, estimate.high)]


def _rounded(facts: dict[str, Any]) -> dict[str, Any]:
    return {k: _rounded(v) if isinstance(v, dict) else round(v, 3) for k, v in facts.items()}


if __name__ == "__main__":
    main()
