"""Bytes to text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from webencodings.labels import LABELS

from broadmatch.features import decode
from broadmatch.features.encodings import declared_codec, to_utf8


@pytest.mark.parametrize(
    ("page", "text"),
    [
        (b"", ""),
        (b"\xef\xbb\xbfcaf\xc3\xa9", "café"),
        ("\ufeffcafé".encode("utf-16-le"), "café"),
        ("\ufeffcafé".encode("utf-16-be"), "café"),
        (b"caf\xc3\xa9", "café"),
        (b"caf\xe9 \x80 \x81", "café € \x81"),
        (b"<meta charset=utf-8>caf\xe9", "<meta charset=utf-8>caf\ufffd"),
        (b"<meta charset='windows-1251'>\xcf", "<meta charset='windows-1251'>П"),
        (
            b'<META http-equiv=x content="text/html; charset=Shift_JIS">\x93\xfa',
            '<META http-equiv=x content="text/html; charset=Shift_JIS">日',
        ),
        (b"<meta charset=iso-8859-1>\x93", "<meta charset=iso-8859-1>“"),
        (b"<meta charset=utf-16>\xc3\xa9", "<meta charset=utf-16>é"),
        (b"<meta charset=zip>\xc3\xa9", "<meta charset=zip>é"),
        (b"<meta charset=unicode_escape>\\u0041", "<meta charset=unicode_escape>\\u0041"),
        (b" " * 1100 + b"<meta charset=koi8-r>\xc3\xa9", " " * 1100 + "<meta charset=koi8-r>é"),
    ],
)
def test_what_a_page_is_decoded_as(page: bytes, text: str) -> None:
    assert decode(page) == text


@pytest.mark.parametrize(
    ("labels", "codec"),
    [
        ("utf-8 utf8 unicode-1-1-utf-8 x-unicode20utf8", "utf-8"),
        ("utf-16 utf-16le utf-16be unicode", "utf-8"),  # what declares itself in ASCII is not UTF-16
        ("iso-8859-1 latin1 l1 ascii us-ascii windows-1252 x-cp1252", "cp1252"),
        ("iso-8859-9 latin5 windows-1254", "cp1254"),
        ("iso-8859-8 iso-8859-8-i logical visual hebrew", "iso8859-8"),
        ("866 ibm866", "cp866"),
        ("koi8-u koi8-ru", "koi8-u"),
        ("macintosh x-mac-roman", "mac-roman"),
        ("x-mac-cyrillic x-mac-ukrainian", "mac-cyrillic"),
        ("tis-620 iso-8859-11 windows-874", "cp874"),
        ("gb2312 gbk x-gbk gb18030 chinese", "gb18030"),
        ("big5 big5-hkscs x-x-big5", "big5hkscs"),
        ("shift_jis sjis windows-31j ms_kanji", "cp932"),
        ("euc-kr ks_c_5601-1987 windows-949", "cp949"),
        ("euc-jp", "euc_jp"),
        ("iso-2022-jp", "iso2022_jp"),
        ("x-user-defined replacement iso-2022-kr hz-gb-2312 utf-7 utf-32 zip rot13 unicode_escape", None),
    ],
)
def test_labels_mean_what_browsers_take_them_for(labels: str, codec: str | None) -> None:
    assert {declared_codec(f"<meta charset={label.upper()}>".encode()) for label in labels.split()} == {codec}


@pytest.mark.parametrize("label", sorted(label.encode() for label in LABELS))
@given(st.binary(max_size=100))
def test_no_declared_encoding_raises(label: bytes, rest: bytes) -> None:
    decode(b"<meta charset=" + label + b">" + rest)


@given(st.binary(max_size=100))
def test_any_bytes_become_valid_utf8(page: bytes) -> None:
    expected = decode(page).encode("utf-8", "replace")
    assert to_utf8(page) == (expected if b">" in expected else expected.replace(b"<", b" "))


def test_lone_surrogates_do_no_harm() -> None:
    assert to_utf8("a\ud800b>") == b"a?b>"
