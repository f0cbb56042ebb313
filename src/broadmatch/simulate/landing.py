"""Landing pages as HTML: a few site templates, boilerplate that misleads, broken markup, pages made of images."""

import html
import json
import random
import re
from collections.abc import Callable

from broadmatch.simulate.kinds import IMAGE_KINDS, Kind
from broadmatch.simulate.verticals import BOILERPLATE, MENU
from broadmatch.simulate.wording import Facts, facts_of, sentences, site_links, title
from broadmatch.simulate.world import World, slug

BROKEN_SHARE, MISENCODED_SHARE = 0.08, 0.03


def landing_page(world: World, page: int, seed: int) -> str:
    """The HTML of one page, always the same for the same seed; pages of one brand share its template.

    >>> import numpy as np
    >>> from broadmatch.simulate.world import make_world
    >>> world = make_world(100, np.random.default_rng(0))
    >>> "<title>" in landing_page(world, 0, seed=0).lower()
    True
    """
    site = random.Random(f"{seed} site {world.pages.brand[page]}")
    rng = random.Random(f"{seed} page {page}")
    facts = facts_of(world, page, rng)
    template = site.choice(TEMPLATES)
    links = site_links(facts, site)
    text = _image_page(facts, rng) if facts.kind in IMAGE_KINDS else template(facts, links, rng)
    if facts.kind == Kind.TEMPLATE:
        text = re.sub("(?i)<body[^>]*>", rf"\g<0><div class=shelf><ul>{_list(links, '/all')}</ul></div>", text, count=1)
    return _damaged(text, rng)


def _script(rng: random.Random) -> str:
    number = rng.randrange(10**8)
    return (
        f"<script>window.dataLayer=window.dataLayer||[];function track(){{dataLayer.push(arguments)}}"
        f"track('config','UX-{number}');if(1<2&&{number}>0){{document.write('<scr'+'ipt></scr'+'ipt>')}}</script>"
        f"<style>.c{number % 97}{{color:#{number % 4096:03x};margin:0 auto}} #nav>li{{float:left}}</style>"
    )


def _list(items: list[str], base: str = "") -> str:
    return "".join(f'<li><a href="{base}/{slug(i)}">{html.escape(i.capitalize())}</a></li>' for i in items)


def _links(items: list[str], between: str = " ") -> str:
    return between.join(f'<a href="/{slug(i)}">{html.escape(i)}</a>' for i in items)


def _shop(facts: Facts, links: list[str], rng: random.Random) -> str:
    """A shop of today: header, hero, cards, footer."""
    cards = "\n".join(
        f'<div class="card"><img src="/img/{slug(p)}.jpg" alt=""><h3>{html.escape(p.title())}</h3>'
        f"<p>{html.escape(rng.choice((*facts.attributes, 'popular')).capitalize())} {html.escape(p)}"
        f" from ${rng.randrange(5, 300)}.{rng.choice(('00', '95', '99'))}</p>"
        f'<a class="btn" href="/{slug(p)}">{rng.choice(("Order now", "See more", "Buy", "Get a quote"))}</a></div>'
        for p in facts.products
    )
    paragraphs = "\n".join(f"<p>{html.escape(s)}.</p>" for s in sentences(facts, rng))
    return f"""<!DOCTYPE html>
<html lang="en"><head><meta charset="utf-8"><title>{title(facts, rng)}</title>
<meta name="description" content="{html.escape(facts.subject)} by {html.escape(facts.brand)} {facts.city}">
{_script(rng)}</head>
<body><header><a href="/"><img src="/logo.svg" alt="{html.escape(facts.brand)}"></a>
<nav><ul id="nav">{_list(rng.sample(MENU, 5))}</ul></nav></header>
<main><h1>{html.escape(facts.subject.title())} {facts.city}</h1>
{paragraphs}
<section class="grid">{cards}</section></main>
<footer><ul>{_list(links, "/more")}</ul>
<p>&copy; {html.escape(facts.brand)} {facts.place} &middot; {html.escape(rng.choice(BOILERPLATE))}</p></footer>
</body></html>"""


def _table(facts: Facts, links: list[str], rng: random.Random) -> str:
    """A page of another age: tables, fonts, capitals, and tags nobody closed."""
    rows = "\n".join(
        f"<TR><TD BGCOLOR=#ffffcc><B>{p.upper()}<TD>{rng.choice(facts.attributes)} &nbsp;&nbsp; call us"
        for p in facts.products
    )
    text = "\n<P>".join(s + "!" for s in sentences(facts, rng))
    menu = _links([*rng.sample(MENU, 4), *links], " | ")
    return f"""<HTML><HEAD><TITLE>{title(facts, rng)}</TITLE>
<META NAME=keywords CONTENT="{", ".join(facts.vertical.nouns[:3])}, {facts.city}">
</HEAD><BODY BGCOLOR=white><CENTER><FONT SIZE=+3 COLOR=red>{facts.brand} -- {facts.subject}</FONT></CENTER>
<TABLE WIDTH=100% BORDER=1><TR><TD COLSPAN=2>{menu}
{rows}
</TABLE><P>{text}
<HR><I>Best viewed at 1024x768. {facts.brand} {facts.city}</I>
<SCRIPT LANGUAGE=JavaScript><!-- document.write("visitor " + {rng.randrange(99999)}) //--></SCRIPT>
</BODY></HTML>"""


