"""How much the studio's scripts and styles weigh: what comes at first, and all there is, as docs/studio.md says."""

import re
from importlib import resources
from pathlib import Path

import pytest

from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from tests.browser import serving
from tests.serve.shop import Sink

DOCS = Path(__file__).parents[2] / "docs" / "studio.md"


def test_what_the_docs_say_is_loaded(page, shop):
    first = []
    page.on("response", lambda answer: first.append(answer) if "/static/" in answer.url else None)
    with serving(make_app(ServeConfig(folder=shop), LiveService(shop), Sink())) as address:
        page.goto(address, wait_until="networkidle")
        at_first = sum(len(answer.body()) for answer in first) / 1000
    files = [
        file for one in ("evaluate", "serve") for file in (resources.files(f"broadmatch.{one}") / "static").iterdir()
    ]
    kept = [file for file in files if not file.name.startswith("try.") and not file.name.endswith(".html")]
    in_all = sum(len(file.read_bytes()) for file in kept) / 1000
    said = re.search(r"loads (\d+) kB of scripts and styles; all pages together are (\d+) kB", DOCS.read_text("utf-8"))
    assert [round(at_first), round(in_all)] == pytest.approx([int(number) for number in said.groups()], abs=2)
    assert at_first < 70  # kB; pages come when they are opened
