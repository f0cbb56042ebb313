"""Estimators that an option chooses among: their parameters as options, their defaults, without importing numba."""

import ast
import importlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import typer

import broadmatch

_SHARED = ("seed", "n_jobs")
"""Every training has these options; who has no use for them does without."""


class Estimators:
    """The estimators behind the values of one option, such as --model."""

    def __init__(self, flag: str, places: Mapping[str, str], without: tuple[str, ...] = ()) -> None:
        """`places` says where each class stands, such as "labels.mlrf:MLRF"; parameters `without` are no options."""
        self.flag, self.places = flag, places
        self.flags: dict[str, str] = {}
        self.defaults = {
            name: {parameter: value for parameter, value in _defaults(place).items() if parameter not in without}
            for name, place in places.items()
        }

    def option(self, parameter: str, *flags: str, help: str, **more: Any) -> Any:
        """An option for a parameter of some of the estimators; if it is not given, the estimator's default holds."""
        self.flags[parameter] = flags[0] if flags else "--" + parameter.replace("_", "-")
        known = {name: defaults[parameter] for name, defaults in self.defaults.items() if parameter in defaults}
        if len(set(known.values())) == 1:
            (value,) = set(known.values())
            shown: str | bool = False if value is None else str(value)
        else:
            shown = ", ".join(f"{name} {value}" for name, value in known.items())
        whose = "" if len(known) == len(self.places) else f"{', '.join(known)}: "
        return typer.Option(*flags, help=whose + help, show_default=shown, **more)

    def given(self, asked: Mapping[str, Any]) -> dict[str, Any]:
        """Those of a command's options that were given and that are parameters of some of these estimators alone."""
        return {name: value for name, value in asked.items() if value is not None and name in self.flags}

    def make(self, name: str, asked: Mapping[str, Any], **more: Any) -> Any:
        """The estimator with the options that were given; those that it does not have are refused."""
        given, own = self.given(asked), self.defaults[name]
        for parameter in given:
            if parameter not in own:
                others = " and ".join(other for other in self.places if parameter in self.defaults[other])
                raise typer.BadParameter(
                    f"{self.flags[parameter]} is an option of {others}; {self.flag} {name} has no such option."
                )
        given |= {parameter: asked[parameter] for parameter in _SHARED if parameter in own}
        module, _, kind = self.places[name].partition(":")
        found = getattr(importlib.import_module(f"broadmatch.{module}"), kind)
        return found(**given, **more)


def _defaults(place: str) -> dict[str, Any]:
    """The constructor's arguments with their defaults, read from its source: defaults stand there and nowhere else.

    >>> _defaults("labels.mlrf:MLRF")["bootstrap"]
    False
    """
    module, _, kind = place.partition(":")
    source = Path(broadmatch.__file__).parent.joinpath(*module.split(".")).with_suffix(".py")
    (cls,) = [node for node in ast.parse(source.read_bytes()).body if getattr(node, "name", "") == kind]
    found: dict[str, Any] = {}
    for base in getattr(cls, "bases", ()):
        name = getattr(base, "id", "")
        if name in ("FastXML", "PfastreXML"):
            found |= _defaults(f"labels.ranking_trees.{name.lower()}:{name}")
    for node in getattr(cls, "body", ()):
        if isinstance(node, ast.FunctionDef) and node.name == "__init__":
            named = zip(node.args.kwonlyargs, node.args.kw_defaults, strict=True)
            found |= {argument.arg: ast.literal_eval(default) for argument, default in named if default is not None}
        elif isinstance(node, ast.AnnAssign) and ast.unparse(node.annotation).startswith(
            ("Annotated[", "Seed", "Jobs")
        ):
            value: Any = node.value
            if isinstance(value, ast.Call):  # field(default=…)
                value = next(word.value for word in value.keywords if word.arg == "default")
            found[ast.unparse(node.target)] = ast.literal_eval(value)
    return found


def number_or_word(text: str) -> float | int | str:
    """What an option was given, for parameters that take numbers and some words.

    >>> number_or_word("3"), number_or_word("0.5"), number_or_word("search")
    (3, 0.5, 'search')
    """
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text
