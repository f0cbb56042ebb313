"""Words in order, with the zones that they stand in and what parts them."""

import pytest

from broadmatch.features.html_scan import _markup, _text
from broadmatch.features.html_scan._tokens import CAPITAL, CAPITALS, DIGIT
from broadmatch.features.html_scan.tokens import MOST_TOKENS, scan_tokens


def zones(html, address=""):
    """The words of a page with the zones of each."""
    names = ["TITLE", "HEADING", "ANCHOR", "KEYWORDS", "DESCRIPTION", "ADDRESS", "ALT", "FILE", "BOLD"]
    tokens = scan_tokens([html], [address])
    words = [word for sentence in tokens.sentences(0) for word in sentence]
    return [
        (word, *(name.lower() for name in names if bits & getattr(_text, name)))
        for word, bits in zip(words, tokens.bits, strict=True)
    ]


def test_every_known_tag_is_found_by_its_name():
    for number, name in enumerate(_markup._NAMES[1:], 1):
        assert _markup.skip_tags.py_func is not None
        packed = _markup.pack(name)
        at = (packed ^ (packed >> 5) ^ (packed >> 16)) & _markup._PLACES
        assert _markup._TAG_AT[at] == number


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("<title>Big</title>", [("big", "title")]),
        ("<h2>One</h2>two", [("one", "heading"), ("two",)]),
        ("<a href=x>in <b>it</b></a> out", [("in", "anchor"), ("it", "anchor", "bold"), ("out",)]),
        ("<meta name=keywords content='x, y'>", [("x", "keywords"), ("y", "keywords")]),
        ("<meta name=description content=about>", [("about", "description")]),
        ("<meta itemprop=keywords content=hidden>", []),
        ("<img alt='a cat' src='/i/big_cat-1.png?v=2'>",
         [("a", "alt"), ("cat", "alt"), ("big", "file"), ("cat", "file"), ("1", "file")]),
        ("<img src='data:image/png;base64,AAAA'>", []),
        ("<template><img alt=no></template><script>no</script>yes", [("yes",)]),
        ("<strong>a<em>b</em>c</strong>d", [("a", "bold"), ("b", "bold"), ("c", "bold"), ("d",)]),
    ],
)  # fmt: skip
def test_zones(html, expected):
    assert zones(html) == expected


def test_the_address_comes_last():
    assert zones("page", "http://a.b/thai_food") == [
        ("page",), *((word, "address") for word in ("http", "a", "b", "thai", "food"))
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("html", "expected"),
    [
        ("one two, three", [["one", "two"], ["three"]]),
        ("one<p>two<br>three <span>four</span>", [["one"], ["two"], ["three", "four"]]),
        ("state-of-the-art isn't TCP/IP", [["state", "of", "the", "art", "isn", "t", "tcp", "ip"]]),
        ("end. Next (one) - two", [["end"], ["next"], ["one"], ["two"]]),
        ("node.js 2.5 end.Next U.S. army", [["node", "js", "2", "5", "end"], ["next", "u", "s"], ["army"]]),
        ("a line\nbroken\n\nnext", [["a", "line", "broken"], ["next"]]),
        ("tea &amp; cake R&amp;D l’eau", [["tea"], ["cake", "r", "d", "l", "eau"]]),
        ("<b>bo</b>ld, <i>x</i>-ray", [["bo", "ld"], ["x", "ray"]]),
        ("機械学習。深層学習", [["機械学習"], ["深層学習"]]),
        ("", []),
    ],
)
def test_what_parts_words(html, expected):
    assert scan_tokens([html]).sentences(0) == expected


def test_how_words_are_written():
    tokens = scan_tokens(["Big NATO x 3D É ÉTÉ Σας"])
    shapes = [int(bits & (CAPITAL | CAPITALS | DIGIT)) for bits in tokens.bits]
    assert shapes == [CAPITAL, CAPITAL | CAPITALS, 0, DIGIT, CAPITAL, CAPITAL | CAPITALS, CAPITAL]


def test_pages_do_not_run_into_each_other_and_are_bound():
    tokens = scan_tokens(["one", "", "two " * (MOST_TOKENS + 5), "three"])
    assert (tokens.starts == [0, 1, 1, 1 + MOST_TOKENS, 2 + MOST_TOKENS]).all()
    assert tokens.sentences(3) == [["three"]]


def test_many_images_lose_nothing():
    html = "".join(f"<img alt=a{i} src=/x/f{i}.png>" for i in range(3000))
    assert len(scan_tokens([html]).word) == 6000
