"""Saved folders: the same bits come back, and whatever is wrong is named."""

import contextlib
import hashlib
import json
import multiprocessing
import os
import stat
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

import broadmatch
from broadmatch.data import CSR, Dataset, Hierarchy, Names
from broadmatch.errors import BadArtifact, CannotWrite, MissingFile
from broadmatch.io import artifacts
from broadmatch.io.artifacts import load_state, save
from broadmatch.state import State

ARRAYS = {"values": np.arange(1000, dtype=np.float32), "offsets": np.array([0, 3, 9])}


def state(arrays=None, **more):
    return State("dataset", {"n": 3}, ARRAYS if arrays is None else arrays, **more)


def dataset():
    return Dataset(CSR.from_rows([[0, 2], [1]], 3), CSR.from_rows([[1], []], 2), Names.of(["pizza", "naïve \ud800"]))


def rewrite(folder, change):
    """Change the manifest and give it a checksum that fits, as a forger would."""
    file = folder / artifacts.MANIFEST
    manifest = json.loads(file.read_bytes())
    manifest.pop("checksum")
    change(manifest)
    manifest["checksum"] = hashlib.sha256(json.dumps(manifest, sort_keys=True).encode()).hexdigest()
    file.write_text(json.dumps(manifest))


def left_beside(folder):
    return sorted(p.name for p in folder.parent.iterdir() if p != folder)


# --- what comes back


@settings(max_examples=60, deadline=None)
@given(
    hnp.arrays(
        st.one_of(
            hnp.integer_dtypes(),
            hnp.floating_dtypes(),
            hnp.boolean_dtypes(),
            hnp.unicode_string_dtypes(min_len=1),
            hnp.datetime64_dtypes(),
        ),
        hnp.array_shapes(min_dims=0, max_dims=3, min_side=0, max_side=4),
    )
)
def test_any_array_comes_back_bit_for_bit(tmp_path_factory, array):
    folder = tmp_path_factory.mktemp("a") / "model"
    save(state({"x": array}), folder)
    back = load_state(folder).arrays["x"]
    assert back.dtype == array.dtype
    assert back.shape == array.shape
    assert back.tobytes() == array.tobytes()


@pytest.mark.parametrize(
    "array",
    [np.arange(12).reshape(3, 4).T, np.arange(20)[::3], np.asfortranarray(np.eye(3)), np.arange(3, dtype=">i4")],
)
def test_any_layout_comes_back(tmp_path, array):
    save(state({"x": array}), tmp_path / "m")
    assert np.array_equal(load_state(tmp_path / "m").arrays["x"], array)


def test_params_facts_and_parts_come_back(tmp_path):
    inner = State("dataset", {"b": 0.1}, {"x": np.arange(3)}, parts={"deep": state({"x": np.arange(2)})})
    whole = State(
        "mlrf",
        {"n_trees": np.int64(5), "rate": np.float32(0.5), "name": "ü", "none": None},
        {"x": np.arange(4)},
        facts={"sizes": [1, 2], 1: "a", 10: "b", 2: "c"},
        parts={"labels": inner},
    )
    save(whole, tmp_path / "m")
    back = load_state(tmp_path / "m")
    assert back.params == {"n_trees": 5, "rate": 0.5, "name": "ü", "none": None}
    assert back.facts == {"sizes": [1, 2], "1": "a", "10": "b", "2": "c"}
    assert list(back.arrays) == ["x"]
    assert np.array_equal(back.arrays["x"], np.arange(4))
    assert np.array_equal(back.parts["labels"].arrays["x"], np.arange(3))
    assert np.array_equal(back.parts["labels"].parts["deep"].arrays["x"], np.arange(2))
    assert back.parts["labels"].params == {"b": 0.1}


def test_a_data_set_comes_back_through_load(tmp_path):
    save(dataset(), tmp_path / "d")
    back = broadmatch.load(tmp_path / "d")
    assert isinstance(back, Dataset)
    assert back.labels == dataset().labels
    assert np.array_equal(back.X.indices, [0, 2, 1])
    assert back.features is None


