"""Rows of features for a model that was trained on a matrix."""

from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import typer

from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import CSR, Names


class Rows(NamedTuple):
    """Features, and the names of the points if they have any."""

    X: "CSR"
    points: "Names | None"


def rows_of(places: list[Path], labels_path: Path | None, known: "Names | None") -> Rows:
    """The rows of a data set, whose labels do not matter here; of a .npz, the matrix of features is enough.

    `known` are the names of the features that the model learned from.
    """
    from broadmatch.data import as_features
    from broadmatch.io import read_dataset
    from broadmatch.io.matrices.npz import read_matrix
    from broadmatch.io.matrices.sidecar_names import read_sized_names

    if len(places) != 1 or places == [Path("-")]:
        raise typer.BadParameter("this model was trained on a matrix: give one data set, or matrix of features, of it.")
    (place,) = places
    if place.suffix == ".npz":
        X = as_features(read_matrix(place))
        check_features(known, read_sized_names(place, "features", X.n_cols), place)
        return Rows(X, read_sized_names(place, "points", X.n_rows))
    data = read_dataset(place, labels_path=labels_path)
    check_features(known, data.features, place)
    return Rows(data.X, data.points)


def check_features(known: "Names | None", given: "Names | None", place: Path) -> None:
    """Refuse rows whose features are not those that the model learned from, if both have names."""
    if known is not None and given is not None and known != given:
        raise BadInput(
            f"The words of {place} are not those that the model was trained on; "
            "take those that were made together with the training data."
        )
