"""The house stays readable: short functions, small folders, one name for one thing, the words of the field."""

import ast
import collections
import importlib.util
import re
from pathlib import Path

import broadmatch

ROOT = Path(__file__).parents[1]
SOURCE = Path(broadmatch.__file__).parent
TREES = {path: ast.parse(path.read_text(encoding="utf-8")) for path in sorted(SOURCE.rglob("*.py"))}
WORDS = {"told", "talk", "desk", "crew", "opened", "speaking", "asking"}
"""Names that stood for eight things each; the glossary has better ones."""


def nodes(kind):
    return [(path, node) for path, tree in TREES.items() for node in ast.walk(tree) if isinstance(node, kind)]


def test_no_function_is_longer_than_a_hundred_lines():
    functions = nodes(ast.FunctionDef | ast.AsyncFunctionDef)
    assert len(functions) > 1000
    assert not [f"{p.name}:{f.name}" for p, f in functions if f.end_lineno - f.lineno + 1 > 100]


def test_no_folder_holds_more_than_twenty_modules():
    held = collections.Counter(path.parent for path in TREES if path.name != "__init__.py")
    assert len(held) > 10
    assert not {str(folder.relative_to(SOURCE)): n for folder, n in held.items() if n > 20}


def test_no_class_name_stands_twice():
    names = collections.Counter(node.name for _, node in nodes(ast.ClassDef))
    assert not [name for name, n in names.items() if n > 1]


def test_names_are_words_of_the_field():
    found = {
        f"{path.name}:{node.lineno} {name}"
        for path, node in nodes(ast.Name | ast.FunctionDef | ast.ClassDef | ast.arg)
        for name in (getattr(node, "id", None) or getattr(node, "name", None) or getattr(node, "arg", ""),)
        if WORDS & set(re.split(r"_|\d", name.lower()))
    }
    assert not found


def test_the_api_reference_is_up_to_date():
    spec = importlib.util.spec_from_file_location("make_api", ROOT / "docs" / "make_api.py")
    make_api = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(make_api)
    assert make_api.PAGE.read_text(encoding="utf-8") == make_api.reference(), "run: python docs/make_api.py"


def test_links_of_the_pages_lead_somewhere():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").glob("*.md")]
    links = [
        (page, link) for page in pages for link in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text("utf-8"))
    ]
    assert len(links) > 50
    assert not [f"{p.name}: {link}" for p, link in links if "://" not in link and not (p.parent / link).exists()]


def test_every_target_of_the_makefile_does_something():
    text = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.*)$", text, re.M)[1].split()
    assert "postgresql" in targets
    assert not [one for one in targets if not re.search(rf"^{one}:[^\n]*\n\t|^{one}: \$\(STAMP\)$", text, re.M)]
