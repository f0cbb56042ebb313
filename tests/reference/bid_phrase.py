"""Features of a query and a phrase, and boosted trees, one pair at a time on Python's own objects."""

import numpy as np


def edits(a, b):
    """Levenshtein's distance, by its recursion, from the front."""
    table = [[i + j if i * j == 0 else 0 for j in range(len(b) + 1)] for i in range(len(a) + 1)]
    for i in range(1, len(a) + 1):
        for j in range(1, len(b) + 1):
            change = table[i - 1][j - 1] + (a[i - 1] != b[j - 1])
            table[i][j] = min(change, table[i - 1][j] + 1, table[i][j - 1] + 1)
    return table[-1][-1]


def subsequence(a, b):
    """The length of the longest common subsequence."""
    if not a or not b:
        return 0
    if a[-1] == b[-1]:
        return 1 + subsequence(a[:-1], b[:-1])
    return max(subsequence(a[:-1], b), subsequence(a, b[:-1]))


def share(part, whole):
    return part / whole if whole > 0 else 0.0


def alike(a, b):
    """How alike two words are spelled; words of very different length are not."""
    longer = max(len(a), len(b))
    return 1 - edits(a, b) / longer if 2 * abs(len(a) - len(b)) < longer else 0.0


def side(words, others, rarity, weight, vector):
    """Six features of how far `words` are in `others`, and how many are."""
    missing = [word for word in words if word not in others]
    shared = [word for word in words if word in others]

    def soft(measure, like):
        total = sum(measure[word] for word in shared)
        total += sum(measure[word] * max([0.0, *(like(word, other) for other in others)]) for word in missing)
        return share(total, sum(measure[word] for word in words))

    return len(shared), [
        share(len(shared), len(words)),
        share(sum(rarity[word] for word in shared), sum(rarity[word] for word in words)),
        share(sum(weight[word] for word in shared), sum(weight[word] for word in words)),
        max([0.0, *(weight[word] for word in missing)]),
        soft(rarity, alike),
        soft(weight, lambda a, b: float(vector[a] @ vector[b])),
    ]


def features(query, phrase, rarity, weight, vector, vectors, of_words):
    """The row of features; `vectors` and `of_words` are those of the two texts."""
    asked, bid = query.split(), phrase.split()
    n, there = side(asked, bid, rarity, weight, vector)
    _, back = side(bid, asked, rarity, weight, vector)
    rest = [
        share(subsequence(asked, bid), n),
        share(edits(asked, bid), max(len(asked), len(bid))),
        share(edits(query, phrase), max(len(query), len(phrase))),
        float(vectors[0] @ vectors[1]),
        float(of_words[0] @ of_words[1]),
    ]
    return np.array([n, share(n, len(asked) + len(bid) - n), *np.ravel(list(zip(there, back, strict=True))), *rest])
