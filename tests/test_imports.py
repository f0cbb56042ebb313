"""Imports flow one way, and what answers at once imports nothing heavy."""

import ast
import importlib.util
import subprocess
import sys
from pathlib import Path

import pytest

import broadmatch

SOURCE = Path(broadmatch.__file__).parent

# Earlier tiers never import later ones; packages of one tier do not import each other (design §1).
TIERS = (
    ("kernels", "errors", "layout", "params", "parallel", "progress", "state"),
    ("data",),
    ("io",),
    ("evaluate", "harvest", "features", "signals"),
    ("labels", "clicks"),
    ("sets",),
    ("ads", "registry"),
    ("simulate", "cluster", "serve"),
    ("cli",),
    ("__main__",),
)
TIER_OF = {name: tier for tier, names in enumerate(TIERS) for name in names}
# Within the first tier, one module builds on another.
ALLOWED = {
    ("layout", "errors"),
    ("params", "errors"),
    ("parallel", "params"),
    *(("state", part) for part in ("errors", "layout", "params")),
}
# `broadmatch.load` opens what any package saved; io/artifacts.py finds the classes by name, at run time.
ROOT = "__init__"
HEAVY = ("numpy", "numba", "sklearn", "scipy", "pandas", "pyarrow", "duckdb", "selectolax")


def modules():
    return sorted(SOURCE.rglob("*.py"))


def part_of(path):
    """The package or top module a file belongs to: data/csr.py -> data, errors.py -> errors."""
    first = path.relative_to(SOURCE).parts[0]
    return first.removesuffix(".py")


def imported_parts(path):
    """The parts of broadmatch that a file imports anywhere in it, with the line."""
    package = ("broadmatch", *path.relative_to(SOURCE).parts[:-1])
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            base = ".".join(package[: len(package) - node.level + 1]) + "." if node.level else ""
            module = (base + (node.module or "")).rstrip(".")
            names = [f"{module}.{a.name}" for a in node.names] if module == "broadmatch" else [module]
        else:
            continue
        for name in names:
            parts = name.split(".")
            if parts[0] == "broadmatch":
                yield (parts[1] if len(parts) > 1 else ROOT), node.lineno


def may_import(importer, imported):
    if importer == imported or imported in ("__version__", ROOT):
        return True
    if importer == ROOT:
        return imported == "io"
    return TIER_OF[imported] < TIER_OF[importer] or (importer, imported) in ALLOWED


def test_every_part_has_a_tier():
    parts = {part_of(path) for path in modules()} - {ROOT}
    assert parts <= set(TIER_OF), "give the new package its place in TIERS, as in design §1"


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_imports_flow_one_way(path):
    importer = part_of(path)
    wrong = [
        f"line {line}: {importer} imports {part}"
        for part, line in imported_parts(path)
        if not may_import(importer, part)
    ]
    assert not wrong


@pytest.mark.parametrize("path", modules(), ids=lambda p: str(p.relative_to(SOURCE)))
def test_nothing_pickles_or_evaluates(path):
    found = [
        f"line {node.lineno}: {node.id if isinstance(node, ast.Name) else ast.unparse(node)}"
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8")))
        if (isinstance(node, ast.Name) and node.id in ("eval", "exec"))
        or (isinstance(node, ast.Import) and {a.name.split(".")[0] for a in node.names} & {"pickle", "joblib", "dill"})
        or (isinstance(node, ast.ImportFrom) and node.module in ("pickle", "joblib", "dill"))
    ]
    assert not found


def test_the_reader_of_imports_sees_every_form(tmp_path, monkeypatch):
    (tmp_path / "data").mkdir()
    file = tmp_path / "data" / "x.py"
    file.write_text(
        "import broadmatch.cli\nfrom broadmatch import labels\nfrom broadmatch.harvest.top import y\n"
        "from ..features import z\nfrom . import own\nimport numpy\n"
        "def f():\n    from broadmatch.simulate import late\n"
    )
    monkeypatch.setattr(sys.modules[__name__], "SOURCE", tmp_path)
    assert [part for part, _ in imported_parts(file)] == ["cli", "labels", "harvest", "features", "data", "simulate"]
    assert not may_import("data", "cli")
    assert not may_import("harvest", "features")
    assert may_import("labels", "harvest")


def loaded_by(code):
    """Which heavy packages are imported after running `code` in a fresh interpreter."""
    shown = f"{code}\nimport sys\nprint(*[m for m in {HEAVY!r} if m in sys.modules])"
    run = subprocess.run([sys.executable, "-c", shown], capture_output=True, text=True)
    assert run.returncode == 0, run.stderr
    return run.stdout.splitlines()[-1].split()


def test_import_broadmatch_is_light():
    assert loaded_by("import broadmatch; broadmatch.__version__") == []
    assert loaded_by("import scipy.sparse") == ["numpy", "scipy"]  # the check can fail


def test_features_need_neither_tables_nor_scikit_learn():
    loaded = loaded_by("from broadmatch.features import PageVectorizer, RocchioSelector")
    assert not {"sklearn", "pandas", "pyarrow", "duckdb", "selectolax"} & set(loaded)


def test_a_label_model_needs_neither_tables_nor_scikit_learn():
    assert loaded_by("from broadmatch.labels import MLRF") == ["numpy", "numba", "scipy"]


COMMANDS = ("demo", "simulate", "simulate-matrix", "models", "harvest", "train", "evaluate", "recommend", "explain",
            "clicks", *(f"clicks {one}" for one in ("train", "validate", "calibrate", "predict", "show")),
            "ads", *(f"ads {one}" for one in ("check", "index", "match", "why")),
            "events", *(f"events {one}" for one in ("tail", "export")), "cluster", "cluster check")  # fmt: skip


@pytest.mark.parametrize("words", ["--help", "--version", *(f"{command} --help" for command in COMMANDS)])
def test_the_command_line_answers_without_heavy_imports(words):
    assert importlib.util.find_spec("broadmatch.cli"), "there is no broadmatch.cli"
    code = (
        "import sys\nfrom broadmatch.cli import main\n"
        f"sys.argv = ['broadmatch', *{words.split()!r}]\n"
        "try:\n    main()\nexcept SystemExit as end:\n    assert not end.code, end.code"
    )
    assert loaded_by(code) == []
