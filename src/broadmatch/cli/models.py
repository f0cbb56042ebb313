"""`broadmatch models`: which model is for what, with its figures; and the parameters of one of them."""

from typing import Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.output import Column
from broadmatch.cli.settings import catalog, class_of, rules_of
from broadmatch.params import unknown_name

_FIGURES = {"p1": "P@1", "psp5": "PSP@5", "seconds": "training s", "ms": "one point ms"}
_OPTIONS = {"label": "--model", "phrases": "--model", "sets": "--sets", "clicks": "clicks train"}


def command(
    name: Annotated[str | None, typer.Argument(metavar="[NAME]", help="A model: show its parameters.")] = None,
    json: options.Json = False,
) -> None:
    """Show which model is for what, or the parameters of one.

    Figures are of EURLex-4K (15,539 texts, 3,993 labels) in its own split, on 2 cores: P@1 is the share of first labels
    that are right, PSP@5 counts rare labels more; seconds of training, and milliseconds for one point.

    \b
    Example:
      broadmatch models
      broadmatch models swiftxml
    """
    if name is not None:
        _print_model(name, json)
    elif json:
        output.print_json(catalog())
    else:
        _print_all()


def _print_all() -> None:
    models = catalog()
    figures = [Column(head, right=True) for head in _FIGURES.values()]
    rows = [(name, one["use"], *(_figure(one, key) for key in _FIGURES)) for name, one in models["label"].items()]
    rows += [(name, one["use"], *("–" for _ in _FIGURES)) for name, one in models["phrases"].items()]
    output.print_table([Column("--model"), Column("use it for", spare="shorten"), *figures], rows)
    typer.echo()
    cut = [(name, one["use"], one["cost"]) for name, one in models["sets"].items()]
    output.print_table([Column("--sets"), Column("a set of"), Column("costs beyond the model", spare="drop")], cut)
    typer.echo()
    output.print_text("`broadmatch models NAME` shows the parameters of a model, which --set changes.", dim=True)


def _figure(model: dict[str, Any], key: str) -> str:
    return str(model["figures"].get(key, "–"))


def _print_model(name: str, json: bool) -> None:
    family = next((family for family, models in catalog().items() if name in models), None)
    if family is None:
        known = [one for models in catalog().values() for one in models]
        raise typer.BadParameter(unknown_name(name, known, "a model"))
    entry, cls = catalog()[family][name], class_of(family, name)
    prefix = "sets." if family == "sets" else ""
    found = [one for one in cls.parameters.values() if one.name in rules_of(cls)]
    if json:
        plain = {one.name: {"default": one.default, "rule": one.rule.text(), "help": one.help} for one in found}
        output.print_json({"name": name, "option": _OPTIONS[family], **entry, "parameters": plain})
        return
    output.print_text(f"{name} ({cls.__name__} in Python): {entry['use']}.")
    measured = ", ".join(
        f"{head} {_figure(entry, key)}" for key, head in _FIGURES.items() if key in entry.get("figures", ())
    )
    if measured:
        output.print_text(f"EURLex-4K: {measured}; measured by {entry['source']}.")
    typer.echo()
    rows = [(f"{prefix}{one.name}", str(one.default), one.rule.text(), one.help) for one in found]
    output.print_table([Column("--set"), Column("default"), Column("must be", spare="shorten"), Column("")], rows)