def _article(facts: Facts, links: list[str], rng: random.Random) -> str:
    """A page that explains itself at length, with questions and a sidebar."""
    said = sentences(facts, rng)
    half = len(said) // 2
    asked = [
        q.format(product=rng.choice(facts.products))
        for q in rng.sample(facts.vertical.questions, min(2, len(facts.vertical.questions)))
    ]
    answers = "\n".join(
        f"<h2>{html.escape(q.capitalize())}?</h2><p>{html.escape(rng.choice(said))}.</p>" for q in asked
    )
    return f"""<!doctype html><html><head><title>{title(facts, rng)}</title>
<link rel="stylesheet" href="/s.css"><meta name=viewport content="width=device-width">{_script(rng)}</head>
<body><div class=top><a href=/>{html.escape(facts.brand)}</a> {_links(rng.sample(MENU, 4))}</div>
<article><h1>{html.escape(facts.brand)}: {html.escape(facts.subject)} {facts.city}</h1>
<p>{html.escape(". ".join(said[:half]))}.</p>
<ul>{"".join(f"<li>{html.escape(p)}" for p in facts.products)}</ul>
<p>{html.escape(". ".join(said[half:]))}.</p>
{answers}
</article>
<aside><h4>Popular categories</h4><ul>{_list(links, "/c")}</ul></aside></body></html>"""


def _application(facts: Facts, links: list[str], rng: random.Random) -> str:
    """A script with a little text: structured data, a noscript block, many nested boxes."""
    boxes = "".join(
        f'<div class="x{i}"><div><span>{html.escape(p)}</span><span>{html.escape(rng.choice(facts.attributes))}</span>'
        "</div></div>"
        for i, p in enumerate(facts.products)
    )
    said = sentences(facts, rng)
    return f"""<!DOCTYPE html><html><head><meta charset="utf-8"><title>{title(facts, rng)}</title>
<meta property="og:title" content="{html.escape(facts.brand)}">
<meta name="description" content="{html.escape(said[0])}">
<script type="application/ld+json">{json.dumps({"name": facts.brand, "areaServed": facts.city or "US"})}</script>
{_script(rng)}{_script(rng)}</head>
<body><div id="root"><div class="hero"><h2>{html.escape(facts.subject.title())}</h2><p>{html.escape(said[0])}</p></div>
{boxes}<div>{html.escape(". ".join(said[1:7]))}</div></div>
<noscript>Please turn on JavaScript to see {html.escape(facts.brand)} {facts.city}</noscript>
<footer>{_links([*rng.sample(MENU, 3), *links])}</footer></body></html>"""


def _directory(facts: Facts, links: list[str], rng: random.Random) -> str:
    """A listing: breadcrumbs, address, hours, services."""
    crumbs = ["Home", facts.vertical.name.title(), facts.city or "Nationwide"]
    street = f"{rng.randrange(1, 999)} {rng.choice(('Main Street', 'Oak Avenue', 'Second Street', 'Mill Road'))}"
    said = sentences(facts, rng)
    return f"""<!DOCTYPE html><html><head><title>{title(facts, rng)}</title>{_script(rng)}</head><body>
<div>{_links(crumbs, " &raquo; ")}</div>
<h1>{html.escape(facts.brand)}</h1>
<dl><dt>Address</dt><dd>{street}, {facts.place or "see our branches"}</dd><dt>Hours</dt><dd>Mo-Su 8-20</dd>
<dt>Phone</dt><dd>555-{rng.randrange(1000, 9999)}</dd>
<dt>Services</dt><dd>{html.escape(", ".join(facts.products))}</dd>
<dt>Known for</dt><dd>{html.escape(", ".join(facts.attributes))}</dd></dl>
<p>{html.escape(". ".join(said))}.</p>
<h3>People also looked at</h3><ul>{_list(links or [facts.vertical.nouns[-1]])}</ul></body></html>"""


def _image_page(facts: Facts, rng: random.Random) -> str:
    """Almost all images: the words are in the pictures, and file names, if they tell anything, are what is left."""
    brand, noun = html.escape(facts.brand), html.escape(facts.vertical.nouns[0])
    shown = [*facts.products[:3], facts.vertical.nouns[0]]
    telling = facts.kind == Kind.IMAGES
    names = [f"{slug(p) if telling else rng.choice(('img', 'banner', 'dsc', 'slide'))}" for p in shown]
    pictures = "".join(
        f'<a href="/go/{i}"><img src="/assets/{name}-{rng.randrange(100, 999)}.jpg" width=480></a>'
        for i, name in enumerate(names)
    )
    logo = f'alt="{brand} {noun}"' if telling else rng.choice(('alt="logo"', 'alt=""', ""))
    movie = "" if telling else f'<object data="/m/{rng.randrange(10**6)}.swf" width=960 height=540></object>'
    words = f"<p>{html.escape(rng.choice(BOILERPLATE))}</p>" if telling or rng.random() < 0.5 else ""
    return f"""<!DOCTYPE html><html><head><title>{brand}</title>{_script(rng)}</head>
<body><img src="/assets/logo.png" {logo}>{movie}{pictures}
{words}</body></html>"""


TEMPLATES: tuple[Callable[[Facts, list[str], random.Random], str], ...] = (
    _shop,
    _table,
    _article,
    _application,
    _directory,
)


def _damaged(text: str, rng: random.Random) -> str:
    """Break some pages the way the Web does: cut off, wrongly decoded, stray brackets."""
    chance = rng.random()
    if chance < BROKEN_SHARE / 2:
        return text[: int(len(text) * rng.uniform(0.85, 0.98))]
    if chance < BROKEN_SHARE:
        return text.replace("</p>", "").replace("</li>", "</b>").replace("<h1>", "<h1 <class=>", 1)
    if chance < BROKEN_SHARE + MISENCODED_SHARE:
        curly = text.replace(" and ", " – and – ").replace("&copy;", "©")
        return curly.encode().decode("latin-1")
    return text
