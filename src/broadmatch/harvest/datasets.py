"""Harvested labels and the pages they belong to, joined into data sets for training and testing."""

import logging
from collections.abc import Callable, Iterable, Iterator
from functools import cached_property, partial
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import CSR, Dataset, Names, as_features
from broadmatch.errors import BadInput, BadParameter
from broadmatch.harvest.beliefs import sparse_beliefs
from broadmatch.harvest.clicks import Harvest
from broadmatch.harvest.coec import coec
from broadmatch.harvest.npmi import npmi
from broadmatch.harvest.page_names import addresses_of_files, plain_page, saved_as
from broadmatch.io import Page
from broadmatch.params import OneOf

log = logging.getLogger("broadmatch")

WEIGHTS = ("plain", "npmi", "beliefs", "coec")
"""How training labels may be weighed."""


class NamedPage(Protocol):
    """What a page has to have."""

    @property
    def name(self) -> str: ...

    @property
    def html(self) -> Any: ...


class Vectorizer(Protocol):
    """What turns pages into rows of features."""

    def fit_transform(self, pages: Any, /) -> Any: ...

    def transform(self, pages: Any, /) -> Any: ...


def build_datasets(
    harvest: Harvest,
    pages: Iterable[NamedPage],
    vectorizer: Vectorizer,
    *,
    weights: str = "plain",
    n_jobs: int | None = None,
) -> tuple[Dataset, Dataset]:
    """Join labels with pages: a data set for training and one for testing, rows in the order of the pages.

    `pages` is gone through twice, one page at a time: give a list, or a `PageSource`. The `vectorizer` is fitted on the
    training pages, unless it is fitted already. The training labels weigh 1 each ("plain"), their nPMI ("npmi"), are
    beliefs with missing labels filled in ("beliefs"), or weigh their clicks over expected clicks ("coec", of a harvest
    with `positions`); all learn from every harvested page, also from those without HTML. The test labels weigh 1
    always. Pages that were clicked but whose HTML is not there are left out, and how many is logged.
    """
    OneOf(WEIGHTS).check("weights", weights)
    if isinstance(pages, Iterator):
        raise BadParameter(
            "pages must be something to go through twice, but it is an iterator; give a list or a PageSource."
        )
    named = named_pages(pages, harvest)
    train = _vectorize(named, harvest.train_pages, vectorizer, "training", fit=not _is_fitted(vectorizer))
    Y = weigh_labels(harvest, weights, partial(sparse_beliefs, n_jobs=n_jobs))
    test = _vectorize(named, harvest.test_pages, vectorizer, "test", fit=False, n_cols=train[0].n_cols)
    return join_datasets(harvest, Y, train, test, vectorizer)


PageRows = tuple[CSR, NDArray[np.int64]]
"""Features of pages, and their positions among the harvested names."""


def named_pages(pages: Iterable[NamedPage], harvest: Harvest) -> Iterable[NamedPage]:
    """The pages by the names that the harvest has for them."""
    return pages if harvest.exact_pages else _PlainNames(pages, harvest)


def join_datasets(
    harvest: Harvest, Y: CSR, train: PageRows, test: PageRows, vectorizer: Vectorizer
) -> tuple[Dataset, Dataset]:
    """Features and labels as data sets; Y are the training labels as they are weighed."""
    _report_rows(*train, harvest.train_pages, "training")
    _report_rows(*test, harvest.test_pages, "test")
    features = _feature_names(vectorizer, train[0].n_cols)
    truth = _plain(harvest.test_counts)
    return (
        Dataset(train[0], Y.take(train[1]), harvest.labels, features, harvest.train_pages.take(train[1])),
        Dataset(test[0], truth.take(test[1]), harvest.labels, features, harvest.test_pages.take(test[1])),
    )


class _PlainNames:
    """Pages by the names that the log has where addresses are merged; of pages with the same name, the first counts.

    A file whose path is not in the log is the page that it mirrors: `shop.example/pizza/index.html` is
    `https://shop.example/pizza`.
    """

    def __init__(self, pages: Iterable[NamedPage], harvest: Harvest) -> None:
        self._pages, self._harvest, self._counted = pages, harvest, False

    @cached_property
    def _addresses(self) -> dict[str, str]:
        """Names of the log by the files that mirror them; a name of the log stands for itself."""
        names = [*self._harvest.train_pages, *self._harvest.test_pages]
        return addresses_of_files(names) | {name: name for name in names}

    def __iter__(self) -> Iterator[NamedPage]:
        seen: set[str] = set()
        merged = 0
        for page in self._pages:
            name = plain_page(page.name)
            if "://" not in name:
                name = self._addresses.get(name) or self._addresses.get(saved_as(name), name)
            merged += name in seen
            if name not in seen:
                seen.add(name)
                yield page if name == page.name else Page(name, page.html)
        if merged and not self._counted:
            log.warning("%d pages are left out: their addresses differ only in tracking parameters or slashes.", merged)
        self._counted = True


