"""`--revealed`: the labels that pages or rows are known to have, from a table of names or from a matrix."""

from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broadmatch.cli import output
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.cli.rows import Rows
    from broadmatch.data import CSR, Names
    from broadmatch.io import Rejects


class Revealed:
    """The revealed labels of pages by name. Asked page by page, it notes which of its pages were never asked for."""

    def __init__(self, file: Path, by_page: Mapping[str, list[str]]) -> None:
        self.file, self.by_page = file, by_page
        self.met: set[str] = set()

    @classmethod
    def read(
        cls,
        file: Path,
        columns: Mapping[str, str] | None,
        known: "Names",
        spelled: Callable[[str], str],
        rejects: "Rejects | None" = None,
    ) -> "Revealed":
        """Read a table of pages and phrases; phrases that the model does not know are left out, and told."""
        from broadmatch.io.tables import REVEALED, read_pairs

        by_page: dict[str, list[str]] = {}
        unknown: dict[str, None] = {}
        for page, phrase in read_pairs(file, REVEALED, columns, rejects=rejects, option="revealed_columns"):
            name = phrase if phrase in known else spelled(phrase)
            if name in known:
                by_page.setdefault(page, []).append(name)
            else:
                unknown[phrase] = None
                by_page.setdefault(page, [])
        if unknown:
            output.log.warning(
                "Phrases of %s that the model does not know: %s, such as %r; they are left out.",
                file,
                f"{len(unknown):,}",
                next(iter(unknown)),
            )
        return cls(file, by_page)

    def of(self, page: str) -> list[str]:
        """What is known of a page: [] for one that the table does not name."""
        if page in self.by_page:
            self.met.add(page)
        return self.by_page.get(page, [])

    def finish(self) -> None:
        """Say what was not asked for; if nothing was, the names are not those of the pages."""
        if not self.by_page:
            output.log.warning("%s reveals nothing.", self.file)
            return
        if not self.met:
            raise BadInput(
                f"No page of {self.file} is among the pages, nothing was revealed: it names "
                f"{next(iter(self.by_page))!r}; write their names as the recommendations do."
            )
        left = len(self.by_page) - len(self.met)
        if left:
            output.log.info("%s pages of %s were not among the pages.", f"{left:,}", self.file)


def revealed_phrases(
    file: Path, columns: Mapping[str, str] | None, known: "Names", rejects: "Rejects | None" = None
) -> Revealed:
    """The revealed phrases of pages; phrases are spelled as `harvest` spells them."""
    from broadmatch.harvest import normalise_query

    return Revealed.read(file, columns, known, normalise_query, rejects)


def revealed_rows(file: Path, columns: Mapping[str, str] | None, known: "Names", rows: "Rows") -> "CSR":
    """The revealed labels of the rows of a matrix, in the model's numbers.

    A table names points (or their numbers, from 0) and labels; a .npz is a matrix of points × the model's labels; of
    any other data set the labels are taken.
    """
    from broadmatch.data import CSR, Names, as_labels
    from broadmatch.io import read_dataset
    from broadmatch.io.matrices.npz import read_matrix
    from broadmatch.io.tables import is_table

    if is_table(file):
        table = Revealed.read(file, columns, known, str)
        names = Names.numbers(rows.X.n_rows) if rows.points is None else rows.points
        found = [[known.index(label) for label in table.of(name)] for name in names]
        table.finish()
        return CSR.from_rows(found, len(known))
    if file.suffix == ".npz":
        labels, given = as_labels(read_matrix(file))[0], None
    else:
        data = read_dataset(file)
        labels, given = data.Y, data.labels
    if labels.n_rows != rows.X.n_rows:
        raise BadInput(
            f"{file} has {labels.n_rows:,} rows, but there are {rows.X.n_rows:,} to recommend for; "
            "they must be the same points."
        )
    if given is not None and given != known:
        return _renumbered(file, labels, given, known)
    if labels.n_cols != len(known):
        raise BadInput(f"{file} has {labels.n_cols:,} labels, but the model knows {len(known):,}.")
    return labels


def _renumbered(file: Path, labels: "CSR", given: "Names", known: "Names") -> "CSR":
    """Labels by the model's numbers; those that it does not know are left out, and told."""
    import numpy as np
    import scipy.sparse as sp

    from broadmatch.data import CSR

    place: Any = np.array([known.index(name) if name in known else -1 for name in given], np.int64)[labels.indices]
    kept = place >= 0
    if not kept.all():
        lost = len(np.unique(labels.indices[~kept]))
        output.log.warning("Labels of %s that the model does not know: %s; they are left out.", file, f"{lost:,}")
    rows = np.repeat(np.arange(labels.n_rows), np.diff(labels.indptr))[kept]
    return CSR.from_scipy(sp.csr_matrix((labels.data[kept], (rows, place[kept])), (labels.n_rows, len(known))))
