"""`broadmatch train`: from harvested pages, or any matrix of features and labels, to a saved model."""

import shutil
import time
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from broadmatch.cli import options, talk
from broadmatch.cli.harvested import is_harvested, open_harvested
from broadmatch.errors import CannotWrite


def command(
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Harvested folder, data set folder, or matrix file (XMC, svmlight, npz)."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write; an older model is replaced.")],
    labels_path: options.LabelsFile = None,
    model: Annotated[Literal["mlrf"], typer.Option(help="Multi-label random forest.")] = "mlrf",
    n_trees: Annotated[int, typer.Option("--trees", help="More are better and slower.")] = 50,
    max_leaf: Annotated[int, typer.Option(help="A node with at most so many points is not split.")] = 10,
    features_per_node: Annotated[int, typer.Option(help="Features tried for each split.")] = 100,
    balance: Annotated[float, typer.Option(help="Least share of the points on the smaller side of a split.")] = 0.005,
    bootstrap: Annotated[bool, typer.Option(help="Each tree sees points drawn with replacement, or all.")] = False,
    leaf_labels: Annotated[int, typer.Option(help="Labels that a leaf keeps at most.")] = 100,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Train a model on a harvested folder or a matrix.

    A harvested folder gives a recommender of phrases for pages, a matrix a model of rows.

    Finished trees are kept in MODEL.partial until the model is whole: after Ctrl-C, a crash or a power cut,
    --resume goes on from there and ends with the same bits.

    \b
    Example:
      broadmatch train data/ --out model/ --trees 50
      broadmatch train Eurlex/train.txt.gz --out eurlex/ --n-jobs 2
    """
    partial = out.with_name(f"{out.name}.partial")
    _check_places(out, partial, resume)
    talk.announce_compiling()
    from broadmatch.data import read_dataset
    from broadmatch.labels import MLRF, Recommender

    started = time.monotonic()
    harvested = open_harvested(data) if is_harvested(data) else None
    points = read_dataset(data, labels_path=labels_path) if harvested is None else harvested.train
    forest = MLRF(
        n_trees=n_trees,
        max_leaf=max_leaf,
        features_per_node=features_per_node,
        balance=balance,
        bootstrap=bootstrap,
        leaf_labels=leaf_labels,
        seed=seed,
        n_jobs=n_jobs,
    )
    names = {"label_names": points.labels, "feature_names": points.features, "point_names": points.points}
    try:
        forest.fit(points.X, points.Y, **names, checkpoint=partial)
        saved: Any = forest if harvested is None else Recommender(harvested.vectorizer, forest)
        saved.save(out)
    except (KeyboardInterrupt, CannotWrite):
        if partial.exists():
            talk.log.info("The trees that are finished are in %s: the same command with --resume goes on.", partial)
        raise
    shutil.rmtree(partial, ignore_errors=True)
    facts = {
        "model": str(out),
        "kind": "mlrf" if harvested is None else "recommender",
        "points": len(points),
        "features": points.X.n_cols,
        "labels": points.Y.n_cols,
        "trees": n_trees,
        "seconds": round(time.monotonic() - started, 2),
    }
    if json:
        talk.emit(facts)
    else:
        typer.echo(
            f"{out}: {n_trees} trees from {len(points):,} points, {points.X.n_cols:,} features and "
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
