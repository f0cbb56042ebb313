"""What the commands of label models share."""

from collections.abc import Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import typer

from broadmatch.cli import output
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from broadmatch.data import CSR, Dataset, Names
    from broadmatch.labels import KEX, Recommender
    from broadmatch.labels.predictor import LabelPredictor


def run_command(*words: object) -> None:
    """Run a command within another, as the shell would."""
    import typer.main

    from broadmatch.cli import app

    command: Any = typer.main.get_command(app)
    rest = [str(word) for word in words]
    while hasattr(command, "commands"):
        command = command.commands[rest.pop(0)]
    command.main(rest, standalone_mode=False)


def load_recommender(path: Path) -> "Recommender | KEX | LabelPredictor":
    """What recommends phrases for pages, or a model of rows."""
    import broadmatch
    from broadmatch.harvest.harvested import is_harvested
    from broadmatch.labels import KEX, Recommender
    from broadmatch.labels.predictor import LabelPredictor

    if is_harvested(path):
        raise BadInput(f"{path} is harvested data, not a model; `broadmatch train {path} --out MODEL` makes one.")
    found = broadmatch.load(path)
    if not isinstance(found, Recommender | KEX | LabelPredictor):
        raise BadInput(f"{path} holds a {type(found).__name__}, not a model; train one with `broadmatch train`.")
    return found


def load_model(path: Path) -> "tuple[Any | None, LabelPredictor]":
    """What turns pages into rows, None for a model of rows; and the model."""
    from broadmatch.labels import KEX, Recommender

    found = load_recommender(path)
    if isinstance(found, KEX):
        raise BadInput(
            f"{path} is a model of kex, which has no labels of its own; give it to `recommend` or `extract`."
        )
    return (found.vectorizer, found.model) if isinstance(found, Recommender) else (None, found)


def read_points(path: Path, part: Literal["train", "test"], labels_path: Path | None = None) -> "Dataset":
    """The data set at a place; of a harvested folder, its part to train or to test on."""
    from broadmatch.harvest.harvested import is_harvested, open_harvested
    from broadmatch.io import read_dataset
    from broadmatch.io.tables import is_table

    if is_harvested(path):
        if labels_path is not None:
            raise typer.BadParameter(f"--labels-file is for a matrix of features; {path} has its labels.")
        found: Dataset = getattr(open_harvested(path), part)
        return found
    if path.is_file() and is_table(path):
        raise BadInput(f"{path} is a table, not a data set; `broadmatch harvest` makes one of a click log and pages.")
    return read_dataset(path, labels_path=labels_path)


def check_not_addresses(pages: Iterable[Path]) -> None:
    """Refuse pages that are named by their address in the web: nothing is fetched."""
    for page in pages:
        scheme, _, rest = str(page).partition(":/")  # a path has one slash where the address had two
        if scheme in ("http", "https"):
            address = f"{scheme}://{rest}"
            raise typer.BadParameter(f"{address} is not fetched; pipe it, as in curl -sL {address} | broadmatch … -")


def check_ranks(model: "LabelPredictor", path: Path, instead: str) -> None:
    """Refuse a model that has sets only."""
    if hasattr(model, "hierarchy_"):
        raise BadInput(f"{path} holds a {type(model).__name__}, which has sets and no ranking; {instead}.")


def check_words(model: "LabelPredictor", given: "Names | None", path: Path) -> None:
    """Refuse rows whose words are not those of a model of pages: another vectorizer weighs the same words otherwise."""
    known = model.feature_names_
    if known is not None and given is not None and known != given:
        raise _other_words(path)


def known_features(
    model: "LabelPredictor", X: "CSR", given: "Names | None", path: Path, labels_path: Path | None = None
) -> "CSR":
    """The rows in the columns of the model: by name where both have names, by number where a file says no width."""
    from broadmatch.io.matrices.datasets import says_width

    known, n = model.feature_names_, model.n_features_in_
    if known is not None and given is not None:
        return X if known == given else _matched(X, given, known, path)
    if X.n_cols == n or says_width(path, labels_path=labels_path):
        return X
    kept = X.indices < n
    _say_left_out(X, kept, path)
    return X.where(kept)._replace(n_cols=n)


def _matched(X: "CSR", given: "Names", known: "Names", path: Path) -> "CSR":
    """The rows in the columns that have the same names."""
    place = known.places(given)
    if len(given) and (place < 0).all():
        raise _other_words(path)
    _say_left_out(X, place[X.indices] >= 0, path)
    return X.renumbered(place, len(known))


def _say_left_out(X: "CSR", kept: "NDArray[np.bool_]", path: Path) -> None:
    """Warn of features that the model does not know, if the rows have any."""
    import numpy as np

    lost = X.indices[~kept]
    if len(lost):
        found = f"{len(np.unique(lost)):,} ({len(lost):,} values)"
        output.log.warning("Features of %s that the model does not know were left out: %s.", path, found)


def _other_words(path: Path) -> BadInput:
    return BadInput(
        f"The words of {path} are not those that the model was trained on; "
        "take those that were made together with the training data."
    )
