"""The words of a page and their weights, straight from the rules: regular expressions over text, no tree, no bytes.

Twin of features.html_scan. The rules of tags, comments, raw text and references are those of the
HTML Standard's tokenizer; what a link is, in and out of tables, is said in docs/features.md.
"""

import re
from collections import Counter
from collections.abc import Iterator
from html.entities import html5
from itertools import pairwise

from broadmatch.kernels.words import tokenize

S = r"[\t\n\f\r ]"
ATTRIBUTE = (
    rf"""(?>[^\t\n\f\r />][^\t\n\f\r />=]*+)(?>{S}*+=(?>{S}*+)(?>"[^"]*+(?:"|\Z)|'[^']*+(?:'|\Z)|[^\t\n\f\r >]*+)|)"""
)
TAG = re.compile(rf"""<(/?)([A-Za-z][^\t\n\f\r />]*+)((?>[\t\n\f\r /]++|{ATTRIBUTE})*+)>""")
ONE_ATTRIBUTE = re.compile(
    rf"""(?P<name>[^\t\n\f\r />][^\t\n\f\r />=]*+)"""
    rf"""(?:{S}*+={S}*+(?:"(?P<double>[^"]*)"|'(?P<single>[^']*)'|(?P<bare>[^\t\n\f\r >]*)))?"""
)
COMMENT = re.compile(r"<!---?>|<!--(?:(?!--!?>).)*(?:--!?>|\Z)", re.DOTALL)
BOGUS = re.compile(r"<(?:[!?]|/(?![A-Za-z])(?=.))[^>]*(?:>|\Z)", re.DOTALL)
UNFINISHED_TAG = re.compile(r"</?[A-Za-z]")
CDATA = re.compile(r"<!\[CDATA\[(.*?)(?:\]\]>|\Z)", re.DOTALL)
REFERENCE = re.compile(r"&(?:#[xX]([0-9a-fA-F]+);?|#([0-9]+);?|([A-Za-z0-9]+;?))")
CELL = ("td", "th", "caption")
ROW = ("tr", "tbody", "thead", "tfoot")
SILENT = ("script", "style", "iframe", "noembed", "noframes")


def page_words(page: str, boost: int, ngrams: int = 1) -> dict[str, int]:
    """How often each word counts, and each pair of words that follow each other in a piece of text."""
    counts: Counter[str] = Counter()
    for text, weight in stretches(page if ">" in page else page.replace("<", " "), boost):
        words = tokenize(text) if weight else []
        for word in words + ([" ".join(pair) for pair in pairwise(words)] if ngrams == 2 else []):
            counts[word] += weight
    return dict(counts)


def stretches(page: str, boost: int) -> Iterator[tuple[str, int]]:
    """The pieces of text with their weights; a piece never runs into the next."""
    i, link, around, templates, foreign = 0, False, False, 0, 0
    tables: list[tuple[bool, bool]] = []
    while i < len(page):
        weight = 0 if templates else boost if link or around else 1
        if page[i] != "<":
            end = page.find("<", i)
            end = len(page) if end < 0 else end
            yield unescape(page[i:end].replace("\0", "")), weight
            i = end
            continue
        if foreign and (section := CDATA.match(page, i)):
            yield section.group(1), weight
            i = section.end()
            continue
        if skipped := COMMENT.match(page, i) or BOGUS.match(page, i):
            i = skipped.end()
            continue
        tag = TAG.match(page, i)
        if tag is None:
            if UNFINISHED_TAG.match(page, i):
                return
            i += 1
            continue
        i = tag.end()
        closing, name, inside = bool(tag.group(1)), lower(tag.group(2)), tag.group(3)
        attributes, closes_itself = read_attributes(inside)
        if name == "a":
            link = link if templates else not closing and "href" in attributes
        elif name in ("svg", "math"):
            foreign = max(0, foreign - 1) if closing else foreign + (not closes_itself)
        elif name == "template":
            templates = max(0, templates - 1) if closing else templates + 1
        elif name in ("table", *CELL, *ROW):
            if templates:
                pass
            elif name == "table" and not closing:
                tables.append((around, link))
            elif tables:
                around, link = tables[-1]
                if name in CELL and not closing:
                    around, link = around or link, False
                if name == "table":
                    tables.pop()
        elif closing or (foreign and closes_itself):
            pass
        elif name == "meta":
            if lower(attributes.get("name", "")) in ("description", "keywords"):
                yield unescape(attributes.get("content", ""), in_attribute=True), 0 if templates else 1
        elif name in SILENT:
            i = raw_end(page, i, name)
        elif not foreign and name in ("title", "textarea", "xmp", "plaintext"):
            end = len(page) if name == "plaintext" else raw_end(page, i, name)
            text = page[i:end] if name in ("xmp", "plaintext") else unescape(page[i:end])
            yield text, weight if name != "title" or templates else boost
            i = end


def lower(name: str) -> str:
    """Lower case of ASCII only, as HTML has it for names."""
    return re.sub("[A-Z]", lambda letter: letter.group().lower(), name)


def read_attributes(inside: str) -> tuple[dict[str, str], bool]:
    """The attributes of a tag, the first of each name, and whether the tag closes itself."""
    found: dict[str, str] = {}
    end = 0
    for attribute in ONE_ATTRIBUTE.finditer(inside):
        value = attribute["double"] or attribute["single"] or attribute["bare"] or ""
        found.setdefault(lower(attribute["name"]), value)
        end = attribute.end()
    return found, inside[end:].endswith("/")


def raw_end(page: str, i: int, name: str) -> int:
    """Where the `</name` is that ends the raw text from i on."""
    end_tag = re.compile(rf"</{name}(?=[\t\n\f\r />])", re.IGNORECASE | re.ASCII)
    if name != "script":
        found = end_tag.search(page, i)
        return found.start() if found else len(page)
    mark = re.compile(r"<!--|-->|<(/?)script(?=[\t\n\f\r />])", re.IGNORECASE | re.ASCII)
    commented = hidden = False
    while found := mark.search(page, i):
        i = found.end()
        if found.group() == "<!--":
            commented = True
            i = found.start() + 2  # <!--> opens and closes
        elif found.group() == "-->":
            commented = hidden = False
        elif found.group(1) and not hidden:
            return found.start()
        elif found.group(1):
            hidden = False
        else:
            hidden = hidden or commented
    return len(page)


def unescape(text: str, *, in_attribute: bool = False) -> str:
    """Resolve character references."""

    def resolve(found: re.Match[str]) -> str:
        hexadecimal, decimal, name = found.groups()
        if name is None:
            code = int(hexadecimal, 16) if hexadecimal else int(decimal)
            if code == 0 or code > 0x10FFFF or 0xD800 <= code < 0xE000:
                return "\ufffd"
            if 0x80 <= code < 0xA0:
                return bytes([code]).decode("cp1252", "ignore") or chr(code)
            return chr(code)
        for size in range(len(name), 0, -1):
            if name[:size] in html5:
                following = text[found.start() + 1 + size : found.start() + 2 + size]
                unfinished = name[size - 1] != ";"
                if in_attribute and unfinished and re.match("[=A-Za-z0-9]", following):
                    break
                return html5[name[:size]] + name[size:]
        return found.group()

    return REFERENCE.sub(resolve, text)
