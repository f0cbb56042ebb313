"""`broadmatch train`: from harvested pages, or any matrix of features and labels, to a saved model."""

import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.cluster.nodes import joined
from broadmatch.cli.common import read_points
from broadmatch.cli.consumption import consumption, reports_signals
from broadmatch.cli.fitting.learner import Wanted
from broadmatch.cli.fitting.tuned import check_tune, print_path, tune_learner
from broadmatch.cli.phrases.training import KexPages, KspBids, KspClicks, KspSeeds, Sources, train_phrases
from broadmatch.cli.settings import catalog, class_of, make, split_settings
from broadmatch.errors import CannotWrite, ClusterFailed
from broadmatch.io import buckets

if TYPE_CHECKING:
    from broadmatch.data import Dataset
    from broadmatch.labels import Tuned

_Settings = Annotated[
    list[str] | None,
    typer.Option(
        "--set",
        metavar="NAME=VALUE",
        help="Parameters; of --sets: sets.NAME=VALUE.",
    ),
]


@reports_signals
def command(
    data: Annotated[Path, typer.Argument(metavar="DATA", help="Harvested folder, data set folder, or matrix file.")],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write.")],
    labels_path: options.LabelsFile = None,
    model: Annotated[
        str | None, typer.Option(metavar="NAME", help="By the data if not given; `broadmatch models`.")
    ] = None,
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
    tune: Annotated[str | None, typer.Option(metavar="METRIC", help="Search parameters: P@5, micro-F1, ...")] = None,
    budget: Annotated[float | None, typer.Option(metavar="S", help="Seconds for it, or ten trainings.")] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    cluster: options.Cluster = None,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Train a model on a harvested folder or a matrix.

    A harvested folder gives a recommender of phrases for pages, a matrix (XMC, svmlight, npz) a model of rows.
    `broadmatch models NAME` shows what --set takes; @FILE reads groups of labels. A hierarchy is a file of
    child,parent lines or JSON. --model kex extracts phrases, ksp expands them.

    \b
    Example:
      broadmatch train data/ --out model/ --tune PSP@5 --budget 600
      broadmatch train data/ --out warm/ --model swiftxml --trees 50 --set max_leaf=20
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
        _check_phrases(model, others or tune or budget)
        train_phrases(model, learner, data, out, sources, json)
        return
    sources.check_unused(model or "label models")
    wanted = Wanted(model, sets, hierarchy, texts, n_trees, label_features)
    wanted.check(resume)
    check_tune(tune, budget, resume=resume, cluster=cluster)
    if cluster is not None and (sets or hierarchy):
        raise typer.BadParameter("--cluster trains label models alone; leave --sets and --hierarchy out.")
    if columns is not None and label_features is None:
        raise typer.BadParameter("--label-columns are those of a table of texts; give it as --label-features.")
    wanted.learner(wanted.possible()[0], seed=seed, n_jobs=n_jobs)  # refuses settings before anything is read
    from broadmatch.harvest.harvested import is_harvested, open_harvested

    harvested = open_harvested(data) if is_harvested(data) else None
    if harvested is not None:
        _check_pages(sets, hierarchy)
    partial = out.with_name(f"{out.name}.partial")
    _check_places(out, partial, resume)
    started = time.monotonic()
    points = read_points(data, "train", labels_path)
    name, why = wanted.advised(points, words=harvested is not None)
    learner = wanted.learner(name, seed=seed, n_jobs=n_jobs)
    more = _fit_options(points, name, hierarchy, label_features, columns, harvested is not None)
    if hierarchy is None and tune is None:
        more["checkpoint"] = partial
    if sets is not None and harvested is not None:
        more["truth"] = harvested.clicked
    try:
        if tune is None:
            tuned = None
            with joined(cluster, out) as nodes:
                learner.fit(points.X, points.Y, **more) if nodes is None else nodes.fit(learner, points, more)
        else:
            tuned = tune_learner(learner, points, tune, budget, wanted.fixed(), seed, more)
            learner = tuned.model
        _save(learner, harvested, tuned, out)
    except (KeyboardInterrupt, CannotWrite, ClusterFailed):
        if buckets.exists(partial):
            output.log.info("What is finished is in %s: the same command with --resume goes on.", partial)
        raise
    buckets.send(out)
    buckets.remove(partial)
    kind = "hierarchy" if hierarchy is not None else sets or name
    facts = {"model": str(out), "kind": kind, "label_model": name, **_learned(learner, sets), "points": len(points)}
    facts |= {"features": points.X.n_cols, "labels": points.Y.n_cols, "seconds": round(time.monotonic() - started, 2)}
    _print_facts(facts | ({"why": why} if why else {}), tuned, json)


def _fit_options(
    points: "Dataset", name: str, hierarchy: Path | None, label_features: Path | None, columns: Any, pages: bool
) -> dict[str, Any]:
    """What `fit` takes besides X and Y."""
    from broadmatch.features import phrase_label_features, read_label_features
    from broadmatch.io import read_hierarchy

    more: dict[str, Any] = {"label_names": points.labels, "feature_names": points.features}
    if hierarchy is not None:
        return more | {"hierarchy": read_hierarchy(hierarchy)}
    more["point_names"] = points.points
    if label_features is not None:
        more["label_features"] = read_label_features(label_features, points.labels, columns=columns)
    elif name == "swiftxml" and pages:
        more["label_features"] = phrase_label_features(points.labels)
    return more


def _save(learner: Any, harvested: Any, tuned: "Tuned | None", out: Path) -> None:
    """Write the model, for a harvested folder with what turns pages into rows, and what was tried."""
    from broadmatch.labels import Recommender

    saved: Any = learner if harvested is None else Recommender(harvested.vectorizer, learner)
    saved.save(out)
    if tuned is not None:
        tuned.write(out)


def _print_facts(facts: dict[str, Any], tuned: "Tuned | None", json: bool) -> None:
    if json:
        output.print_json(facts | ({} if tuned is None else {"tuning": tuned.to_dict()}))
        return
    if tuned is not None:
        print_path(tuned)
    output.print_text(_sentence(facts))


def _consumed(data: Path) -> list[str]:
    """The signals that a model learns from: words of pages and the clicks of queries, or a matrix, by its name."""
    from broadmatch.harvest.harvested import is_harvested

    return ["clicks.query", "pages.html"] if is_harvested(data) else [data.resolve().name.split(".")[0] or "matrix"]


def _check_phrases(model: str, others: Any) -> None:
    if others:
        raise typer.BadParameter(f"--model {model} takes --out, --set, --seed, --n-jobs and its own files, no others.")


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
    if buckets.exists(partial) and not resume:
        raise CannotWrite(f"{partial} is left from an earlier training: pass --resume to go on with it, or remove it.")
    if resume and not buckets.exists(partial):
        output.log.info("There is no %s to go on with; training starts from the beginning.", partial)


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
        return {"c": learner.c_, **facts, **how, **chosen}
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
