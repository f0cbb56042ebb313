"""Random damage to bytes: a case is a seed with a few changes of these kinds."""

import random
from collections.abc import Sequence

LARGEST = 1 << 16
_BYTES = bytes([0, 9, 10, 13, 32, 34, 44, 58, 59, 92, 124, 127, 128, 195, 237, 239, 254, 255])


def mutated(draw: random.Random, seeds: Sequence[bytes], tokens: Sequence[bytes] = ()) -> bytes:
    """One of the seeds with one to eight changes; `tokens` are pieces that the format knows, put in now and then.

    >>> mutated(random.Random(1), [b"a,b"]) == mutated(random.Random(1), [b"a,b"])
    True
    """
    data = draw.choice(seeds)
    for _ in range(1 + min(draw.getrandbits(3), draw.getrandbits(3))):
        kind = draw.randrange(8 if tokens else 7)
        at = draw.randint(0, len(data))
        until = min(len(data), at + draw.choice((1, 1, 2, 4, 16, 64, 1024)))
        if kind == 0:  # some bits of a byte
            data = data[:at] + bytes(byte ^ (1 << draw.randrange(8)) for byte in data[at : at + 1]) + data[at + 1 :]
        elif kind == 1:  # a byte that means something somewhere
            data = data[:at] + draw.choice(_BYTES).to_bytes() + data[at + draw.randrange(2) :]
        elif kind == 2:
            data = data[:at] + data[until:]
        elif kind == 3:  # a piece again, now and then often
            data = data[:until] + data[at:until] * draw.choice((1, 1, 2, 100)) + data[until:]
        elif kind == 4:  # the end is missing
            data = data[:at]
        elif kind == 5:  # a piece of another seed
            other = draw.choice(seeds)
            start = draw.randint(0, len(other))
            data = data[:at] + other[start : start + draw.choice((4, 64, 1024))] + data[until:]
        elif kind == 6:  # a number, little-endian as binary formats have it
            number = draw.choice((0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF, draw.getrandbits(32)))
            data = data[:at] + number.to_bytes(4, "little") + data[at + 4 :]
        else:
            data = data[:at] + draw.choice(tokens) + data[draw.choice((at, until)) :]
        data = data[:LARGEST]
    return data
