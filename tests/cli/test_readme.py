"""The README's way from a fresh clone to a file to send, on a log and pages of one's own: its commands as they are."""

import random
import re
import shlex
import tomllib
from pathlib import Path

import pytest

from tests.cli.conftest import broadmatch, worked

ROOT = Path(__file__).parents[2]
TRADES = {
    "pizza": "oven margherita pasta tiramisu italian delivery cheese basil",
    "taxi": "airport transfer cab driver ride station luggage night",
    "flowers": "roses bouquet tulips wedding florist garden vase petals",
}


def commands():
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    section = text.partition("## Your own log and pages")[2].partition("\n## ")[0]
    (block,) = re.findall(r"^```shell\n(.*?)^```", section, re.MULTILINE | re.DOTALL)
    return [shlex.split(line, comments=True) for line in block.replace("\\\n", " ").splitlines()]


@pytest.fixture
def own(tmp_path):
    """A CSV of clicks, and a folder of pages, two of them odd, as somebody has them."""
    draw = random.Random(0)
    rows = ["query,page"]
    (tmp_path / "pages").mkdir()
    for trade, words in TRADES.items():
        for i in range(12):
            name = f"{trade}-{i}" + (".html" if i else "")  # the first of each as a mirror has it, without .html
            some = " ".join(draw.sample(words.split(), 5))
            (tmp_path / "pages" / name).write_text(f"<!doctype html><title>{trade}</title><p>{some} & more</p>")
            rows += [f"{trade} {draw.choice(words.split())},{name}" for _ in range(25)]
    (tmp_path / "pages" / "empty.html").touch()
    (tmp_path / "pages" / "logo.png").write_bytes(bytes.fromhex("89504e470d0a1a0a"))
    (tmp_path / "clicks.csv").write_text("\n".join(rows) + "\n")
    return tmp_path


def test_five_commands_from_a_clone_to_a_file_to_send(own, monkeypatch):
    monkeypatch.chdir(own)
    install, *others = commands()
    assert install == ["make", "install"]
    assert len(others) <= 4
    for words in others:
        assert words[0] == ".venv/bin/broadmatch"
        ran = broadmatch(*words[1:])
        assert ran.code == 0, ran.err
        if words[1] == "harvest":
            assert "the page is empty: 1" in ran.err
    page = (own / "phrases.html").read_text(encoding="utf-8")
    assert page.count("<section>") == 36
    _, _, first = page.partition("pizza-0</bdi>")
    assert re.search(r'<td>1</td><th scope="row"><bdi>pizza ', first[:300])
    worked("recommend", "model/", "pages/pizza-1.html", "--out", "phrases.xlsx")


def test_what_is_installed_can_do_what_the_readme_says():
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    assert "install --quiet --editable '.[dev]'" in makefile
    assert set(extras["xlsx"]) <= set(extras["dev"])


def test_every_extra_has_code():
    """What an extra brings is imported somewhere in the package, or by the tools of development."""
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]
    source = "\n".join(file.read_text(encoding="utf-8") for file in (ROOT / "src").rglob("*.py"))
    for name in set(extras) - {"dev", "bench"}:
        for one in extras[name]:
            if one.startswith("broadmatch["):
                continue
            module = re.split(r"[\[<>=~! ]", one)[0].replace("-", "_")
            used = rf'^\s*(import|from) (uvicorn[.\w]*\.)?{module}(_impl)?\b|="(\w+\+)?{module}"'  # some get names
            assert re.search(used, source, re.MULTILINE), f"[{name}] {one} has no code"
