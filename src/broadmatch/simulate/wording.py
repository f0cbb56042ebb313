"""What landing pages say: their facts, sentences about themselves, and what their sites say on every page."""

import html
import random
from dataclasses import dataclass

from broadmatch.simulate.kinds import Kind
from broadmatch.simulate.verticals import BOILERPLATE, CITIES, STATES, VERTICALS, Vertical
from broadmatch.simulate.world import World, members

MISLEADING_SHARE = 0.5


@dataclass(frozen=True)
class Facts:
    """What a landing page is about, and what it shows of that: a one-sided page shows one of its products."""

    brand: str
    vertical: Vertical
    second: Vertical | None
    city: str
    state: str
    products: list[str]
    attributes: list[str]
    focus: bool
    kind: Kind
    rivals: list[str]
    offers: list[str]
    """Everything that the brand sells."""

    @property
    def subject(self) -> str:
        """What the title names."""
        return " and ".join(self.products[:2]) if self.focus else self.vertical.nouns[0]

    @property
    def place(self) -> str:
        """City and state, as an address has them; empty for the whole country."""
        return f"{self.city}, {self.state}" if self.city else ""


def facts_of(world: World, page: int, rng: random.Random) -> Facts:
    """Collect the words of one page."""
    pages, brands = world.pages, world.brands
    brand, city, kind = int(pages.brand[page]), int(pages.city[page]), Kind(pages.kind[page])
    vertical = VERTICALS[pages.vertical[page]]
    second = VERTICALS[pages.second[page]] if pages.second[page] >= 0 else None
    products = members(int(pages.products[page]), vertical.products)
    if second is not None:
        products += members(int(pages.second_products[page]), second.products)
    rivals = []
    rival = int(brands.rival[brand])
    while rival != brand:
        rivals.append(brands.names[rival])
        rival = int(brands.rival[rival])
    return Facts(
        brands.names[brand],
        vertical,
        second,
        CITIES[city] if city >= 0 else "",
        STATES[city] if city >= 0 else "",
        [rng.choice(products)] if kind == Kind.ONE_SIDED else products,
        members(int(pages.attributes[page]), vertical.attributes),
        bool(pages.focus[page]),
        kind,
        rivals,
        members(int(brands.products[brand]), vertical.products),
    )


def site_links(facts: Facts, rng: random.Random) -> list[str]:
    """Links of the site's template to things that the page does not sell; `rng` is the same for all its pages."""
    known = {v.name: v for v in VERTICALS}
    related = [known[name] for name in dict.fromkeys(facts.vertical.related)]
    if facts.kind == Kind.TEMPLATE:
        others = [name for v in related for name in (f"online {v.nouns[0]}", *rng.sample(v.products, 3))]
        return [*others, *facts.offers]
    if rng.random() >= MISLEADING_SHARE:
        return []
    if related and rng.random() < 0.6:
        return [rng.choice((*v.nouns[:2], *v.products[:4])) for v in related]
    return [rng.choice(v.nouns[:2]) for v in rng.sample(VERTICALS, 6)]


def sentences(facts: Facts, rng: random.Random) -> list[str]:
    """What the page says about itself, in a random order."""
    trades = [facts.vertical] + ([facts.second] if facts.second else [])
    place = f" in {facts.city}" if facts.city else " anywhere in the country"
    nouns = [rng.choice(trade.nouns) for trade in trades]
    said = [f"{facts.brand} is the name for {' and '.join(nouns)}{place}"]
    if facts.kind == Kind.BOILERPLATE:
        said += rng.sample(BOILERPLATE, 6)
    else:
        said += [sentence for trade in trades for sentence in rng.sample(trade.copy, min(3, len(trade.copy)))]
        said += _about_products(facts, place, rng)
        said += rng.sample(BOILERPLATE, 2)
    said += _generic(facts, rng)
    if facts.kind == Kind.RIVALS:
        said += [f"Leaving {rival}? Compare {facts.brand} with {rival} first" for rival in facts.rivals]
    if facts.kind == Kind.ONE_SIDED:
        (one,) = facts.products
        said += [f"{one.capitalize()}: {more}" for more in ("what to ask", f"how {facts.brand} can help", "see all")]
    rng.shuffle(said)
    return said


def _about_products(facts: Facts, place: str, rng: random.Random) -> list[str]:
    said = [f"Looking for {rng.choice(facts.products)}? {rng.choice(('Talk to', 'Trust', 'Try'))} {facts.brand}"]
    things = [*facts.products, facts.vertical.nouns[0]]
    said += [f"{attribute.capitalize()} {rng.choice(things)}{place}" for attribute in facts.attributes]
    if facts.focus:
        said += [f"Everything you want from {p}, and {rng.choice(facts.attributes)} too" for p in facts.products]
    return said


def _generic(facts: Facts, rng: random.Random) -> list[str]:
    """Sentences with phrases that would fit many pages; most pages have one or two, some are full of them."""
    full = facts.kind in (Kind.GENERIC, Kind.BOILERPLATE)
    chosen = facts.vertical.generic * 2 if full else rng.sample(facts.vertical.generic, rng.randrange(3))
    forms = ("{}: ask our team", "{} with {brand}", "{} made easy", "Questions about {}? Write to us")
    said = [rng.choice(forms).format(phrase, brand=facts.brand) for phrase in chosen]
    said = [sentence[0].upper() + sentence[1:] for sentence in said]
    if facts.state and (full or rng.random() < 0.3):
        said += [f"Proud to be part of {facts.state}"] * (3 if full else 1)
    return said


def title(facts: Facts, rng: random.Random) -> str:
    """The title of the page, escaped."""
    place = f" {facts.city}" if facts.city else ""
    forms = (
        f"{facts.brand} | {facts.subject.title()}{place}",
        f"{facts.subject.title()}{place} - {facts.brand}",
        f"{facts.brand}: {facts.subject}{' in' + place if place else ' online'}",
        f"{facts.brand}",
    )
    return html.escape(rng.choices(forms, (4, 4, 3, 1))[0])


def ad_wording(facts: Facts, rng: random.Random) -> tuple[str, str]:
    """Title and text of an ad for the page."""
    subject, place = facts.subject.title(), f" in {facts.city}" if facts.city else ""
    attribute, product = rng.choice(facts.attributes), rng.choice(facts.products)
    forms = (
        f"{facts.brand} | {subject}",
        f"{subject}{place} - {facts.brand}",
        f"{attribute.capitalize()} {product}{place}",
    )
    offers = (f"{attribute.capitalize()} {product}{place}", f"Looking for {product}? Try {facts.brand}{place}")
    return rng.choices(forms, (4, 4, 2))[0], f"{rng.choice(offers)}. {rng.choice(facts.vertical.copy)}."
