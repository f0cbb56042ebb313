"""Bytes to text."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from broadmatch.features import decode
from broadmatch.features.encodings import _CODECS, to_utf8


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


@pytest.mark.parametrize("label", sorted(_CODECS))
@given(st.binary(max_size=100))
def test_no_declared_encoding_raises(label: bytes, rest: bytes) -> None:
    decode(b"<meta charset=" + label + b">" + rest)


@given(st.binary(max_size=100))
def test_any_bytes_become_valid_utf8(page: bytes) -> None:
    expected = decode(page).encode("utf-8", "replace")
    assert to_utf8(page) == (expected if b">" in expected else expected.replace(b"<", b" "))


def test_lone_surrogates_do_no_harm() -> None:
    assert to_utf8("a\ud800b>") == b"a?b>"
