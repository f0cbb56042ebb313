"""Landing pages: HTML in any encoding, through the reader of pages, the scanner and the vectorizers."""

import random
from pathlib import Path

from benchmarks.fuzz import target
from benchmarks.fuzz.mutate import mutated
from broadmatch.features import PageVectorizer, PivotedVectorizer, bag_of_words
from broadmatch.features.html_scan import scan_pages
from broadmatch.io import PageSource

PAGES = (
    b"<!doctype html><html lang=en><head><title>Fresh pizza</title><meta charset=utf-8><style>a{b:c}</style></head>"
    b"<body class=\"x y\"><h1>Pizza &amp; pasta</h1><p>since <b>1986</b>&nbsp;in <a href='/x?a=1&b=2'>Naples</a>"
    b"<!-- no --><script>if (a < b && '</p>') {}</script><textarea><b></textarea><br/><img alt='a > b'></body></html>",
    "<p>naïve café — Größe &eacute;&#233;&#xE9; 日本語 العربية e\u0301</p><title>Ünïcode</title>".encode(),
    '<meta http-equiv=content-type content="text/html; charset=iso-8859-1"><p>caf\xe9 &copy 1 &notit; &lt;'.encode(
        "latin-1"
    ),
    "<title>wide</title><p>sixteen bits</p>".encode("utf-16"),
    b'<?xml version="1.0" encoding="shift_jis"?><p>\x93\xfa\x96{</p><![CDATA[ a ]]><svg><title>no</title></svg>',
    b"plain text without any markup, 3 < 4 & 5 > 2\r\n\tTabs and lines\n",
    b"",
)
TOKENS = (
    b"<", b">", b"</", b"<!", b"<!--", b"-->", b"--!>", b"<![CDATA[", b"]]>", b"<?", b"&", b"&#", b"&#x", b";", b"&amp",
    b"&#0;", b"&#x110000;", b"&#xD800;", b"&NotEqualTilde;", b"&notin", b"&#99999999999999999999;", b"='", b'="', b"\0",
    b"<script>", b"</script", b"<script><!--<script>", b"<title>", b"</title>", b"<a href=", b"</a>", b"<style>", b"/>",
    b"<textarea>", b"<plaintext>", b"<noscript>", b"<svg>", b"<math>", b"<iframe>", b"<xmp>", b"<template>", b"\x1b$B",
    b"\xff\xfe", b"\xfe\xff", b"\xef\xbb\xbf", b"\xed\xa0\x80", b"\xf4\x90\x80\x80", b"\xe2\x80", b"\xc2\xa0",
    b"\xcc\x81", b"<meta charset=", b"charset=utf-7", b"charset=gb18030", b"charset=x-user-defined",
    b"charset=replacement",
)  # fmt: skip


@target
def html(draw: random.Random, folder: Path) -> None:
    """Pages with damaged markup, references, encodings."""
    pages = [mutated(draw, PAGES, TOKENS) for _ in range(draw.choice((1, 1, 2, 5)))]
    texts: list[bytes | str] = [page if draw.random() < 0.7 else page.decode("latin-1") for page in pages]
    kind = draw.random()
    if kind < 0.7:
        scanned = scan_pages(texts, boost=draw.choice((1, 10, 1000)))
        assert scanned.n_pages == len(texts)
        assert scanned.rows.counts.min(initial=1) > 0
    elif kind < 0.8:
        bag_of_words(texts[0])
    elif kind < 0.9:
        vectorizer = draw.choice((PageVectorizer, PivotedVectorizer))(min_pages=1, n_jobs=1)
        rows = vectorizer.fit_transform(texts)
        assert (rows != vectorizer.transform(texts)).nnz == 0
    else:
        file = folder / f"page{draw.choice(('.html', '.htm', '', '.txt'))}"
        for old in folder.iterdir():
            old.unlink()
        file.write_bytes(pages[0])
        list(PageSource(folder))
