"""Tables: one line a row, whole in a pipe; on a terminal they fit without breaking a phrase or an address."""

import pytest
from rich.cells import cell_len

from broadmatch.cli import output
from broadmatch.cli.output import Column, table_lines

ADDRESS = "https://www.example.com/" + "very-long-" * 20
COLUMNS = [Column("page"), Column("why", spare="shorten"), Column("score", right=True), Column("low", spare="drop")]
ROWS = [(ADDRESS, "many words\nin lines", "0.5", "0.4"), ("b", "few", "10", "9")]


def test_a_pipe_gets_everything_on_one_line_a_row(capsys):
    output.print_table(COLUMNS, ROWS)
    head, first, second = capsys.readouterr().out.splitlines()
    assert head.split() == ["page", "why", "score", "low"]
    assert first.startswith(ADDRESS)
    assert "many words in lines" in first
    assert second.split() == ["b", "few", "10", "9"]


@pytest.mark.parametrize("width", [20, 40, 80, 300])
def test_an_address_is_whole_at_any_width(width):
    lines = table_lines(COLUMNS, ROWS, width)
    assert len(lines) == 3
    assert ADDRESS in lines[1]
    assert ("low" in lines[0]) == (width == 300)


def test_a_terminal_is_filled_by_shortening_then_dropping():
    rows = [("airport taxi", "word " * 20, "0.5", "0.4")]
    for width in (80, 60, 50):
        lines = table_lines(COLUMNS, rows, width)
        assert max(map(cell_len, lines)) <= width
        assert "airport taxi" in lines[1]
        assert "0.5" in lines[1]
    assert "low" in table_lines(COLUMNS, rows, 60)[0]
    assert "low" not in table_lines(COLUMNS, rows, 34)[0]


def test_wide_letters_take_two_places():
    lines = table_lines([Column("phrase"), Column("score", right=True)], [("比萨 外卖", "0.5"), ("pizza", "0.25")])
    assert len({cell_len(line) for line in lines}) == 1


def test_text_is_wrapped_on_a_terminal_only(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "40")
    output.print_text("word " * 30)
    assert len(capsys.readouterr().out.splitlines()) == 1
    with output.page_width():
        output.print_text("word " * 30)
    assert max(map(len, capsys.readouterr().out.splitlines())) <= 40
