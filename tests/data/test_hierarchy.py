"""Hierarchies: what they know of themselves, what they refuse, and the files that they come from."""

import gzip
import json

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.data import CSR, Hierarchy, with_ancestors
from broadmatch.errors import BadInput, MissingFile
from broadmatch.io import artifacts, read_hierarchy
from tests.reference import hierarchy as slow

TREE = {"food": [], "pizza": ["food"], "tools": [], "oven": ["tools"], "pizza oven": ["oven", "pizza"]}


@st.composite
def parents(draw, most=8):
    """Parents of categories by number; each parent has a lower number before all are shuffled."""
    n = draw(st.integers(1, most))
    above = [draw(st.sets(st.integers(0, i - 1), max_size=3)) if i else set() for i in range(n)]
    order = draw(st.permutations(range(n)))
    shuffled = [None] * n
    for i in range(n):
        shuffled[order[i]] = sorted(order[p] for p in above[i])
    return shuffled


def named(above):
    return Hierarchy.of({str(i): [str(p) for p in parents] for i, parents in enumerate(above)})


@given(parents())
def test_what_it_knows_of_itself(above):
    found = named(above)
    everyone = range(len(above))
    assert [found.parents.at(i).tolist() for i in everyone] == above
    assert [found.children.at(i).tolist() for i in everyone] == [slow.children(above, i) for i in everyone]
    assert found.roots.tolist() == [i for i in everyone if not above[i]]
    assert found.depth.tolist() == [slow.depth(above, i) for i in everyone]
    assert [found.ancestors.at(i).tolist() for i in everyone] == [
        sorted(slow.with_ancestors(above, {i})) for i in everyone
    ]


@given(parents(), st.data())
def test_with_ancestors_equals_the_slow_twin(above, data):
    entry = st.dictionaries(st.integers(0, len(above) - 1), st.sampled_from([-2.5, 0.0, 1.0, 3.0]))
    rows = data.draw(st.lists(entry, max_size=5))
    sets = sp.csr_matrix((len(rows), len(above)), dtype=np.float32)
    sets.indptr = np.cumsum([0, *map(len, rows)])
    sets.indices = np.array([c for row in rows for c in sorted(row)], np.int32)
    sets.data = np.array([row[c] for row in rows for c in sorted(row)], np.float32)
    found = with_ancestors(sets, named(above))
    assert found.shape == sets.shape
    for i, row in enumerate(rows):
        here = slice(found.indptr[i], found.indptr[i + 1])
        expected = {c: max(row[d] for d in row if c in slow.with_ancestors(above, {d}))
                    for c in sorted(slow.with_ancestors(above, row))}  # fmt: skip
        assert dict(zip(found.indices[here].tolist(), found.data[here].tolist(), strict=True)) == expected
        assert found.indices[here].tolist() == list(expected)


def test_in_blocks_it_is_the_same(monkeypatch):
    rng = np.random.default_rng(0)
    tree = named([[], [0], [0], [1, 2], [3]])
    sets = sp.csr_matrix((rng.random((50, 5)) < 0.3).astype(np.float32))
    whole = with_ancestors(sets, tree)
    monkeypatch.setattr("broadmatch.data.hierarchy._CELLS", 7)
    pieces = with_ancestors(sets, tree)
    assert (whole != pieces).nnz == 0
    assert whole.nnz == pieces.nnz


def test_sets_of_other_categories_are_refused():
    with pytest.raises(BadInput, match="3 columns, but the hierarchy has 5 categories"):
        with_ancestors(CSR.from_rows([[0]], 3), Hierarchy.of(TREE))
    with pytest.raises(BadInput, match="sets must be a CSR or a scipy sparse matrix, but it is a list"):
        with_ancestors([[0, 1]], Hierarchy.of(TREE))


def test_names_and_numbers():
    tree = Hierarchy.of(TREE)
    assert tree.n_categories == 5
    assert tree.number("oven") == 3
    with pytest.raises(BadInput, match="'taxi' is not one of the 5 categories"):
        tree.number("taxi")


@pytest.mark.parametrize(
    ("parents", "sentence"),
    [
        ({}, "The hierarchy is empty"),
        ({"a": ["b"]}, "'a' has the parent 'b', which is not a category"),
        ({"a": [], "b": ["a", "a"]}, "'b' has the parent 'a' twice"),
        ({"a": "b", "b": []}, "'a' must have a list of names of parents, but it has 'b'"),
        ({"a": [1]}, "'a' must have a list of names of parents"),
        ({"a": ["a"]}, "a cycle: 'a' is below 'a';"),
        ({"r": [], "x": ["c"], "a": ["b"], "b": ["c"], "c": ["a", "r"]},
         "a cycle: 'c' is below 'a' is below 'b' is below 'c';"),
    ],
)  # fmt: skip
def test_what_is_no_hierarchy_is_refused(parents, sentence):
    with pytest.raises(BadInput, match=sentence):
        Hierarchy.of(parents)


def test_a_long_cycle_is_not_told_whole():
    ring = {str(i): [str((i + 1) % 1000)] for i in range(1000)}
    with pytest.raises(BadInput, match=r"\(1000 in all\)") as told:
        Hierarchy.of(ring)
    assert len(str(told.value)) < 1000


