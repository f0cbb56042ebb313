"""nPMI weights: equal to the reference, within [0, 1], and no page loses all its labels."""

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from broadmatch.data import CSR
from broadmatch.errors import BadInput
from broadmatch.harvest.npmi import LEAST, npmi
from tests.reference import npmi as reference

counts = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=8),
    elements=st.sampled_from([0, 0, 0, 1, 2, 7, 1e5]),
)


@settings(max_examples=200, deadline=None)
@given(counts)
def test_equals_the_reference(table: np.ndarray) -> None:
    found = npmi(CSR.from_scipy(sp.csr_matrix(table)))
    expected = reference.npmi(table.astype(np.float64), LEAST)
    assert np.allclose(found.to_scipy().toarray(), expected, atol=1e-6)
    assert (found.data > 0).all()
    assert (found.data <= 1).all()
    assert found.indices.dtype == np.int32
    assert found.indptr.dtype == np.int64
    assert np.array_equal(table.any(axis=1), np.diff(found.indptr) > 0)


def test_a_telling_query_outweighs_a_common_one() -> None:
    table = np.zeros((10, 11), np.float32)
    table[:, 10] = 5  # a query that leads everywhere
    table[np.arange(10), np.arange(10)] = 5
    weights = npmi(CSR.from_scipy(sp.csr_matrix(table))).to_scipy().toarray()
    assert (weights[np.arange(10), np.arange(10)] > 0.5).all()
    assert (weights[:, 10] == 0).all()


def test_a_page_at_chance_keeps_its_labels() -> None:
    # Two pages with the same counts: every pair is exactly as frequent as chance.
    weights = npmi(CSR.from_scipy(sp.csr_matrix(np.ones((2, 2), np.float32))))
    assert weights.nnz == 4
    assert np.allclose(weights.data, LEAST)


def test_the_only_pair_has_weight_one() -> None:
    assert npmi(CSR.from_rows([[0]], 1)).data.tolist() == [1.0]


def test_nothing_in_nothing_out() -> None:
    assert npmi(CSR.from_rows([[], []], 3)).shape == (2, 3)


def test_negative_counts_are_refused() -> None:
    table = CSR.from_rows([[0, 2]], 3)
    table.data[1] = -4
    with pytest.raises(BadInput, match="row 0, column 2"):
        npmi(table)
