"""Hierarchies the slow, obvious way. `above` is a list of the parents of each category, by number."""

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
        """{category: score} of a dense row."""
        found = {}
        self._down(None, float("inf"), x, found)
        return found

    def _down(self, node, score, x, found):
        ways, model = self.nodes[node]
        if model is None:
            chosen = [(w, 1.0) for w in range(len(ways))]
        elif self.meta is not None and self.meta.score_weight != 0 and node is not None:
            chosen = weighted_or_none(model, x)
        elif self.meta is not None:
            chosen = list(zip(*(a.tolist() for a in model.predict_one(x)), strict=True))
        else:
            chosen = [(w, s) for w, s in enumerate(model.decision_function(x[None])[0].tolist()) if s > self.bar]
        if not chosen and node is not None:
            found[node] = max(score, found.get(node, score))
        for w, s in chosen:
            kind, to = ways[w]
            if kind == "go" and to in self.nodes:
                self._down(to, s, x, found)
            else:
                found[to] = max(s, found.get(to, s))


def weighted_or_none(meta, x):
    """The ways of a MetaLabeler with a score weight, and none where no number has anything above 0 to say for it."""
    scores, said = (m.decision_function(x[None])[0].tolist() for m in (meta.model_, meta.counter_))
    ranked = sorted(range(len(scores)), key=lambda w: (-scores[w], w))
    sizes = meta.numbers_.tolist()

    def z(k):
        return said[k] + sum(meta.score_weight * scores[w] - meta.bar for w in ranked[: sizes[k]])

    best = max(range(len(sizes)), key=lambda k: (z(k), -k))
    return [(w, scores[w]) for w in ranked[: sizes[best]]] if z(best) > 0 else []


def walk(nodes, x):
    """{category: score} by the arrays of `broadmatch.sets._hierarchy.Nodes`, breadth first; x is {feature: value}."""
    found, reached = {}, {0: None}
    for node in range(len(nodes.ways)):
        if node not in reached:
            continue
        columns = list(range(nodes.first[node], nodes.first[node + 1]))
        scores = {j: float(nodes.bias[j]) + sum(v * weight(nodes, f, j) for f, v in x.items()) for j in columns}
        ways, numbers = columns[: nodes.ways[node]], columns[nodes.ways[node] :]
        ranked = sorted(ways, key=lambda j: (-scores[j], j))
        chosen = ranked[: how_many(nodes, node, scores, ranked, numbers)]
        if not chosen and node:
            report(found, int(nodes.category[node]), reached[node])
        for j in chosen:
            if nodes.leads[j] < 0:
                report(found, int(nodes.meaning[j]), scores[j])
            else:
                report(reached, int(nodes.leads[j]), scores[j])
    return found


def weight(nodes, feature, column):
    entries = range(nodes.ptr[feature], nodes.ptr[feature + 1])
    return sum(float(nodes.weight[e]) for e in entries if nodes.column[e] == column)


def how_many(nodes, node, scores, ranked, numbers):
    if not numbers:
        return sum(scores[j] > nodes.bar for j in ranked)
    sizes = [int(nodes.meaning[j]) for j in numbers]

    def z(k):
        """The score of the number, and w·s_r − bar of all its ranks."""
        return scores[numbers[k]] + sum(nodes.score_weight * scores[j] - nodes.bar for j in ranked[: sizes[k]])

    best = max(range(len(numbers)), key=lambda k: (z(k), -k))
    return sizes[best] if node == 0 or nodes.score_weight == 0 or z(best) > 0 else 0


def report(found, key, score):
    found[key] = max(score, found.get(key, score))
