"""Copies of what stands in a store: brought up to date, sent whole, and nothing that is not meant."""

import json
import os
import shutil
from pathlib import Path
from typing import Annotated, NamedTuple

import boto3
import numpy as np
import pytest
from typer.testing import CliRunner

from broadmatch.cli import app
from broadmatch.errors import BadInput, BadParameter, CannotWrite
from broadmatch.io import ClickLog, PageSource, artifacts, buckets
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.io.files import expand
from broadmatch.kernels import F64
from broadmatch.layout import Axes
from broadmatch.simulate import simulate_marketplace, synthetic_dataset
from tests.object_store import ADDRESS, BUCKET, object_store


@pytest.fixture(scope="module")
def store(tmp_path_factory):
    with object_store(tmp_path_factory.mktemp("store") / "cache") as environment:
        yield environment


@pytest.fixture
def hosts(store, tmp_path, monkeypatch):
    """Go to another host: one with a cache of its own, empty at first."""
    client().delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in [*keys(), "-"]]})

    def go(name="one"):
        monkeypatch.setenv("BROADMATCH_CACHE", str(tmp_path / name))
        return buckets.cache_root() / BUCKET

    go()
    return go


def client():
    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def keys():
    found = [one["Key"] for one in client().list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    return sorted(key for key in found if not key.endswith("/"))  # a store may mark empty folders


def put(key, content=b"content"):
    client().put_object(Bucket=BUCKET, Key=key, Body=content)


def files_of(folder):
    return sorted(file.relative_to(folder).as_posix() for file in Path(folder).rglob("*") if file.is_file())


def bytes_of(folder):
    return {name: (folder / name).read_bytes() for name in files_of(folder)}


@pytest.mark.parametrize("address", ["s3://", "s3://A/b", "s3://bucket/../x", "s3://bucket//x", "s3://bu*/x", "logs"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(BadParameter, match=r"^An address is s3://BUCKET or s3://BUCKET/FOLDER, but it is "):
        buckets.cached(address)


def test_what_is_no_address_stays_as_it_is(tmp_path):
    assert buckets.fetch(tmp_path / "nothing") == tmp_path / "nothing"
    assert buckets.send(tmp_path) == 0
    (tmp_path / "file").touch()
    buckets.remove(tmp_path / "file")
    buckets.remove(tmp_path / "nothing")
    assert buckets.held(tmp_path) == {}


def test_a_folder_is_brought_up_to_date(hosts):
    put("logs/a.csv")
    put("logs/deep/b.csv", os.urandom(1000))
    put("logsbook/c.csv")
    folder = buckets.fetch(f"{ADDRESS}/logs")
    assert files_of(folder) == ["a.csv", "deep/b.csv"]
    before = {file: (folder / file).stat().st_ino for file in files_of(folder)}
    put("logs/deep/b.csv", b"changed")
    buckets.fetch(folder)
    assert (folder / "deep" / "b.csv").read_bytes() == b"changed"
    assert (folder / "a.csv").stat().st_ino == before["a.csv"]  # not fetched again
    client().delete_object(Bucket=BUCKET, Key="logs/a.csv")
    assert files_of(buckets.fetch(folder)) == ["deep/b.csv"]
    client().delete_object(Bucket=BUCKET, Key="logs/deep/b.csv")
    assert not buckets.fetch(folder).exists()


def test_files_and_patterns(hosts):
    for key in ("logs/2023-12.csv", "logs/2024-01.csv", "logs/2024-02.csv", "logs/2024/x.csv", "logs/more/2024-03.csv"):
        put(key)
    assert [file.name for file in expand(f"{ADDRESS}/logs/2024-01.csv")] == ["2024-01.csv"]
    assert files_of(buckets.cached(ADDRESS)) == ["logs/2024-01.csv"]
    assert [file.name for file in expand(f"{ADDRESS}/logs/2024-*.csv")] == ["2024-01.csv", "2024-02.csv"]
    found = expand([f"{ADDRESS}/logs/**/*.csv"])
    assert sorted(file.name for file in found) == ["2023-12.csv", "2024-01.csv", "2024-02.csv", "2024-03.csv", "x.csv"]


def test_an_object_whose_name_leads_elsewhere_is_left_there(hosts, tmp_path):
    put("pages/a.html")
    for key in ("pages/../../../evil", "pages//evil", "pages/./evil"):
        put(key)
    assert files_of(buckets.fetch(ADDRESS)) == ["pages/a.html"]
    assert not list(tmp_path.rglob("evil"))


def test_only_what_is_new_is_sent_and_what_makes_it_whole_last(hosts, monkeypatch):
    folder = hosts() / "model"
    (folder / "part").mkdir(parents=True)
    for name in ("a.npy", "manifest.json", "part/b.npy", "part/manifest.json", "zero.npy"):
        (folder / name).write_bytes(name.encode() if name != "zero.npy" else b"")
    (folder / ".a.npy.123.tmp").write_bytes(b"half")
    sent = []
    put_one = buckets._put
    monkeypatch.setattr(buckets, "_put", lambda store, file: (put_one(store, file), sent.append(file.name)))
    assert buckets.send(folder) == 5
    assert sent[-2:] == ["manifest.json", "manifest.json"]
    assert keys() == [
        f"model/{name}" for name in ("a.npy", "manifest.json", "part/b.npy", "part/manifest.json", "zero.npy")
    ]
    assert buckets.send(folder) == 0
    before = buckets.held(folder)
    (folder / "zero.npy").unlink()
    (folder / "a.npy").write_bytes(b"another")
    assert buckets.send(folder, before) == 2
    assert keys() == ["model/a.npy", "model/manifest.json", "model/part/b.npy", "model/part/manifest.json"]
    hosts("two")
    assert (buckets.fetch(f"{ADDRESS}/model") / "a.npy").read_bytes() == b"another"
    buckets.remove(buckets.cached(f"{ADDRESS}/model"))
    assert keys() == []
    assert not (hosts("two") / "model").exists()


def test_what_others_changed_meanwhile_stays_theirs(hosts):
    for key in ("logs/a.csv", "logs/b.csv", "logs/c.csv"):
        put(key)
    folder = buckets.fetch(f"{ADDRESS}/logs")
    before = buckets.held(folder)
    put("logs/a.csv", b"theirs")
    client().delete_object(Bucket=BUCKET, Key="logs/b.csv")
    (folder / "new.csv").write_bytes(b"ours")
    assert buckets.send(folder, before) == 1
    assert keys() == ["logs/a.csv", "logs/c.csv", "logs/new.csv"]
    assert client().get_object(Bucket=BUCKET, Key="logs/a.csv")["Body"].read() == b"theirs"


def test_a_folder_that_is_being_replaced_is_not_whole(hosts, monkeypatch):
    folder = hosts() / "model"
    folder.mkdir(parents=True)
    (folder / "manifest.json").write_text("old")
    (folder / "a.npy").write_text("old")
    buckets.send(folder)
    (folder / "manifest.json").write_text("newer")
    (folder / "a.npy").write_text("newer")

    def fail(store, file):
        raise OSError("When sending: AWS Error SLOW_DOWN during PutObject operation: Too much. (Request ID: x)")

    monkeypatch.setattr(buckets, "_put", fail)
    with pytest.raises(BadInput, match=rf"^{ADDRESS}/model cannot be used: SLOW_DOWN, Too much; {folder} is whole on"):
        buckets.send(folder)
    assert keys() == ["model/a.npy"]


def test_errors_are_one_sentence(hosts, monkeypatch, tmp_path):
    put("a.csv")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10, 10, 3))
        with pytest.raises(CannotWrite, match=rf"^{ADDRESS}/a.csv has 0.0 GB, and .* has room for 0.0: make room"):
            buckets.fetch(f"{ADDRESS}/a.csv")
    open_to_all = tmp_path / "open"
    open_to_all.mkdir()
    open_to_all.chmod(0o777)
    with monkeypatch.context() as patch:
        patch.setenv("BROADMATCH_CACHE", str(open_to_all))
        with pytest.raises(CannotWrite, match=r"^Others can write into .*/open: give it to its user alone"):
            buckets.fetch(f"{ADDRESS}/a.csv")
    folder = buckets.cached("s3://no-such-bucket/x")
    folder.mkdir(parents=True)
    (folder / "a").touch()
    with pytest.raises(BadInput, match=r"^s3://no-such-bucket/x cannot be used: NO_SUCH_BUCKET, .*; .* is whole on"):
        buckets.send(folder)
    buckets._connected.cache_clear()
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        with pytest.raises(BadInput, match=r"^s3://another/x cannot be used: NETWORK_CONNECTION, .*AWS_ENDPOINT_URL"):
            buckets.fetch("s3://another/x")
    buckets._connected.cache_clear()


class Part(NamedTuple):
    """A part of some work."""

    numbers: Annotated[F64, Axes("n")]


def test_checkpoints_are_those_of_all_hosts(hosts):
    place = f"{ADDRESS}/model.partial"
    kept = Checkpoints(buckets.cached(place), "this work")
    assert not kept.has(0)
    kept.keep(0, Part(np.arange(3.0)))
    hosts("two")
    there = Checkpoints(buckets.cached(place), "this work")
    assert there.take(0, Part).numbers.tolist() == [0, 1, 2]
    there.drop([0])
    hosts("one")
    assert not kept.has(0)
    assert kept.take(0, Part) is None


def run_cli(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert not found.exit_code, found.output
    return found.output


def test_commands_take_addresses(hosts, tmp_path):
    """From a log and pages in a bucket to phrases in a bucket, each command on another host."""
    market = simulate_marketplace(tmp_path / "market", n_pages=100, n_sessions=2000, seed=1)
    for name, source in (("log", market.clicks), ("pages", market.pages)):
        source = Path(source)
        place = hosts() / name / source.name
        place.parent.mkdir(parents=True, exist_ok=True)
        shutil.copytree(source, place) if source.is_dir() else shutil.copyfile(source, place)
        buckets.send(hosts() / name)
    hosts("two")
    log, pages = f"{ADDRESS}/log/{Path(market.clicks).name}", f"--pages={ADDRESS}/pages/{Path(market.pages).name}"
    said = run_cli("harvest", "--clicks", log, pages, "--out", f"{ADDRESS}/data", "--min-pages", 2)
    assert said.startswith(f"{ADDRESS}/data: ")
    hosts("three")
    train = ("train", f"{ADDRESS}/data", "--out", f"{ADDRESS}/model", "--model", "mlrf", "--trees")
    assert json.loads(run_cli(*train, 3, "--json").splitlines()[-1])["model"] == f"{ADDRESS}/model"
    assert not [key for key in keys() if ".partial" in key]
    run_cli("train", hosts("three") / "data", "--out", tmp_path / "alone", "--model", "mlrf", "--trees", 3)
    hosts("four")
    run_cli("recommend", f"{ADDRESS}/model", f"{ADDRESS}/pages", "--out", f"{ADDRESS}/phrases.csv", "-k", 3)
    assert {key.split("/")[0] for key in keys()} == {"data", "log", "model", "pages", "phrases.csv"}
    hosts("five")
    sent = buckets.fetch(f"{ADDRESS}/model")
    assert bytes_of(sent) == bytes_of(tmp_path / "alone")
    run_cli("recommend", tmp_path / "alone", market.pages, "--out", tmp_path / "alone.csv", "-k", 3)
    assert buckets.fetch(f"{ADDRESS}/phrases.csv").read_bytes() == (tmp_path / "alone.csv").read_bytes()


def test_an_interrupted_training_goes_on_from_another_host(hosts, tmp_path, monkeypatch):
    data = synthetic_dataset(n_points=300, n_features=100, n_labels=50, seed=1)
    artifacts.save(data, hosts() / "data")
    buckets.send(hosts() / "data")
    train = ("train", f"{ADDRESS}/data", "--model", "fastxml", "--trees", "4", "--out", f"{ADDRESS}/model")
    keep = Checkpoints.keep

    def interrupted(self, number, part):
        keep(self, number, part)
        if number == 1:
            raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(Checkpoints, "keep", interrupted)
        ended = CliRunner().invoke(app, train)
    assert ended.exit_code == 130
    assert f"{ADDRESS}/model.partial" in ended.output
    hosts("two")
    assert "--resume" in CliRunner().invoke(app, train).output
    made = []
    monkeypatch.setattr(Checkpoints, "keep", lambda self, number, part: made.append(number))
    run_cli(*train, "--resume")
    assert set(made) <= {2, 3}
    run_cli("train", hosts("two") / "data", *train[2:-1], tmp_path / "alone")
    assert bytes_of(hosts("two") / "model") == bytes_of(tmp_path / "alone")
    assert {key.split("/")[0] for key in keys()} == {"data", "model"}


@pytest.mark.parametrize("words", [("serve", f"{ADDRESS}/server"), ("clicks", "follow", f"--events={ADDRESS}/events")])
def test_what_changes_while_it_runs_is_no_copy(hosts, words):
    put("server/manifest.json")
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1
    assert found.output.startswith(f"Error: `{words[-2]}` works on files that change while it runs, and what is in")
    assert not buckets.cached(ADDRESS).exists()


def test_a_command_that_finds_nothing_names_the_address(hosts):
    found = CliRunner().invoke(
        app, ["harvest", "--clicks", f"{ADDRESS}/no.csv", "--pages", f"{ADDRESS}/p", "--out", "x"]
    )
    assert found.exit_code == 1
    assert f"There is no file {ADDRESS}/" in found.output


def test_python_takes_addresses(hosts):
    put("clicks.csv", b"query,page\npizza,a.html\n")
    put("pages/a.html", b"<title>Pizza</title>")
    assert [batch.num_rows for batch in ClickLog(f"{ADDRESS}/clicks.csv").read()] == [1]
    assert [page.name for page in PageSource(f"{ADDRESS}/pages")] == ["a.html"]
