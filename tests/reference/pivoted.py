"""Pivoted TF-IDF, one page and one word at a time. Twin of kernels.pivoted."""

import math


def pivoted(counts, columns, idf, slope, mean_terms):
    """counts is pages by words; word w goes to columns[w] unless that is -1; rows as dictionaries of column to x."""
    rows = []
    for page in counts:
        amounts = {columns[w]: d for w, d in enumerate(page) if d and columns[w] >= 0}
        row = {}
        for column, d in amounts.items():
            mean = sum(amounts.values()) / len(amounts)
            tf = (1 + math.log(d)) / (1 + math.log(mean)) / (1.0 - slope + slope * len(amounts) / mean_terms)
            row[column] = tf * idf[column]
        rows.append({column: x for column, x in sorted(row.items()) if x})
    return rows
