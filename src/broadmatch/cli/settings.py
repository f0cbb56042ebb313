"""Models by name, and their parameters as `--set name=value`: read from the classes when a command computes."""

import csv
import functools
import importlib
import tomllib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import typer

from broadmatch.params import Rule, unknown_name

_NO_SETTINGS = ("model", "counter", "patience")
"""Parameters that a text cannot give: other estimators, and what goes by points to evaluate on."""


@functools.cache
def catalog() -> dict[str, dict[str, dict[str, Any]]]:
    """The models by family (label, sets, clicks) and name, with what they are for and their figures."""
    return tomllib.loads(Path(__file__).with_name("models.toml").read_text(encoding="utf-8"))


def check_name(family: str, name: str, option: str) -> None:
    """Refuse a name that no model of the family has."""
    if name not in catalog()[family]:
        raise typer.BadParameter(f"{option}: {unknown_name(name, catalog()[family], 'a model')}")


def class_of(family: str, name: str) -> Any:
    """The class of a model."""
    module, _, cls = catalog()[family][name]["class"].partition(":")
    return getattr(importlib.import_module(module), cls)


def split_settings(given: Sequence[str] | None) -> dict[str, dict[str, str]]:
    """The texts of --set by whose they are: `c=2` is of the model (""), `sets.k=3` of that of --sets.

    >>> split_settings(["c=2", "sets.k=3"])
    {'': {'c': '2'}, 'sets': {'k': '3'}}
    """
    found: dict[str, dict[str, str]] = {"": {}, "sets": {}}
    for one in given or ():
        name, equals, value = (part.strip() for part in one.partition("="))
        whose, dot, inner = name.rpartition(".")
        if not (equals and inner) or (dot and whose != "sets"):
            raise typer.BadParameter(f"--set is such as c=2, or sets.k=3 for what --sets names, but it is {one!r}.")
        found[whose][inner.replace("-", "_")] = value
    return found


def rules_of(cls: Any, without: Sequence[str] = _NO_SETTINGS) -> dict[str, Rule]:
    """The rules of the parameters that --set can give."""
    return {name: rule for name, rule in cls.rules.items() if name not in without}


def parse_values(texts: Mapping[str, str], rules: Mapping[str, Rule], whose: str, prefix: str = "") -> dict[str, Any]:
    """The values that texts mean, checked; an unknown name is refused with the nearest one that is known."""
    found = {}
    for name, text in texts.items():
        if name not in rules:
            raise typer.BadParameter(f"--set {prefix}{name}: {unknown_name(name, rules, f'a parameter of {whose}')}")
        found[name] = _groups(Path(text[1:])) if text.startswith("@") else rules[name].parse(text)
        rules[name].check(f"--set {prefix}{name}", found[name])
    return found


def make(cls: Any, texts: Mapping[str, str], name: str, prefix: str = "", **common: Any) -> Any:
    """The estimator with its settings, and with those common options for which it has a parameter."""
    shared = {key: value for key, value in common.items() if key in cls.rules}
    return cls(**shared | parse_values(texts, rules_of(cls), name, prefix))


def _groups(file: Path) -> list[list[str]]:
    """Groups of names from a file: one group a line, with tabs or commas between the names."""
    from broadmatch.io.files import read_text

    lines = read_text(file).splitlines()
    mark = "\t" if any("\t" in line for line in lines) else ","
    rows = ([name.strip() for name in row if name.strip()] for row in csv.reader(lines, delimiter=mark))
    return [row for row in rows if row]
