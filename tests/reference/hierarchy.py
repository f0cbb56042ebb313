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

    `model` ranks, or with `meta` gives sets. `None` stands for the node above the roots.
    """

    def __init__(self, above, model, meta):
        self.above, self.model, self.meta, self.nodes = above, model, meta, {}

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
        elif self.meta is not None:
            chosen = list(zip(*(a.tolist() for a in model.predict_one(x)), strict=True))
        else:
            chosen = [(w, s) for w, s in enumerate(model.decision_function(x[None])[0].tolist()) if s > 0]
        if not chosen and node is not None:
            found[node] = max(score, found.get(node, score))
        for w, s in chosen:
            kind, to = ways[w]
            if kind == "go" and to in self.nodes:
                self._down(to, s, x, found)
            else:
                found[to] = max(s, found.get(to, s))
