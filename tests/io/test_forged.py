"""Model folders are not trusted: opening a forged one raises `BadArtifact`, or what opens can be asked."""

import itertools
import json
from typing import get_args, get_origin

import numpy as np
import pytest

import broadmatch
from benchmarks.fuzz.models import array_bytes, asked, made, read, read_array, signed, write
from broadmatch.data import Names, Ranking
from broadmatch.errors import BadArtifact, BroadmatchError
from broadmatch.io import artifacts
from broadmatch.layout import Axes, Offsets
from broadmatch.state import KINDS, members


@pytest.fixture(scope="module")
def folders(tmp_path_factory):
    """The files of one folder of each kind."""
    place, found = tmp_path_factory.mktemp("made"), {}
    for name, thing in made().items():
        artifacts.save(thing, place / name)
        found[name] = read(place / name)
    return found


def opens(files, tmp_path):
    """Whether a folder of these files opens; what opens is asked."""
    place = tmp_path / f"{len(list(tmp_path.iterdir()))}"
    write(signed(files), place)
    try:
        return asked(place)
    except BroadmatchError:  # it opens, and says what is wrong with a question
        return True


def plain(files, change):
    """The files with another manifest."""
    manifest = json.loads(files["manifest.json"])
    change(manifest)
    return files | {"manifest.json": json.dumps(manifest).encode()}


def test_every_kind_is_forged(folders):
    kinds = {json.loads(files["manifest.json"])["kind"] for files in folders.values()}
    assert kinds == KINDS.keys() - {"checkpoint", "ad_postings"}  # tests/ads/test_index.py damages these


