"""Learning from events by someone who takes one event after the other and remembers everything."""

import json
from collections import Counter
from typing import Any, NamedTuple

MINUTE, DAY = 60_000_000, 86_400_000_000


class Learned(NamedTuple):
    """Impressions in the order in which they were learned (id, clicked), and when models were due, after how many."""

    impressions: list[tuple[str, float]]
    due: list[tuple[int, int]]
    counts: Counter[str]


def row_of(event: Any) -> dict[str, Any] | None:
    """The columns of a payload; None if it cannot be read."""
    try:
        row = json.loads(event.payload)
    except ValueError:
        return None
    wanted = ("ad", "city", "query") if event.kind == "impressions" else ("impression",)
    if not isinstance(row, dict) or any(isinstance(row.get(name), dict | list) for name in wanted):
        return None
    return row | {"id": event.id, "time": event.time}


def follow(events: list[Any], encoder: Any, learner: Any, calibration: Any, window: int, every: int) -> Learned:
    """Learn from all events; `window` and `every` in microseconds."""
    found, watermark, minute, ahead = Learned([], [], Counter()), None, 0, 0
    shown: list[tuple[int, int, str, dict[str, Any]]] = []
    names: list[tuple[str, int]] = []
    clicks: list[tuple[str, int, float]] = []
    seen = {"impressions": float("-inf"), "clicks": float("-inf")}

    def close(tick: int) -> None:
        for kind in seen:
            seen[kind] = max(seen[kind], tick)
        for one in sorted(one for one in shown if one[0] + window < tick):
            shown.remove(one)
            t, _, name, row = one
            hits = [c for i, c, before in clicks if i == name and t <= c <= t + window and before <= t + window]
            keys, values = encoder.encode_one(row)
            p = learner.learn_one(keys, float(bool(hits)), values=values if len(values) else None)
            calibration.learn_many([p], [float(bool(hits))])
            found.impressions.append((name, float(bool(hits))))

    for event in events:
        t = event.time
        if watermark is not None and t > watermark + DAY and ahead < 99:
            ahead += 1
            found.counts["too_far_ahead"] += 1
            continue
        if watermark is None:
            watermark, minute = t, t // MINUTE * MINUTE
        ahead, watermark, now = 0, max(watermark, t), t // MINUTE * MINUTE
        if now > minute:
            due = now // every * every
            if due > minute:
                close(due)
                if any(clicked for _, clicked in found.impressions):
                    calibration.refresh()
                found.due.append((due, len(found.impressions)))
            close(now)
            minute = now
        row = row_of(event) if event.kind in seen else {}
        if row is None or (event.kind == "clicks" and row.get("impression") in (None, "")):
            found.counts["rejected"] += 1
        elif event.kind == "impressions" and t + window >= seen["impressions"]:
            seen["impressions"] = max(seen["impressions"], t)
            if not any(name == event.id and abs(t - at) <= window for name, at in names):
                names.append((event.id, t))
                shown.append((t, len(names), event.id, row))
        elif event.kind == "clicks" and t + window >= seen["clicks"]:
            clicks.append((str(row["impression"]), t, seen["clicks"]))
            seen["clicks"] = max(seen["clicks"], t)
    return found
