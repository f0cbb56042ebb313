"""`broadmatch train`: from harvested pages, or any matrix of features and labels, to a saved model."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.cluster.nodes import joined
from broadmatch.cli.common import read_points
from broadmatch.cli.consumption import consumption, reports_signals
from broadmatch.cli.phrases.training import KexPages, KspBids, KspClicks, KspSeeds, Sources, train_phrases
from broadmatch.cli.settings import catalog, check_name, class_of, make, split_settings
from broadmatch.errors import CannotWrite, ClusterFailed

_Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Parameters of the model, or sets.NAME=VALUE of --sets. @FILE reads groups of labels, one a line.",
    ),
]


@reports_signals
def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Harvested folder, data set folder, or matrix file.")],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write.")],
    labels_path: options.LabelsFile = None,
    model: Annotated[str, typer.Option(metavar="NAME", help="See `broadmatch models`.")] = "mlrf",
    sets: Annotated[str | None, typer.Option(metavar="NAME", help="Answer with sets; see `broadmatch models`.")] = None,
    hierarchy: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Labels are categories of this tree or DAG.")
    ] = None,
    n_trees: Annotated[
        int | None, typer.Option("--trees", metavar="N", help="Trees of the forest; more are better, slower.")
    ] = None,
    settings: _Settings = None,
    label_features: Annotated[
        Path | None, typer.Option(metavar="FILE", help="swiftxml: a matrix (.npz), or table of texts.")
    ] = None,
    label_columns: Annotated[
        str | None, typer.Option(metavar="OURS=YOURS", help="Columns of that table: label=name,text=long.")
    ] = None,
    pages: KexPages = None,
    clicks: KspClicks = None,
    bids: KspBids = None,
    seeds: KspSeeds = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    cluster: options.Cluster = None,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Train a model on a harvested folder or a matrix.

    A harvested folder gives a recommender of phrases for pages, a matrix (XMC, svmlight, npz) a model of rows.
    `broadmatch models NAME` shows what --set takes. --resume ends with equal bits. A hierarchy is a file of
    child,parent lines or JSON. --model kex learns to extract phrases, ksp to expand them.

    \b
    Example:
      broadmatch train data/ --out model/ --trees 50 --set max_leaf=20
      broadmatch train data/ --out warm/ --model swiftxml
      broadmatch train data/ --out kex/ --model kex --pages pages/
      broadmatch train data/ --out ksp/ --model ksp --clicks log.parquet --bids bids.csv --seeds model/
      broadmatch train tools/ --out filed/ --model one-vs-rest --hierarchy edam.json --sets metalabeler
    """
    columns = options.parse_columns(label_columns, "--label-columns")
    texts = split_settings(settings)
    sources = Sources(pages, clicks, bids, seeds)
    consumption().take(_consumed(data), out)
    if model in catalog()["phrases"]:
        learner = make(class_of("phrases", model), texts[""], model, seed=seed, n_jobs=n_jobs)
        others = sets or hierarchy or label_features or labels_path or n_trees or resume or texts["sets"] or cluster
        _check_phrases(model, others)
        train_phrases(model, learner, data, out, sources, json)
        return
    sources.check_unused(model)
    _check_names(model, sets, hierarchy, texts, resume)
    if cluster is not None and (sets or hierarchy):
        raise typer.BadParameter("--cluster trains label models alone; leave --sets and --hierarchy out.")
    if label_features is not None and model != "swiftxml":
        raise typer.BadParameter(f"--label-features are for --model swiftxml; --model {model} does not use any.")
    if columns is not None and label_features is None:
        raise typer.BadParameter("--label-columns are those of a table of texts; give it as --label-features.")
    from broadmatch.harvest.harvested import is_harvested, open_harvested

    harvested = open_harvested(data) if is_harvested(data) else None
    if harvested is not None:
        _check_pages(sets, hierarchy)
    partial = out.with_name(f"{out.name}.partial")
    _check_places(out, partial, resume)
    learner = _learner(model, sets, hierarchy, texts, n_trees=n_trees, seed=seed, n_jobs=n_jobs)
    from broadmatch.features import phrase_label_features, read_label_features
    from broadmatch.io import read_hierarchy
    from broadmatch.labels import Recommender

    started = time.monotonic()
    points = read_points(data, "train", labels_path)
    more: dict[str, Any] = {"label_names": points.labels, "feature_names": points.features}
    if hierarchy is not None:
        more["hierarchy"] = read_hierarchy(hierarchy)
    else:
        more |= {"point_names": points.points, "checkpoint": partial}
    if sets is not None and harvested is not None:
        more["truth"] = harvested.clicked
    if label_features is not None:
        more["label_features"] = read_label_features(label_features, points.labels, columns=columns)
    elif model == "swiftxml" and harvested is not None:
        more["label_features"] = phrase_label_features(points.labels)
    try:
        with joined(cluster, out) as nodes:
            learner.fit(points.X, points.Y, **more) if nodes is None else nodes.fit(learner, points, more)
        saved: Any = learner if harvested is None else Recommender(harvested.vectorizer, learner)
        saved.save(out)
    except (KeyboardInterrupt, CannotWrite, ClusterFailed):
        if partial.exists():
            output.log.info("What is finished is in %s: the same command with --resume goes on.", partial)
        raise
    shutil.rmtree(partial, ignore_errors=True)
    kind = "hierarchy" if hierarchy is not None else sets or model
    facts = {"model": str(out), "kind": kind, "label_model": model, **_learned(learner, sets), "points": len(points)}
    facts |= {"features": points.X.n_cols, "labels": points.Y.n_cols, "seconds": round(time.monotonic() - started, 2)}
    output.print_json(facts) if json else output.print_text(_sentence(facts))


