"""Frames of events in bytes: whatever the bytes are, no kernel reads beyond them.

A frame, all numbers little-endian:

    0 magic (4), 4 events n (4), 8 checksum of all that follows (8), 16 length of the frame (8), 24 number of its first
    event (8), 32 when it was written, in microseconds (8), 40 bytes of the ids (4), 44 bytes of the payloads (4),
    48 times (8 n), lengths of payloads, each with its line end (4 n), lengths of ids (n), kinds (n), ids, payloads
"""

import numpy as np

from broadmatch.kernels import I64, Bytes, kernel
from broadmatch.kernels.hashing import mix

HEADER, PER_EVENT = 48, 14
MAGIC = 0x56454D42
WHOLE, CUT, DAMAGED = 0, 1, 2
"""What stands at a place: a frame, a frame whose end is not there, or something else."""
FIT, UNFIT, LARGE, LINE = 0, 1, 2, 3
"""What is wrong with the columns of events."""
_LINE_END, _RETURN = 10, 13
_CHECKED = 16
_SEED = 0x9E3779B97F4A7C15


@kernel
def number_at(data: Bytes, at: int, size: int) -> int:
    """The whole number of `size` bytes at `at`."""
    found = 0
    for i in range(size - 1, -1, -1):
        found = found * 256 + data[at + i]
    return found


@kernel
def word_at(data: Bytes, at: int) -> np.uint64:
    """Eight bytes as a number."""
    return (
        np.uint64(data[at])
        | np.uint64(data[at + 1]) << np.uint64(8)
        | np.uint64(data[at + 2]) << np.uint64(16)
        | np.uint64(data[at + 3]) << np.uint64(24)
        | np.uint64(data[at + 4]) << np.uint64(32)
        | np.uint64(data[at + 5]) << np.uint64(40)
        | np.uint64(data[at + 6]) << np.uint64(48)
        | np.uint64(data[at + 7]) << np.uint64(56)
    )


@kernel
def checksum(data: Bytes, start: int, stop: int) -> np.uint64:
    """64 bits that are others if any of the bytes are: what was torn or has rotted is found."""
    h = mix(np.uint64(stop - start) ^ np.uint64(_SEED))
    at = start
    while at + 8 <= stop:
        h = (h ^ word_at(data, at)) * np.uint64(_SEED)
        h ^= h >> np.uint64(29)
        at += 8
    while at < stop:
        h = (h ^ np.uint64(data[at])) * np.uint64(_SEED)
        h ^= h >> np.uint64(29)
        at += 1
    return mix(h)


@kernel
def put_number(data: Bytes, at: int, size: int, number: int) -> None:
    """Write a whole number as `size` bytes at `at`."""
    for i in range(size):
        data[at + i] = (number >> (8 * i)) & 255


@kernel
def put_frame(
    out: Bytes, first: int, moment: int, time: I64, kind: Bytes, ids: Bytes, id_ptr: I64, payloads: Bytes, ptr: I64
) -> None:
    """Write events, whose columns fit together, as a frame that fills `out`; its first event has the number `first`."""
    n = len(time)
    lengths = HEADER + 8 * n
    id_lengths = lengths + 4 * n
    put_number(out, 0, 4, MAGIC)
    put_number(out, 4, 4, n)
    put_number(out, 16, 8, len(out))
    put_number(out, 24, 8, first)
    put_number(out, 32, 8, moment)
    put_number(out, 40, 4, len(ids))
    put_number(out, 44, 4, len(payloads))
    for i in range(n):
        put_number(out, HEADER + 8 * i, 8, time[i])
        put_number(out, lengths + 4 * i, 4, ptr[i + 1] - ptr[i])
        out[id_lengths + i] = id_ptr[i + 1] - id_ptr[i]
    out[id_lengths + n : id_lengths + 2 * n] = kind
    at = id_lengths + 2 * n
    out[at : at + len(ids)] = ids
    out[at + len(ids) :] = payloads
    check = checksum(out, _CHECKED, len(out))
    for i in range(8):
        out[8 + i] = (check >> np.uint64(8 * i)) & np.uint64(255)


@kernel
def check_columns(
    time: I64, kind: Bytes, kinds: int, ids: Bytes, id_ptr: I64, payloads: Bytes, ptr: I64, longest: int, largest: int
) -> int:
    """What is wrong with the columns of events: `FIT`, `UNFIT`, a `LARGE` payload, or one that is not a `LINE`."""
    n = len(time)
    if len(kind) != n or len(id_ptr) != n + 1 or len(ptr) != n + 1:
        return UNFIT
    if id_ptr[0] != 0 or ptr[0] != 0 or id_ptr[n] != len(ids) or ptr[n] != len(payloads):
        return UNFIT
    is_large = False
    for i in range(n):
        name, size = id_ptr[i + 1] - id_ptr[i], ptr[i + 1] - ptr[i]
        if kind[i] >= kinds or name < 1 or name > longest or size < 2:
            return UNFIT
        is_large |= size > largest
    if is_large:
        return LARGE
    for i in range(n):
        for at in range(ptr[i], ptr[i + 1] - 1):
            if payloads[at] == _LINE_END or payloads[at] == _RETURN:
                return LINE
        if payloads[ptr[i + 1] - 1] != _LINE_END:
            return LINE
    return FIT


