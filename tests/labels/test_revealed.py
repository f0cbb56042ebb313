"""Labels that a point is known to have are never recommended again, by any label model."""

import logging

import numpy as np
import pytest
import scipy.sparse as sp

from broadmatch.data import CSR, reveal
from broadmatch.errors import BadInput
from tests.contract import N_LABELS, every_label_model, fitted, points, small


def pairs(row):
    return dict(zip(row.indices.tolist(), row.data.tolist(), strict=True))


@every_label_model
def test_revealed_labels_never_come_back_and_take_no_place(cls):
    X, Y = points()
    model = fitted(cls)
    for share in (0.3, 0.7, 1.0):
        known, _ = reveal(CSR.from_scipy(Y), share)
        found = model.predict_topk(X, k=3, revealed=known).to_csr()
        assert found.multiply(known.to_scipy()).nnz == 0
        everything = model.predict_topk(X, k=N_LABELS, revealed=known).to_csr()
        assert everything.multiply(known.to_scipy()).nnz == 0
        for i in range(0, 300, 7):
            best = sorted(pairs(everything[i]).items(), key=lambda pair: (-pair[1], pair[0]))[:3]
            assert pairs(found[i]) == dict(best)


@every_label_model
def test_a_batch_equals_one_row_at_a_time(cls):
    X, Y = points()
    model = fitted(cls)
    known, _ = reveal(CSR.from_scipy(Y), 0.5)
    found = model.predict_topk(X, k=3, revealed=known).to_csr()
    for i in range(0, 300, 7):
        for revealed in (known.row(i)[0], known.row(i)[0].tolist()[::-1], known.to_scipy()[i]):
            labels, scores = model.predict_one(X[i], k=3, revealed=revealed)
            assert dict(zip(labels.tolist(), scores.tolist(), strict=True)) == pairs(found[i])


@every_label_model
def test_nothing_revealed_is_a_cold_start(cls):
    X, Y = points()
    model = fitted(cls)
    cold = model.predict_topk(X, k=4).to_csr()
    nothing = sp.csr_matrix(Y.shape, dtype=np.float32)
    for revealed in (None, nothing, nothing.toarray(), CSR.from_scipy(nothing), [[] for _ in range(300)]):
        warm = model.predict_topk(X, k=4, revealed=revealed).to_csr()
        assert (warm.indices.tolist(), warm.data.tolist()) == (cold.indices.tolist(), cold.data.tolist())
    for revealed in (None, [], (), nothing[0], np.array([], np.int64)):
        for one, other in zip(model.predict_one(X[3], revealed=revealed), model.predict_one(X[3]), strict=True):
            assert one.tolist() == other.tolist()


@every_label_model
def test_rows_without_revealed_labels_are_cold_among_warm_ones(cls):
    X, Y = points()
    model = fitted(cls)
    known = Y.copy().tolil()
    known[::2] = 0
    warm, cold = model.predict_topk(X, k=4, revealed=sp.csr_matrix(known)).to_csr(), model.predict_topk(X, k=4).to_csr()
    for i in range(0, 300, 14):
        assert pairs(warm[i]) == pairs(cold[i])


@every_label_model
def test_everything_revealed_leaves_nothing_to_recommend(cls):
    X, Y = points()
    model = fitted(cls)
    found = model.predict_topk(X, k=4, revealed=np.ones(Y.shape)).to_csr()
    assert (found.nnz, found.shape) == (0, Y.shape)
    labels, scores = model.predict_one(X[0], revealed=range(N_LABELS))
    assert (len(labels), len(scores)) == (0, 0)


@every_label_model
def test_labels_by_name_and_names_nobody_knows(cls, caplog):
    X, Y = points()
    names = [f"phrase {j}" for j in range(N_LABELS)]
    model = small(cls).fit(X, Y, label_names=names)
    known, _ = reveal(CSR.from_scipy(Y), 0.5)
    rows = [[names[j] for j in known.row(i)[0]] for i in range(300)]
    by_number, by_name = (model.predict_topk(X, k=3, revealed=revealed).to_csr() for revealed in (known, rows))
    assert (by_number != by_name).nnz == 0
    with caplog.at_level(logging.WARNING, "broadmatch"):
        assert not caplog.records
        strange = [[*row, "nobody knows"] for row in rows]
        assert (model.predict_topk(X, k=3, revealed=strange).to_csr() != by_number).nnz == 0
        assert "unknown to the model" in caplog.text
        caplog.clear()
        labels, _ = model.predict_one(X[0], k=3, revealed=[*rows[0], "nobody knows"])
        assert "1 of" in caplog.text
        assert "unknown to the model" in caplog.text
    assert sorted(labels.tolist()) == by_number[0].indices.tolist()


@every_label_model
def test_revealed_labels_that_do_not_fit_are_refused(cls):
    X, Y = points()
    model = fitted(cls)
    with pytest.raises(BadInput, match="revealed has 10 labels, but the model knows 9"):
        model.predict_topk(X, revealed=np.ones((300, 10))).to_csr()
    with pytest.raises(BadInput, match="300 rows and revealed has 299"):
        model.predict_topk(X, revealed=Y[:299]).to_csr()
    with pytest.raises(BadInput, match="300 rows and revealed has 1;"):
        model.predict_topk(X, revealed=[["0"]]).to_csr()
    with pytest.raises(BadInput, match="negative"):
        model.predict_topk(X, revealed=-Y).to_csr()
    with pytest.raises(BadInput, match="not a finite number"):
        model.predict_topk(X, revealed=np.full(Y.shape, np.nan)).to_csr()
    for wrong in (-1, N_LABELS, 0.5):
        with pytest.raises(BadInput, match="There is no label"):
            model.predict_one(X[0], revealed=[wrong])
    for wrong in ("taxi", "0", 3):  # a text would be read letter by letter
        with pytest.raises(BadInput, match=rf"must be a list of labels: give \[{wrong!r}\]"):
            model.predict_one(X[0], revealed=wrong)
    with pytest.raises(BadInput, match="labels, but the model knows 9"):
        model.predict_one(X[0], revealed=sp.csr_matrix((1, 4), dtype=np.float32))
