"""The click learners the slow, obvious way: dictionaries over keys, to be read beside the paper (KDD 2013, §3, §4, §6).

A row is a dictionary {key: x}; `y` is 0 or 1, `weight` the importance of the example, which multiplies its gradient.
`offset` is what a fixed model says in log-odds: it is a part of the score, and nothing is learned of it.
An example of weight 0 changes no sum, but the features of it are known and the time t goes on.
"""

import math
from collections import defaultdict

GRADIENTS, COUNTS, GLOBAL = "gradients", "counts", "global"


def sigma(a):
    """1 / (1 + e^−a)."""
    return 1 / (1 + math.exp(-a)) if a > -700 else 0.0


class Reference:
    """What the learners share: the loop of Algorithm 1 and the rates η = α / (β + √n), or with another power (§3.1)."""

    def __init__(self, alpha=0.1, beta=1.0, l1=0.0, l2=0.0, rates=GRADIENTS, power=0.5):
        self.alpha, self.beta, self.l1, self.l2, self.rates, self.power = alpha, beta, l1, l2, rates, power
        self.t = 0
        self.known = set()
        self.squares = defaultdict(float)  # Σ g² of each coordinate
        self.positive, self.negative = defaultdict(float), defaultdict(float)  # P and N, §4.5

    def n(self, i):
        """What the learning rate of coordinate i comes from, after what was seen so far."""
        if self.rates == GRADIENTS:
            return self.squares[i]
        if self.rates == GLOBAL:
            return float(self.t)
        P, N = self.positive[i], self.negative[i]
        return P * N / (N + P) if N + P > 0 else 0.0

    def root(self, n):
        """√n, or another power of it; with counts, β + √n is at least ½."""
        return max(n**self.power, 0.5 - self.beta) if self.rates == COUNTS else n**self.power

    def eta(self, i):
        """Equation 2."""
        return self.alpha / (self.beta + self.root(self.n(i)))

    def w(self, i):
        raise NotImplementedError

    def step(self, i, g, w, n_before):
        """Take the gradient g into account; n is up to date already."""
        raise NotImplementedError

    def pass_time(self, others, n_before):
        """What happens to the coordinates that the example does not have."""

    def predict(self, row, offset=0.0):
        return sigma(offset + sum(x * self.w(i) for i, x in row.items()))

    def learn(self, row, y, weight=1.0, offset=0.0):
        """One round of Algorithm 1; gives p before the update."""
        self.known |= set(row)
        touched = self.known if self.rates == GLOBAL else row  # a rate of its own does not change unseen
        w = {i: self.w(i) for i in touched}
        n_before = {i: self.n(i) for i in touched}
        p = sigma(offset + sum(x * w[i] for i, x in row.items()))
        self.t += 1
        if weight == 0:
            row = {}
        for i, x in row.items():
            self.squares[i] += ((p - y) * x * weight) ** 2
            (self.positive if y == 1 else self.negative)[i] += weight
        for i, x in row.items():
            self.step(i, (p - y) * x * weight, w[i], n_before[i])
        self.pass_time({i: w[i] for i in w if i not in row}, n_before)
        return p

    def uncertainty(self, row):
        """u(x) of §6, of the rates before the next example."""
        return sum(abs(x) * self.eta(i) for i, x in row.items())


class FTRL(Reference):
    """Algorithm 1. With one rate for all, σ_t is the same for all, also for those with g = 0: z ← z − σ w."""

    def __init__(self, **params):
        super().__init__(**params)
        self.z = defaultdict(float)

    def w(self, i):
        z, sign = self.z[i], math.copysign(1, self.z[i])
        if abs(z) <= self.l1:
            return 0.0
        n = self.n(i)
        return -1 / ((self.beta + self.root(n)) / self.alpha + self.l2) * (z - sign * self.l1)

    def step(self, i, g, w, n_before):
        sigma_i = (self.root(self.n(i)) - self.root(n_before)) / self.alpha
        self.z[i] += g - sigma_i * w

    def pass_time(self, others, n_before):
        for i, w in others.items():
            self.step(i, 0.0, w, n_before[i])


class RDA(Reference):
    """Dual averaging: w = argmin G·w + λ₁|w| + ½ λ₂ w² + w² / 2η over the sum G of all gradients."""

    def __init__(self, **params):
        super().__init__(**params)
        self.sum = defaultdict(float)

    def w(self, i):
        G = self.sum[i]
        pull = max(0.0, abs(G) - self.l1)
        return -math.copysign(pull, G) / (1 / self.eta(i) + self.l2) if pull else 0.0

    def step(self, i, g, w, n_before):
        self.sum[i] += g


class FOBOS(Reference):
    """A gradient step to v, then the minimum of ½ (u − v)² + η λ₁ |u| + ½ η λ₂ u², for the features of the example."""

    def __init__(self, **params):
        super().__init__(**params)
        self.weight = defaultdict(float)

    def w(self, i):
        return self.weight[i]

    def step(self, i, g, w, n_before):
        eta = self.eta(i)
        v = w - eta * g
        self.weight[i] = math.copysign(max(0.0, abs(v) - eta * self.l1) / (1 + eta * self.l2), v)


class OGD(Reference):
    """w ← w − η (g + λ₂ w); with k = `min_count` only from the sight on that passes k (OGD-Count, §3)."""

    def __init__(self, min_count=0, **params):
        super().__init__(**params)
        self.weight, self.seen, self.min_count = defaultdict(float), defaultdict(int), min_count

    def w(self, i):
        return self.weight[i]

    def step(self, i, g, w, n_before):
        self.seen[i] += 1
        if self.seen[i] <= self.min_count:
            self.squares[i] = 0.0  # nothing is kept of a feature but its count
            return
        self.weight[i] = w - self.eta(i) * (g + self.l2 * w)


class LaggingFTRL(FTRL):
    """The mistake of a public implementation: w is computed after z moved and kept, and only where |z| > λ₁."""

    def __init__(self, **params):
        super().__init__(**params)
        self.kept = defaultdict(float)

    def w(self, i):
        return self.kept[i]

    def step(self, i, g, w, n_before):
        if abs(self.z[i]) > self.l1:
            self.kept[i] = super().w(i)
        super().step(i, g, w, n_before)


def q213(w, chance):
    """Equation 3: 2⁻¹³ floor(2¹³ w + R), values outside [−4, 4) clipped; as the whole number that is stored."""
    return max(-(2**15), min(2**15 - 1, math.floor(2**13 * w + chance)))


def small_floats():
    """Every number that the 16 bits of a counter can stand for: eleven bits of a fraction, five of an exponent."""
    first = [f * 2.0**-12 for f in range(2048)]
    return first + [(1 + f / 2048) * 2.0 ** (e - 2) for e in range(1, 32) for f in range(2048)]


class RollingCounts:
    """The rolling Bloom filters without false positives: two dictionaries of counts up to 15.

    When `span` keys are new to the one that counts, the other is cleared and counts from then on.
    """

    def __init__(self, span):
        self.counting, self.older, self.span = {}, {}, span

    def sighted(self, key):
        """How often `key` was seen before, as far as that is remembered; counts it."""
        before, older = self.counting.get(key, 0), self.older.get(key, 0)
        self.counting[key] = min(15, before + 1)
        if before == 0 and len(self.counting) == self.span:
            self.counting, self.older = {}, self.counting
        return before + older