def test_arrays_are_memory_mapped_and_the_files_never_change(tmp_path):
    save(state(), tmp_path / "m")
    array = load_state(tmp_path / "m").arrays["values"]
    assert isinstance(array.base, np.memmap)
    with contextlib.suppress(ValueError):  # a map is read-only, or what is written to it stays in memory
        array[0] = 1
        array.base.flush()
    assert load_state(tmp_path / "m").arrays["values"][0] == 0


def test_a_loaded_array_can_be_saved_over_itself(tmp_path):
    save(state(), tmp_path / "m")
    loaded = load_state(tmp_path / "m")
    save(loaded, tmp_path / "m")
    assert np.array_equal(load_state(tmp_path / "m").arrays["values"], ARRAYS["values"])
    assert np.array_equal(loaded.arrays["values"], ARRAYS["values"])  # the old map still reads


# --- the name and the folder


def test_an_older_artifact_is_replaced_whole(tmp_path):
    target = tmp_path / "m"
    save(state(), target)
    save(state({"other": np.arange(5)}), target)
    assert list(load_state(target).arrays) == ["other"]
    assert sorted(p.name for p in target.iterdir()) == ["manifest.json", "other.npy"]
    assert left_beside(target) == []


def test_parents_are_made_and_an_empty_folder_is_taken(tmp_path):
    save(state(), tmp_path / "a" / "b" / "m")
    (tmp_path / "empty").mkdir()
    save(state(), tmp_path / "empty")
    assert load_state(tmp_path / "empty").params == load_state(tmp_path / "a" / "b" / "m").params == {"n": 3}


def test_a_damaged_artifact_is_replaced(tmp_path):
    target = tmp_path / "m"
    save(state(), target)
    (target / "manifest.json").write_bytes(b"{ torn")
    save(state(), target)
    assert load_state(target).params == {"n": 3}


@pytest.mark.parametrize(
    "files",
    [{"thesis.txt": "x"}, {"manifest.json": '{"name": "a web app"}', "app.js": "x"}, {"manifest.json": "[1]"},
     {"manifest.json": "{ torn", "thesis.txt": "x"}],
)  # fmt: skip
def test_a_folder_that_is_not_ours_is_not_touched(tmp_path, files):
    target = tmp_path / "m"
    target.mkdir()
    for name, text in files.items():
        (target / name).write_text(text)
    with pytest.raises(CannotWrite, match="m exists and is not a broadmatch folder; choose another name"):
        save(state(), target)
    assert {p.name: p.read_text() for p in target.iterdir()} == files
    assert left_beside(target) == []


def test_a_file_of_that_name_is_not_touched(tmp_path):
    (tmp_path / "m").write_text("keep")
    with pytest.raises(CannotWrite, match="not a broadmatch folder"):
        save(state(), tmp_path / "m")
    assert (tmp_path / "m").read_text() == "keep"


def test_a_link_stays_a_link(tmp_path):
    save(state(), tmp_path / "v1")
    (tmp_path / "latest").symlink_to("v1")
    save(state({"other": np.arange(5)}), tmp_path / "latest")
    assert (tmp_path / "latest").is_symlink()
    assert list(load_state(tmp_path / "v1").arrays) == ["other"]


def test_the_umask_is_kept(tmp_path):
    old = os.umask(0o027)
    try:
        save(state(), tmp_path / "m")
    finally:
        os.umask(old)
    assert stat.S_IMODE((tmp_path / "m").stat().st_mode) == 0o750
    assert stat.S_IMODE((tmp_path / "m" / "manifest.json").stat().st_mode) == 0o640


@pytest.mark.parametrize("error", [RuntimeError, KeyboardInterrupt])
def test_an_interrupted_write_leaves_the_old_one(tmp_path, error):
    target = tmp_path / "m"
    save(state(), target)

    def write():
        with artifacts.replacing(target) as folder:
            (folder / "half.npy").write_bytes(b"half")
            raise error

    with pytest.raises(error):
        write()
    assert sorted(load_state(target).arrays) == ["offsets", "values"]
    assert left_beside(target) == []


