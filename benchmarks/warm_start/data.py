"""The three sets of the warm-start benchmark: points, labels, and features of the labels."""

import gzip
import json
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
from numpy.typing import NDArray
from sklearn.feature_extraction.text import TfidfTransformer
from sklearn.preprocessing import normalize

from benchmarks.common import DATA, held_out, load
from broadmatch.data import CSR, Dataset, Names
from broadmatch.features import text_label_features


@dataclass
class WarmStart:
    """Training and test points; `label_features` is labels × item features, or None where labels have no text.

    `known_train` and `known_test` (points × labels) are labels from which the features X of a point were made. They
    are no labels of that point: never counted, never recommended, and every model may use them.
    """

    name: str
    train: Dataset
    test: Dataset
    label_features: CSR | None
    known_train: CSR
    known_test: CSR

    def held_out(self, share: float = 0.2, seed: int = 0) -> "WarmStart":
        """A part of the training points in place of the test points, to tune on."""
        both = held_out(Dataset(self.known_train, self.train.Y, self.train.labels), share, seed)
        fit, check = held_out(self.train, share, seed)
        return WarmStart(self.name, fit, check, self.label_features, both[0].X, both[1].X)

    def trained_on(self, train: Dataset) -> "WarmStart":
        """The same with other training points, which have no known labels."""
        return replace(self, train=train, known_train=_nothing(train))

    def small(self, share: float, seed: int = 0) -> "WarmStart":
        """A share of the points of both parts, for a quick look; every label stays."""
        rng = np.random.default_rng(seed)
        rows = [np.sort(rng.permutation(len(part))[: int(len(part) * share)]) for part in (self.train, self.test)]
        return WarmStart(
            self.name,
            self.train.take(rows[0]),
            self.test.take(rows[1]),
            self.label_features,
            self.known_train.take(rows[0]),
            self.known_test.take(rows[1]),
        )


def eurlex() -> WarmStart:
    """EURLex-4K in its own split; the names of its labels are not known, so they have no features of their own."""
    train, test = load("eurlex-4k")
    return WarmStart("eurlex", train, test, None, _nothing(train), _nothing(test))


def debian() -> WarmStart:
    """Debian packages and the packages that they depend on; a label's features are its own description."""
    train, test = load("debian-deps")
    described = {package["name"]: package for package in _json_lines(DATA / "debian" / "packages.jsonl.gz")}
    texts = [_description(described.get(name)) for name in train.labels]
    features, _ = text_label_features(texts)
    return WarmStart("debian", train, test, features, _nothing(train), _nothing(test))


def citeulike(*, min_articles: int = 5, profile_share: float = 0.2, min_users: int = 2, seed: int = 0) -> WarmStart:
    """CiteULike users and their articles (citeulike-t), four fifths of the users for training; articles have words.

    A user has no words of his own: a random `profile_share` of his library (two articles at least) is his profile, its
    words are his features, and only the rest of the library are his labels. Kept are users with `min_articles` or
    more, articles that `min_users` or more training users have as labels, and then users with a label left.

    The tags of articles are not used: a tag that one user alone gives marks the articles of that user's library, the
    hidden ones too, and the data do not say who gave which.
    """
    folder = DATA / "citeulike-t"
    libraries = [row for row in _lists(folder / "users.dat.gz") if len(row) >= min_articles]
    words = _words(folder / "mult.dat.gz")
    rng = np.random.default_rng(seed)
    profile, rest = split_libraries(libraries, words.shape[0], profile_share, rng)
    order = rng.permutation(len(libraries))
    train, test = np.sort(order[: int(0.8 * len(order))]), np.sort(order[int(0.8 * len(order)) :])
    kept = np.flatnonzero(np.bincount(rest[train].indices, minlength=rest.shape[1]) >= min_users)
    users, labels = normalize(profile @ words), Names.of(str(article) for article in kept)
    train, test = (part[np.diff(rest[part][:, kept].indptr) > 0] for part in (train, test))
    return WarmStart(
        "citeulike",
        *(Dataset(CSR.from_scipy(users[p]), CSR.from_scipy(rest[p][:, kept]), labels) for p in (train, test)),
        CSR.from_scipy(words[kept]),
        *(CSR.from_scipy(profile[p][:, kept]) for p in (train, test)),
    )


def split_libraries(
    libraries: list[NDArray[np.int64]], n_articles: int, share: float, rng: np.random.Generator
) -> tuple[sp.csr_matrix, sp.csr_matrix]:
    """Divide each library at random into a profile and the rest, both as users × articles.

    >>> profile, rest = split_libraries([np.arange(10)], 10, 0.2, np.random.default_rng(0))
    >>> profile.nnz, rest.nnz, (profile + rest).nnz
    (2, 8, 10)
    """
    sizes = [max(2, round(share * len(library))) for library in libraries]
    shuffled = [rng.permutation(library) for library in libraries]
    parts = [
        [s[:n] for s, n in zip(shuffled, sizes, strict=True)],
        [s[n:] for s, n in zip(shuffled, sizes, strict=True)],
    ]
    profile, rest = (CSR.from_rows([p.tolist() for p in part], n_articles).to_scipy() for part in parts)
    return profile, rest


SETS = {"eurlex": eurlex, "debian": debian, "citeulike": citeulike}


def sizes(data: WarmStart) -> dict[str, Any]:
    """What the set looks like."""
    features = data.label_features
    return {
        "train": len(data.train),
        "test": len(data.test),
        "features": data.train.X.n_cols,
        "labels": data.train.Y.n_cols,
        "labels_a_point": round(data.train.Y.nnz / len(data.train), 2),
        "features_a_point": round(data.train.X.nnz / len(data.train), 1),
        "known_a_point": round(data.known_train.nnz / len(data.train), 2),
        "label_features": None if features is None else features.n_cols,
        "labels_without_features": None if features is None else int((np.diff(features.indptr) == 0).sum()),
    }


def _nothing(part: Dataset) -> CSR:
    return CSR(np.zeros(len(part) + 1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), part.Y.n_cols)


def _description(package: dict[str, Any] | None) -> str:
    """A package's short and long description; virtual packages have none."""
    return "" if package is None else f"{package['short']}\n{package['long']}"


def _json_lines(file: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(file, "rt", encoding="utf-8") as lines:
        yield from map(json.loads, lines)


def _lists(file: Path) -> list[NDArray[np.int64]]:
    """Lines of `count number number …`."""
    with gzip.open(file, "rt") as lines:
        return [np.array(line.split()[1:], np.int64) for line in lines]


def _words(file: Path) -> sp.csr_matrix:
    """Unit rows of tf-idf from lines of `count word:times word:times …`."""
    with gzip.open(file, "rt") as lines:
        rows = [[pair.split(":") for pair in line.split()[1:]] for line in lines]
    indptr = np.cumsum([0, *map(len, rows)])
    flat = np.array([pair for row in rows for pair in row], np.int64).reshape(-1, 2)
    counts = sp.csr_matrix((flat[:, 1].astype(np.float32), flat[:, 0], indptr), shape=(len(rows), flat[:, 0].max() + 1))
    return sp.csr_matrix(TfidfTransformer().fit_transform(counts))
