"""`broadmatch simulate`: a marketplace with known truth, or a synthetic matrix."""

from dataclasses import asdict
from pathlib import Path
from typing import Annotated

import typer

from broadmatch.cli import options, output


def command(
    out: Annotated[Path, typer.Argument(metavar="OUT", help="Folder to write; an older marketplace is replaced.")],
    n_pages: Annotated[int, typer.Option("--pages", help="Landing pages.")] = 2500,
    n_sessions: Annotated[int, typer.Option("--sessions", help="Search sessions of users.")] = 250_000,
    days: Annotated[int, typer.Option("--days", help="Days that the log covers.")] = 30,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """Simulate a marketplace whose truth is known.

    Writes landing pages, bids on phrases, a log of searches, ads and clicks, and apart from them the truth that no
    real log has.

    \b
    Example:
      broadmatch simulate market/ --pages 1000 --sessions 100000
      broadmatch harvest --clicks market/clicks.parquet --pages market/pages.parquet --out data/
    """
    from broadmatch.simulate import simulate_marketplace

    market = simulate_marketplace(out, n_pages=n_pages, n_sessions=n_sessions, days=days, seed=seed)
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
