"""The part of `broadmatch train` that is about hierarchies: a one-vs-rest in each node, and perhaps a MetaLabeler."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from broadmatch.cli.label_models import LABEL_MODELS, SET_MODELS

if TYPE_CHECKING:
    from broadmatch.sets import HierarchicalLabels

_OF_NODES = ("most", "score_weight")
"""What the MetaLabelers of nodes take; they learn from content, so there is nothing to hold out."""


def check_hierarchy(model: str, howmany: str | None, asked: Mapping[str, Any]) -> None:
    """Refuse what a training with --hierarchy cannot do; `asked` are the command's options."""
    if model != "one-vs-rest":
        raise typer.BadParameter(
            f"--hierarchy trains a one-vs-rest in each node, and --model is {model}; give --model one-vs-rest."
        )
    if howmany not in (None, "metalabeler"):
        raise typer.BadParameter(
            f"--howmany {howmany} does not go with --hierarchy; give --howmany metalabeler, or leave it out to follow "
            "all children that score above 0."
        )
    for name in SET_MODELS.given(asked) if howmany is not None else {}:
        if name not in _OF_NODES:
            raise typer.BadParameter(
                f"{SET_MODELS.flags[name]} does not go with --hierarchy, whose MetaLabelers take --most and "
                "--score-weight only; leave it out."
            )
    if asked["c"] == "search":
        raise typer.BadParameter("--c search does not go with --hierarchy; give a number, which all nodes take.")
    if asked["resume"]:
        raise typer.BadParameter(
            "--resume does not go with --hierarchy: such a training keeps nothing before it is whole; leave it out."
        )


def hierarchical(howmany: str | None, asked: Mapping[str, Any]) -> "HierarchicalLabels":
    """What is to be fitted, with the options that were given."""
    from broadmatch.sets import HierarchicalLabels

    model = LABEL_MODELS.make("one-vs-rest", asked)
    model.check_params()  # before the rule of the whole, which speaks of the model and not of the option that is wrong
    return HierarchicalLabels(model=model, howmany=howmany, n_jobs=asked["n_jobs"], **SET_MODELS.given(asked))


def learned_hierarchy(learner: "HierarchicalLabels") -> dict[str, Any]:
    """What was trained, in numbers."""
    tree = learner.hierarchy_
    how = {} if learner.howmany is None else {"howmany": learner.howmany}
    facts = {"categories": tree.n_categories, "depth": int(tree.depth.max()), "nodes": len(learner.nodes_.category)}
    return {"c": learner.get_params()["model__c"], **facts, **how}


def told_hierarchy(facts: Mapping[str, Any]) -> str:
    """The same as a sentence."""
    numbers = "metalabeler learned how many children of each to follow"
    how = numbers if "howmany" in facts else "children that score above 0 are followed"
    return (
        f"It goes down a hierarchy of {facts['categories']:,} categories, {facts['depth']} deep, with a model in each "
        f"of {facts['nodes']:,} nodes; {how}."
    )
