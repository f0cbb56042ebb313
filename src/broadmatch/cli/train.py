"""`broadmatch train`: from harvested pages, or any matrix of features and labels, to a saved model."""

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from broadmatch.cli import options
from broadmatch.cli import output as talk
from broadmatch.cli.estimators import number_or_word
from broadmatch.cli.label_features import given_features, words_of
from broadmatch.cli.label_models import LABEL_MODELS, SET_MODELS
from broadmatch.cli.train_hierarchy import check_hierarchy, hierarchical, learned_hierarchy, told_hierarchy
from broadmatch.errors import CannotWrite

option, set_option = LABEL_MODELS.option, SET_MODELS.option


def command(
    context: typer.Context,
    data: Annotated[
        Path,
        typer.Argument(metavar="DATA", help="Harvested folder, data set folder, or matrix file (XMC, svmlight, npz)."),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write; an older model is replaced.")],
    labels_path: options.LabelsFile = None,
    model: Annotated[
        Literal["mlrf", "fastxml", "pfastrexml", "swiftxml", "one-vs-rest", "adaboost-lc"],
        typer.Option(
            help="Multi-label random forest; trees of hyperplanes; these with more weight on rare labels; "
            "these for points that have some labels already; a linear classifier for each label; boosting for sets."
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
    loss: Annotated[
        Literal["squared_hinge", "logistic"] | None,
        option("loss", help="A linear SVM, or logistic regression, which takes longer; its scores are log-odds."),
    ] = None,
    c: Annotated[
        Any,
        option("c", "--c", help="How much an error costs; search chooses it.", parser=number_or_word, metavar="C"),
    ] = None,
    positives: Annotated[
        Literal["plain", "balanced", "propensity"] | None,
        option("positives", help="How much a label's own points cost: C; as much as all others; the rarer the more."),
    ] = None,
    tail: Annotated[
        float | None, option("tail", help="How much the scores of rare labels are lifted; below 0, of frequent ones.")
    ] = None,
    damped: Annotated[
        bool | None, option("damped", help="Values count as their root: ten times the same word is not ten times more.")
    ] = None,
    prune: Annotated[float | None, option("prune", help="Weights up to this size are dropped.")] = None,
    tolerance: Annotated[
        float | None, option("tolerance", help="How exact the solution has to be; larger is faster.")
    ] = None,
    covering: Annotated[
        Literal["ZO", "HM", "TS", "WP", "WN"] | None,
        option("covering", help="The error to train for: the whole set, each label, or mixtures of these."),
    ] = None,
    rounds: Annotated[int | None, option("rounds", help="Boosting rounds.")] = None,
    template: Annotated[
        Literal["parallel", "sequential"] | None,
        option("template", help="All features move in a round, or one for each label."),
    ] = None,
    smoothing: Annotated[
        float | None, option("smoothing", help="Imagined points for and against every feature; more is more careful.")
    ] = None,
    howmany: Annotated[
        Literal["metalabeler", "rcut", "pcut", "scut", "threshold", "target"] | None,
        typer.Option(
            help="Answer with sets: as many labels as a second model says; the same number for each point; the same "
            "share of points for each label as in training; above a threshold for each label; above one for all; "
            "above the one that reaches a precision or a recall."
        ),
    ] = None,
    on: Annotated[
        Literal["content", "scores", "ranks"] | None,
        set_option("on", help="What the number of labels is learned from; all but content cost a training a fold."),
    ] = None,
    most: Annotated[int | None, set_option("most", help="Larger numbers of labels are taken for this one.")] = None,
    calibrated: Annotated[
        bool | None, set_option("calibrated", help="With scores or ranks: make probabilities of scores first.")
    ] = None,
    score_weight: Annotated[
        float | None,
        set_option("score_weight", help="Let scores decide too, with this weight; one-vs-rest and adaboost-lc only."),
    ] = None,
    bar: Annotated[
        float | None, set_option("bar", help="With --score-weight: lower for larger sets, higher for more precision.")
    ] = None,
    k: Annotated[
        Any,
        set_option(
            "k",
            "--keep",
            help="How many labels: a number, or the mean of the training points by floor or ceiling.",
            parser=number_or_word,
            metavar="K",
        ),
    ] = None,
    metric: Annotated[
        Literal["micro-F1", "macro-F1", "precision", "recall"] | None,
        set_option("metric", help="What the thresholds are best for, or what has to reach the goal."),
    ] = None,
    goal: Annotated[
        float | None, set_option("goal", help="The precision or recall that new points have to reach.")
    ] = None,
    level: Annotated[float | None, set_option("level", help="How certain it has to be that they do.")] = None,
    fbr: Annotated[float | None, set_option("fbr", help="Distrust thresholds whose F1 is below this value.")] = None,
    below_fbr: Annotated[
        Literal["highest", "never"] | None,
        set_option("below_fbr", help="What these become: the highest score, or the label is never predicted."),
    ] = None,
    threshold: Annotated[
        float | None, set_option("threshold", help="The score to be above; if not given, it is tuned for micro-F1.")
    ] = None,
    at_least: Annotated[
        int | None, set_option("at_least", help="So many of the best labels are in the set in any case.")
    ] = None,
    candidates: Annotated[
        int | None, set_option("candidates", help="How many of the best labels of a point are looked at.")
    ] = None,
    folds: Annotated[
        int | None, set_option("folds", help="Parts that are held out in turn, to score points that were not seen.")
    ] = None,
    hierarchy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            help="one-vs-rest: The labels are categories of this tree or DAG (lines of child,parent, or JSON); a model "
            "in each node files points from the roots down. With --howmany metalabeler or none.",
        ),
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with a training that was interrupted.")] = False,
    seed: options.Seed = 0,
    n_jobs: options.Jobs = None,
    json: options.Json = False,
) -> None:
    """Train a model on a harvested folder or a matrix.

    A harvested folder gives a recommender of phrases for pages, a matrix a model of rows.

    What is finished is kept in MODEL.partial until the model is whole: after Ctrl-C, a crash or a power cut,
    --resume goes on from there and ends with the same bits.

    Options that begin with names of models are for these only. What is not given is as the model has it by default.

    swiftxml learns which labels go with those that a page already has. --label-features tell which labels are alike;
    phrases are alike if they have words in common.

    Models rank labels, of which recommend takes the first k. With --howmany, the model decides how many labels each
    point gets; adaboost-lc does so by itself.

    With --hierarchy, it answers with sets of categories, which may be leaves or inner ones. Such a training keeps
    nothing on the way, so it has no --resume.

    \b
    Example:
      broadmatch train data/ --out model/ --trees 50
      broadmatch train Eurlex/train.txt.gz --out eurlex/ --model pfastrexml --n-jobs 2
      broadmatch train data/ --out warm/ --model swiftxml
      broadmatch train Eurlex/train.txt.gz --out sets/ --model one-vs-rest --c search --howmany metalabeler
      broadmatch train Eurlex/train.txt.gz --out sure/ --model one-vs-rest --howmany target --goal 0.9
      broadmatch train tools/ --out filed/ --model one-vs-rest --hierarchy edam.json --howmany metalabeler
    """
    columns = options.parse_columns(label_columns, "--label-columns")
    if label_features is not None and model != "swiftxml":
        raise typer.BadParameter(f"--label-features are for --model swiftxml; --model {model} does not use any.")
    if columns is not None and label_features is None:
        raise typer.BadParameter("--label-columns are those of a table of texts; give it as --label-features.")
    from broadmatch.harvest.harvested import is_harvested, open_harvested

    harvested = open_harvested(data) if is_harvested(data) else None
    if harvested is not None and howmany == "pcut":
        raise typer.BadParameter(
            "--howmany pcut shares labels out among all points that are asked together, and pages are asked one by "
            "one; it is for matrices."
        )
    if hierarchy is not None:
        check_hierarchy(model, howmany, context.params)
        if harvested is not None:
            raise typer.BadParameter("--hierarchy is for a matrix; phrases of a harvested folder are no categories.")
    partial = out.with_name(f"{out.name}.partial")
    _check_places(out, partial, resume)
    talk.announce_compiling()
    learner: Any = _learner(model, howmany, context.params)
    from broadmatch.io import read_dataset, read_hierarchy
    from broadmatch.labels import Recommender

    started = time.monotonic()
    tree = None if hierarchy is None else read_hierarchy(hierarchy)
    points = read_dataset(data, labels_path=labels_path) if harvested is None else harvested.train
    more: dict[str, Any] = {"label_names": points.labels, "feature_names": points.features,
                            "point_names": points.points}  # fmt: skip
    if label_features is not None:
        more["label_features"] = given_features(label_features, columns, points)
    elif model == "swiftxml" and harvested is not None:
        more["label_features"] = words_of(list(points.labels))
    try:
        if tree is None:
            learner.fit(points.X, points.Y, **more, checkpoint=partial)
        else:
            learner.fit(points.X, points.Y, tree, label_names=points.labels, feature_names=points.features)
        saved: Any = learner if harvested is None else Recommender(harvested.vectorizer, learner)
        saved.save(out)
    except (KeyboardInterrupt, CannotWrite):
        if partial.exists():
            talk.log.info("What is finished is in %s: the same command with --resume goes on.", partial)
        raise
    shutil.rmtree(partial, ignore_errors=True)
    facts = {
        "model": str(out),
        "kind": "recommender" if harvested is not None else "hierarchy" if tree is not None else howmany or model,
        "label_model": model,
        "points": len(points),
        "features": points.X.n_cols,
        "labels": points.Y.n_cols,
        **(_learned_by(learner, howmany) if tree is None else learned_hierarchy(learner)),
        "seconds": round(time.monotonic() - started, 2),
    }
    if json:
        talk.emit(facts)
    else:
        typer.echo(_told(facts))


_LEARNED = {"n_trees": "trees", "n_rounds_": "rounds", "c_": "c", "k_": "keep", "threshold_": "threshold",
            "measured_": "measured", "low_": "low", "tuning_seconds_": "tuning_seconds"}  # fmt: skip
"""Attributes that say in a number what was learned, and what they are called in the facts."""


def _learner(model: str, howmany: str | None, asked: Mapping[str, Any]) -> Any:
    """What is to be fitted: the label model, what makes sets of its ranking, or what goes down a hierarchy."""
    if howmany is None:
        for name in SET_MODELS.given(asked):
            raise typer.BadParameter(f"{SET_MODELS.flags[name]} is about sets; say with --howmany how to make them.")
    if asked["hierarchy"] is not None:
        return hierarchical(howmany, asked)
    label_model = LABEL_MODELS.make(model, asked)
    return label_model if howmany is None else SET_MODELS.make(howmany, asked, model=label_model)


def _learned_by(learner: Any, howmany: str | None) -> dict[str, Any]:
    """What the label model learned, and what makes sets of its ranking."""
    if howmany is None:
        return _learned(learner)
    return _learned(learner.model_) | {"howmany": howmany} | _learned(learner)


def _learned(learner: Any) -> dict[str, Any]:
    found = {called: getattr(learner, name) for name, called in _LEARNED.items() if hasattr(learner, name)}
    return {name: round(value, 2) if name == "tuning_seconds" else value for name, value in found.items()}


def _told(facts: Mapping[str, Any]) -> str:
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
        return f"{text} {told_hierarchy(facts)}"
    if "howmany" not in facts:
        return text
    cut = {"keep": "keeps {keep} labels", "threshold": "keeps scores above {threshold:.4g}"}
    how = next((told for name, told in cut.items() if name in facts), "learned how many labels a point gets")
    text += f" {facts['howmany']} {how}".format(**facts)
    if "measured" in facts:
        text += ", which reached {measured:.1%} on points held out, at least {low:.1%} by the interval".format(**facts)
    return f"{text}; it took {facts['tuning_seconds']:.1f} s of that."


def _check_places(out: Path, partial: Path, resume: bool) -> None:
    """Refuse before the work what would fail after it."""
    from broadmatch.io.artifacts import MANIFEST

    if out.exists() and not (out / MANIFEST).exists() and not (out.is_dir() and not any(out.iterdir())):
        raise CannotWrite(f"{out} exists and is not a broadmatch folder; choose another name or remove it.")
    if partial.exists() and not resume:
        raise CannotWrite(f"{partial} is left from an earlier training: pass --resume to go on with it, or remove it.")
    if resume and not partial.exists():
        talk.log.info("There is no %s to go on with; training starts from the beginning.", partial)
