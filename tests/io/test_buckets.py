"""Copies of what stands in a store: fetched as it is there, sent whole, and nothing else touched."""

import os
import re
import shutil
from pathlib import Path
from typing import Annotated, NamedTuple

import boto3
import numpy as np
import pytest
import scipy.sparse as sp
from typer.testing import CliRunner

import broadmatch
from broadmatch.cli import app
from broadmatch.cluster import fit
from broadmatch.cluster.engine import ThreadEngine
from broadmatch.data import Names
from broadmatch.errors import BadInput, BadParameter, CannotWrite
from broadmatch.io import ClickLog, PageSource, artifacts, buckets, read_dataset, write_dataset
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.io.files import expand
from broadmatch.kernels import F64
from broadmatch.labels import MLRF, FastXML
from broadmatch.layout import Axes
from broadmatch.simulate import simulate_marketplace, synthetic_dataset
from tests.object_store import ADDRESS, BUCKET, object_store


@pytest.fixture(scope="module")
def copies(tmp_path_factory):
    with object_store(tmp_path_factory.mktemp("copies")):
        yield buckets.copies_root()


@pytest.fixture(autouse=True)
def store(copies):
    """An empty bucket; and no copy is left of what a test did."""
    client().delete_objects(Bucket=BUCKET, Delete={"Objects": [{"Key": key} for key in [*keys(), "-"]]})
    with buckets.own_copies():
        yield
    assert list(copies.iterdir()) == []


def client():
    return boto3.client("s3", endpoint_url=os.environ["AWS_ENDPOINT_URL"])


def keys():
    found = [one["Key"] for one in client().list_objects_v2(Bucket=BUCKET).get("Contents", [])]
    return sorted(key for key in found if not key.endswith("/"))  # a store may mark empty folders


def put(key, content=b"content"):
    client().put_object(Bucket=BUCKET, Key=key, Body=content)


def get(key):
    return client().get_object(Bucket=BUCKET, Key=key)["Body"].read()


def write(place, content=b"content"):
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(content)


def bytes_of(folder):
    return {str(file.relative_to(folder)): file.read_bytes() for file in Path(folder).rglob("*") if file.is_file()}


@pytest.mark.parametrize("address", ["s3://", "s3://A/b", "s3://bucket/../x", "s3://bucket//x", "s3://bu*/x"])
def test_what_is_no_address_is_refused(address):
    with pytest.raises(BadParameter, match=r"^An address is s3://BUCKET or s3://BUCKET/FOLDER, but it is "):
        buckets.here(address)


def test_other_paths_stay_as_they_are(tmp_path):
    assert buckets.fetch(tmp_path / "nothing") == tmp_path / "nothing"
    assert buckets.send(tmp_path) == buckets.send() == 0
    write(tmp_path / "file")
    assert buckets.exists(tmp_path / "file")
    buckets.remove(tmp_path / "file")
    assert not buckets.exists(tmp_path / "file")
    buckets.forget(str(tmp_path))
    assert tmp_path.is_dir()


def test_files_folders_and_patterns(tmp_path):
    for key in ("logs/2023-12.csv", "logs/2024-01.csv", "logs/2024-02.csv", "logs/2024/x.csv", "logs/more/2024-03.csv"):
        put(key)
    put("logsbook/x.csv")
    assert [file.name for file in expand(f"{ADDRESS}/logs/2024-01.csv")] == ["2024-01.csv"]
    assert list(bytes_of(buckets.here(ADDRESS))) == ["logs/2024-01.csv"]
    assert [file.name for file in expand(f"{ADDRESS}/logs/2024-*.csv")] == ["2024-01.csv", "2024-02.csv"]
    found = expand([f"{ADDRESS}/logs/**/*.csv"])
    assert sorted(file.name for file in found) == ["2023-12.csv", "2024-01.csv", "2024-02.csv", "2024-03.csv", "x.csv"]
    assert "logsbook/x.csv" not in bytes_of(buckets.here(ADDRESS))
    put("logs/odd[1].csv")
    assert [file.name for file in expand(f"{ADDRESS}/logs/odd[1].csv")] == ["odd[1].csv"]
    pages = [buckets.here(f"{ADDRESS}/pages/{name}.html") for name in ("a", "b[2]", "gone")]
    for page in pages[:2]:
        put(f"pages/{page.name}")
    buckets.fetch_all([*pages, tmp_path / "local"])
    assert [page.exists() for page in pages] == [True, True, False]


