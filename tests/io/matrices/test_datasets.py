"""Data sets go out and come back with the same bits, and what cannot be read is refused with its place."""

import doctest
import gzip
import io
import json
from pathlib import Path

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.datasets import dump_svmlight_file, load_svmlight_file

from broadmatch.data import CSR, Dataset, Names
from broadmatch.errors import BadArtifact, BadInput, BadParameter, MissingFile
from broadmatch.io import read_dataset, read_features, write_dataset
from broadmatch.io.matrices import datasets as matrices
from broadmatch.io.matrices import sidecar_names as names_beside
from broadmatch.io.matrices import text_rows

HYPOTHESIS = settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])

values = st.floats(width=32, allow_nan=False, allow_infinity=False).filter(bool)
plain = st.just(1.0)
counts = st.integers(1, 4).map(float)
words = st.text(st.characters(codec="utf-8", exclude_categories=["Z", "C"]), min_size=1, max_size=5)


@st.composite
def csr(draw: st.DrawFn, n_rows: int, n_cols: int, cells: st.SearchStrategy[float]) -> CSR:
    places = st.dictionaries(st.tuples(st.integers(0, n_rows - 1), st.integers(0, n_cols - 1)), cells, max_size=12)
    found = draw(places) if n_rows and n_cols else {}
    order = sorted(found)
    indptr = np.searchsorted([row for row, _ in order], np.arange(n_rows + 1)).astype(np.int64)
    columns = np.array([column for _, column in order], np.int32)
    return CSR(indptr, columns, np.array([found[key] for key in order], np.float32), n_cols)


@st.composite
def datasets(
    draw: st.DrawFn,
    features: st.SearchStrategy[float] = values,
    labels: st.SearchStrategy[float] = plain,
) -> Dataset:
    n, d, m = draw(st.integers(1, 5)), draw(st.integers(0, 6)), draw(st.integers(0, 4))

    def names(size: int) -> Names:
        return Names.of(draw(st.lists(words, min_size=size, max_size=size, unique=True)))

    return Dataset(
        draw(csr(n, d, features)),
        draw(csr(n, m, labels)),
        names(m) if draw(st.booleans()) else Names.numbers(m),
        names(d) if draw(st.booleans()) else None,
        names(n) if draw(st.booleans()) else None,
    )


def same(a: CSR, b: CSR) -> None:
    assert a.shape == b.shape
    for left, right in ((a.indptr, b.indptr), (a.indices, b.indices), (a.data, b.data)):
        assert left.dtype == right.dtype
        assert left.tobytes() == right.tobytes()


def same_dataset(a: Dataset, b: Dataset) -> None:
    same(a.X, b.X)
    same(a.Y, b.Y)
    assert (a.labels, a.features, a.points) == (b.labels, b.features, b.points)


def put(path: Path, text: str) -> Path:
    path.write_bytes(text.encode())
    return path


def test_examples() -> None:
    for module in (matrices, names_beside, text_rows):
        assert doctest.testmod(module).failed == 0


# Round trips


@HYPOTHESIS
@given(dataset=datasets(), name=st.sampled_from(["d.txt", "d.txt.gz", "d.txt.zst", "d.svm", "d.libsvm.gz"]))
def test_plain_labels_come_back(tmp_path: Path, dataset: Dataset, name: str) -> None:
    write_dataset(dataset, tmp_path / name)
    same_dataset(read_dataset(tmp_path / name), dataset)


@HYPOTHESIS
@given(dataset=datasets(labels=values.map(abs)))
def test_beliefs_come_back(tmp_path: Path, dataset: Dataset) -> None:
    write_dataset(dataset, tmp_path / "X.txt", labels_path=tmp_path / "Y.txt.gz")
    same_dataset(read_dataset(tmp_path / "X.txt", labels_path=tmp_path / "Y.txt.gz"), dataset)
    write_dataset(dataset, tmp_path / "X_a.npz")
    same_dataset(read_dataset(tmp_path / "X_a.npz"), dataset)
    same_dataset(read_dataset(tmp_path), dataset)
    write_dataset(dataset, tmp_path / "folder")
    same_dataset(read_dataset(tmp_path / "folder"), dataset)


