"""Writes docs/api.md, everything public with its parameters: python docs/make_api.py"""

import dataclasses
import importlib
import inspect
import re
from pathlib import Path
from typing import Any

from broadmatch.params import Estimator

PACKAGES = (
    *("data", "io", "harvest", "features", "labels", "sets", "ads", "signals", "clicks", "evaluate"),
    *("registry", "simulate", "cluster", "serve"),
)
PAGE = Path(__file__).with_name("api.md")
HEAD = """# API reference

Made by `python docs/make_api.py` from the code. Each package has a page of its own that explains and shows examples;
here is everything that is public, in one line each, with the parameters of the estimators.
"""


def reference() -> str:
    """The page."""
    parts = [HEAD]
    for package in PACKAGES:
        module = importlib.import_module(f"broadmatch.{package}")
        first = (module.__doc__ or "").strip().splitlines()[0]
        parts.append(f"## [{package}]({package}.md)\n\n{first}\n")
        parts += [_entry(name, getattr(module, name)) for name in sorted(module.__all__, key=str.lower)]
    return "\n".join(parts)


def _entry(name: str, thing: Any) -> str:
    if not callable(thing):
        return f"### `{name}`\n\nA constant.\n"
    shown = f"### `{name}{'' if inspect.isclass(thing) else _signature(thing)}`\n\n{_first(thing)}\n"
    if not inspect.isclass(thing):
        return shown
    if issubclass(thing, Estimator) and thing.parameters:
        shown += "\n| parameter | default | what | must be |\n|---|---|---|---|\n"
        for p in thing.parameters.values():
            shown += f"| `{p.name}` | {_default(p.default)} | {_cell(p.help)} | {_cell(p.rule.text())} |\n"
    methods = [
        f"- `{method}{_signature(getattr(thing, method))}`: {_first(getattr(thing, method))}\n"
        for method in sorted(dir(thing))
        if not method.startswith("_") and method not in ("to_state", "from_state") and _ours(thing, method)
    ]
    return shown + ("\n" + "".join(methods) if methods else "")


def _ours(cls: type, method: str) -> bool:
    """Whether a method is one of broadmatch, not of dict, tuple or the like."""
    owner = next((c for c in cls.__mro__ if method in vars(c)), object)
    value = inspect.getattr_static(cls, method)
    return owner.__module__.startswith("broadmatch") and (
        inspect.isfunction(value) or isinstance(value, classmethod | staticmethod)
    )


def _signature(thing: Any) -> str:
    """The arguments by name; what has a default is shown with it where it is short."""
    shown, starred = [], False
    for p in inspect.signature(thing).parameters.values():
        if p.name in ("self", "cls"):
            continue
        if p.kind is p.KEYWORD_ONLY and not starred:
            shown.append("*")
            starred = True
        default = "" if p.default is p.empty else f"={p.default!r}"
        star = {p.VAR_POSITIONAL: "*", p.VAR_KEYWORD: "**"}.get(p.kind, "")
        starred |= p.kind is p.VAR_POSITIONAL
        shown.append(f"{star}{p.name}{default if len(default) < 30 else '=…'}")
    return f"({', '.join(shown)})"


def _first(thing: Any) -> str:
    doc = inspect.getdoc(thing) or ""
    return re.sub(r"\s+", " ", doc.split("\n\n")[0])


def _default(value: Any) -> str:
    return "required" if value is dataclasses.MISSING else f"`{value!r}`"


def _cell(text: str) -> str:
    return text.replace("|", "&#124;")


if __name__ == "__main__":
    PAGE.write_text(reference(), encoding="utf-8")
