"""`broadmatch train`: from harvested pages, or any matrix of features and labels, to a saved model."""

import shutil
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from broadmatch.cli import options, talk
from broadmatch.cli.harvested import is_harvested, open_harvested
from broadmatch.cli.label_features import given_features, words_of
from broadmatch.cli.label_models import label_model_of, option
from broadmatch.errors import CannotWrite


def command(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Harvested folder, data set folder, or matrix file (XMC, svmlight, npz)."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write; an older model is replaced.")],
    labels_path: options.LabelsFile = None,
    model: Annotated[
        Literal["mlrf", "fastxml", "pfastrexml", "swiftxml"],
        typer.Option(
            help="Multi-label random forest; trees of hyperplanes; these with more weight on rare labels; "
            "these for points that have some labels already."
        ),
    ] = "mlrf",
    n_trees: Annotated[int | None, option("n_trees", "--trees", help="More are better and slower.")] = None,
    max_leaf: Annotated[int | None, option("max_leaf", help="A node with at most so many points is not split.")] = None,
    leaf_labels: Annotated[int | None, option("leaf_labels", help="Labels that a leaf keeps at most.")] = None,
    features_per_node: Annotated[int | None, option("features_per_node", help="Features tried for each split.")] = None,
    balance: Annotated[
        float | None, option("balance", help="Least share of the points on the smaller side of a split.")
    ] = None,
    bootstrap: Annotated[
        bool | None, option("bootstrap", help="Each tree sees points drawn with replacement, or all.")
    ] = None,
    c_features: Annotated[
        float | None, option("c_features", help="How much telling the sides of a split apart by features matters.")
    ] = None,
    c_ranking: Annotated[
        float | None, option("c_ranking", help="How much it matters that the sides rank their labels well.")
    ] = None,
    c_item_sets: Annotated[
        float | None, option("c_item_sets", help="How much telling the sides apart by revealed labels matters.")
    ] = None,
    propensity: Annotated[
        Literal["default", "wikipedia", "amazon"] | None,
        option("propensity", help="How likely labels are missed the rarer they are."),
    ] = None,
    alpha: Annotated[
        float | None, option("alpha", help="Share of the trees in the score; the re-ranker has the rest.")
    ] = None,
    gamma: Annotated[
        float | None, option("gamma", help="How fast the re-ranker's score falls with the distance.")
    ] = None,
    item_set_weight: Annotated[
        float | None, option("item_set_weight", help="How much revealed labels count in the re-ranker's distance.")
    ] = None,
    neighbours: Annotated[
        int | None, option("neighbours", help="Training points nearest by revealed labels that vote too; 0 for none.")
    ] = None,
    neighbour_share: Annotated[
        float | None, option("neighbour_share", help="How much these count, at most, beside the trees.")
    ] = None,
    reveal: Annotated[
        float | None, option("reveal", help="Share of its labels that a training point shows to a tree.")
    ] = None,
    label_features: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="swiftxml: What labels are like: a matrix of labels × features (.npz), or a table of labels and "
            "texts (CSV, TSV, JSON lines, Parquet).",
        ),
    ] = None,
    label_columns: Annotated[
        str | None,
        typer.Option(
            metavar="OURS=YOURS,...",
            help="Columns of the table of texts, such as label=name,text=long; the usual names are found without.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Train a model on a harvested folder or a matrix.

    A harvested folder gives a recommender of phrases for pages, a matrix a model of rows.

    Finished trees are kept in MODEL.partial until the model is whole: after Ctrl-C, a crash or a power cut,
    --resume goes on from there and ends with the same bits.

    Options that begin with names of models are for these only. What is not given is as the model has it by default.

    swiftxml learns which labels go with those that a page already has. --label-features tell which labels are alike;
    phrases are alike if they have words in common.

    \b
    Example:
      broadmatch train data/ --out model/ --trees 50
      broadmatch train Eurlex/train.txt.gz --out eurlex/ --model pfastrexml --n-jobs 2
      broadmatch train data/ --out warm/ --model swiftxml
    """
    columns = options.parse_columns(label_columns, "--label-columns")
    if label_features is not None and model != "swiftxml":
        raise typer.BadParameter(f"--label-features are for --model swiftxml; --model {model} does not use any.")
    if columns is not None and label_features is None:
        raise typer.BadParameter("--label-columns are those of a table of texts; give it as --label-features.")
    partial = out.with_name(f"{out.name}.partial")
    _check_places(out, partial, resume)
    talk.announce_compiling()
    from broadmatch.data import read_dataset
    from broadmatch.labels import Recommender

    settings = {
        "n_trees": n_trees,
        "max_leaf": max_leaf,
        "leaf_labels": leaf_labels,
        "features_per_node": features_per_node,
        "balance": balance,
        "bootstrap": bootstrap,
        "c_features": c_features,
        "c_ranking": c_ranking,
        "c_item_sets": c_item_sets,
        "propensity": propensity,
        "alpha": alpha,
        "gamma": gamma,
        "item_set_weight": item_set_weight,
        "neighbours": neighbours,
        "neighbour_share": neighbour_share,
        "reveal": reveal,
        "seed": seed,
        "n_jobs": n_jobs,
    }
    forest: Any = label_model_of(model, settings)

    started = time.monotonic()
    harvested = open_harvested(data) if is_harvested(data) else None
    points = read_dataset(data, labels_path=labels_path) if harvested is None else harvested.train
    more: dict[str, Any] = {"label_names": points.labels, "feature_names": points.features,
                            "point_names": points.points}  # fmt: skip
    if label_features is not None:
        more["label_features"] = given_features(label_features, columns, points)
    elif model == "swiftxml" and harvested is not None:
        more["label_features"] = words_of(list(points.labels))
    try:
        forest.fit(points.X, points.Y, **more, checkpoint=partial)
        saved: Any = forest if harvested is None else Recommender(harvested.vectorizer, forest)
        saved.save(out)
    except (KeyboardInterrupt, CannotWrite):
        if partial.exists():
            talk.log.info("The trees that are finished are in %s: the same command with --resume goes on.", partial)
        raise
    shutil.rmtree(partial, ignore_errors=True)
    facts = {
        "model": str(out),
        "kind": model if harvested is None else "recommender",
        "label_model": model,
        "points": len(points),
        "features": points.X.n_cols,
        "labels": points.Y.n_cols,
        "trees": forest.n_trees,
        "seconds": round(time.monotonic() - started, 2),
    }
    if json:
        talk.emit(facts)
    else:
        typer.echo(
            f"{out}: {forest.n_trees} trees from {len(points):,} points, {points.X.n_cols:,} features and "
            f"{points.Y.n_cols:,} labels, in {facts['seconds']:.1f} s."
        )


def _check_places(out: Path, partial: Path, resume: bool) -> None:
    """Refuse before the work what would fail after it."""
    from broadmatch.artifacts import MANIFEST

    if out.exists() and not (out / MANIFEST).exists() and not (out.is_dir() and not any(out.iterdir())):
        raise CannotWrite(f"{out} exists and is not a broadmatch folder; choose another name or remove it.")
    if partial.exists() and not resume:
        raise CannotWrite(f"{partial} is left from an earlier training: pass --resume to go on with it, or remove it.")
    if resume and not partial.exists():
        talk.log.info("There is no %s to go on with; training starts from the beginning.", partial)