@HYPOTHESIS
@given(dataset=datasets(features=counts))
def test_fasttext_comes_back(tmp_path: Path, dataset: Dataset) -> None:
    features = dataset.features or Names.of(f"w{i}" for i in range(dataset.X.n_cols))
    named = Dataset(dataset.X, dataset.Y, dataset.labels, features, dataset.points)
    write_dataset(named, tmp_path / "d.ft")
    same_dataset(read_dataset(tmp_path / "d.ft"), named)


def test_rows_longer_than_a_block_and_many_blocks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    X = sp.random_array((200, 500), density=0.3, rng=0, dtype=np.float32)
    Y = CSR.from_rows([[i % 7, (i * 3) % 7] for i in range(200)], 7)
    dataset = Dataset(CSR.from_scipy(X), Y, Names.numbers(7))
    monkeypatch.setattr(text_rows, "_CELLS_WRITTEN", 100)
    write_dataset(dataset, tmp_path / "d.txt")
    monkeypatch.setattr(text_rows, "_BLOCK", 1000)
    same_dataset(read_dataset(tmp_path / "d.txt"), dataset)
    lines = (tmp_path / "d.txt").read_text().split("\n")
    lines[150] = lines[150] + " 5:x"
    put(tmp_path / "d.txt", "\n".join(lines))
    with pytest.raises(BadInput, match=r"d\.txt, line 151: '5:x'"):
        read_dataset(tmp_path / "d.txt")
    monkeypatch.setattr(text_rows, "_LONGEST_LINE", 1500)
    with pytest.raises(BadInput, match="line 2: the line is longer than 1,500 bytes"):
        read_dataset(tmp_path / "d.txt")


def test_names_of_an_older_file_do_not_stay(tmp_path: Path) -> None:
    one = CSR.from_rows([[0]], 1)
    write_dataset(Dataset(one, one, Names.of(["pizza"]), Names.of(["f"]), Names.of(["p"])), tmp_path / "d.txt")
    assert sorted(f.name for f in tmp_path.iterdir()) == [
        "d.txt", "d.txt.features.txt", "d.txt.labels.txt", "d.txt.points.txt"
    ]  # fmt: skip
    write_dataset(Dataset(one, one, Names.numbers(1)), tmp_path / "d.txt")
    assert [f.name for f in tmp_path.iterdir()] == ["d.txt"]


# What the formats mean


def test_xmc_by_eye(tmp_path: Path) -> None:
    d = read_dataset(put(tmp_path / "d.txt", "4 6 3\n0,2 5:1.5 1:-2\n 0:1\n\n2,2,1 3:1 3:0.5 4:0\n\n\n"))
    assert d.Y.to_scipy().toarray().tolist() == [[1, 0, 1], [0, 0, 0], [0, 0, 0], [0, 1, 1]]
    assert d.X.to_scipy().toarray().tolist() == [
        [0, -2, 0, 0, 0, 1.5], [1, 0, 0, 0, 0, 0], [0, 0, 0, 0, 0, 0], [0, 0, 0, 1.5, 0, 0]
    ]  # fmt: skip
    assert d.X.row(0)[0].tolist() == [1, 5]
    assert d.X.row(3)[0].tolist() == [3]
    assert list(d.labels) == ["0", "1", "2"]


def test_svmlight_counts_from_one_unless_told_otherwise(tmp_path: Path) -> None:
    def indices(text: str) -> list[int]:
        return read_dataset(put(tmp_path / "d.svm", text)).X.indices.tolist()

    assert indices("1,3 1:0.5 4:1 # first\n\n# nothing\n2 qid:7 2:1\n") == [0, 3, 1]
    assert indices("1,3 0:0.5 4:1\n2 2:1\n") == [0, 4, 2]
    assert indices("# Column indices are zero-based\n1,3 1:0.5 4:1\n") == [1, 4]
    with pytest.raises(BadInput, match="count from 1, but it has a feature 0"):
        indices("# Column indices are one-based\n1 0:1\n")


