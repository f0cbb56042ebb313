"""Bytes of a page to text: byte order mark, then what the page declares, then UTF-8, then windows-1252.

The names of encodings, and what browsers take them for, are those of the WHATWG Encoding Standard. Only encodings
listed here are ever used: a page cannot name one of Python's other codecs.
"""

import codecs
import re

_HEAD = 1024
"""Browsers look for a declaration in the first 1,024 bytes."""

_LABEL = re.compile(rb"charset\s*=\s*[\"']?\s*([a-z0-9_:.+-]+)")

_LABELS = {
    "utf-8": "utf-8 utf8 unicode-1-1-utf-8 unicode11utf8 x-unicode20utf8 utf-16 utf-16le utf-16be",
    "cp866": "866 cp866 csibm866 ibm866",
    "iso8859-2": "iso-8859-2 iso8859-2 iso_8859-2 latin2 l2",
    "iso8859-3": "iso-8859-3 iso8859-3 latin3 l3",
    "iso8859-4": "iso-8859-4 iso8859-4 latin4 l4",
    "iso8859-5": "iso-8859-5 iso8859-5 cyrillic",
    "iso8859-6": "iso-8859-6 iso8859-6 arabic asmo-708",
    "iso8859-7": "iso-8859-7 iso8859-7 greek greek8 ecma-118 elot_928 sun_eu_greek",
    "iso8859-8": "iso-8859-8 iso8859-8 iso-8859-8-i hebrew logical visual",
    "iso8859-10": "iso-8859-10 iso8859-10 latin6 l6",
    "iso8859-13": "iso-8859-13 iso8859-13",
    "iso8859-14": "iso-8859-14 iso8859-14",
    "iso8859-15": "iso-8859-15 iso8859-15 latin9 l9",
    "iso8859-16": "iso-8859-16",
    "koi8-r": "koi8-r koi koi8 koi8_r cskoi8r",
    "koi8-u": "koi8-u koi8-ru",
    "mac-roman": "macintosh mac x-mac-roman csmacintosh",
    "mac-cyrillic": "x-mac-cyrillic x-mac-ukrainian",
    "cp874": "windows-874 tis-620 iso-8859-11 iso8859-11 dos-874",
    "cp1250": "windows-1250 cp1250 x-cp1250",
    "cp1251": "windows-1251 cp1251 x-cp1251",
    "cp1252": "windows-1252 cp1252 x-cp1252 iso-8859-1 iso8859-1 iso_8859-1 latin1 l1 ascii us-ascii ansi_x3.4-1968",
    "cp1253": "windows-1253 cp1253 x-cp1253",
    "cp1254": "windows-1254 cp1254 x-cp1254 iso-8859-9 iso8859-9 latin5 l5",
    "cp1255": "windows-1255 cp1255 x-cp1255",
    "cp1256": "windows-1256 cp1256 x-cp1256",
    "cp1257": "windows-1257 cp1257 x-cp1257",
    "cp1258": "windows-1258 cp1258 x-cp1258",
    "gb18030": "gb18030 gbk gb2312 gb_2312 gb_2312-80 chinese x-gbk iso-ir-58",
    "big5hkscs": "big5 big5-hkscs cn-big5 x-x-big5 csbig5",
    "euc_jp": "euc-jp x-euc-jp cseucpkdfmtjapanese",
    "iso2022_jp": "iso-2022-jp csiso2022jp",
    "cp932": "shift_jis shift-jis sjis x-sjis ms932 ms_kanji windows-31j csshiftjis",
    "cp949": "euc-kr euc_kr korean ks_c_5601-1987 ks_c_5601-1989 ksc5601 ksc_5601 windows-949 cseuckr",
}
_CODECS = {label.encode(): codec for codec, labels in _LABELS.items() for label in labels.split()}

_BYTE_ORDER_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))

# Windows-1252 leaves five bytes undefined in Python; browsers read them as the control characters of that number.
_WINDOWS_1252 = "".join(bytes([b]).decode("cp1252", "ignore") or chr(b) for b in range(256))


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
    return codecs.charmap_decode(page, "strict", _WINDOWS_1252)[0]


def declared_codec(page: bytes) -> str | None:
    """Python's name of the encoding that `page` declares in a `<meta>`, or None."""
    head = page[:_HEAD].lower()
    at = head.find(b"charset")
    while at >= 0:
        tag = head.rfind(b"<", 0, at)
        label = _LABEL.match(head, at)
        if label is not None and tag >= 0 and head.startswith(b"<meta", tag) and head.find(b">", tag, at) < 0:
            return _CODECS.get(label.group(1))
        at = head.find(b"charset", at + 1)
    return None


def to_utf8(page: bytes | str) -> bytes:
    """The same page as valid UTF-8; bytes that are that already are given back as they are.

    A page without a single `>` holds no tag: it is plain text, and its `<` are put out of the way.
    """
    raw = page.encode("utf-8", "replace") if isinstance(page, str) else _bytes_to_utf8(page)
    return raw if b">" in raw else raw.replace(b"<", b" ")


def _bytes_to_utf8(page: bytes) -> bytes:
    if not page.startswith(_MARKS) and declared_codec(page) in (None, "utf-8") and _valid(page):
        return page
    return decode(page).encode("utf-8", "replace")


def _valid(page: bytes) -> bool:
    if page.isascii():
        return True
    try:
        page.decode()
    except UnicodeDecodeError:
        return False
    return True


_MARKS = tuple(mark for mark, _ in _BYTE_ORDER_MARKS)