def test_an_object_whose_name_leads_elsewhere_is_left_there(copies):
    put("pages/a.html")
    for key in ("pages/../../../evil", "pages//evil", "pages/./evil"):
        put(key)
    assert list(bytes_of(buckets.fetch(ADDRESS))) == ["pages/a.html"]
    assert not list(copies.parent.rglob("evil"))


def test_only_what_is_new_is_sent_and_what_makes_it_whole_last(monkeypatch):
    folder = buckets.here(f"{ADDRESS}/model")
    for name in ("a.npy", "manifest.json", "part/b.npy", "part/manifest.json", ".a.npy.123.tmp", ".old.old/a.npy"):
        write(folder / name, name.encode())
    write(folder / "zero.npy", b"")
    sent, put_one = [], buckets._put
    monkeypatch.setattr(buckets, "_put", lambda store, file: (put_one(store, file), sent.append(file.name)))
    assert buckets.send(folder) == 5
    assert sent[-2:] == ["manifest.json", "manifest.json"]
    model = [f"model/{name}" for name in ("a.npy", "manifest.json", "part/b.npy", "part/manifest.json", "zero.npy")]
    assert keys() == model
    assert buckets.send(folder) == buckets.send() == 0
    (folder / "zero.npy").unlink()
    (folder / "a.npy").write_bytes(b"A.npy")  # of the same size, at once
    assert buckets.send() == 2
    assert get("model/a.npy") == b"A.npy"
    assert keys() == model[:-1]
    write(buckets.here(f"{ADDRESS}/model[a].txt"))
    buckets.send()
    buckets.remove(buckets.here(f"{ADDRESS}/model[a]"))  # a name, not a pattern
    assert keys() == [*model[:-1], "model[a].txt"]
    buckets.remove(folder)
    assert keys() == ["model[a].txt"]
    assert not buckets.exists(folder)
    assert buckets.exists(f"{ADDRESS}/model[a].txt")


def test_what_others_change_meanwhile_stays_theirs():
    for key in ("logs/a.csv", "logs/b.csv", "logs/c.csv", "logs/d.csv"):
        put(key)
    folder = buckets.fetch(f"{ADDRESS}/logs")
    put("logs/a.csv", b"theirs")
    client().delete_object(Bucket=BUCKET, Key="logs/b.csv")
    put("logs/c.csv", b"theirs")
    (folder / "c.csv").unlink()
    (folder / "d.csv").unlink()
    write(folder / "new.csv")
    assert buckets.fetch(folder / "new.csv").exists()  # what a process has fetched is its own
    buckets.send()
    assert keys() == ["logs/a.csv", "logs/c.csv", "logs/new.csv"]
    assert get("logs/a.csv") == get("logs/c.csv") == b"theirs"


def fail(*_):
    raise OSError("When sending: AWS Error SLOW_DOWN during PutObject operation: Too much. (Request ID: x)")


def test_a_folder_that_is_being_replaced_is_not_whole(monkeypatch):
    folder = buckets.here(f"{ADDRESS}/model")
    for content in (b"old", b"newer"):
        write(folder / "manifest.json", content)
        write(folder / "a.npy", content)
        if content == b"old":
            buckets.send()
    monkeypatch.setattr(buckets, "_put", fail)
    with pytest.raises(
        CannotWrite, match=rf"^{ADDRESS} cannot be used: SLOW_DOWN, Too much; what was made is whole on"
    ):
        buckets.send()
    assert keys() == ["model/a.npy"]


def test_errors_are_one_sentence(monkeypatch):
    put("a.csv")
    with monkeypatch.context() as patch:
        patch.setattr(shutil, "disk_usage", lambda place: shutil._ntuple_diskusage(10, 10, 3))
        with pytest.raises(CannotWrite, match=rf"^{ADDRESS}/a.csv has 0.0 GB, and .* has room for 0.0: make room"):
            buckets.fetch(f"{ADDRESS}/a.csv")
    for address in ("s3://no-such-bucket", "s3://no-such-bucket/x"):
        with pytest.raises(BadInput, match=r"^There is no bucket s3://no-such-bucket\.$"):
            buckets.fetch(address)
    buckets._connected.cache_clear()
    with monkeypatch.context() as patch:
        patch.setenv("AWS_ENDPOINT_URL", "http://127.0.0.1:1")
        with pytest.raises(BadInput, match=r"^s3://another/x cannot be used: NETWORK_CONNECTION, .*AWS_ENDPOINT_URL"):
            buckets.fetch("s3://another/x")
    buckets._connected.cache_clear()


