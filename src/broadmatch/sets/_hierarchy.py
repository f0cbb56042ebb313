"""Walking down a hierarchy of linear models, several ways at once.

An inner node has columns: one for each way on (a child, or the artificial leaf that says: stop here), then one for each
number of ways that may be right. A score is w·x + b of a column, and all weights stand in one matrix of features ×
columns, where the columns of a node are neighbours. L. Tang, S. Rajan and V. Narayanan, "Large scale multi-label
classification via MetaLabeler", WWW 2009, §5.2.
"""

import math
from typing import Annotated, NamedTuple

import numpy as np

from broadmatch.data import CSR
from broadmatch.kernels import F32, I32, I64, kernel
from broadmatch.layout import Axes, Index, Offsets, Within, require

STOP = -1
"""Where a way leads that ends here: its category is reported."""
_LOWEST = np.finfo(np.float32).min


class Nodes(NamedTuple):
    """The inner nodes, parents before children; node 0 stands above all roots."""

    first: Annotated[I64, Offsets("nodes", "columns")]  # node -> its first column
    ways: Annotated[I64, Axes("nodes"), Within(0)]  # how many of its columns are ways; others are numbers of ways
    category: Annotated[I32, Axes("nodes"), Index("categories", -1)]  # −1 for node 0
    meaning: Annotated[I32, Axes("columns"), Within(0)]  # column -> the category of a way, or the number
    leads: Annotated[I32, Axes("columns"), Index("nodes", -1)]  # column -> the node that a way leads to, or STOP
    bias: Annotated[F32, Axes("columns")]
    ptr: Annotated[I64, Offsets("features", "weights")]  # feature -> its weights
    column: Annotated[I32, Axes("weights"), Index("columns")]
    weight: Annotated[F32, Axes("weights")]
    score_weight: Annotated[float, Within(0)]  # 0: the numbers are classes, and the best one is taken
    bar: Annotated[float, Within()]  # what the weighed log-chance of a way has to be above
    slope: Annotated[float, Within(0)]  # of chances: a way that scores s is right with 1 / (1 + exp(−slope·s))

    def check_ways(self, n_categories: int) -> None:
        """Refuse ways that lead back, or to no category, and numbers that are not those of ways."""
        n_columns = np.diff(self.first)
        require(len(self.ways) > 0 and bool((self.ways <= n_columns).all()), "a node has more ways than columns")
        node = np.repeat(np.arange(len(self.ways)), n_columns)
        is_way = np.arange(len(node)) - self.first[node] < self.ways[node]
        require(bool(((self.leads < 0) | (self.leads > node))[is_way].all()), "a way leads back")
        require(self.meaning[is_way].max(initial=-1) < n_categories, "a way leads to no category")
        number, of = self.meaning[~is_way], node[~is_way]
        rises = (np.diff(number) > 0) | (np.diff(of) > 0)
        require(bool(rises.all() and (number <= self.ways[of]).all()), "a node's numbers are not those of its ways")
        CSR(self.ptr, self.column, self.weight, len(node))._check_whole()


@kernel
def node_scores(nodes: Nodes, node: int, index: I32, value: F32, scores: F32) -> int:
    """scores_j = b_j + Σ_f x_f·w_fj for the columns j of a node; how many there are."""
    start, stop = nodes.first[node], nodes.first[node + 1]
    scores[: stop - start] = nodes.bias[start:stop]
    for i in range(len(index)):
        x = value[i]
        e, last = nodes.ptr[index[i]], nodes.ptr[index[i] + 1]
        end = last
        while e < end:  # the first weight at `start` or after
            middle = (e + end) >> 1
            if nodes.column[middle] < start:
                e = middle + 1
            else:
                end = middle
        while e < last and nodes.column[e] < stop:
            scores[nodes.column[e] - start] += x * nodes.weight[e]
            e += 1
    return int(stop - start)


@kernel
def every_score(nodes: Nodes, x_ptr: I64, x_index: I32, x_value: F32) -> F32:
    """The scores of the columns of all nodes, rows × columns: for rows that are asked again and again."""
    scores = np.empty((len(x_ptr) - 1, len(nodes.bias)), np.float32)
    for i in range(len(scores)):
        scores[i] = nodes.bias
        for j in range(x_ptr[i], x_ptr[i + 1]):
            for e in range(nodes.ptr[x_index[j]], nodes.ptr[x_index[j] + 1]):
                scores[i, nodes.column[e]] += x_value[j] * nodes.weight[e]
    return scores


@kernel
def log_chance(x: float) -> float:
    """log(1 / (1 + exp(−x)))."""
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


