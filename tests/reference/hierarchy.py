"""Hierarchies the slow, obvious way. `above` is a list of the parents of each category, by number."""

import math

from sklearn.base import clone


def children(above, i):
    return [j for j in range(len(above)) if i in above[j]]


def depth(above, i):
    """MetaLabeler §5 has a tree; in a DAG, the longest way down."""
    return 1 + max((depth(above, parent) for parent in above[i]), default=0)


def with_ancestors(above, categories):
    found = set(categories)
    for category in categories:
        found |= with_ancestors(above, above[category])
    return found


class Recursion:
    """Training and prediction of MetaLabeler §5.2, with a model of its own for each inner node, as Python objects.

    `model` ranks, and ways above `bar` are followed, or with `meta` gives sets. `None` stands for the node above the
    roots.
    """

    def __init__(self, above, model, meta, bar=0.0):
        self.above, self.model, self.meta, self.bar, self.nodes = above, model, meta, bar, {}

    def fit(self, X, sets):
        """X is dense; sets are Python sets of categories."""
        whole = [with_ancestors(self.above, categories) for categories in sets]
        for node in (None, *range(len(self.above))):
            inside = [i for i in range(len(sets)) if node is None or node in whole[i]]
            roots = [c for c in range(len(self.above)) if not self.above[c]]
            ways = [("go", c) for c in (roots if node is None else children(self.above, node))]
            ways.append(("stop", node))
            gone = [{w for w in ways if (w[1] in whole[i] if w[0] == "go" else node in sets[i])} for i in inside]
            ways = [w for w in ways if any(w in went for went in gone)]
            if any(kind == "go" for kind, _ in ways):
                self.nodes[node] = (
                    ways,
                    self._learn(X[inside], [[ways.index(w) for w in went] for went in gone], ways),
                )
        return self

    def _learn(self, X, gone, ways):
        Y = [[float(w in went) for w in range(len(ways))] for went in gone]
        if all(len(went) == len(ways) for went in gone):
            return None  # everybody goes every way
        model = clone(self.meta if self.meta is not None else self.model)
        return model.fit(X, Y)

    def predict_one(self, x):
        """{category: score} of a dense row; where no way ends in a category, the likeliest of those that go nowhere."""
        found, ends = {}, []
        reached = {None: (float("inf"), 0.0)}
        for node in sorted(self.nodes, key=lambda node: 0 if node is None else depth(self.above, node)):
            if node not in reached:
                continue
            ways, model = self.nodes[node]
            score, path = reached[node]
            chosen = self._chosen(node, ways, model, x, path)
            if not chosen and node is not None:
                ends.append((path, node, score))
            for w, s in chosen:
                kind, to = ways[w]
                if kind == "go" and to in self.nodes:
                    known, before = reached.get(to, (s, -float("inf")))
                    reached[to] = max(s, known), max(before, path + log_chance(4 * s))
                else:
                    found[to] = max(s, found.get(to, s))
        if not found and ends:
            _, node, score = max(ends, key=lambda end: end[0])
            found[node] = score
        return found

    def _chosen(self, node, ways, model, x, path):
        """The ways that are followed, and their scores."""
        if model is None:  # everybody goes every way, with a score of 1
            scores, said, sizes = [1.0] * len(ways), [0.0], [len(ways)]
        elif self.meta is None:
            scores, said, sizes = model.decision_function(x[None])[0].tolist(), [], []
        else:
            scores, said = (m.decision_function(x[None])[0].tolist() for m in (model.model_, model.counter_))
            sizes = model.numbers_.tolist()
        ranked = sorted(range(len(ways)), key=lambda w: (-scores[w], w))
        p = [path + log_chance(4 * scores[w]) for w in ranked]
        if self.meta is None:
            return [(w, scores[w]) for w, one in zip(ranked, p, strict=True) if one > self.bar]
        weight, bar = self.meta.score_weight, self.meta.bar or 0.0

        def z(k):
            return said[k] + sum(weight * one - bar for one in p[: sizes[k]])

        best = max(range(len(sizes)), key=lambda k: (z(k), -k))
        nowhere = weight > 0 and node is not None and z(best) <= 0
        return [] if nowhere else [(w, scores[w]) for w in ranked[: sizes[best]]]


def walk(nodes, x):
    """{category: score} by the arrays of `broadmatch.sets._hierarchy.Nodes`, breadth first; x is {feature: value}."""
    found, reached, paths, ends = {}, {0: None}, {0: 0.0}, []
    for node in range(len(nodes.ways)):
        if node not in reached:
            continue
        columns = list(range(nodes.first[node], nodes.first[node + 1]))
        scores = {j: float(nodes.bias[j]) + sum(v * weight(nodes, f, j) for f, v in x.items()) for j in columns}
        ways, numbers = columns[: nodes.ways[node]], columns[nodes.ways[node] :]
        ranked = sorted(ways, key=lambda j: (-scores[j], j))
        path = {j: paths[node] + log_chance(nodes.slope * scores[j]) for j in ranked}
        chosen = ranked[: how_many(nodes, node, scores, path, ranked, numbers)]
        if not chosen and node:
            ends.append((paths[node], -node, int(nodes.category[node]), reached[node]))
        for j in chosen:
            if nodes.leads[j] < 0:
                report(found, int(nodes.meaning[j]), scores[j])
            else:
                report(reached, int(nodes.leads[j]), scores[j])
                report(paths, int(nodes.leads[j]), path[j])
    if not found and ends:
        _, _, category, score = max(ends)
        report(found, category, score)
    return found


def log_chance(x):
    return -math.log1p(math.exp(-x)) if x > 0 else x - math.log1p(math.exp(x))


def weight(nodes, feature, column):
    entries = range(nodes.ptr[feature], nodes.ptr[feature + 1])
    return sum(float(nodes.weight[e]) for e in entries if nodes.column[e] == column)


def how_many(nodes, node, scores, path, ranked, numbers):
    if not numbers:
        return sum(path[j] > nodes.bar for j in ranked)
    sizes = [int(nodes.meaning[j]) for j in numbers]

    def z(k):
        """The score of the number, and w·p_r − bar of all its ranks."""
        return scores[numbers[k]] + sum(nodes.score_weight * path[j] - nodes.bar for j in ranked[: sizes[k]])

    best = max(range(len(numbers)), key=lambda k: (z(k), -k))
    return sizes[best] if node == 0 or nodes.score_weight == 0 or z(best) > 0 else 0


def report(found, key, score):
    found[key] = max(score, found.get(key, score))
