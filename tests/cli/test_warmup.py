"""What is compiled ahead of time is what commands need."""

import json
from pathlib import Path

from broadmatch.kernels import cache
from tests.cli.conftest import worked


def test_after_it_nothing_is_left_to_compile():
    assert "compiling; machine code is kept in" in worked("warmup")
    compiled = cache.waiting.seconds
    said = json.loads(worked("warmup", "--json"))
    assert cache.waiting.seconds == compiled
    assert Path(said["folder"]).is_dir()
