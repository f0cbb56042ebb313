"""Rows of word counts to rows of TF-IDF with pivoted length normalisation."""

import numpy as np

from broadmatch.kernels import F32, F64, I32, I64, kernel


@kernel
def pivoted_rows(
    row_starts: I64, words: I32, counts: I32, columns: I32, idf: F64, slope: float, mean_terms: float, indptr: I64,
    indices: I32, data: F32,
) -> None:  # fmt: skip
    """x_w = idf_w (1 + ln d_w) / (1 + ln mean_w d_w) / (1 - slope + slope · n / mean_terms), n terms in the row.

    Word w goes to column columns[w], or is dropped if that is -1. Each row's columns come out sorted; zeros are left
    out. `indices` and `data` have room for all entries; indptr[-1] says how many are used.
    """
    used = 0
    for row in range(len(row_starts) - 1):
        start, stop = row_starts[row], row_starts[row + 1]
        terms, amounts = np.empty(stop - start, np.int32), np.empty(stop - start, np.float64)
        n, total = 0, 0.0
        for k in range(start, stop):
            if columns[words[k]] >= 0:
                terms[n], amounts[n] = columns[words[k]], counts[k]
                total += counts[k]
                n += 1
        if n > 0:
            scale = (1.0 + np.log(total / n)) * (1.0 - slope + slope * n / mean_terms)
            for at in np.argsort(terms[:n]):
                value = np.float32(idf[terms[at]] * (1.0 + np.log(amounts[at])) / scale)
                if value != 0:
                    indices[used], data[used] = terms[at], value
                    used += 1
        indptr[row + 1] = used
