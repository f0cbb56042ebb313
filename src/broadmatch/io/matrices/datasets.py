"""Data sets in the formats people have: read and written by one function each, the format told by name and content."""

import re
from pathlib import Path
from typing import NamedTuple, cast

from broadmatch.data.convert import as_features, as_labels
from broadmatch.data.csr import CSR
from broadmatch.data.dataset import Dataset
from broadmatch.data.names import Names
from broadmatch.errors import BadInput, BadParameter, MissingFile
from broadmatch.io import artifacts, buckets
from broadmatch.io.files import PathLike, naming, open_binary
from broadmatch.io.formats import MATRICES, base_name, format_of
from broadmatch.io.matrices import fasttext, npz, svmlight, xmc
from broadmatch.io.matrices import sidecar_names as names_beside

_HEADER = re.compile(rb"\s*\d+[ \t]+\d+([ \t]+\d+)?\s*")
_SVMLIGHT = re.compile(rb"#|[ \t]*(\+?\d+(,\d+)*)?([ \t]+|$)(qid:\d+[ \t]+)?(\d+:\S+|$)|\d+:\S+")


def read_dataset(path: PathLike, *, labels_path: PathLike | None = None, format: str | None = None) -> Dataset:
    """Read features, labels and names; text may be packed with gzip or zstd.

    `format` is "xmc" (the Extreme Classification Repository's text; with `labels_path`, its pair of files),
    "svmlight", "fasttext", "npz" (scipy's `X….npz` and `Y….npz`, or one file with `X` and `y`), or "folder" (what
    `write_dataset` writes by default). It is told from the name and the first bytes where it is not given. Names that
    a format cannot hold are read from `<path>.labels.txt`, `.features.txt` and `.points.txt` if they are there.

    Indices may come in any order. Values of the same feature in a row are added up, and so are weights of the same
    label; a label that is listed twice counts once. What cannot be read raises `BadInput` with the file and the line.
    """
    file = buckets.fetch(path)
    labels_file = None if labels_path is None else buckets.fetch(labels_path)
    kind = _guess(file, labels_file) if format is None else _checked(format)
    if kind == "folder":
        return _read_folder(file)
    if file.is_dir() and kind != "npz":
        raise BadInput(f"{file} is a folder, but {kind} is a file; name the file.")
    if kind == "fasttext":
        X, Y, features, labels = fasttext.read(file)
        return Dataset(X, Y, labels, features, names_beside.read_sized_names(file, "points", X.n_rows))
    if kind == "npz":
        file = npz.find(file)
        X, Y = npz.read(file, labels_file)
        return _named(file, X, Y, npz.read_label_names(file, Y.n_cols))
    X, Y = svmlight.read(file) if kind == "svmlight" else xmc.read(file, labels_file)
    with naming(file):  # values of the same column may have added up to more than a float32 holds
        as_features(X)
        as_labels(Y)
    return _named(file, X, Y)


class Features(NamedTuple):
    """Rows of features, and the names of the features and of the points where they have any."""

    X: CSR
    features: Names | None
    points: Names | None


def read_features(path: PathLike, *, labels_path: PathLike | None = None) -> Features:
    """Read rows to predict for: the features of a data set, whose labels do not matter; of a `.npz` they suffice."""
    file = buckets.fetch(path)
    if file.suffix == ".npz":
        X = as_features(npz.read_matrix(file))
        features = names_beside.read_sized_names(file, "features", X.n_cols)
        return Features(X, features, names_beside.read_sized_names(file, "points", X.n_rows))
    data = read_dataset(path, labels_path=labels_path)
    return Features(data.X, data.features, data.points)


def says_width(path: PathLike, *, labels_path: PathLike | None = None) -> bool:
    """Whether a data set says how many features it has, as all formats do but svmlight without sizes and names."""
    file = buckets.fetch(path)
    kind = _guess(file, None if labels_path is None else buckets.fetch(labels_path))
    return kind != "svmlight" or svmlight.says_width(file)


