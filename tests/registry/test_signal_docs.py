"""Every sentence of §8 is a row of the docs, with a command that exists and a test that exists."""

import ast
import re
from pathlib import Path

import typer.main

from broadmatch.cli import app

ROOT = Path(__file__).parents[2]
ROWS = (ROOT / "docs" / "signal_index.md").read_text("utf-8").split("## Sentence by sentence")[1].splitlines()[4:]


def test_every_row_names_a_test_that_exists():
    assert len(ROWS) >= 18
    for row in ROWS:
        named = re.findall(r"`(tests/[\w/]+\.py)::(\w+)`", row)
        assert named, row
        for file, test in named:
            tree = ast.parse((ROOT / file).read_text("utf-8"))
            assert test in {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}, test


def test_every_command_of_a_row_exists():
    commands = typer.main.get_command(app).commands["signals"].commands
    named = {word for row in ROWS for word in re.findall(r"`signals (\w+)", row)}
    assert len(named) >= 9
    assert named <= set(commands)
