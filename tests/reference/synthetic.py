"""The synthetic rows again, in plain Python: whole numbers without overflow, dictionaries for counts."""

import math

GOLDEN = 0x9E3779B97F4A7C15
ALL = 2**64 - 1


def mix(x: int) -> int:
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & ALL
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & ALL
    return x ^ (x >> 31)


def key_of(parent: int, number: int) -> int:
    return mix((parent + (number + 1) * GOLDEN) & ALL)


def uniform(key: int, counter: int) -> float:
    return (key_of(key, counter) >> 11) / 2**53


def zipf_rank(u: float, n: int) -> int:
    return min(math.floor(math.exp(u * math.log(n + 1.0))) - 1, n - 1)


def word(key: int, world: int, draw: int, leaf: int, depth: int, n_features: int) -> int:
    kind, where, which = (uniform(key, 3 * draw + j) for j in range(3))
    if kind < 0.35:
        return zipf_rank(which, n_features)
    if kind < 0.35 + 0.05:
        return math.floor(which * n_features)
    level = depth if where < 0.3 else math.floor((where - 0.3) / (1 - 0.3) * (depth + 1))
    node = 2**level + leaf // 2 ** (depth - level)
    return key_of(key_of(world, node), zipf_rank(which, 24)) % n_features


def label(key: int, world: int, draw: int, leaf: int, depth: int, n_labels: int) -> int:
    kind, where, which = (uniform(key, 3 * draw + j) for j in range(3))
    if kind < 0.03:
        return math.floor(which * n_labels)
    if kind < 0.03 + 0.2:
        level = math.floor(where * (depth + 1))
        leaves = 2 ** (depth - level)
        node = leaf // leaves
        below = key_of(world, 2**level + node) % leaves
        return (node * leaves + below) * n_labels // 2**depth
    first, last = leaf * n_labels // 2**depth, (leaf + 1) * n_labels // 2**depth
    return first + zipf_rank(which, last - first)


def features_of_point(i: int, wanted: int, leaf: int, depth: int, n_features: int, seed: int) -> dict[int, int]:
    """Each word of point i with its count."""
    world, key = key_of(seed, 0), key_of(key_of(seed, 1), i)
    times: dict[int, int] = {}
    draw = 0
    while len(times) < wanted and draw < 20 * wanted:
        w = word(key, world, draw, leaf, depth, n_features)
        times[w] = times.get(w, 0) + 1
        draw += 1
    w = math.floor(uniform(key, 3 * draw) * n_features)
    while len(times) < wanted:
        times[w] = times.get(w, 0) + 1
        w = (w + 1) % n_features
    return times


def labels_of_point(
    i: int, wanted: int, leaf: int, place: int, size: int, depth: int, n_labels: int, seed: int
) -> set[int]:
    world, key = key_of(seed, 2), key_of(key_of(seed, 3), i)
    first, last = leaf * n_labels // 2**depth, (leaf + 1) * n_labels // 2**depth
    got = set(list(range(first + place, last, size))[:wanted])
    draw = 0
    while len(got) < wanted and draw < 20 * wanted:
        got.add(label(key, world, draw, leaf, depth, n_labels))
        draw += 1
    following = first
    while len(got) < wanted:
        got.add(following)
        following = (following + 1) % n_labels
    return got


def unit_tfidf(times: dict[int, int], idf: list[float]) -> dict[int, float]:
    weight = {w: (1 + math.log(n)) * idf[w] for w, n in times.items()}
    norm = math.sqrt(sum(v * v for v in weight.values()))
    return {w: v / norm for w, v in weight.items()}