def with_value(array, value):
    """The array with another value in its middle, as far as its type has that."""
    found = array.copy()
    limits = np.iinfo(array.dtype) if array.dtype.kind in "iu" else np.finfo(array.dtype)
    found.reshape(-1)[array.size // 2] = min(max(value, limits.min), limits.max)
    return found


FORGERIES = {
    "far": lambda a: with_value(a, 2**31 - 7),
    "below": lambda a: with_value(a, -9),
    "short": lambda a: a[:-1],
    "long": lambda a: np.concatenate([a, a[-1:]]),
    "back": lambda a: a[::-1],
    "table": lambda a: a[:, None],
    "type": lambda a: a.astype(np.complex64),
}


def test_every_array_of_every_kind_may_be_forged(folders, tmp_path):
    arrays = [(files, name) for files in folders.values() for name in files if read_array(files[name]).size]
    ways = itertools.cycle(FORGERIES.items())
    refused = 0
    for (files, name), (how, forge) in zip(arrays, ways, strict=False):
        forged = array_bytes(np.ascontiguousarray(forge(read_array(files[name]))))
        opened = opens(files | {name: forged}, tmp_path)
        assert not (opened and how in ("table", "type")), name
        refused += not opened
    assert refused > len(arrays) / 2


def cycle(forest):
    """Every inner node is its own child: asked, it would never end."""
    child = read_array(forest["forest_child.npy"])
    inner = child >= 0
    if "forest_feature.npy" in forest:
        inner = read_array(forest["forest_feature.npy"]) >= 0
    child[inner] = np.flatnonzero(inner)
    return forest | {"forest_child.npy": array_bytes(child)}


@pytest.mark.parametrize("name", ["mlrf", "fastxml", "pfastrexml", "swiftxml"])
def test_trees_have_no_cycles(folders, name, tmp_path):
    assert opens(folders[name], tmp_path)
    assert not opens(cycle(folders[name]), tmp_path)


def last_votes(ends):
    ends[-1] += 1
    return ends


def falling(ends):
    ends[:2] = ends[1], 0
    return ends


@pytest.mark.parametrize(
    ("array", "forge"),
    [
        ("vote_label", lambda a: np.full_like(a, 255)),
        ("vote_label", lambda a: np.concatenate([a] * 5, axis=1)),
        ("vote_label", lambda a: a[:, :0]),
        ("vote_end", last_votes),
        ("vote_end", falling),
        ("point_end", last_votes),
        ("point_end", falling),
        ("leaf_weight", lambda a: np.zeros_like(a)),
        ("leaf_weight", lambda a: np.full_like(a, np.nan)),
        ("starts", lambda a: a[:1]),
        ("starts", lambda a: a[[0, 2, 1]]),
        ("starts", lambda a: a + 1),
        ("starts", lambda a: a - np.eye(len(a), 4, dtype=a.dtype)),
    ],
)
def test_leaves_hold_their_own_votes_and_points(folders, array, forge, tmp_path):
    files, name = folders["mlrf"], f"forest_{array}.npy"
    assert not opens(files | {name: array_bytes(np.ascontiguousarray(forge(read_array(files[name]))))}, tmp_path)


def test_a_hierarchy_has_no_cycles(folders, tmp_path):
    files = folders["hierarchy"]
    parents = read_array(files["parents.npy"])
    parents[0] = 4  # which is below it
    assert not opens(files | {"parents.npy": array_bytes(parents)}, tmp_path)


@pytest.mark.parametrize("value", [None, True, -1, 10**30, float("nan"), "x", []])
def test_facts_and_parameters_are_of_their_types(folders, value, tmp_path):
    for name in ("mlrf", "metalabeler", "ftrl", "click_model", "page_vectorizer"):
        manifest = json.loads(folders[name]["manifest.json"])
        for part in ("facts", "params"):
            for key in manifest[part]:
                opens(plain(folders[name], lambda m, part=part, key=key: m[part].update({key: value})), tmp_path)
        for key in ("kind", "parts", "facts", "params", "format", "arrays"):
            opens(plain(folders[name], lambda m, key=key: m.update({key: value})), tmp_path)


def test_sizes_in_the_manifest_take_no_memory(folders, tmp_path):
    def bloom(manifest):
        manifest["params"]["inclusion"]["span"] = 1 << 32

    def wide(manifest):
        manifest["facts"]["n_features_in"] = 2**31 - 1

    assert not opens(plain(folders["ogd"], bloom), tmp_path)
    assert not opens(plain(folders["fastxml"], wide), tmp_path)


@pytest.mark.parametrize("shape", ["(100000000000,)", "(4294967296, 4294967296)", "(-1,)"])
def test_a_header_that_lies_takes_no_memory(folders, shape, tmp_path):
    for claimed in ([0], [2**32, 2**32], [-1], [10**11]):
        raw = folders["mlrf"]["bias.npy" if "bias.npy" in folders["mlrf"] else "label_counts.npy"]
        start = raw.index(b"'shape': ") + len(b"'shape': ")
        stop = raw.index(b"}", start)
        forged = raw[:start] + shape.encode().ljust(stop - start - 2) + b", " + raw[stop:]

        def claim(manifest, claimed=claimed):
            manifest["arrays"]["label_counts"]["shape"] = claimed

        files = plain(signed(dict(folders["mlrf"])), claim)
        place = tmp_path / str(claimed[0])
        write(checksummed(files | {"label_counts.npy": forged[: len(raw)].ljust(len(raw))}), place)
        with pytest.raises(BadArtifact, match=r"label_counts\.npy"):
            broadmatch.load(place, verify=False)


def checksummed(files):
    manifest = json.loads(files["manifest.json"])
    manifest.pop("checksum", None)
    manifest["checksum"] = artifacts._checksum(manifest)
    return files | {"manifest.json": json.dumps(manifest).encode()}


def test_links_that_lead_out_are_refused(folders, tmp_path):
    write(folders["mlrf"], tmp_path / "model")
    for name in ("label_counts.npy", "manifest.json"):
        outside, file = tmp_path / name, tmp_path / "model" / name
        file.rename(outside)
        file.symlink_to(outside)
        with pytest.raises(BadArtifact, match=f"{name} is a link that leads out of the folder"):
            broadmatch.load(tmp_path / "model")
        file.unlink()
        outside.rename(file)
    (tmp_path / "link").symlink_to(tmp_path / "model")
    assert broadmatch.load(tmp_path / "link").n_features_in_ > 0


def test_what_is_declared_is_declared_whole():
    """Every array of a named tuple that is saved says how long it is."""
    from broadmatch.state import _learned_hints
    from tests.contract import FOUND

    checked, todo = set(), [(cls.__name__, hint) for cls in FOUND for hint in _learned_hints(cls).values()]
    while todo:
        name, hint = todo.pop()
        marks = ()
        if hasattr(hint, "__metadata__"):
            hint, marks = hint.__origin__, hint.__metadata__
        for kind in [hint, *get_args(hint)]:
            if members(kind) and kind not in checked:
                checked.add(kind)
                todo += [(f"{kind.__name__}.{member}", inner) for member, inner in members(kind).items()]
        if get_origin(hint) is np.ndarray and not name.startswith(("FTRL", "RDA", "FOBOS", "OGD", "Many", "Single")):
            assert any(isinstance(mark, Axes | Offsets) for mark in marks) or name == "ClickJoin", name
    assert len(checked) > 8


def test_a_number_of_rows_beyond_all_rows_is_refused(folders, tmp_path):
    def change(manifest):
        assert "rows" in manifest["facts"]
        manifest["facts"]["rows"] = 10**30

    assert opens(folders["subsampler"], tmp_path)
    assert not opens(plain(folders["subsampler"], change), tmp_path)


def test_a_second_model_that_says_nothing_gives_the_usual_number():
    model, nothing = made()["metalabeler"], np.zeros((1, 0))
    model.score_weight_ = 0.0
    said = Ranking(nothing.astype(np.int32), nothing.astype(np.float32), np.zeros(1, np.int64), Names.of([]))
    assert model._decided(said, None).tolist() == [model.usual_]
