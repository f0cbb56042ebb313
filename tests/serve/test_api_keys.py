"""API keys: only the right key of the right role passes, at its rate; the file holds no key and is never half."""

import json
import threading
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.errors import BadArtifact, BadInput, BadParameter
from broadmatch.serve import api_keys
from broadmatch.serve.api_keys import (
    ROLES,
    ApiKeys,
    Forbidden,
    RateLimit,
    TooManyRequests,
    Unauthorized,
    add_key,
    read_keys,
    remove_key,
)
from tests.cli.conftest import failed, refused, worked


def bearer(key):
    return b"Bearer " + key.encode()


@pytest.fixture
def path(tmp_path):
    return tmp_path / "keys.json"


@pytest.fixture
def clock(monkeypatch):
    """A clock that stands still until it is set."""
    now = [1000.0]
    monkeypatch.setattr(api_keys.time, "monotonic", lambda: now[0])
    return now


def test_a_role_may_do_what_those_before_it_may(path):
    keys_of = {role: add_key(path, role, role) for role in ROLES}
    keys = ApiKeys.at(path)
    for has, key in keys_of.items():
        for wanted in ROLES:
            if ROLES.index(has) >= ROLES.index(wanted):
                assert keys.check(bearer(key), wanted)[1:3] == (has, has)
            else:
                with pytest.raises(Forbidden, match=f"is {has}, and this needs {wanted}"):
                    keys.check(bearer(key), wanted)
    assert keys.check(b"bEARER " + keys_of["read"].encode(), "read").id == keys_of["read"][3:11]


def test_only_the_whole_key_is_good(path):
    key = add_key(path, "shop", "admin")
    keys = ApiKeys.at(path)
    right = bearer(key)
    assert len(key) == 46
    for at in range(len(right)):
        wrong = right[:at] + bytes([right[at] ^ 1]) + right[at + 1 :]
        with pytest.raises(Unauthorized):
            keys.check(wrong, "read")
    for wrong in (None, b"", right[:-1], right + b"A", right + b" ", b"Bearer  " + key.encode()[:-1], key.encode()):
        with pytest.raises(Unauthorized):
            keys.check(wrong, "read")


@given(st.binary(max_size=80))
def test_no_other_header_is_good(tmp_path_factory, header):
    path = tmp_path_factory.getbasetemp() / "any_keys.json"
    if not path.exists():
        add_key(path, "shop", "admin")
    with pytest.raises(Unauthorized):
        ApiKeys.at(path).check(header, "read")


def test_the_file_holds_no_key(path):
    key = add_key(path, "shop", "read", rate=2.5)
    text = path.read_text()
    assert key not in text
    assert key[11:] not in text
    (stored,) = read_keys(path)
    assert stored.info[1:] == ("shop", "read", stored.info.created, 2.5)
    assert add_key(path, "two", "read") != key
    assert len({k.salt for k in read_keys(path)}) == 2


def test_a_change_counts_within_a_second(path, clock):
    first = add_key(path, "one", "read")
    keys = ApiKeys.at(path)
    second = add_key(path, "two", "read")
    remove_key(path, "one")
    clock[0] += 1.0
    assert keys.check(bearer(second), "read").name == "two"
    with pytest.raises(Unauthorized):
        keys.check(bearer(first), "read")
    path.unlink()  # without a file nobody passes, rather than everybody
    clock[0] += 1.0
    with pytest.raises(Unauthorized):
        keys.check(bearer(second), "read")
    assert len(keys) == 0
    assert ApiKeys.at(path) is None


def test_a_file_that_is_damaged_meanwhile_leaves_the_keys_of_before(path, clock, caplog):
    key = add_key(path, "one", "read")
    keys = ApiKeys.at(path)
    path.write_text("{")
    for _ in range(3):
        clock[0] += 1.0
        keys.check(bearer(key), "read")
    (said,) = caplog.messages
    assert "is damaged" in said
    assert "stay in force" in said


def forged(path, **changes):
    """The file with something else in its first key."""
    plain = json.loads(path.read_text())
    for name, value in changes.items():
        if value is KeyError:
            del plain["keys"][0][name]
        else:
            plain["keys"][0][name] = value
    path.write_text(json.dumps(plain))


@pytest.mark.parametrize(
    "changes",
    [
        {"name": ""}, {"name": 7}, {"name": "a\nb"}, {"name": "x" * 65}, {"name": "two"}, {"role": "root"},
        {"role": None}, {"role": []}, {"rate": 0}, {"rate": "1"}, {"rate": True}, {"rate": -1}, {"rate": 1e300},
        {"rate": float("nan")},
        {"salt": "00"}, {"salt": "xy"}, {"salt": 3}, {"hash": "00" * 31}, {"hash": None}, {"id": "ä" * 8},
        {"id": "short"}, {"id": None}, {"created": 3}, {"created": KeyError}, {"more": 1},
    ],
)  # fmt: skip
def test_a_forged_key_is_refused(path, changes):
    add_key(path, "one", "read")
    add_key(path, "two", "read")
    forged(path, **changes)
    with pytest.raises(BadArtifact, match=r"keys\.json is damaged"):
        ApiKeys.at(path)
    with pytest.raises(BadArtifact):
        add_key(path, "three", "read")


