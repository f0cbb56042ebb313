"""`--label-features`: what labels are like, from a matrix, from texts, or from the phrases that they are."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from broadmatch.cli import talk
from broadmatch.cli.pairs import LABEL_TEXTS, read_pairs
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.data import CSR, Dataset


def given_features(file: Path, columns: Mapping[str, str] | None, points: "Dataset", n_jobs: int | None) -> "CSR":
    """A .npz of labels × features as it is; otherwise the words of the labels' texts beside the training data's."""
    from broadmatch.data import as_features
    from broadmatch.data.npz import read_matrix

    if file.suffix == ".npz":
        features = as_features(read_matrix(file))
        if features.n_rows != points.Y.n_cols:
            raise BadInput(
                f"{file} has {features.n_rows:,} rows, but there are {points.Y.n_cols:,} labels; "
                "give one row for each label, an empty one where there are no features."
            )
        return features
    texts: dict[str, str] = {}
    for label, text in read_pairs(file, LABEL_TEXTS, columns):
        texts[label] = f"{texts[label]}\n{text}" if label in texts else text
    without = sum(name not in texts for name in points.labels)
    if without == len(points.labels):
        raise BadInput(
            f"{file} has a text for none of the {without:,} labels; it names {next(iter(texts), 'nothing')!r}, "
            f"they are called such as {points.labels[0]!r}."
        )
    if without:
        talk.log.warning("Labels without a text in %s: %s of %s.", file, f"{without:,}", f"{len(points.labels):,}")
    return _beside_training([texts.get(name, "") for name in points.labels], points, n_jobs)


def phrase_features(points: "Dataset", n_jobs: int | None) -> "CSR":
    """The words of the phrases that the labels are, beside what the training data say of them."""
    return _beside_training(list(points.labels), points, n_jobs)


def _beside_training(texts: list[str], points: "Dataset", n_jobs: int | None) -> "CSR":
    from broadmatch.features import beside, text_label_features, training_label_features

    from_data = training_label_features(points.X, points.Y, n_jobs=n_jobs)
    try:
        words, _ = text_label_features(texts)
    except BadInput as error:  # no word is in two of them
        talk.log.warning("%s Features from the training data alone are used.", error)
        return from_data
    return beside(words, from_data)
