"""The race for FTRL's learning rates the slow, obvious way: every candidate is a learner of its own, from start to end.

`heats` says how many stay when that many rows are learned. What was lost before the last cut counts a quarter.
"""

import math


def loss(p, clicked, weight):
    """Log loss of one row."""
    return -weight * math.log(max(p if clicked else 1 - p, 1e-15))


def race(rows, learners, penalties, heats):
    """What the leader predicted before each row, the candidates that are left, and the one that leads them.

    `rows` are (features, clicked, weight); `learners` have `learn(features, clicked, weight)`, which gives the
    probability before it; `penalties` say who leads as long as nothing is known.
    """
    standing = dict(enumerate(penalties))
    said = []
    for n, (features, clicked, weight) in enumerate(rows, 1):
        leader = min(standing, key=lambda k: (standing[k], k))
        p = {k: learner.learn(features, clicked, weight) for k, learner in enumerate(learners)}
        said.append(p[leader])
        if weight:
            for k in standing:
                standing[k] += loss(p[k], clicked, weight)
        if n in heats and len(standing) > 1:
            best = sorted(standing, key=lambda k: (standing[k], k))[: heats[n]]
            standing = {k: standing[k] / (4 if len(best) > 1 else 1) for k in sorted(best)}
    return said, list(standing), min(standing, key=lambda k: (standing[k], k))