@pytest.mark.parametrize("text", ["", "{", "[]", '{"keys": 1}', '{"keys": [1]}', "[" * 100_000, '{"keys": [], "a": 1}'])
def test_a_damaged_file_is_refused(path, text):
    path.write_text(text)
    with pytest.raises(BadArtifact, match="bring an old copy back"):
        ApiKeys.at(path)


def test_what_cannot_be_added(path):
    add_key(path, "one", "read")
    with pytest.raises(BadInput, match="already"):
        add_key(path, "one", "serve")
    for name in ("", " a", "a\tb", "x" * 65):
        with pytest.raises(BadInput, match="letters"):
            add_key(path, name, "read")
    with pytest.raises(BadParameter, match="role"):
        add_key(path, "two", "root")
    for rate in (0, -1, float("nan"), float("inf")):
        with pytest.raises(BadParameter, match="rate"):
            add_key(path, "two", "read", rate=rate)
    with pytest.raises(BadInput, match="no key of the name two; it has one"):
        remove_key(path, "two")
    with pytest.raises(BadInput, match="There is no folder"):
        add_key(path.parent / "none" / "keys.json", "one", "read")


def test_keys_added_at_the_same_time_are_all_there(path):
    threads = [threading.Thread(target=add_key, args=(path, f"key {i}", "read")) for i in range(12)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(k.info.name for k in read_keys(path)) == sorted(f"key {i}" for i in range(12))


def test_the_rate_of_a_key(path, clock):
    key, other = add_key(path, "one", "read", rate=2), add_key(path, "two", "read")
    keys = ApiKeys.at(path)
    keys.check(bearer(key), "read")
    keys.check(bearer(key), "read")
    with pytest.raises(TooManyRequests) as error:
        keys.check(bearer(key), "read")
    assert error.value.retry_after == pytest.approx(0.5)
    for _ in range(100):
        keys.check(bearer(other), "read")
    clock[0] += 0.5
    keys.check(bearer(key), "read")
    add_key(path, "three", "read")  # the file is read again, and the bucket is as empty as before
    clock[0] += 0.6
    keys.check(bearer(key), "read")
    with pytest.raises(TooManyRequests):
        keys.check(bearer(key), "read")


@given(st.lists(st.floats(0, 3), min_size=1, max_size=60), st.floats(0.2, 50))
def test_a_bucket_never_lets_more_through_than_its_rate(gaps, rate):
    limit, now, passed = RateLimit(rate), 5.0, []
    level, last, burst = max(rate, 1.0), 5.0, max(rate, 1.0)
    for gap in gaps:
        now += gap
        level, last = min(burst, level + (now - last) * rate), now  # the bucket as it is usually told
        wait = limit.wait(now)
        if abs(level - 1) > 1e-6:
            assert (wait == 0.0) == (level > 1)
        if wait == 0.0:
            level -= 1
            passed.append(now)
        else:
            assert wait == pytest.approx((1 - level) / rate, abs=1e-6)
    for i, start in enumerate(passed):
        assert len(passed) - i <= burst + (now - start) * rate + 1e-6


def test_a_check_is_cheap(path):
    key = add_key(path, "one", "read", rate=1e6)
    keys, header = ApiKeys.at(path), bearer(key)
    best = float("inf")
    for _ in range(5):
        start = time.process_time()
        for _ in range(2000):
            keys.check(header, "read")
        best = min(best, (time.process_time() - start) / 2000)
    assert best < 20e-6  # 2 to 3 µs where nothing else runs


def test_the_commands(tmp_path):
    key = worked("keys", "add", tmp_path, "--name", "web", "--role", "serve", "--rate", 5).splitlines()[0]
    assert ApiKeys.at(tmp_path / "keys.json").check(bearer(key), "serve").name == "web"
    made = json.loads(worked("keys", "add", tmp_path, "--name", "boss", "--role", "admin", "--json"))
    assert made["key"].startswith("bm_")
    head, web, boss = worked("keys", "list", tmp_path).splitlines()
    assert (head.split()[0], web.split()[:3], boss.split()[:3]) == (
        "name",
        ["web", "serve", "5"],
        ["boss", "admin", "any"],
    )
    assert key not in web
    assert key[:11] in web
    worked("keys", "remove", tmp_path, "--name", made["key"][:11])
    assert [k["name"] for k in json.loads(worked("keys", "list", tmp_path, "--json"))] == ["web"]
    assert "no key of the name" in failed("keys", "remove", tmp_path, "--name", "boss")
    assert "--role is one of" in refused("keys", "add", tmp_path, "--name", "x", "--role", "root")
    assert "rate" in failed("keys", "add", tmp_path, "--name", "x", "--role", "read", "--rate", 0)
