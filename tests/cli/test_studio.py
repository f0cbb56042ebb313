"""`broadmatch studio` serves on loopback alone, and opens the browser unless told not to."""

import threading

import pytest

from broadmatch.serve import supervisor
from tests.cli.conftest import worked


@pytest.mark.parametrize(("words", "opened"), [((), ["http://127.0.0.1:8080/"]), (("--no-open",), [])])
def test_the_browser_is_opened_when_requests_are_taken(monkeypatch, tmp_path, words, opened):
    asked, seen, done = [], [], threading.Event()

    def run(config, started):
        asked.append(config)
        started(f"http://{config.host}:{config.port}")
        return 0

    monkeypatch.setattr(supervisor, "run", run)
    monkeypatch.setattr("webbrowser.open", lambda address: (seen.append(address), done.set()))
    found = worked("studio", tmp_path, *words)
    assert not opened or done.wait(10)
    assert seen == opened and asked[0].host == "127.0.0.1" and asked[0].workers == 1
    assert "http://127.0.0.1:8080/" in found