def _consumed(data: Path) -> list[str]:
    """The signals that a model learns from: words of pages and the clicks of queries, or a matrix, by its name."""
    from broadmatch.harvest.harvested import is_harvested

    return ["clicks.query", "pages.html"] if is_harvested(data) else [data.resolve().name.split(".")[0] or "matrix"]


def _check_phrases(model: str, others: Any) -> None:
    if others:
        raise typer.BadParameter(f"--model {model} takes --out, --set, --seed, --n-jobs and its own files, no others.")


def _check_names(
    model: str, sets: str | None, hierarchy: Path | None, texts: Mapping[str, Mapping[str, str]], resume: bool
) -> None:
    """Refuse models that do not exist, and what does not go together."""
    check_name("label", model, "--model")
    if sets is not None:
        check_name("sets", sets, "--sets")
    elif texts["sets"]:
        raise typer.BadParameter(f"--set sets.{next(iter(texts['sets']))} needs --sets, which says how to make sets.")
    if hierarchy is None:
        return
    if model != "one-vs-rest":
        raise typer.BadParameter(f"--hierarchy needs --model one-vs-rest, which each node trains, but it is {model}.")
    if sets not in (None, "metalabeler"):
        raise typer.BadParameter(
            f"--sets {sets} does not go with --hierarchy; give --sets metalabeler, or leave it out to follow all "
            "children that score above 0."
        )
    if resume:
        raise typer.BadParameter("--resume does not go with --hierarchy, which keeps nothing before it is whole.")


def _check_pages(sets: str | None, hierarchy: Path | None) -> None:
    """Refuse what a recommender for pages cannot have."""
    if sets == "pcut":
        raise typer.BadParameter(
            "--sets pcut shares labels out among all points of a call, and pages come one by one; it is for matrices."
        )
    if hierarchy is not None:
        raise typer.BadParameter("--hierarchy is for a matrix; phrases of a harvested folder are not categories.")


def _check_places(out: Path, partial: Path, resume: bool) -> None:
    """Refuse before the work what would fail after it."""
    options.check_free(out)
    if partial.exists() and not resume:
        raise CannotWrite(f"{partial} is left from an earlier training: pass --resume to go on with it, or remove it.")
    if resume and not partial.exists():
        output.log.info("There is no %s to go on with; training starts from the beginning.", partial)


