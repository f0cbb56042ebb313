"""The label models that `broadmatch train` knows: their options, and the defaults of these, without importing numba."""

import ast
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

import broadmatch

if TYPE_CHECKING:
    from broadmatch.labels.base import LabelModel

MODELS = {"mlrf": "MLRF", "fastxml": "FastXML", "pfastrexml": "PfastreXML", "swiftxml": "SwiftXML"}
"""The class behind each --model; its module has the name of the model."""


def _defaults(model: str) -> dict[str, Any]:
    """The constructor's arguments with their defaults, read from its source: defaults stand there and nowhere else.

    >>> _defaults("mlrf")["bootstrap"]
    False
    """
    source = Path(broadmatch.__file__).parent / "labels" / f"{model}.py"
    (init,) = [
        method
        for node in ast.parse(source.read_bytes()).body
        if isinstance(node, ast.ClassDef) and node.name == MODELS[model]
        for method in node.body
        if isinstance(method, ast.FunctionDef) and method.name == "__init__"
    ]
    named = zip(init.args.kwonlyargs, init.args.kw_defaults, strict=True)
    return {argument.arg: ast.literal_eval(default) for argument, default in named if default is not None}


DEFAULTS = {model: _defaults(model) for model in MODELS}


def option(parameter: str, *flags: str, help: str) -> Any:
    """An option for a parameter of some of the models; if it is not given, the model's default holds."""
    known = {model: defaults[parameter] for model, defaults in DEFAULTS.items() if parameter in defaults}
    if len(set(known.values())) == 1:
        shown = str(next(iter(known.values())))
    else:
        shown = ", ".join(f"{model} {value}" for model, value in known.items())
    whose = "" if len(known) == len(MODELS) else f"{', '.join(known)}: "
    return typer.Option(*flags, help=whose + help, show_default=shown)


def label_model_of(model: str, settings: Mapping[str, Any]) -> "LabelModel":
    """The model with the settings that were given (not None); those that it does not have are refused."""
    from broadmatch import labels

    given = {name: value for name, value in settings.items() if value is not None}
    for name in given:
        if name not in DEFAULTS[model]:
            others = " and ".join(other for other in MODELS if name in DEFAULTS[other])
            flag = "--" + name.replace("_", "-")
            raise typer.BadParameter(f"{flag} is an option of {others}; --model {model} has no such option.")
    found: LabelModel = getattr(labels, MODELS[model])(**given)
    return found