@kernel
def frame_at(data: Bytes, at: int, stop: int, first: int, longest: int) -> int:
    """What stands at `at`: a frame whose first event has the number `first`, none that is whole, or something else."""
    if stop - at < HEADER:
        return CUT
    n, length = number_at(data, at + 4, 4), number_at(data, at + 16, 8)
    of_ids, of_payloads = number_at(data, at + 40, 4), number_at(data, at + 44, 4)
    if (
        number_at(data, at, 4) != MAGIC
        or number_at(data, at + 24, 8) != first
        or n < 1
        or length > longest
        or length != HEADER + PER_EVENT * n + of_ids + of_payloads
    ):
        return DAMAGED
    if stop - at < length:
        return CUT
    if word_at(data, at + 8) != checksum(data, at + _CHECKED, at + length):
        return DAMAGED
    ids = payloads = 0
    lengths = at + HEADER + 8 * n
    for i in range(n):
        size = number_at(data, lengths + 4 * i, 4)
        payloads += size
        ids += number_at(data, lengths + 4 * n + i, 1)
        if size < 1:
            return DAMAGED
    return WHOLE if ids == of_ids and payloads == of_payloads else DAMAGED


@kernel
def scan(data: Bytes, stop: int, first: int, limit: int, longest: int, out: I64) -> int:
    """Check frames from the beginning on until they have `limit` events; what stands where it ends.

    `out` gets where that is, how many events there are before, and how many bytes their ids and payloads have.
    """
    at, events, ids, payloads, found = 0, 0, 0, 0, WHOLE
    while events < limit:
        found = frame_at(data, at, stop, first + events, longest)
        if found != WHOLE:
            break
        events += number_at(data, at + 4, 4)
        ids += number_at(data, at + 40, 4)
        payloads += number_at(data, at + 44, 4)
        at += number_at(data, at + 16, 8)
    out[0], out[1], out[2], out[3] = at, events, ids, payloads
    return found


@kernel
def skip_frames(data: Bytes, stop: int, number: int, longest: int) -> int:
    """Where the first frame begins, perhaps beyond these bytes, that has events from `number` on; unchecked."""
    at = 0
    while stop - at >= HEADER:
        n, length = number_at(data, at + 4, 4), number_at(data, at + 16, 8)
        ours = number_at(data, at, 4) == MAGIC and HEADER <= length <= longest
        if not ours or number_at(data, at + 24, 8) + n > number:
            break
        at += length
    return at


@kernel
def skip_earlier(data: Bytes, stop: int, time: int, longest: int, out: I64) -> None:
    """Where the first frame begins, perhaps beyond these bytes, that was written at a time or later; unchecked.

    `out` gets this, and how many events stand before it.
    """
    at = events = 0
    while stop - at >= HEADER:
        n, length = number_at(data, at + 4, 4), number_at(data, at + 16, 8)
        ours = number_at(data, at, 4) == MAGIC and HEADER <= length <= longest
        if not ours or number_at(data, at + 32, 8) >= time:
            break
        at, events = at + length, events + n
    out[0], out[1] = at, events


@kernel
def gather(
    data: Bytes, skip: int, n: int, times: I64, kinds: Bytes, ids: Bytes, id_ptr: I64, payloads: Bytes, payload_ptr: I64
) -> None:
    """The columns of n events, after the first `skip` of them, of frames that were checked."""
    at = done = id_at = payload_at = 0
    while done < n:
        size, length = number_at(data, at + 4, 4), number_at(data, at + 16, 8)
        of_times = at + HEADER
        lengths = of_times + 8 * size
        id_lengths = lengths + 4 * size
        id_from = id_lengths + 2 * size
        payload_from = id_from + number_at(data, at + 40, 4)
        for i in range(size):
            of_id, of_payload = number_at(data, id_lengths + i, 1), number_at(data, lengths + 4 * i, 4)
            if skip > 0:
                skip -= 1
            elif done < n:
                times[done] = np.int64(word_at(data, of_times + 8 * i))
                kinds[done] = data[id_lengths + size + i]
                ids[id_at : id_at + of_id] = data[id_from : id_from + of_id]
                payloads[payload_at : payload_at + of_payload] = data[payload_from : payload_from + of_payload]
                id_at, payload_at, done = id_at + of_id, payload_at + of_payload, done + 1
                id_ptr[done], payload_ptr[done] = id_at, payload_at
            id_from, payload_from = id_from + of_id, payload_from + of_payload
        at += length


@kernel
def take_texts(data: Bytes, ptr: I64, rows: I64, out: Bytes, out_ptr: I64) -> None:
    """Some of several texts that stand one after the other; `out` is large enough."""
    at = 0
    for k in range(len(rows)):
        start, stop = ptr[rows[k]], ptr[rows[k] + 1]
        out[at : at + stop - start] = data[start:stop]
        at += stop - start
        out_ptr[k + 1] = at
