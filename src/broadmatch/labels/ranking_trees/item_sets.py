"""Item sets: what the labels a point is known to have say about it, as features (SwiftXML §4)."""

from broadmatch.data import CSR, as_features, as_labels
from broadmatch.errors import BadInput
from broadmatch.kernels import F32, I32, I64
from broadmatch.labels.ranking_trees._item_sets import item_set_rows
from broadmatch.parallel import blocks, map_threads

_BLOCK = 1024


def item_sets(revealed: CSR, label_features: CSR, *, n_jobs: int | None = None) -> CSR:
    """Add up the features of each point's revealed labels: z_i = Σ_j y_ij x'_j, unit rows (SwiftXML §4).

    `revealed` is points × labels, `label_features` (x') is labels × item features. A row is empty where nothing is
    revealed, or where no revealed label has features.

    >>> revealed = CSR.from_rows([[0, 2], []], n_cols=3)
    >>> label_features = CSR.from_rows([[0], [1], [1]], n_cols=2)
    >>> item_sets(revealed, label_features).to_scipy().toarray().round(2)
    array([[0.71, 0.71],
           [0.  , 0.  ]], dtype=float32)
    """
    known, _ = as_labels(revealed)
    features = as_features(label_features)
    if known.n_cols != features.n_rows:
        raise BadInput(
            f"There are {known.n_cols:,} labels, but label features of {features.n_rows:,}; "
            "give one row of features for each label, an empty one where there are none."
        )

    def make(span: tuple[int, int]) -> tuple[I64, I32, F32]:
        start, stop = span
        return item_set_rows(start, stop, *known[:3], *features[:3])

    return CSR.of_blocks(map_threads(make, blocks(known.n_rows, _BLOCK), n_jobs), features.n_cols)
