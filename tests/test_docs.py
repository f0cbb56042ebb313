"""Every package has its page, everything public is documented, and the examples of the pages are run."""

import doctest
import importlib
import inspect
import re
from pathlib import Path

import pytest

import broadmatch

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
SOURCE = Path(broadmatch.__file__).parent
PACKAGES = sorted(p.parent.name for p in SOURCE.glob("*/__init__.py"))
PAGES = sorted([*DOCS.glob("*.md"), ROOT / "README.md"])


def public(package):
    """(name, thing) of everything in a package's `__all__`."""
    module = importlib.import_module(f"broadmatch.{package}")
    return [(name, getattr(module, name)) for name in getattr(module, "__all__", ())]


def commands():
    """(words, command) of every command of the command line, nested ones too."""
    import typer.main

    from broadmatch.cli import app

    def below(command, words):
        for name, inner in getattr(command, "commands", {}).items():
            yield (*words, name), inner
            yield from below(inner, (*words, name))

    return list(below(typer.main.get_command(app), ()))


@pytest.mark.parametrize("package", PACKAGES)
def test_every_package_has_a_docs_page_and_a_docstring(package):
    page = DOCS / f"{package}.md"
    assert page.is_file(), f"docs/{package}.md is missing"
    assert len(page.read_text(encoding="utf-8").split()) > 50
    assert importlib.import_module(f"broadmatch.{package}").__doc__


@pytest.mark.parametrize("package", [p for p in PACKAGES if p not in ("kernels", "cli")])
def test_every_package_says_what_is_public(package):
    assert getattr(importlib.import_module(f"broadmatch.{package}"), "__all__", ())


def without_docstring(name, thing):
    """What of a class (with its methods) or a function has no docstring."""
    if not callable(thing):
        return []
    own = vars(thing).get("__doc__") if inspect.isclass(thing) else thing.__doc__
    # a dataclass or NamedTuple without a docstring gets its signature as one
    missing = [] if (own or "").strip() and not own.startswith(f"{name}(") else [name]
    if inspect.isclass(thing):
        for method, value in vars(thing).items():
            inner = value.__func__ if isinstance(value, classmethod | staticmethod) else value
            if not method.startswith("_") and inspect.isfunction(inner) and not inspect.getdoc(getattr(thing, method)):
                missing.append(f"{name}.{method}")
    return missing


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_public_has_a_docstring(package):
    assert not [missing for name, thing in public(package) for missing in without_docstring(name, thing)]


@pytest.mark.parametrize("package", PACKAGES)
def test_everything_public_is_on_the_docs_page(package):
    page = (DOCS / f"{package}.md").read_text(encoding="utf-8")
    assert not [name for name, _ in public(package) if not re.search(rf"\b{re.escape(name)}\b", page)]


def test_a_missing_docstring_is_seen():
    class Silent:
        def method(self): ...

        @classmethod
        def of(cls): ...

    assert without_docstring("Silent", Silent) == ["Silent", "Silent.method", "Silent.of"]


def test_every_command_has_help_and_a_place_in_the_docs():
    page = (DOCS / "cli.md").read_text(encoding="utf-8")
    found = commands()
    assert found
    for words, command in found:
        name = " ".join(words)
        assert (command.help or "").strip(), f"{name} has no help"
        assert f"broadmatch {name}" in page, f"broadmatch {name} is not in docs/cli.md"
        for parameter in command.params:
            assert getattr(parameter, "help", None), f"{name}: {parameter.name} has no help"


def examples(page):
    """The ```python blocks of a page that hold examples, as one text with the line numbers of the page."""
    text = page.read_text(encoding="utf-8")
    kept = [""] * len(text.splitlines())
    for block in re.finditer(r"^```python\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        if ">>>" in block[1]:
            first = text[: block.start(1)].count("\n")
            for i, line in enumerate(block[1].splitlines()):
                kept[first + i] = line
    return "\n".join(kept)


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_examples_in_pages(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # examples may save files
    test = doctest.DocTestParser().get_doctest(examples(page), {}, page.name, str(page), 0)
    told = []
    result = doctest.DocTestRunner().run(test, out=told.append)
    assert not result.failed, "".join(told)


def test_a_wrong_example_is_seen(tmp_path):
    page = tmp_path / "page.md"
    page.write_text("# x\n\n```python\n>>> 1 + 1\n3\n```\n\n```python\nnot run\n```\n")
    test = doctest.DocTestParser().get_doctest(examples(page), {}, "page", str(page), 0)
    assert test.examples[0].lineno == 3
    assert doctest.DocTestRunner().run(test, out=lambda text: None).failed == 1


@pytest.mark.parametrize("page", PAGES, ids=lambda p: p.name)
def test_links_between_pages_lead_somewhere(page):
    text = page.read_text(encoding="utf-8")
    links = [link.split("#")[0] for link in re.findall(r"\]\(([^)\s]+)\)", text) if "://" not in link]
    missing = [link for link in links if link and not (page.parent / link).exists()]
    assert not missing