def test_a_folder_of_copies_that_is_somebody_elses_is_refused(copies, tmp_path):
    put("a.csv")
    place = buckets.here(f"{ADDRESS}/a.csv")
    folder = buckets._folder_of(place)
    shutil.rmtree(folder)
    (tmp_path / "mine").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "mine")
    with pytest.raises(CannotWrite, match=r"is not this user's alone"):
        buckets._check_own(folder)
    folder.unlink()
    folder.mkdir()
    folder.chmod(0o777)
    with pytest.raises(CannotWrite, match=r"is not this user's alone"):
        buckets._check_own(folder)


class Part(NamedTuple):
    """A part of some work."""

    numbers: Annotated[F64, Axes("n")]


def test_parts_of_work_are_those_of_all_hosts():
    def on_another_host():
        buckets._copies.remove()
        return Checkpoints(buckets.here(f"{ADDRESS}/model.partial"), "this work")

    one = on_another_host()
    assert not one.has(0)
    for number in range(2):
        one.keep(number, Part(np.arange(3.0) + number))
    client().delete_object(Bucket=BUCKET, Key="model.partial/00000001/manifest.json")  # the host died while it sent
    assert not one.has(1)
    other = on_another_host()
    assert other.take(0, Part).numbers.tolist() == [0, 1, 2]
    assert other.take(1, Part) is None
    other.keep(1, Part(np.arange(4.0)))
    assert on_another_host().take(1, Part).numbers.tolist() == [0, 1, 2, 3]
    other.drop([0])
    assert other.take(0, Part) is None
    assert {key.split("/")[1] for key in keys()} == {"00000001"}


def run_cli(*words):
    found = CliRunner().invoke(app, [str(word) for word in words])
    assert not found.exit_code, found.output
    return found.output


def copied(address, to):
    """What stands at an address, copied to a place of its own."""
    with buckets.own_copies():
        place = buckets.fetch(address)
        return shutil.copytree(place, to) if place.is_dir() else shutil.copy(place, to)


def test_commands_take_addresses(tmp_path):
    """From a log and pages in a bucket to phrases in a bucket: the bytes of what is done in folders."""
    market = simulate_marketplace(tmp_path / "market", n_pages=100, n_sessions=2000, seed=1)
    for file in (market.clicks, market.pages):
        put(f"in/{file.name}", file.read_bytes())
    alone = (market.clicks, market.pages, *(tmp_path / name for name in ("data", "model", "phrases.csv", "bad")))
    there = tuple(f"{ADDRESS}/{name}" for name in ("in/clicks.parquet", "in/pages.parquet", "run=1/data", "run=1/model",
                                                   "run=1/phrases.csv", "run=1/bad"))  # fmt: skip
    for log, pages, data, model, phrases, bad in (alone, there):
        said = run_cli(
            "harvest", "--clicks", log, f"--pages={pages}", f"--out={data}", "--min-pages", 2, "--rejects", bad
        )
        assert f"{data}: " in said.replace("\n", " ")
        run_cli("train", data, f"--out={model}", "--trees", 3)
        assert "points" in run_cli("data", "show", data)
        run_cli("recommend", model, pages, "--out", phrases, "-k", 3)
        assert run_cli("evaluate", model, data, "--json").startswith("{")
    assert not [key for key in keys() if ".partial" in key or "copies" in key]
    for name, here, address in zip(("data", "model"), alone[2:], there[2:], strict=False):
        assert bytes_of(copied(address, tmp_path / f"copied-{name}")) == bytes_of(here)
    assert Path(copied(there[4], tmp_path / "copied.csv")).read_bytes() == alone[4].read_bytes()
    assert get("in/clicks.parquet") == market.clicks.read_bytes()


def test_what_stands_beside_a_matrix_comes_with_it():
    data = synthetic_dataset(n_points=300, n_features=100, n_labels=50, seed=1)
    data.labels = Names.of([f"label {i}" for i in range(50)])
    for name in ("X_trn.npz", "trn.svm"):
        write_dataset(data, buckets.here(f"{ADDRESS}/{name}"))
    put("pair/labels.json", b"[]")
    buckets.send()
    for name in ("X_trn.npz", "trn.svm"):
        with buckets.own_copies():
            found = read_dataset(f"{ADDRESS}/{name}")
            assert (found.X.shape, list(found.labels)) == (data.X.shape, list(data.labels))
            assert sp.issparse(found.Y.to_scipy())
    assert "label" in run_cli("train", f"{ADDRESS}/X_trn.npz", "--out", f"{ADDRESS}/model", "--trees", 2)


