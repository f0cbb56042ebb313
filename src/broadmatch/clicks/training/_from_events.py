"""How far the time of an event log has come, event by event, and where its minutes begin."""

from broadmatch.kernels import I64, Flags, kernel

WATERMARK, MINUTE, AHEAD = 0, 1, 2
"""Places in a clock: the largest time of the log, the minute in which it is, events in a row that are too far ahead."""


@kernel
def follow_clock(times: I64, clock: I64, minute: int, farthest: int, in_a_row: int, accepted: Flags, cuts: I64) -> int:
    """Take the times of events in order; gives how many minutes begin among them, and writes where into `cuts`.

    An event that is more than `farthest` ahead of the watermark is not accepted, unless `in_a_row` of them come without
    another in between: then the log has had a gap.
    """
    n = 0
    for i in range(len(times)):
        t = times[i]
        accepted[i] = True
        if t > clock[WATERMARK] + farthest and clock[AHEAD] + 1 < in_a_row:
            clock[AHEAD] += 1
            accepted[i] = False
            continue
        clock[AHEAD] = 0
        clock[WATERMARK] = max(clock[WATERMARK], t)
        if t >= clock[MINUTE] + minute:
            clock[MINUTE] = t // minute * minute
            cuts[n] = i
            n += 1
    return n
