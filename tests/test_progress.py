"""Progress: silent unless asked, one line a minute without a terminal, a bar with one."""

import io
import logging

import pytest

from broadmatch import progress


@pytest.fixture
def shown():
    progress.show()
    yield
    progress.show(False)


@pytest.fixture
def clock(monkeypatch):
    now = [1000.0]
    monkeypatch.setattr(progress.time, "monotonic", lambda: now[0])
    return now


def lines(caplog):
    return [record.getMessage() for record in caplog.records]


def test_silent_unless_asked(caplog, capsys, clock):
    caplog.set_level(logging.DEBUG, "broadmatch")
    with progress.task("Growing trees", total=3) as task:
        clock[0] += 500
        task.advance(2)
    assert task.done == 2
    assert lines(caplog) == []
    assert capsys.readouterr() == ("", "")


def test_one_line_a_minute(shown, caplog, clock):
    caplog.set_level(logging.INFO, "broadmatch")
    with progress.task("Growing trees", total=100, unit="trees") as task:
        for _ in range(50):
            clock[0] += 3.0
            task.advance()
    assert lines(caplog) == [
        "Growing trees: 20 of 100 trees, 0.3/s, 240 s left",
        "Growing trees: 40 of 100 trees, 0.3/s, 180 s left",
    ]


def test_a_total_that_is_not_known(shown, caplog, clock):
    caplog.set_level(logging.INFO, "broadmatch")
    with progress.task("Reading", unit="rows") as task:
        clock[0] += 100
        task.advance(5_000)
    assert lines(caplog) == ["Reading: 5,000 rows, 50.0/s"]


def test_nothing_done_yet_divides_by_nothing(shown, caplog, clock):
    caplog.set_level(logging.INFO, "broadmatch")
    with progress.task("Reading", total=10, unit="rows") as task:
        clock[0] += 100
        task.advance(0)
    assert lines(caplog) == ["Reading: 0 of 10 rows, 0.0/s, inf s left"]


def test_a_bar_on_a_terminal(shown, monkeypatch):
    class Terminal(io.StringIO):
        def isatty(self):
            return True

    terminal = Terminal()
    monkeypatch.setattr("sys.stderr", terminal)
    monkeypatch.setenv("TERM", "xterm")
    monkeypatch.setenv("COLUMNS", "120")
    with progress.task("Growing trees", total=4, unit="trees") as task:
        task.advance(3)
        assert task.done == 3
    assert "Growing trees" in terminal.getvalue()
    assert "3/4" in terminal.getvalue()
    assert "trees" in terminal.getvalue()


@pytest.mark.parametrize("on", [True, False])
def test_errors_come_through(on):
    progress.show(on)
    try:
        with pytest.raises(KeyError), progress.task("Reading"):
            raise KeyError
    finally:
        progress.show(False)
