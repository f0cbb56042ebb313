"""Impressions joined with clicks by someone who sees both streams whole; events are (id, time) as they came."""

from collections import Counter
from itertools import accumulate
from typing import NamedTuple

Event = tuple[int, int]


class Shown(NamedTuple):
    """An impression that comes out: its place in the stream, its time, whether it was clicked, and how long after."""

    time: int
    arrival: int
    clicked: bool
    delay: int


def largest_before(events: list[Event]) -> list[float]:
    """The largest time among the events before each."""
    return list(accumulate((time for _, time in events), max, initial=float("-inf")))[:-1]


def join(impressions: list[Event], clicks: list[Event], window: int) -> tuple[list[Shown], Counter[str]]:
    """What comes out, in order, and what became of every event."""
    counts = Counter(impressions=len(impressions), clicks=len(clicks))
    accepted: list[int] = []
    seen = largest_before(impressions)
    for i, (name, t) in enumerate(impressions):
        if seen[i] > t + window:
            counts["late_impressions"] += 1
        elif any(impressions[j][0] == name and abs(impressions[j][1] - t) <= window for j in accepted):
            counts["duplicate_impressions"] += 1
        else:
            accepted.append(i)

    seen = largest_before(clicks)
    punctual = [j for j, (_, c) in enumerate(clicks) if seen[j] <= c + window]
    counts["late_clicks"] = len(clicks) - len(punctual)
    homeless = set(punctual)
    out = []
    for i in accepted:
        name, t = impressions[i]
        own = [j for j in punctual if clicks[j][0] == name and t <= clicks[j][1] <= t + window]
        homeless -= set(own)
        in_time = [clicks[j][1] - t for j in own if seen[j] <= t + window]
        clicked = bool(in_time)
        if clicked:
            counts["joined_clicks"] += 1
            counts["duplicate_clicks"] += len(own) - 1
        else:
            counts["late_clicks"] += len(own)
        out.append(Shown(t, i, clicked, in_time[0] if in_time else -1))
    counts["orphan_clicks"] = len(homeless)
    return sorted(out), counts
