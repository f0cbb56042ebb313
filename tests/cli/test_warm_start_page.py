"""docs/warm_start.md, followed from top to bottom on a few made-up packages."""

import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import worked

PAGE = Path(__file__).parents[2] / "docs" / "warm_start.md"
TRADES = {
    "qt": ("desktop program", ["libqt5widgets5", "libqt5gui5", "libqt5core5a"]),
    "gtk": ("recipe organizer", ["python3-gi", "gir1.2-gtk-3.0", "python3-gi-cairo"]),
}


def record(name, text, needs):
    depends = ", ".join([f"{needs[0]} (>= 1.0)", *(f"{one} | other" for one in needs[1:])])
    return f"Package: {name}\nVersion: 1\nDepends: {depends}\nDescription: {text}\n more of it\nSection: x\n\n"


def records():
    yield record("goldendict", "desktop dictionary program", TRADES["qt"][1])
    yield record("gourmand", "recipe organizer", TRADES["gtk"][1])
    for i in range(40):
        trade = "qt" if i % 2 else "gtk"
        text, needs = TRADES[trade]
        yield record(f"{trade}-{i}", f"{text} {'with lists' if i % 3 else 'for cooks'}", needs)
    for text, needs in TRADES.values():
        yield "".join(record(name, f"{text} library", ["libc6"]) for name in needs)
    yield record("gourmand", "the same again", ["libc6"])


def test_the_page_can_be_followed(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = PAGE.read_text(encoding="utf-8")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    # The example of the protocols needs a model and its training data; tests/evaluate runs both protocols.
    scripts = [body for kind, body in blocks if kind == "python" and "paired_difference" not in body]
    (revealed,) = [body for kind, body in blocks if kind == "text" and body.startswith("point,label\n")]
    (tmp_path / "has.csv").write_text(revealed)
    for name, script in zip(("packages.py", "matrices.py", "in_python.py"), scripts, strict=True):
        (tmp_path / name).write_text(script)

    def run(script, stdin=None):
        ran = subprocess.run([sys.executable, script], input=stdin, capture_output=True, text=True, check=False)
        assert ran.returncode == 0, ran.stderr
        return ran.stdout

    lines = run("packages.py", "".join(records()))
    assert len(lines.splitlines()) == 48
    assert '{"name": "gourmand", "text": "recipe organizer\\n more of it\\n", "needs": ["gir1.2-gtk-3.0",' in lines
    (tmp_path / "packages.jsonl").write_text(lines)
    assert "48 packages" in run("matrices.py")
    shell = "".join(body for kind, body in blocks if kind == "shell").replace("\\\n", " ")
    commands = shell.splitlines()
    told = [worked(*shlex.split(line)[1:]) for line in commands if line.startswith("broadmatch ")]
    assert len(told) == 7
    cold, warm = (one.split("gourmand")[1] for one in told[1:3])
    assert "python3-gi " in cold
    assert "python3-gi " not in warm
    assert "gir1.2-gtk-3.0" in warm
    assert "Revealed labels that decided: python3-gi" in told[3]
    assert "80% revealed" in told[4]
    assert "gir1.2-gtk-3.0" in run("in_python.py")