@pytest.mark.parametrize("zero_based", [True, False])
def test_svmlight_as_scikit_learn_writes_and_reads_it(tmp_path: Path, zero_based: bool) -> None:
    X = sp.csr_matrix(sp.random_array((50, 20), density=0.3, rng=1, dtype=np.float64))
    y = sp.csr_matrix(np.random.default_rng(0).random((50, 5)) < 0.3, dtype=np.float64)
    for comment in ("by scikit-learn", None):
        dump_svmlight_file(X, y, str(tmp_path / "d.svm"), zero_based=zero_based, comment=comment, multilabel=True)
        d = read_dataset(tmp_path / "d.svm")
        # scikit-learn says which it is only beside a comment; otherwise it has to be seen.
        assert (d.X.to_scipy() != X.astype(np.float32)).nnz == 0
        assert (d.Y.to_scipy() != y).nnz == 0
    write_dataset(d, tmp_path / "e.svm")
    again, labels = load_svmlight_file(str(tmp_path / "e.svm"), multilabel=True, zero_based=True, n_features=20)
    assert (again.astype(np.float32) != d.X.to_scipy()).nnz == 0
    assert [list(map(int, row)) for row in labels] == [d.Y.row(i)[0].tolist() for i in range(len(d))]


def test_fasttext_by_eye(tmp_path: Path) -> None:
    d = read_dataset(put(tmp_path / "d.txt", "__label__a __label__é to be or not to be\n\nplain __label__a\n"))
    assert list(d.labels) == ["a", "é"]
    assert list(d.features or ()) == ["to", "be", "or", "not", "plain"]
    assert d.X.to_scipy().toarray().tolist() == [[2, 2, 1, 1, 0], [0] * 5, [0, 0, 0, 0, 1]]
    assert d.Y.to_scipy().toarray().tolist() == [[1, 1], [0, 0], [1, 0]]


def test_npz_of_tables(tmp_path: Path) -> None:
    X = np.array([[0.0, 1.5], [-2.0, 0.0]])
    np.savez(tmp_path / "d.npz", X=X, y=np.array([[1, 0, 1], [0, 0, 0]], np.int8))
    d = read_dataset(tmp_path / "d.npz")
    assert d.X.to_scipy().toarray().tolist() == X.tolist()
    assert d.Y.indices.tolist() == [0, 2]


def test_label_names_in_json(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "X_trn.npz", sp.csc_matrix(np.eye(2)))
    sp.save_npz(tmp_path / "Y_trn.npz", sp.csr_matrix(np.eye(2)))
    (tmp_path / "labels.json.gz").write_bytes(gzip.compress(json.dumps(["x", "y"]).encode()))
    assert list(read_dataset(tmp_path).labels) == ["x", "y"]
    (tmp_path / "labels.json").write_text('["x"]')
    with pytest.raises(BadInput, match=r"labels\.json must be a list of 2 strings"):
        read_dataset(tmp_path)


@pytest.mark.parametrize(
    ("text", "shape"),
    [
        ("2 3 4\n0 1:1\n 2:1\n", (2, 3)),
        ("1,2 1:0.5\n", (1, 1)),
        ("# a comment\n3 7:1\n", (1, 7)),
        ("5:1 6:1\n", (1, 6)),
        ("some words first\n__label__x then\n", (2, 4)),
    ],
)
def test_format_is_told_by_content(tmp_path: Path, text: str, shape: tuple[int, int]) -> None:
    assert read_dataset(put(tmp_path / "anything", text)).X.shape == shape


# What is wrong, and where


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("\n\n", "is empty"),
        ("0 1:1\n1 2:1\n", r"line 1: '0 1:1' is not a header; .* points, features and labels"),
        ("2 3\n0 1:1\n1 2:1\n", "line 1: '2 3' is not a header"),
        ("2 3 x\n", "line 1: '2 3 x' is not a header"),
        ("2 3 99999999999\n", "line 1: 99,999,999,999 labels are more"),
        ("3 3 2\n0 1:1\n1 2:1\n", "says 3 points, but 2 lines follow"),
        ("1 3 2\n0 1:1\n1 2:1\n", "says 1 points, but 2 lines follow"),
        ("2 3 2\n0 1:1\n1 3:1\n", r"line 3: '3:1' is out of range; features go from 0 to 2"),
        ("2 3 2\n0 1:1\n1,2 1:1\n", r"line 3: label 2 is out of range; labels go from 0 to 1"),
        ("1 3 2\n-1 1:1\n", "line 2: '-1' has a negative index"),
        ("1 3 2\n0 -1:1\n", "line 2: '-1:1' has a negative index"),
        ("1 3 2\n0 1:nan\n", "line 2: '1:nan' is not a finite number"),
        ("1 3 2\n0 1:-INF\n", "line 2: '1:-INF' is not a finite number"),
        ("1 3 2\n0 1:1e39\n", "line 2: 1e39 is too large"),
        ("1 3 2\n0 1:one\n", "line 2: '1:one' cannot be read"),
        ("1 3 2\n0 1\n", "line 2: '1' cannot be read"),
        ("1 3 2\n0, 1:1\n", "line 2: '0,' cannot be read"),
        ("1 3 2\nx 1:1\n", "line 2: 'x' cannot be read"),
        ("1 3 2\n0 1:3e38 1:3e38\n", "is not a finite number"),
    ],
)
@pytest.mark.parametrize("name", ["d.txt", "d.txt.gz"])
def test_wrong_xmc_is_refused_with_its_line(tmp_path: Path, text: str, said: str, name: str) -> None:
    content = text.encode()
    (tmp_path / name).write_bytes(gzip.compress(content) if name.endswith(".gz") else content)
    with pytest.raises(BadInput, match=said) as caught:
        read_dataset(tmp_path / name, format="xmc")
    assert name in str(caught.value)


