"""HTML to its texts: title, meta description and keywords, headings, anchors and body. Oracle of features.html_scan.

The page is parsed as browsers do (HTML5, lexbor), so that broken markup means what a browser makes of it. Every tag
and every comment separates words: the text of two elements never runs together.

Left out: what `<script>`, `<style>`, `<template>`, `<iframe>`, `<noembed>` and `<noframes>` hold, comments, and all
attributes but the description and keywords. `<noscript>` is kept, for this reader runs no scripts.
"""

import re
from collections import Counter
from dataclasses import dataclass

from selectolax.lexbor import LexborHTMLParser, LexborNode

from broadmatch.features.encodings import to_utf8
from broadmatch.kernels.words import tokenize

UNSEEN = ("script", "style", "template", "iframe", "noembed", "noframes")
"""Elements whose content is no text of the page."""

_BUDGET = 200_000_000
"""Steps up the open elements that one page may cost the tree builder: about a second."""

_TAG = re.compile(rb"<(/?)([a-zA-Z][^\s/>]{0,20})")
_VOID = frozenset(b"area base br col embed hr img input link meta param source track wbr".split())


@dataclass(frozen=True)
class PageText:
    """The texts of a page. `body` is all its text but the title, headings and anchors included.

    >>> page = extract("<title>Pizza</title><h1>Order</h1> now at <a href=/>our shop</a>")
    >>> page.title, page.headings, page.anchors, page.body
    ('Pizza', ('Order',), ('our shop',), 'Order  now at  our shop')
    """

    title: str
    description: str
    keywords: str
    headings: tuple[str, ...]
    anchors: tuple[str, ...]
    body: str

    def words(self, boost: int = 10) -> dict[str, int]:
        """How often each word counts: `boost` times in the title and in anchors, once elsewhere (MLRF §3.1)."""
        counts: Counter[str] = Counter()
        for text in (self.body, self.description, self.keywords):
            counts.update(tokenize(text))
        for text, weight in ((self.title, boost), *((anchor, boost - 1) for anchor in self.anchors)):
            for word in tokenize(text):
                counts[word] += weight
        return dict(counts)


def extract(page: bytes | str) -> PageText:
    """Take a page apart; any bytes or text give a `PageText`, none raise.

    A page so deeply nested that its tree would cost more than about a second is read up to that point.
    """
    tree = LexborHTMLParser(_affordable(to_utf8(page)))
    tree.strip_tags(list(UNSEEN))
    root = tree.root
    if root is None:
        return PageText("", "", "", (), (), "")
    titles = _outermost(tree, "title", within="svg title, math title")
    title = " ".join(_text(node) for node in titles)
    for node in titles:
        node.decompose()
    return PageText(
        title,
        _meta(tree, "description"),
        _meta(tree, "keywords"),
        tuple(_text(node) for node in tree.css("h1, h2, h3, h4, h5, h6")),
        tuple(_text(node) for node in _outermost(tree, "a[href]", within="a[href] a[href]")),
        _text(root),
    )


def _text(node: LexborNode) -> str:
    return node.text(separator=" ")


def _meta(tree: LexborHTMLParser, name: str) -> str:
    found = [node.attributes for node in tree.css("meta[name][content]")]
    return " ".join(a["content"] or "" for a in found if (a["name"] or "").lower() == name)


def _outermost(tree: LexborHTMLParser, selector: str, *, within: str) -> list[LexborNode]:
    """The nodes of `selector` but those of `within`: titles of drawings, links in a table in a link."""
    inner = {node.mem_id for node in tree.css(within)}
    return [node for node in tree.css(selector) if node.mem_id not in inner]


def _affordable(page: bytes) -> bytes:
    """As much of `page` as the tree builder reads within its budget: each tag may cost a walk up all open ones."""
    tags = page.count(b"<")
    if tags * tags // 2 <= _BUDGET:
        return page
    spent = depth = 0
    still_open: Counter[bytes] = Counter()
    for tag in _TAG.finditer(page):
        name = tag.group(2).lower()
        if not tag.group(1):
            if name not in _VOID:
                still_open[name] += 1
                depth += 1
        elif still_open[name]:
            still_open[name] -= 1
            depth -= 1
        spent += depth
        if spent > _BUDGET:
            return page[: tag.start()]
    return page