def write_dataset(
    dataset: Dataset, path: PathLike, *, labels_path: PathLike | None = None, format: str | None = None
) -> None:
    """Write features, labels and names so that `read_dataset` gives back the same bits.

    The format is told from the name: `.npz`, `.svm` (or `.svmlight`, `.libsvm`), `.ft` (or `.fasttext`), `.txt` for
    "xmc", each of the text ones with `.gz` or `.zst` if wanted, and a name without any of these for "folder". Names
    that the format cannot hold are written beside, as `<path>.labels.txt` and so on. What a format cannot hold at all
    (weights of labels in a list of labels, fractions in fastText) raises `BadInput`.
    """
    file = Path(path)
    labels_file = None if labels_path is None else Path(labels_path)
    kind = format_of(file, MATRICES) if format is None else _checked(format)
    if kind is None:
        kind = "xmc" if base_name(file).endswith(".txt") else "folder"
        if kind == "folder" and file.suffix:
            raise BadParameter(f"format must be one of {', '.join(MATRICES)}, as the name {file} does not tell it.")
    if labels_file is not None and kind not in ("xmc", "npz"):
        raise BadParameter(f"labels_path must be None for {kind}, which is one file, but it is {str(labels_path)!r}.")
    if kind == "folder":
        artifacts.save(dataset, file)
        return
    labels = dataset.labels if kind == "fasttext" else _known(dataset.labels)
    named = {"labels": labels, "features": dataset.features, "points": dataset.points}
    # Encoded before anything is written, so that names that cannot be written leave all as it was.
    contents = {what: names_beside.encode(file, what, names) for what, names in named.items()}
    if kind == "fasttext":
        fasttext.write(dataset.X, dataset.Y, dataset.features, dataset.labels, file)
    elif kind == "svmlight":
        svmlight.write(dataset.X, dataset.Y, file)
    else:
        (npz if kind == "npz" else xmc).write(dataset.X, dataset.Y, file, labels_file)
    for what, content in contents.items():
        names_beside.write(file, what, content)


def _read_folder(file: Path) -> Dataset:
    kind = artifacts.read_manifest(file)["kind"]
    if kind != "dataset":
        raise BadInput(f"{file} holds a {kind}, not a data set; open it with broadmatch.load.")
    return cast(Dataset, artifacts.load(file))


def _named(file: Path, X: CSR, Y: CSR, labels: Names | None = None) -> Dataset:
    beside = names_beside.read_sized_names(file, "labels", Y.n_cols)
    return Dataset(
        X,
        Y,
        beside or labels or Names.numbers(Y.n_cols),
        names_beside.read_sized_names(file, "features", X.n_cols),
        names_beside.read_sized_names(file, "points", X.n_rows),
    )


def _known(labels: Names) -> Names | None:
    """The names of labels, or None if they are only the numbers that stand for unknown ones."""
    return None if all(name == str(i) for i, name in enumerate(labels)) else labels


def _checked(format: str) -> str:
    if format not in MATRICES:
        raise BadParameter(f"format must be one of {', '.join(MATRICES)}, but it is {format!r}.")
    return format


def _guess(file: Path, labels_file: Path | None) -> str:
    if not file.exists():
        raise MissingFile(f"There is no file {file}.")
    if file.is_dir():
        return "folder" if (file / artifacts.MANIFEST).exists() else "npz"
    named = format_of(file, MATRICES)
    if named is not None:
        return named
    if labels_file is not None:
        return "xmc"
    with open_binary(file) as stream:
        head = stream.read(1 << 16)
    if not head.strip():
        raise BadInput(f"{file} is empty; it holds no data set.")
    if head.startswith(b"PK\x03\x04"):
        return "npz"
    if head.startswith(b"\x93NUMPY"):
        raise BadInput(f"{file} is one array, not a data set; save X and y as .npz (numpy.savez), or write svmlight.")
    lines = head.splitlines()
    if _HEADER.fullmatch(lines[0]):
        if len(lines[0].split()) == 2:
            raise BadInput(f"{file} is the features of a pair of files; give the file of labels as labels_path.")
        return "xmc"
    if any(word.startswith(b"__label__") for line in lines for word in line.split(None, 1)[:1]):
        return "fasttext"
    if any(_SVMLIGHT.match(line) for line in lines[:1]):
        return "svmlight"
    raise BadInput(
        f"{file}, line 1: {lines[0][:80].decode('utf-8', 'replace')!r} tells no format; a header such as "
        "'points features labels' may be missing, or call it ….svm, ….ft or ….npz if it is such a file."
    )
