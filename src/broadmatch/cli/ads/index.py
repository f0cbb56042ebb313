"""`broadmatch ads index`: the ad index of an inventory."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.ads.check import Columns, Sources
from broadmatch.cli.cluster.nodes import joined

if TYPE_CHECKING:
    from broadmatch.ads import Extended, Inventory
    from broadmatch.labels import Recommender


def command(
    sources: Sources,
    out: Annotated[Path, typer.Option("--out", metavar="INDEX", help="The folder of the index, or of the engine.")],
    clicks: Annotated[
        Path | None, typer.Option("--clicks", metavar="MODEL", help="A click model: makes an engine with it.")
    ] = None,
    extend: Annotated[
        Path | None, typer.Option("--extend", metavar="MODEL", help="A recommender: more queries for each ad.")
    ] = None,
    pages: Annotated[
        list[str] | None, typer.Option("--pages", metavar="PAGES", help="--extend: the landing pages.")
    ] = None,
    log: Annotated[
        list[str] | None, typer.Option("--log", metavar="LOG", help="--extend: clicks, to learn which phrase fits.")
    ] = None,
    threshold: Annotated[float, typer.Option(help="--extend: the score that a query needs.")] = 0.7,
    columns: Columns = None,
    cluster: options.Cluster = None,
    json: options.Json = False,
) -> None:
    """Make the ad index of an inventory, which has to be free of errors.

    With a click model, make an engine: index, model and auction in one folder, which answers queries with places.
    With a recommender, ads are shown for its queries too: those that score enough, and the best two in any case, each
    at the bid of the phrase that fits it best.

    \b
    Example:
      broadmatch ads index ads.csv --out index/
      broadmatch ads index ads.csv --clicks clicks/ --out engine/
      broadmatch ads index ads.csv --extend model/ --pages pages/ --log clicks.csv --out index/
    """
    from broadmatch.ads import AdEngine, AdIndex, read_inventory
    from broadmatch.clicks import ClickModel
    from broadmatch.io.artifacts import load

    model = None if clicks is None else load(clicks, ClickModel)
    inventory = read_inventory(sources, columns=options.parse_columns(columns, "--columns"))
    extended = None
    if extend is not None:
        if not pages or not log:
            raise typer.BadParameter("--extend needs the landing pages (--pages) and a log of clicks (--log).")
        extended = _extended(extend, inventory, pages, log, threshold, cluster)
    elif cluster is not None:
        raise typer.BadParameter("--cluster is for --extend, whose recommender it asks for all ads.")
    elif pages or log:
        raise typer.BadParameter("--pages and --log are for --extend, which names the recommender.")
    if model is None:
        AdIndex.create(out, inventory, extended)
    else:
        AdEngine.create(out, inventory, clicks=model, extended=extended)
    facts = {"ads": len(inventory.ads), "phrases": len(inventory.phrases), "negatives": len(inventory.negatives)}
    if extended is not None:
        facts["extended matches"] = len(extended.ad)
    if json:
        output.print_json({"index": str(out), **facts})
    else:
        output.print_text(f"{out}: " + ", ".join(f"{n:,} {what}" for what, n in facts.items()) + ".")


def _extended(
    model: Path, inventory: "Inventory", pages: list[str], log: list[str], threshold: float, cluster: str | None
) -> "Extended":
    """The queries that a recommender has for the ads, with the bid phrase of each."""
    from broadmatch.ads import BidPhraseModel, extended_matches, recommend_for_ads
    from broadmatch.io import PageSource
    from broadmatch.io.artifacts import load
    from broadmatch.labels import Recommender

    recommender: Any = load(model, Recommender)
    _warn_of_scores(recommender, model, threshold)
    with joined(cluster, model) as nodes:
        answering = recommender if nodes is None else nodes.recommender(model, recommender)
        found = recommend_for_ads(answering, inventory, PageSource(pages))
    fitted = BidPhraseModel().fit(log, inventory)
    return extended_matches(fitted, found.query, found.ad, found.score, inventory, threshold=threshold)


def _warn_of_scores(recommender: "Recommender", place: Path, threshold: float) -> None:
    """Say that a threshold is no probability where nobody calibrated what the model's scores are worth."""
    ranks: Any = getattr(recommender.model, "model_", recommender.model)
    if ranks.calibration_ is None:
        output.log.warning(
            "The scores of %s are not calibrated: a --threshold of %g is no probability and may keep out nearly all "
            "queries, or none. Choose it among the scores that `broadmatch recommend` shows, or calibrate the model on "
            "test pages: recommender.model.calibrate(test.X, test.Y) in Python.",
            place,
            threshold,
        )
