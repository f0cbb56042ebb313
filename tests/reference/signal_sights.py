"""What vetting counts of a signal, one feature at a time; first sights by a set instead of a filter."""

from collections import Counter


def add_sights(rows, missing, part):
    """Of each part: features by the highest six bits of their keys and by the next (64: none), and the four counts."""
    seen, counts, known = {}, {}, set()
    for keys, p in zip(rows, part, strict=True):
        n = counts.setdefault(p, [0, 0, 0, 0])
        n[0] += 1
        n[1] += any(key != missing for key in keys)
        n[2] += len(keys)
        n[3] += len({key for key in keys if key != missing} - known)
        known |= {key for key in keys if key != missing}
        for way, shift in enumerate((58, 52)):
            seen.setdefault((p, way), Counter()).update([key >> shift & 63 for key in keys] or [64])
    return seen, counts, known
