"""The collector of garbage in a process that answers: it looks at what is new, and hardly ever at all there is."""

import gc

_NEW, _TIMES, _RARELY = 20_000, 10, 1000
"""New objects after which the collector looks at them; after so many looks at what outlived the last; and at all."""


def leave_old_objects() -> None:
    """Keep what is there by now out of every later look, and make looks at all of the rest rare: each takes 0.1 s."""
    gc.collect()
    gc.freeze()
    gc.set_threshold(_NEW, _TIMES, _RARELY)
