"""Agreement of judges, from the definitions, over a list of votes (1, 0, or None) for each thing judged."""

import itertools


def agreement(votes):
    """Over things that two or more judged, the mean share of pairs of judges who say the same."""
    shares = []
    for row in votes:
        said = [vote for vote in row if vote is not None]
        pairs = list(itertools.combinations(said, 2))
        if pairs:
            shares.append(sum(a == b for a, b in pairs) / len(pairs))
    return sum(shares) / len(shares) if shares else None


def cohen(votes):
    """Cohen 1960: two judges, each with shares of their own."""
    both = [row for row in votes if None not in row]
    if not both:
        return None
    observed = sum(a == b for a, b in both) / len(both)
    chance = sum(sum(row[0] == c for row in both) * sum(row[1] == c for row in both) / len(both) ** 2 for c in (0, 1))
    return None if chance == 1 else (observed - chance) / (1 - chance)


def fleiss(votes):
    """Fleiss 1971: chance from the shares in all votes, of things that two or more judged."""
    rows = [said for row in votes if len(said := [vote for vote in row if vote is not None]) >= 2]
    if not rows:
        return None
    every = [vote for row in rows for vote in row]
    chance = sum((every.count(c) / len(every)) ** 2 for c in (0, 1))
    return None if chance == 1 else (agreement(rows) - chance) / (1 - chance)
