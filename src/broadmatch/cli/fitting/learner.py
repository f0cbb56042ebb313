"""The learner that the options of `broadmatch train` mean, refused where they do not go together."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from broadmatch.cli import output
from broadmatch.cli.settings import catalog, check_name, class_of, make, rules_of
from broadmatch.params import unknown_name

if TYPE_CHECKING:
    from broadmatch.data import Dataset

Texts = Mapping[str, Mapping[str, str]]


@dataclass(frozen=True)
class Wanted:
    """What is to be fitted; without a `model`, the data decide among those that have what was set."""

    model: str | None
    sets: str | None
    hierarchy: Path | None
    texts: Texts
    n_trees: int | None
    label_features: Path | None = None

    def check(self, resume: bool) -> None:
        """Refuse models that do not exist, and what does not go together."""
        if self.model is not None:
            check_name("label", self.model, "--model")
        if self.sets is not None:
            check_name("sets", self.sets, "--sets")
        elif self.texts["sets"]:
            name = next(iter(self.texts["sets"]))
            raise typer.BadParameter(f"--set sets.{name} needs --sets, which says how to make sets.")
        if self.label_features is not None and self.model not in (None, "swiftxml"):
            raise typer.BadParameter(
                f"--label-features are for --model swiftxml; --model {self.model} does not use any."
            )
        if self.hierarchy is not None:
            self._check_hierarchy(resume)

    def _check_hierarchy(self, resume: bool) -> None:
        if self.model not in (None, "one-vs-rest"):
            raise typer.BadParameter(
                f"--hierarchy needs --model one-vs-rest, which each node trains, but it is {self.model}."
            )
        if self.sets not in (None, "metalabeler"):
            raise typer.BadParameter(
                f"--sets {self.sets} does not go with --hierarchy; give --sets metalabeler, or leave it out to follow "
                "all children that score above 0."
            )
        if resume:
            raise typer.BadParameter("--resume does not go with --hierarchy, which keeps nothing before it is whole.")

    def possible(self) -> list[str]:
        """The models that the options leave, in the order of the catalog."""
        if self.model is not None:
            return [self.model]
        if self.hierarchy is not None:
            return ["one-vs-rest"]
        if self.label_features is not None:
            return ["swiftxml"]
        names = [*self.texts[""], *(["n_trees"] if self.n_trees is not None else [])]
        rules = {name: rules_of(class_of("label", name)) for name in catalog()["label"]}
        every = {name: None for known in rules.values() for name in known}
        for name in names:
            if name not in every:
                raise typer.BadParameter(f"--set {name}: {unknown_name(name, every, 'a parameter of any model')}")
        found = [model for model, known in rules.items() if all(name in known for name in names)]
        if not found:
            raise typer.BadParameter(f"No model has all of {', '.join(names)}; name one by --model.")
        return found

    def advised(self, points: "Dataset", words: bool) -> tuple[str, str]:
        """The model for the data among those that are possible, and why; features may be `words` of pages."""
        possible = self.possible()
        if self.model is not None:
            return self.model, ""
        from broadmatch.labels import advise_model

        names = {class_of("label", name): name for name in possible}
        advice = advise_model(points.X, points.Y, among=tuple(names), words=words)
        name = names[advice.model]
        output.log.info("--model %s: %s.", name, advice.why)
        return name, advice.why

    def learner(self, model: str, **common: Any) -> Any:
        """The label model, what makes sets of its ranking, or what goes down a hierarchy."""
        cls = class_of("label", model)
        if self.n_trees is not None and "n_trees" not in cls.rules:
            raise typer.BadParameter(f"--trees is for models that have trees; {model} has none.")
        if self.n_trees is not None:
            common["n_trees"] = self.n_trees
        ranks = make(cls, self.texts[""], model, **common)
        ranks.check_params()
        if self.sets is None and self.hierarchy is None:
            return ranks
        if self.hierarchy is not None:
            from broadmatch.sets import HierarchicalLabels

            learner = make(HierarchicalLabels, self.texts["sets"], "--hierarchy", "sets.", **common)
            learner.set_params(model=ranks, sets=self.sets)
        else:
            learner = make(class_of("sets", str(self.sets)), self.texts["sets"], str(self.sets), "sets.", **common)
            learner.set_params(model=ranks)
        learner.check_params()
        return learner

    def fixed(self) -> list[str]:
        """The parameters that were given, by which no search may go: those of the label model within sets prefixed."""
        own = [*self.texts[""], *(["n_trees"] if self.n_trees is not None else [])]
        if self.sets is None and self.hierarchy is None:
            return own
        return [*(f"model__{name}" for name in own), *self.texts["sets"]]
