"""The reference part of docs/cli.md, made from the commands themselves.

Run `python -m broadmatch.cli.reference docs/cli.md` after a change of options or help.
"""

import inspect
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import typer.main

from broadmatch.cli import app

BEGIN = "<!-- Below: made by `python -m broadmatch.cli.reference docs/cli.md`. -->"


def reference() -> str:
    """Every command with its help, arguments and options, as Markdown."""
    return "\n".join(_section(name, command) for name, command in commands(typer.main.get_command(app)))


def commands(group: Any, before: str = "") -> Iterator[tuple[str, Any]]:
    """Every command with its name, such as "train" or "clicks train"."""
    for name, command in group.commands.items():
        if hasattr(command, "commands"):
            yield from commands(command, f"{before}{name} ")
        else:
            yield f"{before}{name}", command


def updated(page: str) -> str:
    """The page with its reference part made anew."""
    return f"{page.partition(BEGIN)[0]}{BEGIN}\n\n{reference()}"


def _section(name: str, command: Any) -> str:
    text, _, example = inspect.cleandoc(command.help).partition("\b\nExample:\n")
    arguments = [p for p in command.params if p.param_type_name == "argument"]
    usage = " ".join([f"broadmatch {name}", *(_argument(p) for p in arguments), "[OPTIONS]"])
    lines = [f"### broadmatch {name}", "", f"`{usage}`", "", text.strip(), ""]
    if example:
        lines += ["```shell", *(inspect.cleandoc("\n" + example).splitlines()), "```", ""]
    lines += ["| | | default |", "|---|---|---|"]
    for p in [*arguments, *(p for p in command.params if p not in arguments)]:
        shown = f"`{p.metavar}`" if p in arguments else ", ".join(f"`{opt}`" for opt in (*p.opts, *p.secondary_opts))
        lines.append(f"| {shown} | {p.help.replace('|', '&#124;')} | {_default(p)} |")
    return "\n".join([*lines, ""])


def _argument(parameter: Any) -> str:
    return str(parameter.metavar) if parameter.required else f"[{parameter.metavar}]"


def _default(parameter: Any) -> str:
    if parameter.required:
        return "required"
    if isinstance(getattr(parameter, "show_default", None), str):  # the default is another for each model
        return f"`{parameter.show_default}`"
    return "" if parameter.default is None or parameter.default is False else f"`{parameter.default}`"


if __name__ == "__main__":
    file = Path(sys.argv[1])
    file.write_text(updated(file.read_text(encoding="utf-8")), encoding="utf-8")
