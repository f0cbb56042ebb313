"""What predictions are compared with: labels by the model's numbers, or the truth of a simulated marketplace."""

from pathlib import Path
from typing import TYPE_CHECKING

from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import CSR, Dataset, Names


def aligned(known: "Names", given: "Names", labels: "CSR") -> "tuple[Names, CSR]":
    """Labels with the model's numbers; those that it does not know come behind, as what it can never find."""
    if known == given:
        return known, labels
    import numpy as np

    from broadmatch.data import CSR, Names

    names = [*known, *(name for name in given if name not in known)]
    position = {name: i for i, name in enumerate(names)}
    columns = np.array([position[name] for name in given], np.int32)
    moved = CSR.from_scipy(labels._replace(indices=columns[labels.indices], n_cols=len(names)).to_scipy())
    return Names.of(names), moved


def truth_of(market: Path, points: "Dataset", names: "Names", place: Path) -> "CSR":
    """What is truly relevant for the points of `place` in a simulated marketplace."""
    from broadmatch.data import CSR
    from broadmatch.simulate import truth_matrix

    if points.points is None:
        raise BadInput(f"{place} does not name its pages, so the truth of {market} cannot be looked up.")
    found: CSR = truth_matrix(market, points.points, names)
    return found