def run(code, *args):
    return subprocess.run([sys.executable, "-c", textwrap.dedent(code), *args], capture_output=True, text=True)


def test_a_full_disk_leaves_nothing_and_says_so(tmp_path):
    """A limit on the size of files stands in for the full disk: writing past it fails in the same way."""
    done = run(
        """
        import resource, sys
        import numpy as np
        from broadmatch.state import State
        from broadmatch.io.artifacts import save
        from broadmatch.errors import CannotWrite
        save(State("dataset", {}, {"x": np.arange(10)}), sys.argv[1] + "/old")
        resource.setrlimit(resource.RLIMIT_FSIZE, (50_000, 50_000))
        for name in ("new", "old"):
            try:
                save(State("dataset", {}, {"a": np.arange(10), "x": np.zeros(100_000)}), sys.argv[1] + "/" + name)
            except CannotWrite as error:
                print(error)
        """,
        str(tmp_path),
    )
    lines = done.stdout.splitlines()
    assert len(lines) == 2, done.stderr
    assert all("Cannot write" in line and "nothing was left there" in line for line in lines)
    assert [p.name for p in tmp_path.iterdir()] == ["old"]
    assert np.array_equal(load_state(tmp_path / "old").arrays["x"], np.arange(10))


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="this system has no /dev/full")
def test_a_full_device_is_a_clear_error(tmp_path):
    def write():
        with artifacts.replacing(tmp_path / "m"), Path("/dev/full").open("wb") as full:
            full.write(b"x")

    with pytest.raises(CannotWrite, match="No space left on device"):
        write()
    assert list(tmp_path.iterdir()) == []


def test_a_place_that_cannot_be_written(tmp_path):
    (tmp_path / "file").write_text("x")
    with pytest.raises(CannotWrite, match=r"Cannot write .*m: "):
        save(state(), tmp_path / "file" / "m")


def save_often(path, value, times):
    for _ in range(times):
        save(State("dataset", {"value": value}, {"x": np.full(2000, value), "y": np.full(2000, value)}), path)


