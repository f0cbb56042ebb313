"""Our ES modules as one plain script: each becomes a function's scope, those that it imports from before it.

For the syntax of our own files only: `import { a, b as c } from "./name.js";` on one line, and `export` before a
function, a class or a constant.
"""

import re
from pathlib import Path

STATIC = Path(__file__).parent.parent / "static"
_IMPORT = re.compile(r'^import \{ ([\w, ]+) \} from "\./([\w.]+)";$', re.MULTILINE)
_EXPORT = re.compile(r"^export (?=(?:async )?(?:function|class|const) (\w+))", re.MULTILINE)


def bundled(entry: str, folder: Path = STATIC) -> str:
    """The module `entry` and all that it needs, as one script; what it exports is `$entry`, its name without ".js"."""
    found: dict[str, str] = {}
    _add(entry, folder, found, ())
    return "\n".join(found.values())


def _add(name: str, folder: Path, found: dict[str, str], within: tuple[str, ...]) -> None:
    if name in within:
        raise ValueError(f"{' → '.join((*within, name))}: modules must not import in a circle.")
    if name in found:
        return
    text = (folder / name).read_text(encoding="utf-8")
    for _, needed in _IMPORT.findall(text):
        _add(needed, folder, found, (*within, name))
    exported = _EXPORT.findall(text)
    body = _EXPORT.sub("", _IMPORT.sub(_taken, text))
    if re.search(r"^\s*(import|export)\b", body, re.MULTILINE):
        raise ValueError(f"{name} imports or exports in a way that cannot be put into a page.")
    found[name] = f"const {_scope(name)} = (() => {{\n{body}\nreturn {{ {', '.join(exported)} }};\n}})();"


def _taken(found: re.Match[str]) -> str:
    return f"const {{ {found[1].replace(' as ', ': ')} }} = {_scope(found[2])};"


def _scope(name: str) -> str:
    return "$" + name.removesuffix(".js")
