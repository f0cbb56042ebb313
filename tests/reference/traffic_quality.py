"""Hourly figures of traffic, from plain rows: one row at a time into dictionaries."""

import math
from collections import Counter, defaultdict

HOUR = 3_600_000_000
OPEN, SLICES = 48, 256


def happened(clicked, p):
    return -math.log(min(max(p if clicked else 1 - p, 2.0**-24), 1 - 2.0**-24))


class SlowQuality:
    """Rows are dicts: time, clicked, weight, learned, served, delay, slices, features: [(signal, bucket, missing)]."""

    def __init__(self, window, slices, signals, most_slices, least):
        self.window, self.slices, self.signals = window, slices, signals
        self.most, self.least = most_slices, least
        self.rows, self.seen_slices = defaultdict(list), defaultdict(list)
        self.done, self.history = [], {}
        self.next = self.newest = None
        self.n_late, self.n_unknown, self.n_features = 0, 0, 0
        self.totals, self.counts = Counter(), Counter()

    def add(self, row):
        hour = row["time"] // HOUR
        self.newest = hour if self.newest is None else max(hour, self.newest)
        self.finish_until(self.newest - OPEN)
        if hour < self.newest - OPEN or (self.next is not None and hour < self.next):
            self.n_late += 1
            return
        for slicing in self.slices:
            known = self.seen_slices[hour, slicing]
            name = "(missing)" if row["slices"][slicing] is None else row["slices"][slicing]
            if name not in known and len(known) < SLICES:
                known.append(name)
        self.rows[hour].append(row)

    def unknown(self, n_unknown, n_features):
        self.n_unknown += n_unknown
        self.n_features += n_features

    def tick(self, time, counts):
        for name, total in counts.items():
            self.counts[name] += total - self.totals[name]
            self.totals[name] = total
        self.finish_until((time - self.window * 1_000_000) // HOUR)

    def finish_until(self, until):
        if self.next is None:
            if not self.rows or min(self.rows) >= until:
                return
            self.next = min(self.rows)
        if self.next >= until:
            return
        hours = set(range(max(self.next, until - OPEN), until)) | {h for h in self.rows if h < until}
        for hour in sorted(hours):
            self.done.append((hour * HOUR, self.figures(hour)))
            self.history[hour] = self.histograms(hour)
            self.rows.pop(hour, None)
            self.n_late = self.n_unknown = self.n_features = 0
            self.counts = Counter()
        self.next = until

    def histograms(self, hour):
        found = defaultdict(Counter)
        for row in self.rows.get(hour, []):
            for signal, bucket, _ in row["features"]:
                found[signal][bucket] += 1
            for signal in set(self.signals) - {signal for signal, _, _ in row["features"]}:
                found[signal]["none"] += 1
        return found

    def figures(self, hour):
        """{(metric, model, slicing, slice): (value, n)}."""
        rows, found = self.rows.get(hour, []), {}
        self.slice("all", "all", rows, found)
        for slicing in self.slices:
            groups = defaultdict(list)
            for row in rows:
                name = "(missing)" if row["slices"][slicing] is None else row["slices"][slicing]
                groups[name if name in self.seen_slices[hour, slicing] else "(others)"].append(row)
            named = sorted((g for g in groups if g != "(others)"), key=lambda g: (-len(groups[g]), g))
            for name in named[: self.most]:
                self.slice(slicing, name, groups[name], found)
            rest = [row for name in [*named[self.most :], "(others)"] for row in groups[name]]
            if rest:
                self.slice(slicing, "(others)", rest, found)
        self.of_signals(hour, rows, found)
        delays = sorted(row["delay"] for row in rows if row["delay"] >= 0)
        if delays:
            for metric, share in (("ClickDelayMedian", 0.5), ("ClickDelayP90", 0.9)):
                exact = delays[max(0, math.ceil(share * len(delays)) - 1)] / 1e6
                found[metric, "", "all", "all"] = (exact, len(delays))
        if self.n_features:
            found["UnknownFeatures", "served", "all", "all"] = (self.n_unknown / self.n_features, self.n_features)
        counts = {**self.counts, "late_rows": self.n_late}
        if counts.get("clicks", 0):
            found["LateClicks", "", "all", "all"] = (counts.get("late_clicks", 0) / counts["clicks"], counts["clicks"])
        for name, n in counts.items():
            found["Count", "", "counted", name] = (n, n)
        return found

    def slice(self, slicing, name, rows, found):
        n, at = len(rows), (slicing, name)
        clicks = sum(r["weight"] * r["clicked"] for r in rows)
        weight = sum(r["weight"] for r in rows)
        found["Impressions", "", *at] = (n, n)
        found["Clicks", "", *at] = (clicks, n)
        if weight:
            found["ClickRate", "", *at] = (clicks / weight, n)
        for model in ("served", "learned"):
            own = [r for r in rows if not math.isnan(r[model])]
            weight, clicks = sum(r["weight"] for r in own), sum(r["weight"] * r["clicked"] for r in own)
            if not weight:
                continue
            expected = sum(r["weight"] * r[model] for r in own)
            variance = sum(r["weight"] ** 2 * r[model] * (1 - r[model]) for r in own)
            loss = sum(r["weight"] * happened(r["clicked"], r[model]) for r in own)
            found["ExpectedClicks", model, *at] = (expected, n)
            found["LogLoss", model, *at] = (loss / weight, n)
            if clicks:
                found["Bias", model, *at] = (expected / clicks - 1, n)
            if expected:
                luck = 4 * math.sqrt(variance)
                if abs(clicks - expected) <= luck:
                    left = 0.0
                elif clicks < expected:
                    left = expected / (clicks + luck) - 1
                else:
                    left = expected / (clicks - luck) - 1
                found["BiasBeyondChance", model, *at] = (left, n)

    def of_signals(self, hour, rows, found):
        here, before = self.histograms(hour), defaultdict(Counter)
        for back in range(1, 25):
            for signal, counts in self.history.get(hour - back, {}).items():
                before[signal].update(counts)
        for signal in filter(None, self.signals):
            if rows:
                present = sum(any(s == signal and not gone for s, _, gone in row["features"]) for row in rows)
                found["Missing", "", "signal", signal] = (1 - present / len(rows), len(rows))
            n, m = here[signal].total(), before[signal].total()
            if min(n, m) >= self.least:
                buckets = set(here[signal]) | set(before[signal])
                if len(buckets) < 2:
                    found["PSI", "", "signal", signal] = (0.0, n)
                    continue
                p = {b: (here[signal][b] + 0.5) / (n + 0.5 * len(buckets)) for b in buckets}
                q = {b: (before[signal][b] + 0.5) / (m + 0.5 * len(buckets)) for b in buckets}
                drift = sum((p[b] - q[b]) * math.log(p[b] / q[b]) for b in buckets)
                found["PSI", "", "signal", signal] = (max(0.0, drift - (len(buckets) - 1) * (1 / n + 1 / m)), n)