def test_processes_that_save_the_same_name_leave_one_whole_artifact(tmp_path):
    target = tmp_path / "m"
    context = multiprocessing.get_context("spawn")
    workers = [context.Process(target=save_often, args=(target, value, 25)) for value in (1, 2, 3)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    assert [worker.exitcode for worker in workers] == [0, 0, 0]
    back = load_state(target)
    value = back.params["value"]
    assert value in (1, 2, 3)
    assert (back.arrays["x"] == value).all()
    assert (back.arrays["y"] == value).all()
    assert left_beside(target) == []


def test_killed_while_writing_leaves_nothing_that_loads(tmp_path):
    done = run(
        """
        import os, signal, sys
        import numpy as np
        from broadmatch.io import artifacts
        from broadmatch.state import State
        artifacts._write_synced = lambda *given: os.kill(os.getpid(), signal.SIGKILL)  # before the manifest
        artifacts.save(State("dataset", {}, {"x": np.arange(10)}), sys.argv[1])
        """,
        str(tmp_path / "m"),
    )
    assert done.returncode == -9
    assert not (tmp_path / "m").exists()
    for half in tmp_path.iterdir():
        with pytest.raises(BadArtifact, match="no manifest"):
            load_state(half)
    save(state(), tmp_path / "m")
    assert load_state(tmp_path / "m").params == {"n": 3}


# --- what is refused


@pytest.fixture
def saved(tmp_path):
    save(state(parts={"inner": state({"x": np.arange(4)})}), tmp_path / "m")
    return tmp_path / "m"


def test_missing(tmp_path):
    with pytest.raises(MissingFile, match=r"no model or data set at .*nothing"):
        load_state(tmp_path / "nothing")
    with pytest.raises(BadArtifact, match="not a broadmatch folder: it has no manifest"):
        load_state(tmp_path)


@pytest.mark.parametrize("name", ["values.npy", "inner.x.npy"])
@pytest.mark.parametrize("verify", [True, False])
def test_a_truncated_or_missing_array_is_named(saved, name, verify):
    file = saved / name
    whole = file.read_bytes()
    file.write_bytes(whole[:-1])
    with pytest.raises(BadArtifact, match=rf"{name} is truncated or altered: {len(whole) - 1:,} bytes instead of"):
        load_state(saved, verify=verify)
    file.write_bytes(b"")
    with pytest.raises(BadArtifact, match=rf"{name} is truncated or altered: 0 bytes"):
        load_state(saved, verify=verify)
    file.unlink()
    with pytest.raises(BadArtifact, match=rf"{name} is missing; copy or train"):
        load_state(saved, verify=verify)


def test_an_altered_value_is_named(saved):
    file = saved / "values.npy"
    raw = bytearray(file.read_bytes())
    raw[-7] ^= 1
    file.write_bytes(raw)
    with pytest.raises(BadArtifact, match=r"values\.npy is altered: its sha256"):
        load_state(saved)


def test_an_altered_header_is_named(saved):
    file = saved / "values.npy"
    raw = file.read_bytes()
    file.write_bytes(raw.replace(b"'<f4'", b"'<i4'"))
    with pytest.raises(BadArtifact, match=r"values\.npy is altered: its type or shape"):
        load_state(saved, verify=False)
    file.write_bytes(b"x" * len(raw))
    with pytest.raises(BadArtifact, match=r"values\.npy is damaged"):
        load_state(saved)


def test_an_array_of_objects_in_a_forged_folder_is_never_unpickled(saved):
    file = saved / "values.npy"
    np.save(file, np.array([{"a": 1}], dtype=object), allow_pickle=True)
    rewrite(saved, lambda m: m["arrays"]["values"].update(bytes=file.stat().st_size, dtype="|O", shape=[1]))
    with pytest.raises(BadArtifact, match=r"values\.npy is damaged"):
        load_state(saved)


@pytest.mark.parametrize("content", [b"", b"{", b"\xff\xfe", b"[]", b"3", b'"x"', b"{}", b"[" * 100_000, b"null"])
def test_a_damaged_manifest_is_named(saved, content):
    (saved / "manifest.json").write_bytes(content)
    with pytest.raises(BadArtifact, match=r"manifest\.json is damaged"):
        load_state(saved)


def test_an_altered_manifest_is_named(saved):
    file = saved / "manifest.json"
    file.write_text(file.read_text().replace('"n": 3', '"n": 4', 1))
    with pytest.raises(BadArtifact, match=r"manifest\.json was altered: its checksum does not fit"):
        load_state(saved)


def test_a_newer_format_asks_for_an_upgrade(saved):
    rewrite(saved, lambda m: m.update(format=artifacts.FORMAT_VERSION + 1))
    with pytest.raises(BadArtifact, match=r"newer broadmatch \(format 2, .* upgrade broadmatch"):
        load_state(saved)


def test_an_unknown_kind_is_refused(saved):
    rewrite(saved, lambda m: m["parts"]["inner"].update(kind="gone"))
    with pytest.raises(BadArtifact, match="holds a 'gone'"):
        load_state(saved)
    rewrite(saved, lambda m: m.update(kind="os:system"))
    with pytest.raises(BadArtifact, match="holds a 'os:system', which this broadmatch does not know"):
        broadmatch.load(saved)


@pytest.mark.parametrize("name", ["../secret", "/etc/secret", "..", "a/b", "A", "", "a..b", ".a", "a\n"])
def test_a_forged_name_cannot_leave_the_folder(saved, name):
    np.save(saved.parent / "secret.npy", np.arange(3))
    rewrite(saved, lambda m: m["arrays"].update({name: m["arrays"]["values"]}))
    with pytest.raises(BadArtifact, match="is not the name of an array"):
        load_state(saved)


@pytest.mark.parametrize(
    "change",
    [
        lambda m: m.pop("arrays"),
        lambda m: m.pop("parts"),
        lambda m: m.update(arrays=[]),
        lambda m: m["arrays"].update(values=3),
        lambda m: m["arrays"]["values"].pop("bytes"),
        lambda m: m["arrays"]["values"].update(shape="x"),
        lambda m: m["arrays"]["values"].update(bytes="x"),
        lambda m: m["parts"].update(inner=None),
    ],
)
def test_a_forged_manifest_that_is_not_whole(saved, change):
    rewrite(saved, change)
    with pytest.raises(BadArtifact, match=r"damaged|altered"):
        load_state(saved)


def test_a_folder_without_an_array_its_class_needs(tmp_path):
    save(dataset(), tmp_path / "d")
    rewrite(tmp_path / "d", lambda m: m["arrays"].pop("x_indptr"))
    with pytest.raises(BadArtifact, match="d is damaged: it has no 'x_indptr'"):
        broadmatch.load(tmp_path / "d")


def test_what_cannot_be_saved_leaves_nothing(tmp_path):
    with pytest.raises(TypeError, match="Python objects are never saved"):
        save(state({"x": np.array([{}], dtype=object)}), tmp_path / "m")
    with pytest.raises(TypeError, match="A set cannot be saved in a manifest"):
        save(State("dataset", {"x": {1}}, {}), tmp_path / "m")
    for name in ("../x", "a.b", "A", ""):
        with pytest.raises(ValueError, match="cannot name an array or a part"):
            save(state({name: np.arange(3)}), tmp_path / "m")
    assert list(tmp_path.iterdir()) == []


def test_every_kind_points_at_a_class_that_loads():
    import importlib

    for kind, place in artifacts.KINDS.items():
        module, _, name = place.partition(":")
        assert hasattr(getattr(importlib.import_module(module), name), "from_state"), kind


def test_a_folder_of_another_kind_than_asked_for_is_refused(tmp_path):
    X = CSR.from_rows([[0], [1]], 2)
    save(Dataset(X, X, Names.numbers(2)), tmp_path / "data")
    assert broadmatch.load(tmp_path / "data", Dataset).labels[1] == "1"
    with pytest.raises(BadArtifact, match="holds a Dataset, but a Hierarchy is asked for"):
        broadmatch.load(tmp_path / "data", Hierarchy)


@pytest.mark.parametrize("shape", [(), (3,), (0,), (2, 3), (2, 0, 3)])
@pytest.mark.parametrize("dtype", ["<f4", "<i8", "|u1", "|b1", "<U3", "|S2", ">i4"])
def test_headers_are_not_read_as_python(shape, dtype, tmp_path, monkeypatch):
    # Parsing Python in several threads may raise SystemError in CPython 3.11, and a checkpoint was called damaged.
    monkeypatch.setattr("ast.parse", None)
    save(state({"x": np.ones(shape, dtype)}), tmp_path / "a")
    found = load_state(tmp_path / "a").arrays["x"]
    assert found.shape == shape and found.dtype == np.dtype(dtype) and (found == np.ones(shape, dtype)).all()


@pytest.mark.parametrize("shape", ["(" + "1" * 40 + "x)", "(3", "(-3,)", "(3,,)", "[3]", "(True,)", "(3,) + (1,)"])
def test_a_forged_header_is_refused_at_once(shape, saved):
    file = saved / "values.npy"
    raw = file.read_bytes()
    start = raw.index(b"'shape': ") + 9
    end = raw.index(b"\n") + 1
    header = raw[10:start] + shape.encode() + b", }"
    forged = raw[:8] + (end - 10).to_bytes(2, "little") + header[: end - 11].ljust(end - 11) + b"\n" + raw[end:]
    file.write_bytes(forged)
    with pytest.raises(BadArtifact, match=r"values\.npy is (damaged|altered)"):
        load_state(saved)
