"""Rows of word counts to rows of TF-IDF."""

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel


def tf_idf_rows(
    row_starts: I64, words: I32, counts: I32, columns: I32, in_order: I64, idf: F64, indptr: I64, indices: I32,
    data: F32,
) -> None:  # fmt: skip
    """x_w = count_w · idf_w, divided by the row's Euclidean norm.

    Word w goes to column columns[w], or is dropped if that is -1; `in_order` are the words by column. Each row's
    columns come out sorted, in time linear in the entries: they are dealt out by word, then word by word to the rows.
    `indices` and `data` have room for all entries; indptr[-1] says how many are used.
    """
    ends, squares = np.zeros(len(columns), np.int64), np.zeros(len(row_starts) - 1)
    rows, amounts = np.empty(len(words), np.int32), np.empty(len(words), np.int32)
    fill_rows(row_starts, words, counts, columns, in_order, idf, ends, squares, rows, amounts, indptr, indices, data)


@kernel
def fill_rows(
    row_starts: I64, words: I32, counts: I32, columns: I32, in_order: I64, idf: F64, ends: I64, squares: F64, rows: I32,
    amounts: I32, indptr: I64, indices: I32, data: F32,
) -> None:  # fmt: skip
    """Fill in the rows of `tf_idf_rows`; `ends` and `squares` hold zeros."""
    n_rows = len(row_starts) - 1
    for k in range(row_starts[0], row_starts[n_rows]):
        ends[words[k]] += 1
    total = 0
    for word in in_order:
        total += ends[word]
        ends[word] = total - ends[word]
    for row in range(n_rows):
        kept = 0
        for k in range(row_starts[row], row_starts[row + 1]):
            word = words[k]
            rows[ends[word]], amounts[ends[word]] = row, counts[k]
            ends[word] += 1
            if columns[word] >= 0:
                kept += 1
                squares[row] += (counts[k] * idf[columns[word]]) ** 2
        indptr[row + 1] = indptr[row] + kept
    k = 0
    for word in in_order:
        column = columns[word]
        if column < 0:
            k = ends[word]
            continue
        while k < ends[word]:
            row = rows[k]
            indices[indptr[row]] = column
            data[indptr[row]] = amounts[k] * idf[column] / np.sqrt(squares[row])
            indptr[row] += 1
            k += 1
    for row in range(n_rows, 0, -1):  # where a row ended is where the next one begins
        indptr[row] = indptr[row - 1]
    indptr[0] = 0
