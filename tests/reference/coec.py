"""Effects of places by plain likelihood, on dictionaries: one scale for each pair, one for each place."""

from collections import defaultdict


def place_effects(rows: list[tuple[str, int, int, int]], rounds: int = 300) -> dict[int, float]:
    """Each row is (pair, position, shows, clicks), each pair at a position once; pairs at one place tell nothing."""
    of_pair = defaultdict(list)
    for pair, position, shows, clicks in rows:
        of_pair[pair].append((position, shows, clicks))
    told = [own for own in of_pair.values() if len(own) > 1 and sum(clicks for _, _, clicks in own)]
    effect = {position: 1.0 for own in told for position, _, _ in own}
    for _ in range(rounds if told else 0):
        top, below = defaultdict(float), defaultdict(float)
        for own in told:
            rate = sum(c for _, _, c in own) / sum(n * effect[k] for k, n, _ in own)
            for k, n, c in own:
                top[k] += c
                below[k] += n * rate
        effect = {k: top[k] / below[k] for k in effect}
        most = max(effect.values())
        effect = {k: x / most for k, x in effect.items()}
    return {position: effect.get(position, 1.0) for _, position, _, _ in rows}


def expected_clicks(rows: list[tuple[str, int, int, int]], effect: dict[int, float]) -> dict[str, float]:
    """Clicks that each pair would have if it were like the average of the log."""
    rate = sum(c for *_, c in rows) / sum(n * effect[k] for _, k, n, _ in rows)
    found: dict[str, float] = defaultdict(float)
    for pair, k, n, _ in rows:
        found[pair] += n * effect[k] * rate
    return found
