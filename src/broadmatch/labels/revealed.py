"""Labels that points are known to have (bids, clicks), from a table of names or from a matrix."""

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np

from broadmatch.data import CSR, Names, as_labels
from broadmatch.errors import BadInput
from broadmatch.harvest import normalise_query
from broadmatch.harvest.page_names import ByPage
from broadmatch.io import read_dataset, read_pairs
from broadmatch.io.matrices.npz import read_matrix
from broadmatch.io.tables import REVEALED, is_table

log = logging.getLogger("broadmatch")
Describe = Callable[[list[str]], CSR | None]
"""What gives phrases label features, such as the `describe` of a label model."""


def read_revealed(
    path: str | Path, label_names: Names, *, columns: Mapping[str, str] | None = None, describe: Describe | None = None
) -> ByPage[list[str]]:
    """The revealed phrases of pages by name, from a table of pages and phrases.

    Phrases are spelled as `harvest` spells them. Those that are not among `label_names` are left out, and counted,
    unless `describe` (of a model) has features of them; a page is there also if none of its phrases is. Addresses that
    differ only in tracking parameters or in slashes at the end are one page.

    >>> _ = Path("bids.csv").write_text("page,phrase\\na.html,Pizza!\\nb.html,tea\\n")
    >>> read_revealed("bids.csv", Names.of(["pizza"]))
    {'a.html': ['pizza'], 'b.html': []}
    """
    found: ByPage[list[str]] = ByPage()
    unknown: dict[str, str] = {}
    for page, phrase in read_pairs(path, REVEALED, columns, option="revealed_columns"):
        name = phrase if phrase in label_names else normalise_query(phrase)
        found.setdefault(page, []).append(name)
        if name not in label_names:
            unknown.setdefault(name, phrase)
    features = describe(list(unknown)) if describe is not None and unknown else None
    if features is not None:
        rows = zip(unknown.items(), np.diff(features.indptr).tolist(), strict=True)
        unknown = {name: phrase for (name, phrase), size in rows if not size}
    for page, names in found.items():
        found[page] = [name for name in names if name not in unknown]
    if unknown:
        log.warning(
            "Phrases of %s that the model does not know: %s, such as %r; they are left out.",
            path,
            f"{len(unknown):,}",
            next(iter(unknown.values())),
        )
    return found


def check_met(revealed: Mapping[str, Any], met: set[str], path: str | Path) -> None:
    """Say which pages of a table never came; if none did, the names are not those of the pages."""
    if not revealed:
        log.warning("%s reveals nothing.", path)
    elif not met:
        raise BadInput(
            f"No page of {path} is among the pages, nothing was revealed: it names {next(iter(revealed))!r}; write "
            "their names as the recommendations do."
        )
    elif len(met) < len(revealed):
        log.info("%s pages of %s were not among the pages.", f"{len(revealed) - len(met):,}", path)


def read_revealed_rows(
    path: str | Path,
    label_names: Names,
    n_rows: int,
    *,
    points: Names | None = None,
    columns: Mapping[str, str] | None = None,
) -> CSR:
    """The revealed labels of the rows of a matrix, points × labels.

    A table names points (or their numbers, from 0) and labels; a `.npz` is a matrix of points × the model's labels; of
    any other data set the labels are taken.
    """
    if is_table(path):
        table = read_revealed(path, label_names, columns=columns)
        names = Names.numbers(n_rows) if points is None else points
        check_met(table, {name for name in names if name in table}, path)
        rows = [[label_names.index(label) for label in table.get(name, ())] for name in names]
        return CSR.from_rows(rows, len(label_names))
    if Path(path).suffix == ".npz":
        labels, given = as_labels(read_matrix(Path(path)))[0], None
    else:
        data = read_dataset(path)
        labels, given = data.Y, data.labels
    if labels.n_rows != n_rows:
        raise BadInput(
            f"{path} has {labels.n_rows:,} rows, but there are {n_rows:,} to recommend for; they must be the same "
            "points."
        )
    if given is not None and given != label_names:
        return _renumbered(path, labels, given, label_names)
    if labels.n_cols != len(label_names):
        raise BadInput(f"{path} has {labels.n_cols:,} labels, but the model knows {len(label_names):,}.")
    return labels


def _renumbered(path: str | Path, labels: CSR, given: Names, known: Names) -> CSR:
    """Labels by the model's numbers; those that it does not know are left out, and counted."""
    place = known.places(given)
    if lost := len(np.unique(labels.indices[place[labels.indices] < 0])):
        log.warning("Labels of %s that the model does not know: %s; they are left out.", path, f"{lost:,}")
    return labels.renumbered(place, len(known))
