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
    """Training and prediction of MetaLabeler §5.2, with models of its own for each inner node, as Python objects.

    `model` ranks, and ways whose log-chance is above `bar` are followed, or with a `counter` the number that maximises
    c_n + Σ_{r≤n} (weight·p_r − bar). With weight 0 it is the paper; otherwise ways learn from all points. `None` stands
    for the node above the roots.
    """

    def __init__(self, above, model, counter=None, weight=0.0, bar=0.0, most=None):
        self.above, self.model, self.counter, self.nodes = above, model, counter, {}
        self.weight, self.bar, self.most = weight, bar, most

    def fit(self, X, sets):
        """X is dense; sets are Python sets of categories."""
        whole = [with_ancestors(self.above, categories) for categories in sets]
        everybody = range(len(sets))

        def goes(i, way):
            return way[1] in whole[i] if way[0] == "go" else way[1] in sets[i]

        inside, ways = {}, {}
        for node in (None, *range(len(self.above))):
            here = [i for i in everybody if node is None or node in whole[i]]
            roots = [c for c in range(len(self.above)) if not self.above[c]]
            known = [("go", c) for c in (roots if node is None else children(self.above, node))] + [("stop", node)]
            known = [way for way in known if any(goes(i, way) for i in here)]
            if any(kind == "go" for kind, _ in known):
                inside[node], ways[node] = here, known
        if self.counter is None or self.weight:
            every = sorted({way for known in ways.values() for way in known})
            of_all = clone(self.model).fit(X, [[float(goes(i, way)) for way in every] for i in everybody])
        for node, here in inside.items():
            gone = [[float(goes(i, way)) for way in ways[node]] for i in here]
            if all(all(went) for went in gone):
                rank = same([1.0] * len(ways[node]))  # nothing to tell apart
            elif self.counter is None or self.weight:
                rank = scorer(of_all, [every.index(way) for way in ways[node]])
            else:
                rank = scorer(clone(self.model).fit(X[here], gone), range(len(ways[node])))
            n = [min(int(sum(went)), self.most or len(went)) for went in gone]
            numbers = sorted(set(n))
            said = same([0.0])
            if self.counter is not None and len(numbers) > 1:
                asked = [[float(m == number) for number in numbers] for m in n]
                said = scorer(clone(self.counter).fit(X[here], asked), range(len(numbers)))
            self.nodes[node] = ways[node], rank, said, numbers
        return self

    def predict_one(self, x):
        """{category: score} of a dense row; where no way ends in a category, the likeliest of those that go nowhere."""
        found, ends = {}, []
        reached = {None: float("inf")}
        for node in sorted(self.nodes, key=lambda node: 0 if node is None else depth(self.above, node)):
            if node not in reached:
                continue
            ways, *models = self.nodes[node]
            score = reached[node]
            chosen = self._chosen(node, ways, *models, x)
            if not chosen and node is not None:
                ends.append((score, node))
            for w, s in chosen:
                kind, to = ways[w]
                if kind == "go" and to in self.nodes:
                    reached[to] = max(s, reached.get(to, s))
                else:
                    found[to] = max(s, found.get(to, s))
        if not found and ends:
            score, node = max(ends, key=lambda end: end[0])
            found[node] = score
        return found

    def _chosen(self, node, ways, rank, said, numbers, x):
        """The ways that are followed, and their scores."""
        scores = rank(x)
        ranked = sorted(range(len(ways)), key=lambda w: (-scores[w], w))
        p = [log_chance(4 * scores[w]) for w in ranked]
        if self.counter is None:
            return [(w, scores[w]) for w, one in zip(ranked, p, strict=True) if one > self.bar]
        c = said(x)

        def z(k):
            return c[k] + sum(self.weight * one - self.bar for one in p[: numbers[k]])

        best = max(range(len(numbers)), key=lambda k: (z(k), -k))
        nowhere = self.weight > 0 and node is not None and z(best) <= 0
        return [] if nowhere else [(w, scores[w]) for w in ranked[: numbers[best]]]


def same(scores):
    """What gives every row these scores."""
    return lambda x: scores


def scorer(model, columns):
    """Some of the scores that a model gives to a row."""
    return lambda x: [float(model.decision_function(x[None])[0, j]) for j in columns]


def walk(nodes, x):
    """{category: score} by the arrays of `broadmatch.sets._hierarchy.Nodes`, breadth first; x is {feature: value}."""
    found, reached, ends = {}, {0: None}, []
    for node in range(len(nodes.ways)):
        if node not in reached:
            continue
        columns = list(range(nodes.first[node], nodes.first[node + 1]))
        scores = {j: float(nodes.bias[j]) + sum(v * weight(nodes, f, j) for f, v in x.items()) for j in columns}
        ways, numbers = columns[: nodes.ways[node]], columns[nodes.ways[node] :]
        ranked = sorted(ways, key=lambda j: (-scores[j], j))
        path = {j: log_chance(nodes.slope * scores[j]) for j in ranked}
        chosen = ranked[: how_many(nodes, node, scores, path, ranked, numbers)]
        if not chosen and node:
            ends.append((reached[node], -node, int(nodes.category[node])))
        for j in chosen:
            if nodes.leads[j] < 0:
                report(found, int(nodes.meaning[j]), scores[j])
            else:
                report(reached, int(nodes.leads[j]), scores[j])
    if not found and ends:
        score, _, category = max(ends)
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
