"""Text files as blocks of whole lines whose bounds depend on the text alone, so that reading can go on at any of them."""

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.files import open_binary
from broadmatch.errors import BadInput
from broadmatch.kernels import example_text as kernels

STANDARD_INPUT = "-"
LONGEST_LINE = 4 << 20
"""Bytes of a line beyond which it is not a line of examples; of a longer one only the beginning is kept."""

_READ = 4 << 20
_ENOUGH = 64 << 20
_PACKED = (b"\x1f\x8b", b"\x28\xb5")


@dataclass(frozen=True)
class Block:
    """Whole lines: `first` lines stand before them in the file, and the next begins at line `lines`, byte `offset`."""

    text: NDArray[np.uint8]
    first: int
    lines: int
    offset: int
    blanks: int


def blocks(stream: io.BufferedIOBase, lines: int, offset: int, most_lines: int) -> Iterator[Block]:
    """Cut the rest of a stream, which stands after `lines` lines and `offset` bytes, into blocks of `most_lines`.

    A block of 64 MB ends before that. The last block of the stream may have fewer.
    """
    held = np.empty(0, np.uint8)
    at = n = blanks = beyond = added = 0  # beyond: bytes of long lines that are not held
    ended = False
    while True:
        at, n, more = kernels.scan(held, at, len(held), n, most_lines, _ENOUGH - beyond)
        blanks += more
        if n == most_lines or at + beyond >= _ENOUGH or (ended and n):
            last = ended and at == len(held)
            offset += at + beyond - (added if last else 0)
            yield Block(held[:at], lines, lines + n, offset, blanks)
            lines, held = lines + n, held[at:].copy()
            at = n = blanks = beyond = 0
            continue
        if ended:
            return
        piece = stream.read(_READ)
        ended = not piece
        if len(held) - at > LONGEST_LINE:
            kept = at + LONGEST_LINE + 1
            newline = piece.find(b"\n")
            rest = len(piece) if newline < 0 else newline
            beyond += len(held) - kept + rest
            held, piece = held[:kept], piece[rest:]
        if ended and len(held) > at:
            piece, added = b"\n", 1
        held = np.concatenate([held, np.frombuffer(piece, np.uint8)])


def open_at(file: str, offset: int) -> io.BufferedIOBase:
    """Open a file, unpacked, or standard input ("-"), `offset` bytes on; what is packed has to be read up to there."""
    if file == STANDARD_INPUT:
        stream = cast(io.BufferedIOBase, sys.stdin.buffer)
    else:
        stream = open_binary(file)
        if offset and not _is_packed(Path(file)):
            stream.close()
            stream = Path(file).open("rb")
            offset -= stream.seek(min(offset, Path(file).stat().st_size))
    while offset:
        piece = stream.read(min(offset, _READ))
        if not piece:
            raise BadInput(f"{file} ends {offset:,} bytes before the place to go on from; it is not the file it was.")
        offset -= len(piece)
    return stream


def _is_packed(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(2) in _PACKED
