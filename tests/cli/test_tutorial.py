"""docs/tutorial.md, followed from top to bottom on the help pages of LibreOffice: what it shows is what comes out."""

import doctest
import gzip
import json
import re
import shlex
import subprocess
import sys
from pathlib import Path

from tests.cli.conftest import broadmatch

PAGE = Path(__file__).parents[2] / "docs" / "tutorial.md"


def commands(block):
    """Each command of a console block with what follows it."""
    for one in re.split(r"^\$ ", block, flags=re.MULTILINE)[1:]:
        line, _, expected = one.partition("\n")
        yield shlex.split(line), expected


def test_the_tutorial_can_be_followed(shared_data, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with gzip.open(shared_data / "libreoffice-help" / "pages.jsonl.gz", "rt", encoding="utf-8") as lines:
        for page in map(json.loads, lines):
            file = tmp_path / page["path"].replace("en-US", "help", 1)
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(page["html"], encoding="utf-8")
    for script in ("bookmarks.js", "contents.js", "langnames.js"):
        (tmp_path / "help" / script).write_text("// the package has these beside the pages\n")
    blocks = re.findall(r"^```(\w+)\n(.*?)^```", PAGE.read_text(encoding="utf-8"), re.MULTILINE | re.DOTALL)
    names = {"python": "prepare.py", "html": "new.html"}
    for kind, name in names.items():
        (content,) = [body for one, body in blocks if one == kind]
        (tmp_path / name).write_text(content, encoding="utf-8")
    shown = 0
    for words, expected in (pair for kind, body in blocks if kind == "console" for pair in commands(body)):
        if words[0] == "python":
            ran = subprocess.run([sys.executable, *words[1:]], capture_output=True, text=True, check=True)
            found = ran.stdout
        else:
            called = broadmatch(*words[1:])
            assert called.code == 0, called.err
            found = re.sub(r"^Compiling kernels.*\n", "", called.err, flags=re.MULTILINE) + called.out
        wanted = expected.replace("[…]", "...")
        assert doctest.OutputChecker().check_output(wanted, found, doctest.ELLIPSIS), f"{words}\n{found}"
        shown += 1
    assert shown == 13
    assert "1,045 pages" in (tmp_path / "phrases.html").read_text(encoding="utf-8")
