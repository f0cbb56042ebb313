"""Frames of events by the words of their description, a number at a time."""

import itertools
import struct

MASK = (1 << 64) - 1
SEED = 0x9E3779B97F4A7C15


def mix(z):
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9 & MASK
    z = (z ^ (z >> 27)) * 0x94D049BB133111EB & MASK
    return z ^ (z >> 31)


def checksum(data):
    """Eight bytes at a time, then one at a time: xor, multiply, xor with itself shifted by 29."""
    h = mix(len(data) ^ SEED)
    words = [data[i : i + 8] for i in range(0, len(data) // 8 * 8, 8)]
    for piece in [*words, *(data[i : i + 1] for i in range(len(data) // 8 * 8, len(data)))]:
        h = (h ^ int.from_bytes(piece, "little")) * SEED & MASK
        h ^= h >> 29
    return mix(h)


def read_frames(data, first):
    """(id, time, kind, payload) of the events of whole frames from the beginning on, and where they end."""
    events, at = [], 0
    while len(data) - at >= 48:
        magic, n, check, length, number, _, id_bytes, payload_bytes = struct.unpack_from("<IIQQQqII", data, at)
        if (
            (magic, number) != (0x56454D42, first + len(events))
            or n < 1
            or length != 48 + 14 * n + id_bytes + payload_bytes
        ):
            break
        frame = data[at : at + length]
        if len(frame) < length or checksum(frame[16:]) != check:
            break
        times, sizes = struct.unpack_from(f"<{n}q", frame, 48), struct.unpack_from(f"<{n}I", frame, 48 + 8 * n)
        id_sizes, kinds = frame[48 + 12 * n : 48 + 13 * n], frame[48 + 13 * n : 48 + 14 * n]
        if sum(id_sizes) != id_bytes or sum(sizes) != payload_bytes or 0 in sizes:
            break
        id_at, payload_at = 48 + 14 * n, 48 + 14 * n + id_bytes
        for i in range(n):
            name, payload = frame[id_at : id_at + id_sizes[i]], frame[payload_at : payload_at + sizes[i]]
            events.append((name, times[i], kinds[i], payload))
            id_at, payload_at = id_at + id_sizes[i], payload_at + sizes[i]
        at += length
    return events, at


def columns_fit(time, kind, kinds, ids, id_ptr, payloads, ptr, longest, largest):
    """0 if the columns of events fit, 1 if they do not, 2 if a payload is too large, 3 if one is not a line."""
    n = len(time)
    if len(kind) != n or any(len(one) != n + 1 for one in (id_ptr, ptr)):
        return 1
    for text, starts in ((ids, id_ptr), (payloads, ptr)):
        if starts[0] != 0 or starts[-1] != len(text) or sorted(starts) != starts:
            return 1
    names = [ids[a:b] for a, b in itertools.pairwise(id_ptr)]
    lines = [payloads[a:b] for a, b in itertools.pairwise(ptr)]
    if any(code >= kinds for code in kind) or any(not 1 <= len(name) <= longest for name in names):
        return 1
    if any(len(line) < 2 for line in lines):
        return 1
    if any(len(line) > largest for line in lines):
        return 2
    whole = all(line.endswith(b"\n") and not {10, 13} & {*line[:-1]} for line in lines)
    return 0 if whole else 3