def test_a_deep_and_a_wide_one():
    deep = Hierarchy.of({"0": []} | {str(i): [str(i - 1)] for i in range(1, 2000)})  # deeper than Python recurses
    assert deep.depth.max() == 2000
    assert len(deep.ancestors.at(1999)) == 2000
    wide = Hierarchy.of({str(i): [] for i in range(20_000)})
    assert len(wide.roots) == 20_000


def test_saved_and_loaded(tmp_path):
    tree = Hierarchy.of(TREE)
    artifacts.save(tree, tmp_path / "tree")
    same(artifacts.load(tmp_path / "tree"), tree)


# ---------------------------------------------------------------- files


def same(one, other):
    assert list(one.names) == list(other.names)
    assert [p.tolist() for p in one.parents] == [p.tolist() for p in other.parents]


LINES = "food\npizza,food\ntools,\noven,tools\npizza oven,oven\npizza oven,pizza\n"


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("t.csv", LINES),
        ("t.txt", "child,parent\n" + LINES),
        ("t.tsv", LINES.replace(",", "\t")),
        ("t.csv", "\ufeff" + LINES.replace("\n", "\r\n\r\n").replace(",", " , ")),
        ("t.csv", LINES.replace("pizza oven", '"pizza oven"').rstrip("\n")),
        ("t.json", json.dumps(TREE)),
        ("t.json", json.dumps({name: {"label": "x", "parents": above} for name, above in TREE.items()})),
    ],
)
def test_every_form_of_file(tmp_path, name, content):
    (tmp_path / name).write_text(content, encoding="utf-8", newline="")
    same(read_hierarchy(tmp_path / name), Hierarchy.of(TREE))
    packed = tmp_path / f"{name}.gz"
    packed.write_bytes(gzip.compress(content.encode()))
    same(read_hierarchy(packed), Hierarchy.of(TREE))


def test_without_lines_for_roots_the_roots_are_found(tmp_path):
    file = tmp_path / "t.csv"
    file.write_text('pizza,food\n"oven, hot",tools\npizza oven,"oven, hot"\npizza oven,pizza\n')
    found = read_hierarchy(file)
    assert [found.names[i] for i in found.roots] == ["food", "tools"]
    assert found.depth[found.number("pizza oven")] == 3


@pytest.mark.parametrize(
    ("name", "content", "sentence"),
    [
        ("t.csv", "", "t.csv is empty"),
        ("t.csv", " \n\n", "t.csv is empty"),
        ("t.csv", "child,parent\n", "header only"),
        ("t.csv", "a\nb,a\nb,a\n", "line 3: the same as line 2"),
        ("t.csv", "a\na\n", "line 2: the same as line 1"),
        ("t.csv", "a\nb,a\nb\n", "line 3: 'b' is a root here or in line 2"),
        ("t.csv", "a\nb\nb,a\n", "line 3: 'b' is a root here or in line 2"),
        ("t.csv", "a\n\nb,aa\n", "line 3: 'b' has the parent 'aa', which has no line of its own"),
        ("t.csv", "a,b,c\n", "line 1: 3 fields"),
        ("t.csv", "a\n,a\n", "line 2: the parent 'a' has no child"),
        ("t.csv", 'a\n"b"x,a\n', "line 2: .*quotes go around whole names"),
        ("t.csv", "a,b\nb,c\nc,a\n", "t.csv: The hierarchy has a cycle: 'a' is below 'b' is below 'c' is below 'a'"),
        ("t.json", '{"a": [], "a": []}', "'a' is there twice"),
        ("t.json", '{"a": ["b"]}', "'a' has the parent 'b', which is not a category"),
        ("t.json", '{"a": "b", "b": []}', "'a' must have a list of the names of its parents, but it has 'b'"),
        ("t.json", '{"a": {"label": "x"}}', "'a' must have a list"),
        ("t.json", "[1]", "must be one object, .* but it is a list"),
        ("t.json", '{"a": [],\n', "line 2: not JSON"),
        ("t.json", "{}", "The hierarchy is empty"),
        ("t.json", "[" * 100_000, "nested too deep"),
    ],
)
def test_bad_files(tmp_path, name, content, sentence):
    (tmp_path / name).write_text(content, encoding="utf-8")
    with pytest.raises(BadInput, match=sentence):
        read_hierarchy(tmp_path / name)


def test_no_file_and_no_text(tmp_path):
    with pytest.raises(MissingFile):
        read_hierarchy(tmp_path / "absent.csv")
    (tmp_path / "t.csv").write_bytes(b"a\nb\xff,a\n")
    with pytest.raises(BadInput, match="not UTF-8"):
        read_hierarchy(tmp_path / "t.csv")


def test_edam(shared_data):
    tree = read_hierarchy(shared_data / "biotools" / "edam_tree.json.gz")
    assert tree.n_categories == 3473
    assert tree.depth[tree.number("http://edamontology.org/topic_0003")] == 1
    assert np.diff(tree.parents[0]).max() > 1