class ChosenPages:
    """The HTML of the pages that are wanted, each once; `rows` are their positions among the wanted names."""

    def __init__(self, pages: Iterable[NamedPage], wanted: Names, what: str) -> None:
        self._pages, self._what = pages, what
        self._wanted = {name: row for row, name in enumerate(wanted)}
        self.rows: list[int] = []

    def __iter__(self) -> Iterator[Any]:
        self.rows = []
        left, met = dict(self._wanted), ""
        for page in self._pages:
            met = met or page.name
            row = left.pop(page.name, None)
            if row is not None:
                self.rows.append(row)
                yield page.html
        if not self.rows and self._what == "training":
            first, n = next(iter(self._wanted), ""), len(self._wanted)
            raise BadInput(
                f"None of the {n:,} clicked training pages, such as {first!r}, is among the pages, such as {met!r}; "
                "name pages as the log does, or keep the folders of a mirrored site."
            )


def _vectorize(
    pages: Iterable[NamedPage],
    wanted: Names,
    vectorizer: Vectorizer,
    what: str,
    *,
    fit: bool,
    n_cols: int | None = None,
) -> tuple[CSR, NDArray[np.int64]]:
    """Features of the wanted pages that are there, and their positions among the wanted names."""
    if not len(wanted) and n_cols is not None:
        return CSR(np.zeros(1, np.int64), np.empty(0, np.int32), np.empty(0, np.float32), n_cols), np.empty(0, np.int64)
    chosen = ChosenPages(pages, wanted, what)
    X = as_features(vectorizer.fit_transform(chosen) if fit else vectorizer.transform(chosen))
    rows = np.array(chosen.rows, np.int64)
    if X.n_rows != len(rows):
        raise BadInput(f"The vectorizer made {X.n_rows:,} rows of {len(rows):,} {what} pages; it must make one a page.")
    return X, rows


def _report_rows(X: CSR, rows: NDArray[np.int64], wanted: Names, what: str) -> None:
    """Say how many pages have no features, and how many there are not."""
    wordless = int((np.diff(X.indptr) == 0).sum())
    if wordless:
        log.warning("%d of %d %s pages have no word that is kept.", wordless, len(rows), what)
    missing = len(wanted) - len(rows)
    if missing:
        log.warning("%d of %d clicked %s pages have no HTML and are left out.", missing, len(wanted), what)


def _is_fitted(vectorizer: Vectorizer) -> bool:
    """Whether it is fitted, as scikit-learn tells it: by its own word, or by an attribute like `vocabulary_`."""
    says = getattr(vectorizer, "__sklearn_is_fitted__", None)
    if says is not None:
        return bool(says())
    return any(name.endswith("_") and not name.startswith("_") for name in vars(vectorizer))


def _feature_names(vectorizer: Vectorizer, n_cols: int) -> Names | None:
    names: Any = getattr(vectorizer, "vocabulary_", None)
    if not isinstance(names, Names):
        give = getattr(vectorizer, "get_feature_names_out", None)
        names = None if give is None else Names.of(map(str, give()))
    return names if names is not None and len(names) == n_cols else None


def weigh_labels(harvest: Harvest, weights: str, infer: Callable[[CSR], CSR]) -> CSR:
    """The labels of all training pages with their weights; `infer` makes beliefs of labels."""
    counts = harvest.train_counts
    if weights == "coec":
        if harvest.train_expected is None:
            raise BadParameter("weights='coec' needs expected clicks: harvest with positions=True.")
        return coec(counts, harvest.train_expected)
    if weights == "npmi":
        return npmi(counts)
    return infer(_plain(counts)) if weights == "beliefs" else _plain(counts)


def _plain(counts: CSR) -> CSR:
    return counts._replace(data=np.ones(counts.nnz, np.float32))