@kernel
def n_ways(nodes: Nodes, node: int, scores: F32, ranked: I64) -> int:
    """How many of the best ways to go; `ranked` are the ways of the node, best first.

    p_r is the log-chance of the way at rank r. Without numbers, the ways whose p_r is above the bar. With numbers, the
    n that maximises c_n + Σ_{r≤n} (w·p_r − bar), where c_n is the score of "n ways" and w the score weight. If w is not
    0, n may be 0 below the roots, since a point may have been sent to the node in error.
    """
    start, ways = nodes.first[node], nodes.ways[node]
    n_columns = nodes.first[node + 1] - start
    if n_columns == ways:
        n = 0
        while n < ways and log_chance(nodes.slope * float(scores[ranked[n]])) > nodes.bar:
            n += 1
        return n
    best, best_z, z, before = 0, -np.inf, 0.0, 0
    if node > 0 and nodes.score_weight > 0:
        best_z = 0.0
    for j in range(ways, n_columns):
        number = nodes.meaning[start + j]
        for r in range(before, number):
            z += nodes.score_weight * log_chance(nodes.slope * float(scores[ranked[r]])) - nodes.bar
        if float(scores[j]) + z > best_z:
            best, best_z = number, float(scores[j]) + z
        before = number
    return best


@kernel
def walk_row(
    nodes: Nodes,
    index: I32,
    value: F32,
    known: F32,
    scores: F32,
    reached: F32,
    queue: I64,
    found: F32,
    out: I32,
) -> int:
    """The categories of one row in `out`, and how many; their scores, by category, in `found`.

    `known` are the scores of all columns, or nothing: then those of the nodes that are reached are made.

    A category is in the answer if a way to it was taken that ends there. If there is none, it is the best of
    those from which no way on was taken. A category is asked for by each of its parents that is reached, and its score
    is the highest of those by which it was taken. `reached` and `found` hold −∞ and are left so, but for the
    categories found. Nodes are numbered parents first, so the lowest one in the queue has been asked for by all.
    """
    n_out, n_queue = 0, 1
    queue[0], reached[0] = 0, np.inf
    end, end_score = -1, -np.inf
    while n_queue > 0:
        at = 0
        for i in range(1, n_queue):
            if queue[i] < queue[at]:
                at = i
        node = queue[at]
        n_queue -= 1
        queue[at] = queue[n_queue]
        own, reached[node] = reached[node], -np.inf
        start, ways = nodes.first[node], nodes.ways[node]
        if len(known):
            scores[: nodes.first[node + 1] - start] = known[start : nodes.first[node + 1]]
        else:
            node_scores(nodes, node, index, value, scores)
        ranked = np.argsort(-scores[:ways], kind="mergesort")  # equal scores stay in the order of the ways
        n = n_ways(nodes, node, scores, ranked)
        if n == 0 and nodes.category[node] >= 0 and own > end_score:
            end, end_score = nodes.category[node], own
        for r in range(n):
            j = start + ranked[r]
            score, to = scores[ranked[r]], nodes.leads[j]
            if to == STOP:
                n_out = report(nodes.meaning[j], score, found, out, n_out)
                continue
            if reached[to] == -np.inf:
                queue[n_queue] = to
                n_queue += 1
                reached[to] = _LOWEST  # so that it comes once, whatever the score
            reached[to] = max(reached[to], score)
    return report(end, end_score, found, out, 0) if n_out == 0 and end >= 0 else n_out


@kernel
def report(category: int, score: float, found: F32, out: I32, n: int) -> int:
    """Take a category into the answer, once."""
    if found[category] == -np.inf:
        out[n] = category
        n += 1
        found[category] = _LOWEST
    found[category] = max(found[category], score)
    return n


@kernel
def walk_rows(
    start: int, stop: int, x_ptr: I64, x_index: I32, x_value: F32, known: F32, nodes: Nodes, n_categories: int
) -> tuple[I64, I32, F32]:
    """How many categories each of the rows start to stop has, which (ascending), and their scores.

    `known` are `every_score` of all rows, or 0 wide.
    """
    widest = 1
    for node in range(len(nodes.ways)):
        widest = max(widest, nodes.first[node + 1] - nodes.first[node])
    scores = np.empty(widest, np.float32)
    reached, queue = np.full(len(nodes.ways), np.float32(-np.inf)), np.empty(len(nodes.ways), np.int64)
    found, out = np.full(n_categories, np.float32(-np.inf)), np.empty(n_categories, np.int32)
    lengths, n = np.empty(stop - start, np.int64), 0
    categories, values = np.empty(1024, np.int32), np.empty(1024, np.float32)
    for i in range(start, stop):
        here = slice(x_ptr[i], x_ptr[i + 1])
        new = walk_row(nodes, x_index[here], x_value[here], known[i], scores, reached, queue, found, out)
        out[:new].sort()
        if n + new > len(categories):
            size = 2 * (n + new)
            longer, more = np.empty(size, np.int32), np.empty(size, np.float32)
            longer[:n], more[:n] = categories[:n], values[:n]
            categories, values = longer, more
        for j in range(new):
            categories[n], values[n] = out[j], found[out[j]]
            found[out[j]] = -np.inf
            n += 1
        lengths[i - start] = new
    return lengths, categories[:n].copy(), values[:n].copy()
