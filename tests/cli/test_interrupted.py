"""Killed, interrupted or out of disk: nothing half-written loads, and --resume ends with the same bits."""

import resource
import signal
import subprocess
import sys
import time

import pytest
import typer
from typer.testing import CliRunner

import broadmatch
from broadmatch.cli.group import Commands
from broadmatch.errors import MissingFile
from tests.cli.conftest import failed, worked

TREES = 30
SCRIPT = [sys.executable, "-c", "from broadmatch.cli import main; main()"]


@pytest.fixture(scope="module")
def planted(tmp_path_factory):
    place = tmp_path_factory.mktemp("interrupted") / "planted"
    worked("simulate-matrix", place, "--points", 2000, "--labels", 100, "--features", 300, "--features-per-point", 20)
    return place


@pytest.fixture(scope="module")
def whole(planted):
    """Every file of the model that was trained without a break."""
    out = planted.with_name("whole")
    worked("train", planted, "--out", out, "--trees", TREES, "--n-jobs", 2)
    assert not out.with_name("whole.partial").exists()
    return contents(out)


def contents(folder):
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def stopped_by(sign, planted, out):
    """Start a training, send it a signal when some trees are done; its standard error and how it ended."""
    asked = ["train", str(planted), "--out", str(out), "--trees", str(TREES), "--n-jobs", "2"]
    partial, deadline = out.with_name(f"{out.name}.partial"), time.monotonic() + 120

    def listen():  # a suite that was started in the background has its children ignore Ctrl-C
        signal.signal(signal.SIGINT, signal.SIG_DFL)

    child = subprocess.Popen([*SCRIPT, *asked], stderr=subprocess.PIPE, text=True, preexec_fn=listen)
    while len(list(partial.glob("*/manifest.json"))) < 3 and time.monotonic() < deadline:
        time.sleep(0.005)
    child.send_signal(sign)
    _, said = child.communicate(timeout=60)
    done = len(list(partial.glob("*/manifest.json")))
    assert 3 <= done < TREES, "the signal came too late to test anything"
    return said, child.returncode


def test_killed_in_the_middle(planted, whole, tmp_path):
    out = tmp_path / "model"
    _, code = stopped_by(signal.SIGKILL, planted, out)
    assert code == -signal.SIGKILL
    with pytest.raises(MissingFile):
        broadmatch.load(out)
    said = failed("train", planted, "--out", out, "--trees", TREES)
    assert "model.partial is left from an earlier training: pass --resume" in said
    worked("train", planted, "--out", out, "--trees", TREES, "--resume", "--n-jobs", 2)
    assert contents(out) == whole
    assert [entry.name for entry in tmp_path.iterdir()] == ["model"]


def test_ctrl_c(planted, whole, tmp_path):
    out = tmp_path / "model"
    said, code = stopped_by(signal.SIGINT, planted, out)
    assert code == 130
    assert "--resume goes on" in said
    assert "Traceback" not in said
    assert not out.exists()
    other = failed("train", planted, "--out", out, "--trees", TREES, "--resume", "--seed", 9)
    assert "other data or with other parameters" in other
    worked("train", planted, "--out", out, "--trees", TREES, "--resume", "--n-jobs", 2)
    assert contents(out) == whole


def test_a_full_disk(planted, market, model, page, tmp_path):
    """A limit on the size of files stands for a disk that is full: writing fails in the middle."""

    harvest = ("--clicks", market / "clicks.parquet", "--pages", market / "pages.parquet")

    def limited(*asked, size):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

        run = subprocess.run([*SCRIPT, *map(str, asked)], capture_output=True, text=True, preexec_fn=limit)
        assert run.returncode == 1, run.stderr
        assert "Traceback" not in run.stderr
        return run.stderr.splitlines()[-1]

    said = limited("train", planted, "--out", tmp_path / "m", "--trees", 2, size=20_000)
    assert f"Error: Cannot write {tmp_path / 'm'}" in said
    assert not (tmp_path / "m").exists()
    said = limited("harvest", *harvest, "--out", tmp_path / "d", size=20_000)
    assert f"Error: Cannot write {tmp_path / 'd'}" in said
    assert not (tmp_path / "d").exists()
    (tmp_path / "phrases.csv").write_text("older")
    said = limited("recommend", model, page, "-k", 50, "--out", tmp_path / "phrases.csv", size=100)
    assert f"Error: Cannot write {tmp_path / 'phrases.csv'}" in said
    assert (tmp_path / "phrases.csv").read_text() == "older"
    assert not list(tmp_path.glob(".*"))


def test_ctrl_c_while_compiled_code_is_loaded():
    """Python wraps an interruption that foreign code passes over in a SystemError; other SystemErrors are ours."""
    app = typer.Typer(cls=Commands)

    @app.command()
    def load(interrupted: bool = False) -> None:
        raise SystemError("returned a result with an exception set") from (KeyboardInterrupt() if interrupted else None)

    app.callback()(lambda: None)
    ended = CliRunner().invoke(app, ["load", "--interrupted"])
    assert (ended.exit_code, ended.stderr) == (130, "Interrupted; nothing half-written was left.\n")
    assert isinstance(CliRunner().invoke(app, ["load"]).exception, SystemError)
