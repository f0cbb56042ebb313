"""Arrays in `.npz`: a pair `X….npz` and `Y….npz` of scipy matrices, or one file with the tables `X` and `y`."""

import json
import zipfile
import zlib
from pathlib import Path
from typing import Any

import numpy as np

from broadmatch.data.convert import as_features, as_labels
from broadmatch.data.csr import CSR
from broadmatch.data.names import Names
from broadmatch.errors import BadInput, MissingFile
from broadmatch.io import buckets
from broadmatch.io.files import largest_whole, naming, read_text, replacing_file, too_large

_ZIP = b"PK"
_BROKEN = (ValueError, KeyError, IndexError, TypeError, OSError, EOFError, zipfile.BadZipFile, zlib.error)


def find(path: Path) -> Path:
    """The file of features in a folder of `.npz`; a folder with several is refused, as each is its own data set."""
    if not path.is_dir():
        return path
    found = sorted(path.glob("X*.npz"))
    if len(found) == 1:
        return found[0]
    if not found:
        raise MissingFile(f"The folder {path} holds no data set: neither a manifest.json nor an X….npz.")
    raise BadInput(f"{path} holds {len(found)} data sets ({', '.join(f.name for f in found)}); name one of the files.")


def partner(path: Path) -> Path:
    """The labels' file that belongs to a features' file: `Y_trn.npz` to `X_trn.npz`."""
    if not path.name.startswith("X"):
        raise BadInput(f"{path} holds features only; call it X….npz with a Y….npz beside it, or give the labels_path.")
    return path.with_name("Y" + path.name[1:])


def read(path: Path, labels_path: Path | None) -> tuple[CSR, CSR]:
    """Read X and Y from a pair of files, or from one file with `X` and `y`."""
    tables = _load(path, "points × features")
    if "X" in tables and labels_path is None:
        labels_path, labels = path, tables.get("y", tables.get("Y"))
        if labels is None:
            raise BadInput(f"{path} holds {', '.join(sorted(tables))} but neither y nor Y; add it or give labels_path.")
    else:
        labels_path = labels_path or partner(path)
        labels = _only(_load(labels_path, "points × labels"), ("matrix", "y", "Y"), labels_path)
    features = _only(tables, ("matrix", "X"), path)
    with naming(path):
        X = as_features(features)
    with naming(labels_path):
        Y, _ = as_labels(labels)
    if X.n_rows != Y.n_rows:
        raise BadInput(
            f"{path} has {X.n_rows:,} rows of X, {labels_path} has {Y.n_rows:,} of Y; they must be the same."
        )
    return X, Y


def read_matrix(path: Path) -> Any:
    """Read the one matrix of a file, whatever it holds: features, labels, features of labels."""
    return _only(_load(path), ("matrix", "X", "y", "Y"), path)


def read_label_names(path: Path, n_labels: int) -> Names | None:
    """The names in `labels.json` or `labels.json.gz` in the same folder, if one is there."""
    for file in (path.with_name("labels.json"), path.with_name("labels.json.gz")):
        if not buckets.fetch(file).is_file():
            continue
        try:
            names = json.loads(read_text(file))
        except (json.JSONDecodeError, RecursionError) as error:
            raise BadInput(f"{file} is not JSON: {error}.") from error
        if not isinstance(names, list) or not all(isinstance(name, str) for name in names) or len(names) != n_labels:
            raise BadInput(f"{file} must be a list of {n_labels:,} strings, the names of the labels of {path}.")
        return Names.of(names)
    return None


def write(X: CSR, Y: CSR, path: Path, labels_path: Path | None) -> None:
    """Write X as `X….npz` and Y as `Y….npz` beside it, or as `labels_path`."""
    import scipy.sparse as sp

    for matrix, file in ((X, path), (Y, labels_path or partner(path))):
        with replacing_file(file) as out:
            sp.save_npz(out, matrix.to_scipy())


def _load(path: Path, what: str = "numbers") -> dict[str, Any]:
    """The arrays of a file by name; a scipy matrix is called `matrix`. Errors say `what` it should be a matrix of."""
    import scipy.sparse as sp

    if not buckets.fetch(path).is_file():
        raise MissingFile(f"There is no file {path}.")
    with path.open("rb") as stream:
        if stream.read(len(_ZIP)) != _ZIP:
            raise BadInput(f"{path} is not an .npz; write a matrix of {what} with scipy.sparse.save_npz and give that.")
    try:
        with path.open("rb") as stream, np.load(stream, allow_pickle=False) as arrays:
            if sum(part.file_size for part in arrays.zip.infolist()) > (limit := largest_whole(path)):
                raise too_large(path, limit)
            if "format" in arrays and "shape" in arrays:
                stream.seek(0)
                matrix = sp.csr_matrix(sp.load_npz(stream))
                matrix.check_format(full_check=True)
                return {"matrix": matrix}
            return {name: arrays[name] for name in arrays}
    except BadInput:
        raise
    except _BROKEN as error:
        why = "it holds Python objects" if "allow_pickle" in str(error) else error
        raise BadInput(f"{path} is damaged or is not an .npz of numbers ({why}); fetch or write it again.") from error


def _only(tables: dict[str, Any], wanted: tuple[str, ...], path: Path) -> Any:
    for name in wanted:
        if name in tables:
            return tables[name]
    names = " or ".join(("a scipy matrix", *wanted[1:]))
    raise BadInput(f"{path} holds {', '.join(sorted(tables)) or 'nothing'}, but {names} is needed.")