def test_an_interrupted_training_goes_on_from_another_host(tmp_path, monkeypatch):
    artifacts.save(synthetic_dataset(n_points=300, n_features=100, n_labels=50, seed=1), f"{ADDRESS}/data")
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
    assert "--resume" in CliRunner().invoke(app, train).output
    made = []
    monkeypatch.setattr(Checkpoints, "keep", lambda self, number, part: (keep(self, number, part), made.append(number)))
    with monkeypatch.context() as patch:  # the store fails when the model is sent, and comes back
        patch.setattr(buckets, "_change", fail)
        patch.setattr(Checkpoints, "drop", lambda self, numbers: None)
        failed = CliRunner().invoke(app, [*train, "--resume"])
    assert failed.exit_code == 1
    run_cli(*train, "--resume")
    assert set(made) <= {2, 3}
    run_cli(*train[:-1], tmp_path / "alone")
    assert bytes_of(copied(f"{ADDRESS}/model", tmp_path / "there")) == bytes_of(tmp_path / "alone")
    assert {key.split("/")[0] for key in keys()} == {"data", "model"}


def test_what_could_not_be_sent_stays(monkeypatch):
    artifacts.save(synthetic_dataset(n_points=300, n_features=100, n_labels=50, seed=1), f"{ADDRESS}/data")
    run_cli("train", f"{ADDRESS}/data", "--out", f"{ADDRESS}/model", "--model", "mlrf", "--trees", 2)
    monkeypatch.setattr(buckets, "_put", fail)
    words = ["recommend", f"{ADDRESS}/model", f"{ADDRESS}/data", "-k", "2", "--out", f"{ADDRESS}/phrases.csv"]
    ended = CliRunner().invoke(app, words)
    assert ended.exit_code == 1
    left = Path(re.search(r"is whole on this host, in (\S+?)\.\s*$", ended.output)[1])
    assert (left / BUCKET / "phrases.csv").exists()
    shutil.rmtree(left)


@pytest.mark.parametrize(
    "words",
    [
        ("serve", f"{ADDRESS}/server"),
        ("clicks", "follow", f"--events={ADDRESS}/events"),
        ("train", "data", "--signals", f"{ADDRESS}/signals.db"),
        ("train", "data", f"--signals={ADDRESS}/signals.db"),
    ],
)
def test_other_commands_work_with_folders(words):
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1
    assert found.output.startswith("Error: s3://ads-bucket/")
    assert "is in a bucket; harvest, train" in found.output.replace("\n", " ")


def test_a_command_that_finds_nothing_names_the_address():
    words = ["harvest", "--clicks", f"{ADDRESS}/no.csv", "--pages", f"{ADDRESS}/p", "--out", "x"]
    found = CliRunner().invoke(app, words)
    assert found.exit_code == 1
    assert f"There is no file {ADDRESS}/" in found.output.replace("\n", " ")


def test_python_takes_addresses():
    put("clicks.csv", b"query,page\npizza,a.html\n")
    put("pages/a.html", b"<title>Pizza</title>")
    assert [batch.num_rows for batch in ClickLog(f"{ADDRESS}/clicks.csv").read()] == [1]
    assert [page.name for page in PageSource(f"{ADDRESS}/pages")] == ["a.html"]
    data = synthetic_dataset(n_points=300, n_features=100, n_labels=50, seed=1)
    model = MLRF(n_trees=3).fit(data.X, data.Y)
    for _ in range(2):  # the second takes the place of the first
        model.save(f"{ADDRESS}/model")
    with buckets.own_copies():
        loaded = broadmatch.load(f"{ADDRESS}/model").to_state()
    assert loaded.arrays.keys() == model.to_state().arrays.keys()


def test_a_job_in_shards_keeps_its_parts_in_the_bucket():
    data = synthetic_dataset(n_points=300, n_features=100, n_labels=50, seed=1)
    for _ in range(2):
        with buckets.own_copies():
            fit(ThreadEngine(), FastXML(n_trees=3), data.X, data.Y, buckets.here(f"{ADDRESS}/job"), 2)
    assert {key.split("/")[1] for key in keys()} == {".shards-1", "00000000", "00000001", "00000002"}
