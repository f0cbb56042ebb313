"""Owners are told once: of deprecations, of new versions, of failed vettings, of what they should not consume."""

import json
import shlex
import sys
import threading
from pathlib import Path

import pytest

from broadmatch.registry import SignalIndex, notices
from broadmatch.signals import Description
from tests.registry.test_signal_index import TOMORROW, add, allowed, report


@pytest.fixture
def sending(tmp_path):
    """A command that keeps what it gets, a line each; and what reads them."""
    out = tmp_path / "out.jsonl"
    words = [sys.executable, "-c", f"import sys; open({str(out)!r}, 'a').write(sys.stdin.read() + '\\n')"]
    return words, lambda: [json.loads(line) for line in out.read_text().splitlines()] if out.exists() else []


def test_each_owner_hears_of_a_deprecation_once(index, sending):
    allowed(index)
    index.add_version("price", by="anna")
    for number in range(3):
        report(index, ["price"], model=f"m{number}", contact=f"owner{number}")
    index.deprecate("price", use="price@2", by_date=TOMORROW, by="anna", reason="drifts")
    command, got = sending
    assert index.send_notices(command=command) == (3, 0)
    assert index.send_notices(command=command) == (0, 0)
    assert [(one["to"], one["kind"], one["signal"], one["replacement"]) for one in got()] == [
        (f"owner{number}", "deprecated", "price@1", "price@2") for number in range(3)]  # fmt: skip
    assert got()[0]["text"] == (
        f"'price@1', which 'm0' consumes in training, is deprecated until {TOMORROW}; "
        "use 'price@2' instead (drifts).")  # fmt: skip
    report(index, ["price"], model="m0", contact="owner0")  # says nothing new, but that it is deprecated
    assert [one.kind for one in index.notices(waiting=True)] == ["consumed"]


def test_consumers_hear_of_a_new_version_with_what_tries_it(index, sending):
    allowed(index, "my price", settings={"buckets": "log"}, data={"columns": ["price"]})
    report(index, ["my price"], contact="ben")
    index.add_version("my price", by="anna", settings={"buckets": [0.0, 1.0]})
    (notice,) = index.notices()
    assert (notice.kind, notice.recipient) == ("new version", "ben")
    assert notice.message["line"] == '"my price@2" = { kind = "number", column = "price", buckets = [0.0, 1.0] }'
    Path(sending[0][-1].split("'")[1]).parent.joinpath("ads.toml").write_text("[signals]\n" + notice.message["line"])
    described = Description.read(Path(sending[0][-1].split("'")[1]).parent / "ads.toml")
    assert described.signals[0].name == "my price@2"
    words = shlex.split(notice.message["command"].split("&&")[0])
    assert words[:3] == ["broadmatch", "clicks", "train"]
    assert [words[at + 1] for at, word in enumerate(words) if word == "--variant"] == [
        "before: without=my?price@2", "new: without=my?price"]  # fmt: skip


def test_what_fails_waits_and_is_sent_later_in_order(index, sending, caplog):
    add(index, "a")
    for number in range(2):
        report(index, ["a"], model=f"m{number}")
    assert index.send_notices(command=["false"]) == (0, 1)
    assert "false ended with 1" in caplog.text
    assert len(index.notices(waiting=True)) == 2
    assert index.send_notices(command=sending[0]) == (2, 0)
    assert [one["model"] for one in sending[1]()] == ["m0", "m1"]


def test_a_kill_between_sending_and_noting_sends_again_with_the_same_id(index, sending, monkeypatch):
    report(index, ["a"])
    real = notices.send

    def killed(*args, **more):
        real(*args, **more)
        raise KeyboardInterrupt

    monkeypatch.setattr(notices, "send", killed)
    with pytest.raises(KeyboardInterrupt):
        index.send_notices(command=sending[0])
    monkeypatch.setattr(notices, "send", real)
    assert index.send_notices(command=sending[0]) == (0, 0)  # another may still be at it
    monkeypatch.setattr(notices, "_CLAIM", -1)
    assert index.send_notices(command=sending[0]) == (1, 0)
    first, second = sending[1]()
    assert first == second


def test_two_senders_at_once_send_each_notice_once(index, address, sending):
    for number in range(6):
        report(index, ["a"], model=f"m{number}")

    def run():
        with SignalIndex.open(address) as own:
            own.send_notices(command=sending[0])

    threads = [threading.Thread(target=run) for _ in range(3)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert sorted(one["model"] for one in sending[1]()) == [f"m{number}" for number in range(6)]