def _learner(
    model: str,
    sets: str | None,
    hierarchy: Path | None,
    texts: Mapping[str, Mapping[str, str]],
    n_trees: int | None,
    **common: Any,
) -> Any:
    """What is to be fitted: the label model, what makes sets of its ranking, or what goes down a hierarchy."""
    cls = class_of("label", model)
    if n_trees is not None and "n_trees" not in cls.rules:
        raise typer.BadParameter(f"--trees is for models that have trees; {model} has none.")
    if n_trees is not None:
        common["n_trees"] = n_trees
    ranks = make(cls, texts[""], model, **common)
    ranks.check_params()
    if sets is None and hierarchy is None:
        return ranks
    if hierarchy is not None:
        from broadmatch.sets import HierarchicalLabels

        learner = make(HierarchicalLabels, texts["sets"], "--hierarchy", "sets.", **common)
        learner.set_params(model=ranks, sets=sets)
    else:
        learner = make(class_of("sets", str(sets)), texts["sets"], str(sets), "sets.", **common)
        learner.set_params(model=ranks)
    learner.check_params()
    return learner


_LEARNED = {"n_trees": "trees", "n_rounds_": "rounds", "c_": "c", "k_": "keep", "threshold_": "threshold",
            "measured_": "measured", "low_": "low", "score_weight_": "score_weight", "bar_": "bar",
            "tuning_seconds_": "tuning_seconds"}  # fmt: skip
"""Attributes that say in a number what was learned, and what they are called in the facts."""


def _learned(learner: Any, sets: str | None) -> dict[str, Any]:
    """What was learned, in numbers: by the label model, and by what makes sets of its ranking."""
    how = {} if sets is None else {"sets": sets}
    if hasattr(learner, "hierarchy_"):
        tree = learner.hierarchy_
        facts = {"categories": tree.n_categories, "depth": int(tree.depth.max()), "nodes": len(learner.nodes_.category)}
        chosen = {"score_weight": learner.score_weight_, "bar": learner.bar_}
        return {"c": learner.get_params()["model__c"], **facts, **how, **chosen}
    parts = [learner] if sets is None else [learner.model_, learner]
    found = {called: getattr(part, name) for part in parts for name, called in _LEARNED.items() if hasattr(part, name)}
    return how | {name: round(value, 2) if name == "tuning_seconds" else value for name, value in found.items()}


def _sentence(facts: Mapping[str, Any]) -> str:
    """The facts as a sentence or two."""
    what = f"{facts['trees']} trees" if "trees" in facts else facts["label_model"]
    if "rounds" in facts:
        what += f" of {facts['rounds']} rounds"
    if "c" in facts:
        what += f" with c = {facts['c']:g}"
    text = (
        f"{facts['model']}: {what} from {facts['points']:,} points, {facts['features']:,} features and "
        f"{facts['labels']:,} labels, in {facts['seconds']:.1f} s."
    )
    if "nodes" in facts:
        followed = f"metalabeler learned how many children of each to follow{_weighed(facts)}"
        if "sets" not in facts:
            followed = f"children with a log-chance above {facts['bar']:.3g} are followed"
        return (
            f"{text} It goes down a hierarchy of {facts['categories']:,} categories, {facts['depth']} deep, with a "
            f"model in each of {facts['nodes']:,} nodes; {followed}."
        )
    if "sets" not in facts:
        return text
    cut = {"keep": "keeps {keep} labels", "threshold": "keeps scores above {threshold:.4g}"}
    how = next((words for name, words in cut.items() if name in facts), "learned how many labels a point gets")
    text += f" {facts['sets']} {how}".format(**facts) + _weighed(facts)
    if "measured" in facts:
        text += ", which reached {measured:.1%} on points held out, at least {low:.1%} by the interval".format(**facts)
    return f"{text}; it took {facts['tuning_seconds']:.1f} s of that."


def _weighed(facts: Mapping[str, Any]) -> str:
    """How much scores count beside the second model, if they do."""
    return (
        ", scores weighing {score_weight:.3g} above a bar of {bar:.3g}".format(**facts)
        if facts.get("score_weight")
        else ""
    )
