"""A ranking: some of its points, the first of its labels, those that are marked, several of them stacked."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.data import Names, Ranking

N_LABELS = 7
scores = st.sampled_from([-1.0, 0.0, 0.5, 2.0])
rankings = st.lists(st.dictionaries(st.integers(0, N_LABELS - 1), scores), max_size=5).map(
    lambda rows: [sorted(row.items(), key=lambda pair: (-pair[1], pair[0])) for row in rows]
)


def made(rows):
    labels, values = ([pair[i] for row in rows for pair in row] for i in (0, 1))
    lengths = np.array([len(row) for row in rows], np.int64)
    return Ranking.of(lengths, np.array(labels, np.int32), np.array(values, np.float32), Names.numbers(N_LABELS))


def rows_of(ranking):
    return [list(zip(labels.tolist(), values.tolist(), strict=True)) for labels, values in ranking]


@given(rankings, st.data())
def test_parts_of_a_ranking(rows, data):
    ranking = made(rows)
    assert rows_of(ranking) == rows
    assert ranking.rows.tolist() == [i for i, row in enumerate(rows) for _ in row]
    sizes = [data.draw(st.integers(0, N_LABELS)) for _ in rows]
    assert rows_of(ranking.first(np.array(sizes, np.int64))) == [row[:n] for row, n in zip(rows, sizes, strict=True)]
    marked = np.array([[data.draw(st.booleans()) for _ in place] for place in ranking.labels], bool)
    kept = ranking.where(marked.reshape(ranking.labels.shape))
    assert rows_of(kept) == [
        [pair for pair, keep in zip(row, marks, strict=False) if keep] for row, marks in zip(rows, marked, strict=True)
    ]
    some = [data.draw(st.integers(0, len(rows) - 1)) for _ in range(3 if rows else 0)]
    assert rows_of(ranking.take(np.array(some, np.int64))) == [rows[i] for i in some]


@given(st.lists(rankings, max_size=3))
def test_rankings_one_after_the_other(several):
    stacked = Ranking.stack([made(rows) for rows in several], Names.numbers(N_LABELS))
    assert rows_of(stacked) == [row for rows in several for row in rows]
    assert stacked.shape == (sum(map(len, several)), N_LABELS)
    assert stacked.to_csr().nnz == sum(len(row) for rows in several for row in rows)  # scores of 0 too
