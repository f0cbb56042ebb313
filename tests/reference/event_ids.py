"""Which ids are kept, by the words of the description: lists and dictionaries, an id at a time."""

SEGMENT = (1 << 16) - 1


def filter_words(pairs, blocks):
    """A bit in each of the eight words of a block: the block by the upper 32 bits of the first word of an id."""
    words = [0] * (8 * blocks)
    for one, two in pairs:
        block = (one >> 32) * blocks >> 32
        for j in range(8):
            words[8 * block + j] |= 1 << (two >> (16 + 6 * j) & 63)
    return words


def merge(runs, gone):
    """The ids of runs of (first word, second word), without those of segments that are gone; segments count on."""
    found, before = [], 0
    for run, past, segments in runs_of(runs, gone):
        found += [(one, two - past + before) for one, two in run if two & SEGMENT >= past]
        before += segments - past
    return sorted(found)


def runs_of(runs, gone):
    return [(pairs, past, segments) for (pairs, segments), past in zip(runs, gone, strict=True)]


class KeptIds:
    """The segment of each id that is kept."""

    def __init__(self):
        self.segment_of, self.now, self.oldest = {}, 0, 0

    def add(self, ids):
        """Which were kept already."""
        known = []
        for one in ids:
            known.append(self.segment_of.get(one, -1) >= self.oldest)
            if not known[-1]:
                self.segment_of[one] = self.now
        return known
