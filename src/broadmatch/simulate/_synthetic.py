"""Rows of a synthetic data set: a topic tree draws each point's words and labels.

Topics are the nodes of a binary tree; node v of depth d covers the leaves [v·2^(D−d), (v+1)·2^(D−d)). All random
numbers are hashes of (seed, point, counter), so that a row does not depend on the rows made before it.
"""

import math

import numpy as np

from broadmatch.data.csr import CSR
from broadmatch.kernels import F32, F64, I32, I64, kernel
from broadmatch.kernels.hashing import mix
from broadmatch.kernels.random import STRIDE, unit

COMMON, NOISE = 0.35, 0.05
"""Shares of a page's words that are common words, and random words; the rest comes from its topics."""
LEAF_WORDS = 0.3
"""Share of the topical words that comes from the point's own leaf topic, the rest from any depth above it."""
WORDS_PER_TOPIC = 24
GENERAL_LABELS, NOISE_LABELS = 0.2, 0.03
"""Shares of a point's labels that belong to a wider topic, and to no topic of the point."""
PATIENCE = 20
"""Draws allowed for each distinct word or label wanted, before neighbours fill the row."""


@kernel
def key_of(parent: np.uint64, number: int) -> np.uint64:
    """Key of the `number`-th stream below a key: mix(parent + (number + 1)·golden), with `mix` of SplitMix64."""
    return mix(parent + np.uint64(number + 1) * STRIDE)


@kernel
def uniform(key: np.uint64, counter: int) -> float:
    """The `counter`-th number in [0, 1) of a stream: its upper 53 bits."""
    return unit(key + np.uint64(counter + 1) * STRIDE)


@kernel
def zipf_rank(u: float, n: int) -> int:
    """Rank in [0, n) with P(r) = ln((r+2)/(r+1)) / ln(n+1), about 1/r: floor((n+1)^u) − 1."""
    return min(int(math.exp(u * math.log(n + 1.0))) - 1, n - 1)


@kernel
def add_sorted(row: I32, counts: F32, length: int, value: int) -> int:
    """Count `value` in the sorted row, inserting it if it is new; gives the new length."""
    at = np.searchsorted(row[:length], value)
    if at < length and row[at] == value:
        counts[at] += 1
        return length
    for j in range(length, at, -1):
        row[j] = row[j - 1]
        counts[j] = counts[j - 1]
    row[at] = value
    counts[at] = 1
    return length + 1


@kernel
def draw_word(key: np.uint64, world: np.uint64, draw: int, leaf: int, depth: int, n_features: int) -> int:
    """One word of a point: common (Zipf over all words), noise (any word), or from a topic above the point's leaf.

    The j-th word of node v at depth d is the hash of (world, 2^d + v, j), j by Zipf's law.
    """
    kind, where, which = uniform(key, 3 * draw), uniform(key, 3 * draw + 1), uniform(key, 3 * draw + 2)
    if kind < COMMON:
        return zipf_rank(which, n_features)
    if kind < COMMON + NOISE:
        return int(which * n_features)
    level = depth if where < LEAF_WORDS else int((where - LEAF_WORDS) / (1 - LEAF_WORDS) * (depth + 1))
    node = (1 << level) + (leaf >> (depth - level))
    word = key_of(key_of(world, node), zipf_rank(which, WORDS_PER_TOPIC))
    return int(word % np.uint64(n_features))


@kernel
def draw_features(start: int, leaf_of: I64, depth: int, seed: int, X: CSR) -> None:
    """Fill the rows of the points from `start` on with distinct sorted words and how often each was drawn."""
    indptr, indices, counts, n_features = X
    world = key_of(np.uint64(seed), 0)
    points = key_of(np.uint64(seed), 1)
    for i in range(len(indptr) - 1):
        key, leaf = key_of(points, start + i), leaf_of[start + i]
        row, times = indices[indptr[i] : indptr[i + 1]], counts[indptr[i] : indptr[i + 1]]
        wanted, length, draw = len(row), 0, 0
        while length < wanted and draw < PATIENCE * wanted:
            word = draw_word(key, world, draw, leaf, depth, n_features)
            length = add_sorted(row, times, length, word)
            draw += 1
        word = int(uniform(key, 3 * draw) * n_features)
        while length < wanted:
            length = add_sorted(row, times, length, word)
            word = (word + 1) % n_features


@kernel
def draw_label(key: np.uint64, world: np.uint64, draw: int, leaf: int, depth: int, n_labels: int) -> int:
    """One label of a point: noise (any label), the head label of a wider topic, or by Zipf's law one of its leaf's.

    Leaf t of T owns the labels [t·L/T, (t+1)·L/T); the head label of an inner node is the first of a leaf under it,
    chosen by hash.
    """
    kind, where, which = uniform(key, 3 * draw), uniform(key, 3 * draw + 1), uniform(key, 3 * draw + 2)
    if kind < NOISE_LABELS:
        return int(which * n_labels)
    if kind < NOISE_LABELS + GENERAL_LABELS:
        level = int(where * (depth + 1))
        node = leaf >> (depth - level)
        below = int(key_of(world, (1 << level) + node) % np.uint64(1 << (depth - level)))
        return (((node << (depth - level)) + below) * n_labels) >> depth
    first, last = (leaf * n_labels) >> depth, ((leaf + 1) * n_labels) >> depth
    return first + zipf_rank(which, last - first)


@kernel
def draw_labels(start: int, leaf_of: I64, place: I64, size: I64, depth: int, seed: int, Y: CSR) -> None:
    """Fill the rows of the points from `start` on with distinct sorted labels.

    The point at `place` among the `size` points of its leaf first takes the leaf's labels place, place + size, …, so
    that every label gets a point; the rest of the row is drawn.
    """
    indptr, indices, counts, n_labels = Y
    world = key_of(np.uint64(seed), 2)
    points = key_of(np.uint64(seed), 3)
    for i in range(len(indptr) - 1):
        key, leaf = key_of(points, start + i), leaf_of[start + i]
        row, times = indices[indptr[i] : indptr[i + 1]], counts[indptr[i] : indptr[i + 1]]
        wanted, length, draw = len(row), 0, 0
        label = ((leaf * n_labels) >> depth) + place[start + i]
        while length < wanted and label < ((leaf + 1) * n_labels) >> depth:
            length = add_sorted(row, times, length, label)
            label += size[leaf]
        while length < wanted and draw < PATIENCE * wanted:
            label = draw_label(key, world, draw, leaf, depth, n_labels)
            length = add_sorted(row, times, length, label)
            draw += 1
        label = (leaf * n_labels) >> depth
        while length < wanted:
            length = add_sorted(row, times, length, label)
            label = (label + 1) % n_labels


@kernel
def count_columns(indices: I32, frequency: I64) -> None:
    """Add how often each column occurs to `frequency`."""
    for j in indices:
        frequency[j] += 1


@kernel
def weigh_rows(X: CSR, idf: F64) -> None:
    """Turn counts into unit rows of (1 + ln tf)·idf, in place."""
    indptr, indices, data = X.indptr, X.indices, X.data
    for i in range(len(indptr) - 1):
        total = 0.0
        for j in range(indptr[i], indptr[i + 1]):
            weight = (1.0 + math.log(data[j])) * idf[indices[j]]
            total += weight * weight
            data[j] = weight
        for j in range(indptr[i], indptr[i + 1]):
            data[j] /= math.sqrt(total)
