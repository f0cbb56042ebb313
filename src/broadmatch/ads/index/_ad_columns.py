"""Loops that read the texts of ads out of their records (`records.py` has their form)."""

from broadmatch.ads.index._postings import HEAD
from broadmatch.kernels import I64, Bytes, kernel

ABOUT = 4
"""Texts at the end of a record: advertiser, page, title and text."""


@kernel
def text_spans(words: I64, starts: I64, numbers: I64, begin: I64, end: I64) -> None:
    """Where the name and the texts at the end of each record stand, in bytes: begin[t, numbers[r]] of text t.

    Text 0 is the name. Records begin at words[starts[r]].
    """
    for r in range(len(starts)):
        at, row = starts[r], numbers[r]
        text = 8 * (at + HEAD + 3 * words[at + 1] + words[at + 2] + 3 * words[at + 3])
        begin[0, row], end[0, row] = text, text + words[at + 4]
        sizes = (text + words[at + 5] + 7) // 8
        text = 8 * (sizes + ABOUT)
        for t in range(ABOUT):
            begin[1 + t, row], end[1 + t, row] = text, text + words[sizes + t]
            text += words[sizes + t]


@kernel
def phrase_spans(words: I64, starts: I64, begin: I64, end: I64) -> None:
    """Where the text of each phrase stands, by its number; numbers beyond the arrays are left out."""
    for r in range(len(starts)):
        at = starts[r]
        n, m, e = words[at + 1], words[at + 2], words[at + 3]
        first = at + HEAD
        text = 8 * (first + 3 * n + m + 3 * e) + words[at + 4]
        for i in range(n):
            number, size = words[first + 3 * i], words[first + 3 * i + 2] >> 8
            if 0 <= number < len(begin):
                begin[number], end[number] = text, text + size
            text += size


@kernel
def copy_spans(text: Bytes, begin: I64, offsets: I64, out: Bytes) -> None:
    """out[offsets[i]:offsets[i + 1]] = the bytes of `text` from begin[i] on."""
    for i in range(len(begin)):
        for k in range(offsets[i + 1] - offsets[i]):
            out[offsets[i] + k] = text[begin[i] + k]
