"""Bytes of a page to text: byte order mark, then what the page declares, then UTF-8, then windows-1252.

The names of encodings, and what browsers take them for, are those of the WHATWG Encoding Standard (`webencodings`): a
page cannot name one of Python's other codecs.
"""

import codecs
import re

import webencodings

from broadmatch.io.headers import is_utf8, windows_1252

_HEAD = 1024
"""Browsers look for a declaration in the first 1,024 bytes."""

_LABEL = re.compile(rb"charset\s*=\s*[\"']?\s*([a-z0-9_:.+-]+)")

# A page that could be searched for its declaration is in no encoding of 16 bits, and GBK is a part of gb18030.
_READ_AS = {"utf-16le": "utf-8", "utf-16be": "utf-8", "gbk": "gb18030"}
_NOT_READ = ("replacement", "x-user-defined")
"""Encodings of the standard that say nothing of a page's text."""

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_MARKS = tuple(mark for mark, _ in _BYTE_ORDER_MARKS)


def decode(page: bytes) -> str:
    """The text of `page`; any bytes give some text, none raise.

    >>> decode(b"<meta charset=koi8-r>\\xf0\\xc9\\xc3\\xc3\\xc1"), decode(b"caf\\xe9"), decode(b"caf\\xc3\\xa9")
    ('<meta charset=koi8-r>Пицца', 'café', 'café')
    """
    for mark, codec in _BYTE_ORDER_MARKS:
        if page.startswith(mark):
            return page[len(mark) :].decode(codec, "replace")
    declared = declared_codec(page)
    if declared is not None and declared != "cp1252":
        return page.decode(declared, "replace")
    if declared is None:
        try:
            return page.decode("utf-8")
        except UnicodeDecodeError:
            pass
    return windows_1252(page)


def declared_codec(page: bytes) -> str | None:
    """Python's name of the encoding that `page` declares in a `<meta>`, or None."""
    head = page[:_HEAD].lower()
    at = head.find(b"charset")
    while at >= 0:
        tag = head.rfind(b"<", 0, at)
        label = _LABEL.match(head, at)
        if label is not None and tag >= 0 and head.startswith(b"<meta", tag) and head.find(b">", tag, at) < 0:
            return _codec(label.group(1).decode())
        at = head.find(b"charset", at + 1)
    return None


def _codec(label: str) -> str | None:
    found = webencodings.lookup(label)
    if found is None or found.name in _NOT_READ:
        return None
    return _READ_AS.get(found.name, found.codec_info.name)


def to_utf8(page: bytes | str) -> bytes:
    """The same page as valid UTF-8; bytes that are that already are given back as they are.

    A page without a single `>` holds no tag: it is plain text, and its `<` are put out of the way.
    """
    raw = page.encode("utf-8", "replace") if isinstance(page, str) else _bytes_to_utf8(page)
    return raw if b">" in raw else raw.replace(b"<", b" ")


def _bytes_to_utf8(page: bytes) -> bytes:
    if not page.startswith(_MARKS) and declared_codec(page) in (None, "utf-8") and is_utf8(page):
        return page
    return decode(page).encode("utf-8", "replace")
