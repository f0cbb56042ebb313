"""`broadmatch simulate`: a marketplace with known truth, or a synthetic matrix."""

from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from broadmatch.cli import options, output
from broadmatch.cli.output import Column

if TYPE_CHECKING:
    from broadmatch.evaluate import Estimate
    from broadmatch.simulate import LoopReport


def command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write; an older marketplace is replaced.")],
    n_pages: Annotated[int, typer.Option("--pages", help="Landing pages.")] = 2500,
    n_sessions: Annotated[int, typer.Option("--sessions", help="Search sessions of users.")] = 250_000,
    days: Annotated[int | None, typer.Option("--days", help="Days of the log (30), or of the arms (7).")] = None,
    arms: Annotated[
        str | None, typer.Option("--arms", metavar="A,B,…", help="Run the ad engine on what is in OUT; see below.")
    ] = None,
    traffic: Annotated[int, typer.Option("--traffic", help="--arms: sessions a day, of all together.")] = 50_000,
    engines: Annotated[
        Path | None, typer.Option("--engines", metavar="FOLDER", help="--arms: keep the engines of the last day.")
    ] = None,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Simulate a marketplace whose truth is known.

    Writes landing pages, bids on phrases, a log of searches, ads and clicks, and apart from them the truth that no
    real log has. With --arms, days of traffic run through the ad engine, which learns from the clicks: arms are own
    (the advertisers' phrases), pfastrexml, swiftxml or ksp (and what these recommend), with +ucb:SCALE or
    +thompson:SCALE to explore and +vcg or +first for other prices. The first arm is what others are compared with.

    \b
    Example:
      broadmatch simulate market/ --pages 1000 --sessions 100000
      broadmatch harvest --clicks market/clicks.parquet --pages market/pages.parquet --out data/
      broadmatch simulate market/ --days 14 --arms own,pfastrexml,swiftxml,swiftxml+ucb:0.3
    """
    if arms is not None:
        report = run_arms(out, arms, days, traffic, engines, seed)
        output.print_json(report.to_dict()) if json else print_loop(report)
        return
    from broadmatch.simulate import simulate_marketplace

    given = {} if days is None else {"days": days}
    market = simulate_marketplace(out, n_pages=n_pages, n_sessions=n_sessions, seed=seed, **given)
    if json:
        output.print_json(asdict(market) | {"folder": str(out)})
        return
    output.print_text(
        f"{market.n_pages:,} landing pages, {market.n_searches:,} searches for {market.n_queries:,} queries in "
        f"{market.days} days, {market.n_impressions:,} ads shown, {market.n_clicks:,} clicks; {market.n_bids:,} bids "
        "on phrases."
    )
    for what, place in (
        ("Pages", market.pages),
        ("Clicks", market.clicks),
        ("Bids", market.bids),
        ("Truth, to evaluate by", market.truth),
    ):
        output.print_text(f"{what}: {place}")


def run_arms(market: Path, arms: str, days: int | None, sessions: int, engines: Path | None, seed: int) -> "LoopReport":
    """Let days of traffic of a marketplace run through the arms; `engines` is where those of the last day stay."""
    from broadmatch.simulate import Marketplace, simulate_loop

    given = {} if days is None else {"days": days}
    return simulate_loop(
        Marketplace.open(market), arms=arms.split(","), sessions=sessions, folder=engines, seed=seed, **given
    )


def print_loop(report: "LoopReport") -> None:
    """Print what became of the arms: in per cent of the first one, and what is missing to an oracle."""
    first = report.figures[report.arms[0]]
    relative = {"clicks": "clicks a search", "relevance": "relevance", "bounces": "bounce rate"}
    relative |= {"revenue": "revenue a search"}
    rows = [
        [arm, *(_interval(found.relative(first, name)) for name in relative.values())]
        for arm, found in report.figures.items()
    ]
    output.print_table([Column("arm"), *(Column(name, right=True) for name in relative)], rows)
    clicks, relevance, bounces = (first[name].value for name in ("clicks a search", "relevance", "bounce rate"))
    output.print_text(
        f"In % of {report.arms[0]}, which has {clicks:.3f} clicks a search, ads of true grade {3 * relevance:.2f} of "
        f"3, and {100 * bounces:.0f} % bounces; in brackets where 95 % of the bootstrap samples of the sessions lie. "
        f"Days {report.burn_in + 1} to {report.days}.",
        dim=True,
    )
    shares = {"coverage": "coverage", "no ad": "without an ad", "value": "regret", "clicks": "regret in clicks"}
    shares |= {"new ads": "regret on new ads"}
    rows = [
        [arm, *(f"{100 * found[name].value:.1f}" for name in shares.values()), f"{100 * report.overspend[arm]:.2f}"]
        for arm, found in report.figures.items()
    ]
    heads = ("relevant ad", "no ad", "missing value", "clicks", "on new ads", "overspend")
    output.print_table([Column("in %"), *(Column(name, right=True) for name in heads)], rows)
    output.print_text(
        "Searches with a relevant ad, and without any; what is missing to an oracle that knows every click "
        f"probability; what campaigns spent above their budgets. {report.impressions_a_second:,.0f} ads shown a second "
        f"of traffic; {report.seconds['nights']:.0f} s of nights, {report.seconds['traffic']:.0f} s of traffic.",
        dim=True,
    )


def _interval(estimate: "Estimate") -> str:
    if estimate.low == estimate.high:
        return f"{estimate.value:.0f}"
    return f"{estimate.value:.1f} ({estimate.low:.0f}–{estimate.high:.0f})"


def matrix_command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder, or a file ending in .txt, .svm or .npz.")],
    n_points: Annotated[int, typer.Option("--points", help="Rows of X and Y.")] = 10_000,
    n_labels: Annotated[int, typer.Option("--labels", help="Columns of Y.")] = 1_000,
    n_features: Annotated[int, typer.Option("--features", help="Columns of X.")] = 5_000,
    features_per_point: Annotated[int, typer.Option("--features-per-point", help="On average.")] = 60,
    labels_per_point: Annotated[int, typer.Option("--labels-per-point", help="On average.")] = 5,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Simulate features and labels of any size.

    Their structure is known, so that speed and learning can be measured.

    \b
    Example:
      broadmatch simulate-matrix synthetic/ --points 100000 --labels 50000 --features 50000
      broadmatch train synthetic/ --out model/
    """
    from broadmatch.io import write_dataset
    from broadmatch.simulate import synthetic_dataset

    data = synthetic_dataset(
        n_points,
        n_labels,
        n_features,
        features_per_point=features_per_point,
        labels_per_point=labels_per_point,
        seed=seed,
    )
    write_dataset(data, out)
    if json:
        shape = {"points": len(data), "labels": data.Y.n_cols, "features": data.X.n_cols}
        output.print_json(shape | {"out": str(out), "x_entries": data.X.nnz, "y_entries": data.Y.nnz})
        return
    output.print_text(
        f"{out}: {len(data):,} points, {data.X.n_cols:,} features ({data.X.nnz:,} values), "
        f"{data.Y.n_cols:,} labels ({data.Y.nnz:,} given)."
    )
