"""`--label-features`: what labels are like, from a matrix, from texts, or from the phrases that they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from broadmatch.cli import output
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import CSR, Dataset


def given_features(file: Path, columns: Mapping[str, str] | None, points: "Dataset") -> "CSR | None":
    """A .npz of labels × features as it is; otherwise the words of the labels' texts, if any are in common."""
    from broadmatch.data import as_features
    from broadmatch.io.matrices.npz import read_matrix
    from broadmatch.io.tables import LABEL_TEXTS, read_pairs

    if file.suffix == ".npz":
        features = as_features(read_matrix(file))
        if features.n_rows != points.Y.n_cols:
            raise BadInput(
                f"{file} has {features.n_rows:,} rows, but there are {points.Y.n_cols:,} labels; "
                "give one row for each label, an empty one where there are no features."
            )
        return features
    texts: dict[str, str] = {}
    for label, text in read_pairs(file, LABEL_TEXTS, columns, option="label_columns"):
        texts[label] = f"{texts[label]}\n{text}" if label in texts else text
    without = sum(name not in texts for name in points.labels)
    if without == len(points.labels):
        raise BadInput(
            f"{file} has a text for none of the {without:,} labels; it names {next(iter(texts), 'nothing')!r}, "
            f"they are called such as {points.labels[0]!r}."
        )
    if without:
        output.log.warning("Labels without a text in %s: %s of %s.", file, f"{without:,}", f"{len(points.labels):,}")
    return words_of([texts.get(name, "") for name in points.labels])


def words_of(texts: list[str]) -> "CSR | None":
    """TF-IDF of the labels' texts or, where the labels are phrases, of these; None if no word is in two of them."""
    from broadmatch.features import text_label_features

    try:
        return text_label_features(texts)[0]
    except BadInput:
        output.log.warning("No word is in two of the %s label texts; labels go without features.", f"{len(texts):,}")
        return None
