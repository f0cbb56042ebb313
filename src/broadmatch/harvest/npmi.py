"""Normalised pointwise mutual information: label weights that tell a telling query from one that leads everywhere.

Prabhu et al., "Extreme multi-label learning with label features for warm-start tagging, ranking and recommendation"
(SwiftXML), WSDM 2018, §5.
"""

import logging

import numpy as np

from broadmatch.data import CSR, as_labels

log = logging.getLogger("broadmatch")

LEAST = 0.01
"""The weight of the labels of a page that has none above chance."""
# A pair exactly at chance differs from 0 by no more than this.
_ROUNDING = 1e-9


def npmi(counts: CSR) -> CSR:
    """Weigh the labels of pages by click counts c_ij: log(p(i)p(j)) / log p(i,j) − 1, clipped to [0, 1].

    p(i) = Σ_j c_ij / Σc, p(j) = Σ_i c_ij / Σc, p(i,j) = c_ij / Σc. A pair that is no more frequent than chance has
    weight 0, and its label is dropped. A page that would lose all its labels so keeps them, with the weight `LEAST`
    each, and the number of such pages is logged. A single pair that makes up the whole log has weight 1.

    >>> counts = CSR.from_rows([[0, 1], [0], [0, 2]], n_cols=3)
    >>> npmi(counts).to_scipy().toarray().round(2)
    array([[0.  , 0.57, 0.  ],
           [0.32, 0.  , 0.  ],
           [0.  , 0.  , 0.57]], dtype=float32)
    """
    clicks, _ = as_labels(counts)
    c = clicks.data.astype(np.float64)
    total = c.sum()
    rows = np.repeat(np.arange(clicks.n_rows), np.diff(clicks.indptr))
    of_page = np.bincount(rows, c, clicks.n_rows)[rows] / total
    of_label = np.bincount(clicks.indices, c, clicks.n_cols)[clicks.indices] / total
    joint = np.log(c / total)
    ratio = np.full(len(c), 2.0)
    np.divide(np.log(of_page) + np.log(of_label), joint, out=ratio, where=joint < 0)
    weights = np.clip(ratio - 1.0, 0.0, 1.0).astype(np.float32)
    weights[weights < _ROUNDING] = 0
    lost = (np.bincount(rows, weights, clicks.n_rows) == 0)[rows]
    if lost.any():
        weights[lost] = LEAST
        log.info("%d pages have only labels at chance level; these keep the weight %s.", len(set(rows[lost])), LEAST)
    return clicks._replace(data=weights).where(weights > 0)