def test_wrong_pair_is_refused(tmp_path: Path) -> None:
    X = put(tmp_path / "X.txt", "2 3\n0:1\n2:1\n")

    def read(labels: str) -> Dataset:
        return read_dataset(X, labels_path=put(tmp_path / "Y.txt", labels))

    assert read("2 2\n1:0.5\n0:1\n").Y.data.tolist() == [0.5, 1]
    with pytest.raises(BadInput, match=r"Y\.txt, line 3: label 0 has the negative weight -1"):
        read("2 2\n1:1\n0:-1\n")
    with pytest.raises(BadInput, match=r"Y\.txt, line 2: '2:1' is out of range; labels go from 0 to 1"):
        read("2 2\n2:1\n0:1\n")
    with pytest.raises(BadInput, match=r"2 points and .*Y\.txt has 1"):
        read("1 2\n1:1\n")
    with pytest.raises(BadInput, match="give the file of labels as labels_path"):
        read_dataset(X)
    with pytest.raises(MissingFile, match="none"):
        read_dataset(X, labels_path=tmp_path / "none")


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "is empty"),
        ("1 1:1\n-1 2:1\n", "line 2: '-1' has a negative index"),
        ("1 1:1\n3 2:1 x\n", "line 2: 'x' cannot be read"),
        ("1 3000000000:1\n", "line 1: '3000000000:1' is out of range"),
        ("300000000 3:1\n", "line 1: label 300000000 is out of range"),
        ("# 2 points, 5 features, 2 labels; zero-based\n1 3:1\n", "says it has 2 points.*but it has 1, 4 and 2"),
    ],
)
def test_wrong_svmlight_is_refused_with_its_line(tmp_path: Path, text: str, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_dataset(put(tmp_path / "d.svm", text))


def test_wrong_fasttext_is_refused(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="is empty"):
        read_dataset(put(tmp_path / "d.ft", ""))
    (tmp_path / "d.ft").write_bytes(b"__label__a ok\n__label__b caf\xe9\n")
    with pytest.raises(BadInput, match=r"d\.ft, line 2: b'caf\\xe9' is not UTF-8"):
        read_dataset(tmp_path / "d.ft")
    put(tmp_path / "d.ft", "__label__a ok\n__label__b ok\n")
    put(tmp_path / "d.ft.labels.txt", "a\n")
    with pytest.raises(BadInput, match=r"line 2: 'b' is not among the names in .*labels\.txt"):
        read_dataset(tmp_path / "d.ft")


def test_truncated_and_missing_files(tmp_path: Path) -> None:
    packed = gzip.compress(b"1000 3 2\n" + b"0 1:0.25 2:1\n" * 1000)
    (tmp_path / "d.txt.gz").write_bytes(packed[: len(packed) // 2])
    with pytest.raises(BadInput, match=r"d\.txt\.gz is truncated or damaged gzip"):
        read_dataset(tmp_path / "d.txt.gz")
    with pytest.raises(MissingFile, match="none"):
        read_dataset(tmp_path / "none.txt")
    with pytest.raises(MissingFile, match=r"none\.npz"):
        read_dataset(tmp_path / "none.npz", format="npz")
    with pytest.raises(MissingFile, match=r"neither a manifest\.json nor an X"):
        read_dataset(tmp_path)
    with pytest.raises(BadInput, match="is a folder, but xmc is a file"):
        read_dataset(tmp_path, format="xmc")
    with pytest.raises(BadArtifact, match="not a broadmatch folder"):
        read_dataset(tmp_path, format="folder")


def test_wrong_npz_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "X.npz"
    file.write_bytes(b"PK\x03\x04 nothing")
    with pytest.raises(BadInput, match=r"X\.npz is damaged"):
        read_dataset(file)
    out = io.BytesIO()
    sp.save_npz(out, sp.csr_matrix(np.eye(3)))
    file.write_bytes(out.getvalue()[:-40])
    with pytest.raises(BadInput, match=r"X\.npz is damaged"):
        read_dataset(file)
    file.write_bytes(out.getvalue())
    with pytest.raises(MissingFile, match=r"Y\.npz"):
        read_dataset(file)
    sp.save_npz(tmp_path / "Y.npz", sp.csr_matrix(-np.eye(3)))
    with pytest.raises(BadInput, match=r"Y\.npz: Y: row 0, column 0: -1\.0 is negative"):
        read_dataset(file)
    sp.save_npz(tmp_path / "Y.npz", sp.csr_matrix(np.eye(4)))
    with pytest.raises(BadInput, match=r"3 rows of X, .* has 4 of Y"):
        read_dataset(file)
    np.savez(file, indices=[0, 9], indptr=[0, 2], data=[1.0, 2.0], shape=[1, 3], format=b"csr")
    with pytest.raises(BadInput, match=r"X\.npz is damaged"):
        read_dataset(file)
    np.savez(file, X=np.array([[np.nan]]), y=[[1]])
    with pytest.raises(BadInput, match=r"X\.npz: X: row 0, column 0: nan is not a finite number"):
        read_dataset(file)
    np.savez(file, X=np.eye(2), z=np.eye(2))
    with pytest.raises(BadInput, match="holds X, z but neither y nor Y"):
        read_dataset(file)
    np.savez(file, a=np.eye(2))
    with pytest.raises(BadInput, match="holds a, but a scipy matrix or X is needed"):
        read_dataset(file)
    np.savez(file, X=np.array([object()]), y=[[1]])
    with pytest.raises(BadInput, match=r"X\.npz is damaged or is not an \.npz of numbers \(it holds Python objects\)"):
        read_dataset(file)


def test_what_is_not_npz_at_all_is_refused_with_what_it_should_be(tmp_path: Path) -> None:
    sp.save_npz(tmp_path / "X.npz", sp.csr_matrix(np.eye(2)))
    labels = put(tmp_path / "labels.txt", "pizza\ntaxi\n")
    with pytest.raises(
        BadInput, match=r"labels\.txt is not an \.npz; write a matrix of points × labels with scipy"
    ) as said:
        read_dataset(tmp_path / "X.npz", labels_path=labels)
    assert "pickle" not in str(said.value)
    np.save(tmp_path / "Y.npy", np.eye(2))
    with pytest.raises(BadInput, match=r"Y\.npy is not an \.npz; write a matrix of points × labels"):
        read_dataset(tmp_path / "X.npz", labels_path=tmp_path / "Y.npy")
    (tmp_path / "Y.npy").rename(tmp_path / "X_a.npz")
    with pytest.raises(BadInput, match=r"X_a\.npz is not an \.npz; write a matrix of points × features"):
        read_dataset(tmp_path / "X_a.npz")
    with pytest.raises(BadInput, match=r"X_a\.npz is not an \.npz; write a matrix of numbers"):
        read_features(tmp_path / "X_a.npz")
    np.save(tmp_path / "dense.npy", np.eye(2))
    for read in (read_dataset, read_features):
        with pytest.raises(BadInput, match=r"dense\.npy is one array, not a data set; save X and y as \.npz"):
            read(tmp_path / "dense.npy")


def test_wrong_names_are_refused(tmp_path: Path) -> None:
    file = put(tmp_path / "d.txt", "1 2 2\n0 1:1\n")
    put(tmp_path / "d.txt.labels.txt", "a\nb\nc\n")
    with pytest.raises(BadInput, match=r"labels\.txt holds 3 names, but .*d\.txt has 2 labels"):
        read_dataset(file)
    put(tmp_path / "d.txt.labels.txt", "a\r\nb c\r\n")
    assert list(read_dataset(file).labels) == ["a", "b c"]
    (tmp_path / "d.txt.labels.txt").write_bytes(b"a\xff\nb\n")
    with pytest.raises(BadInput, match=r"labels\.txt is not UTF-8"):
        read_dataset(file)


def test_what_a_format_cannot_hold_is_refused_and_nothing_is_written(tmp_path: Path) -> None:
    one = CSR.from_rows([[0]], 1)
    half = CSR(one.indptr, one.indices, np.array([0.5], np.float32), 1)
    a, broken = Names.of(["a"]), Names.of(["a\nb"])
    for name in ("d.txt", "d.svm", "d.ft"):
        with pytest.raises(BadInput, match=r"cannot hold the weights of labels \(row 0 has one of 0\.5\)"):
            write_dataset(Dataset(one, half, a, a), tmp_path / name)
        with pytest.raises(BadInput, match="has a line break"):
            write_dataset(Dataset(one, one, broken, a), tmp_path / name)
    with pytest.raises(BadInput, match="holds counts of words"):
        write_dataset(Dataset(half, one, a, a), tmp_path / "d.ft")
    with pytest.raises(BadInput, match="the features have no names"):
        write_dataset(Dataset(one, one, a), tmp_path / "d.ft")
    with pytest.raises(BadInput, match="'two words' is not one word"):
        write_dataset(Dataset(one, one, Names.of(["two words"]), a), tmp_path / "d.ft")
    with pytest.raises(BadInput, match="would be read as a label"):
        write_dataset(Dataset(one, one, a, Names.of(["__label__x"])), tmp_path / "d.ft")
    with pytest.raises(BadInput, match=r"call it X….npz"):
        write_dataset(Dataset(one, one, a), tmp_path / "d.npz")
    with pytest.raises(BadParameter, match="format must be one of"):
        write_dataset(Dataset(one, one, a), tmp_path / "d.csv")
    with pytest.raises(BadParameter, match="labels_path must be None for svmlight"):
        write_dataset(Dataset(one, one, a), tmp_path / "d.svm", labels_path="x")
    assert not list(tmp_path.iterdir())


def test_unknown_format(tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match=r"format must be one of xmc, .* but it is 'csv'"):
        read_dataset(tmp_path, format="csv")
    with pytest.raises(BadInput, match=r"line 1: 'hello world' tells no format; .* call it ….svm, ….ft or ….npz"):
        read_dataset(put(tmp_path / "d.txt", "hello world\n"))


# Real data


@pytest.mark.parametrize(
    ("name", "x_shape", "x_nnz", "n_labels"),
    [
        ("bibtex/train.txt.gz", (4880, 1836), None, 159),
        ("delicious/test.txt.gz", (3185, 500), None, 983),
        ("eurlex-4k/test.txt.gz", (3809, 5000), 903_035, 3993),
        ("mediamill/test.npz", (12_914, 120), None, 101),
        ("debian-deps/X_tst.npz", (10_920, 32_339), None, 18_160),
        ("cooking/valid.txt.gz", (3000, None), None, None),
    ],
)
def test_real_data(
    shared_data: Path, name: str, x_shape: tuple[int, int | None], x_nnz: int | None, n_labels: int | None
) -> None:
    d = read_dataset(shared_data / name)
    assert len(d) == x_shape[0]
    assert x_shape[1] in (None, d.X.n_cols)
    assert x_nnz in (None, d.X.nnz)
    assert n_labels in (None, d.Y.n_cols)
    assert np.diff(d.Y.indptr).mean() > 1


def test_eurlex_is_what_python_reads(shared_data: Path) -> None:
    d = read_dataset(shared_data / "eurlex-4k" / "test.txt.gz")
    with gzip.open(shared_data / "eurlex-4k" / "test.txt.gz", "rt") as lines:
        next(lines)
        for i, line in zip(range(300), lines, strict=False):
            labels, *pairs = line.rstrip("\n").split(" ")
            assert d.Y.row(i)[0].tolist() == sorted(int(label) for label in labels.split(",") if label)
            cells = sorted((int(c), np.float32(float(v))) for c, v in (pair.split(":") for pair in pairs if pair))
            columns, found = d.X.row(i)
            assert list(zip(columns.tolist(), found, strict=True)) == [(c, v) for c, v in cells if v]


def test_debian_label_names(shared_data: Path) -> None:
    assert read_dataset(shared_data / "debian-deps" / "X_tst.npz").labels[2] == "aapt"
    with pytest.raises(BadInput, match=r"2 data sets \(X_trn\.npz, X_tst\.npz\); name one"):
        read_dataset(shared_data / "debian-deps")
