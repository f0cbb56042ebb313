"""How a table of text begins as people have them: its encoding, its delimiter, and the lines above its header."""

import codecs
import csv
import re
from collections import Counter
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from broadmatch.errors import BadInput
from broadmatch.io.files import Readable

BOM = codecs.BOM_UTF8
DELIMITERS = ",;\t|"
"""What stands between the fields of a table, in the order in which it is preferred."""

MOST_COLUMNS = 100_000
_WORD = re.compile(r"\s*\w+\s*")
_LINE = re.compile(rb"[^\r\n]*(?:\r\n|\n|\r|$)")
_LOOKED_AT, _JOINED = 60, 20
_PIECE = 1 << 16

# Windows-1252 leaves five bytes undefined in Python; browsers read them as the control characters of that number.
_WINDOWS_1252 = "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(256))
_CONTROL = re.compile(r"[\0-\x08\x0e-\x1f\x7f-\x9f]")


class Header(NamedTuple):
    """The delimiter of a table; where its header begins and ends in the text; whether there are titles above it."""

    delimiter: str
    begin: int
    end: int
    titled: bool


def encoding_of(head: bytes) -> str:
    """The encoding that the first bytes of a text tell: UTF-8, or UTF-16 by its byte order mark or its many zeros.

    Without a mark it is UTF-16 if there are many zeros, nearly all at even or nearly all at odd places: then most
    characters are ASCII, and no text in UTF-8 holds zeros.

    >>> encoding_of("query,page".encode("utf-16")), encoding_of("query,page".encode("utf-16-be")), encoding_of(b"a,b")
    ('utf-16-le', 'utf-16-be', 'utf-8')
    """
    if head.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        return "utf-16-le" if head.startswith(codecs.BOM_UTF16_LE) else "utf-16-be"
    sample = head[:4096]
    even, odd = sample[::2].count(0), sample[1::2].count(0)
    if 50 * min(even, odd) > max(even, odd) or 4 * max(even, odd) <= len(sample):
        return "utf-8"
    return "utf-16-be" if even > odd else "utf-16-le"


def is_utf8(text: bytes) -> bool:
    """Whether bytes are text in UTF-8."""
    if text.isascii():
        return True
    try:
        text.decode()
    except UnicodeDecodeError:
        return False
    return True


def windows_1252(text: bytes) -> str:
    """Any bytes as Windows-1252, as browsers read it.

    >>> windows_1252(b"caf\\xe9 \\x80")
    'café €'
    """
    return codecs.charmap_decode(text, "strict", _WINDOWS_1252)[0]


class Recoded:
    """A text in UTF-16 as UTF-8. What is not UTF-16 (half of a pair) becomes what is not UTF-8, and is found there."""

    def __init__(self, source: Readable, encoding: str, file: Path) -> None:
        self._source, self._file, self._ready, self._ended = source, file, b"", False
        self._decoder = codecs.getincrementaldecoder(encoding)("surrogatepass")

    def read(self, size: int, /) -> bytes:
        """Up to `size` bytes; none at the end."""
        while len(self._ready) < size and not self._ended:
            piece = self._source.read(max(size, _PIECE))
            self._ended = not piece
            try:
                text = self._decoder.decode(piece, final=self._ended)
            except UnicodeDecodeError as error:
                raise BadInput(f"{self._file} is not whole UTF-16 ({error.reason}); write it again.") from error
            self._ready += text.encode("utf-8", "surrogatepass")
        found, self._ready = self._ready[:size], self._ready[size:]
        return found


def find_header(head: bytes, preferred: str, names: int | None) -> Header:
    """Find the delimiter and the header in the first whole lines of a table.

    The delimiter is the one that cuts the most lines into the same number of fields, two at least. Exports have titles
    above the header, lines of one field with more than a word, and comments (#): these are passed over where the lines
    below have several fields. With `names`, the number of columns of a table without a header, only the delimiter is
    found.

    >>> find_header(b"Search terms report\\nSearch term;Clicks\\npizza;1,5\\n", ",", None)
    Header(delimiter=';', begin=20, end=39, titled=True)
    """
    lines = [(begin, end) for begin, end in _records(head) if head[begin:end].strip()]
    rows = [line for line in lines if not _is_comment(head[slice(*line)])] or lines
    texts = [head[begin:end].decode("utf-8", "replace").strip("\r\n") for begin, end in rows]
    best, at, score = preferred, 0, (0, 0)
    for mark in (preferred, *DELIMITERS.replace(preferred, "")):
        fields = [_filled(text, mark) for text in texts]
        usual = Counter(n for n, _ in fields if (n > 1 if names is None else n == names))
        n, times = max(usual.items(), key=lambda item: (item[1], item[0]), default=(0, 0))
        first = next((i for i, (count, _) in enumerate(fields) if count == n), 0)
        if any(filled > 1 for _, filled in fields[:first]) or (first and (times < 2 or _WORD.fullmatch(texts[0]))):
            first = 0
        # Where the first line has fields by one mark already, another must cut it, and into more.
        more = n > score[1] and first == 0 if score[1] and at == 0 else True
        if (times, n) > score and more and 2 * times >= len(fields) - first:
            best, at, score = mark, first, (times, n)
    if names is not None or not rows:
        return Header(best, 0, 0, titled=False)
    return Header(best, *rows[at], titled=rows[at] != lines[0])


def header_text(header: bytes) -> str:
    """A header in UTF-8, or in Windows-1252 if it is not; UnicodeDecodeError if that gives what no name holds."""
    try:
        return header.decode()
    except UnicodeDecodeError:
        text = windows_1252(header)
        if _CONTROL.search(text):
            raise
        return text


def split_names(text: str, delimiter: str) -> list[str]:
    """The names in a header."""
    return next(csv.reader([text.strip("\r\n")], delimiter=delimiter), [])


def _records(text: bytes) -> list[tuple[int, int]]:
    """Where the lines begin and end; a quoted field may hold line ends, unless its quotes do not close soon."""
    lines = [found.span() for found in _LINE.finditer(text) if found.end() > found.start()]
    found: list[tuple[int, int]] = []
    i = 0
    while i < len(lines) and len(found) < _LOOKED_AT:
        last = i
        while last < min(i + _JOINED, len(lines)) and text.count(b'"', lines[i][0], lines[last][1]) % 2:
            last += 1
        last = i if last == min(i + _JOINED, len(lines)) else last
        found.append((lines[i][0], lines[last][1]))
        i = last + 1
    return found


def _filled(text: str, delimiter: str) -> tuple[int, int]:
    """How many fields a line has, and how many are not empty."""
    if text.count(delimiter) > MOST_COLUMNS:
        return text.count(delimiter), MOST_COLUMNS
    try:
        fields: Sequence[str] = split_names(text, delimiter)
    except csv.Error:  # a field that is longer than Python's reader takes
        fields = text.split(delimiter)
    return len(fields), sum(bool(field.strip()) for field in fields)


def _is_comment(line: bytes) -> bool:
    return line.strip() == b"#" or line.startswith((b"# ", b"#-"))
