"""Text files as blocks of whole lines, whose bounds depend on the text alone: reading can go on after any of them."""

import io
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadInput
from broadmatch.io import _vw as kernels
from broadmatch.io.files import open_binary
from broadmatch.io.rows import Mark

STANDARD_INPUT = "-"
LONGEST_LINE = 4 << 20
"""Bytes of a line beyond which it is not a line of examples; of a longer one only the beginning is kept."""

_READ = 4 << 20
_ENOUGH = 64 << 20
_PACKED = (b"\x1f\x8b", b"\x28\xb5")


@dataclass(frozen=True)
class Block:
    """Whole lines, and how far the file is read with them; `first` lines stand before them in the file."""

    text: NDArray[np.uint8]
    first: int
    n_lines: int
    separators: int
    mark: Mark


def blocks(stream: io.BufferedIOBase, mark: Mark, most_lines: int) -> Iterator[Block]:
    """Cut the rest of a stream, which stands at `mark`, into blocks of `most_lines`.

    A block of 64 MB ends before that. The last block of the stream may have fewer.
    """
    held = np.empty(0, np.uint8)
    # Bytes of long lines that are not held: `beyond` of whole lines, `dropped` of one whose end is not reached.
    at = n = separators = beyond = dropped = added = 0
    ended = False
    while True:
        at, n, more = kernels.scan(held, at, len(held), n, most_lines, _ENOUGH - beyond)
        separators += more
        if n == most_lines or at + beyond >= _ENOUGH or (ended and n):
            last = ended and at == len(held)
            lines, offset = mark.line + n, mark.offset + at + beyond - (added if last else 0)
            text, first, mark = held[:at], mark.line, Mark(lines, offset, lines, whole=last)
            yield Block(text, first, n, separators, mark)
            held = held[at:].copy()
            at = n = separators = beyond = 0
            continue
        if ended:
            return
        piece = stream.read(_READ)
        ended = not piece
        if len(held) - at > LONGEST_LINE:
            kept = at + LONGEST_LINE + 1
            newline = piece.find(b"\n")
            rest = len(piece) if newline < 0 else newline
            dropped += len(held) - kept + rest
            held, piece = held[:kept], piece[rest:]
        if piece or ended:
            beyond, dropped = beyond + dropped, 0
        if ended and len(held) > at:
            piece, added = b"\n", 1
        held = np.concatenate([held, np.frombuffer(piece, np.uint8)])


def open_at(file: str, offset: int) -> io.BufferedIOBase:
    """Open a file, unpacked, or standard input ("-"), `offset` bytes on; what is packed has to be read up to there."""
    if file == STANDARD_INPUT:
        stream = cast(io.BufferedIOBase, sys.stdin.buffer)
    elif offset and not _is_packed(Path(file)):
        stream = io.BufferedReader(io.FileIO(file))
        offset -= stream.seek(min(offset, Path(file).stat().st_size))
    else:
        stream = open_binary(file)
    while offset:
        piece = stream.read(min(offset, _READ))
        if not piece:
            stream.close()
            raise BadInput(f"{file} ends {offset:,} bytes before the place to go on from; it is not the file it was.")
        offset -= len(piece)
    return stream


def _is_packed(file: Path) -> bool:
    with file.open("rb") as stream:
        return stream.read(2) in _PACKED
