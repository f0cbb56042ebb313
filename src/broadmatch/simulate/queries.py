"""What users type: a grammar of intents whose slots are columns, so that millions of queries are drawn at once."""

import zlib
from dataclasses import dataclass, fields
from enum import IntEnum
from typing import Self

import numpy as np

from broadmatch.simulate.verticals import BRAND_MODIFIERS, CITIES, GENERIC_MODIFIERS, PRICE_MODIFIERS, STATES, VERTICALS
from broadmatch.simulate.world import Brands, Columns, Ints


class Intent(IntEnum):
    """Why a user types a query."""

    BRAND = 0
    VERSUS = 1
    GENERIC = 2
    PRODUCT = 3
    ATTRIBUTE = 4
    LOCAL = 5
    PRICE = 6
    QUESTION = 7
    VAGUE = 8


_VARIANTS = np.array([2, 3, 2, 1, 2, 3, 1, 1, 2])
"""Word orders of each intent."""
_BITS = {"intent": 4, "vertical": 5, "noun": 3, "brand": 20, "city": 6, "product": 4, "attribute": 4}
_BITS |= {"modifier": 4, "order": 2, "spelling": 3}


@dataclass(frozen=True)
class Queries(Columns):
    """Queries by their slots, one array each; -1 stands for an empty slot.

    `noun` is also the number of the question, for questions, and of the generic phrase, for vague queries; a vague
    query with a city is the name of its state. `spelling` 0 is the right one, 1 to 3 are wrong ones.
    """

    intent: Ints
    vertical: Ints
    noun: Ints
    brand: Ints
    city: Ints
    product: Ints
    attribute: Ints
    modifier: Ints
    order: Ints
    spelling: Ints

    def __len__(self) -> int:
        return len(self.intent)

    def codes(self) -> Ints:
        """Pack each query into one number."""
        code = np.zeros(len(self), np.int64)
        for name, bits in _BITS.items():
            code = (code << bits) | (getattr(self, name) + 1)
        return code

    @classmethod
    def from_codes(cls, codes: Ints) -> Self:
        """The queries whose codes these are."""
        slots = {}
        for name, bits in reversed(_BITS.items()):
            slots[name] = (codes & ((1 << bits) - 1)) - 1
            codes = codes >> bits
        return cls(**slots)


def canonical(queries: Queries) -> Queries:
    """Empty the slots that an intent does not use, so that equal texts get equal codes."""
    q, intent = queries, queries.intent
    brand = (intent == Intent.BRAND) | (intent == Intent.VERSUS)
    vague = intent == Intent.VAGUE
    state = vague & (q.order % 2 == 1) & (q.city >= 0)
    product = np.where(np.isin(intent, (Intent.GENERIC, Intent.VERSUS, Intent.VAGUE)), -1, q.product)
    asks_product = np.array([["{product}" in t for t in (*v.questions, "", "")[:5]] for v in VERTICALS])
    n_questions = np.array([len(v.questions) for v in VERTICALS])
    question = q.noun % n_questions[q.vertical]
    product = np.where((intent == Intent.QUESTION) & ~asks_product[q.vertical, question], -1, product)
    spoken = q.noun % np.array([len(v.nouns) for v in VERTICALS])[q.vertical]
    phrase = np.where(state, -1, q.noun % np.array([len(v.generic) for v in VERTICALS])[q.vertical])
    thing = np.where(vague, phrase, np.where(brand | (product >= 0), -1, spoken))
    noun = np.where(intent == Intent.QUESTION, question, thing)
    said = np.isin(intent, (Intent.BRAND, Intent.GENERIC, Intent.PRICE))
    modifier = np.where(said, q.modifier, -1)
    plain = np.isin(intent, (Intent.GENERIC, Intent.BRAND)) & (modifier <= 0) & (product < 0) | (vague & ~state)
    return Queries(
        intent=intent,
        vertical=q.vertical,
        noun=noun,
        brand=np.where(brand, q.brand, -1),
        city=np.where((intent == Intent.LOCAL) | state, q.city, -1),
        product=product,
        attribute=np.where(intent == Intent.ATTRIBUTE, q.attribute, -1),
        modifier=modifier,
        order=np.where(plain, 0, q.order % _VARIANTS[intent]),
        spelling=q.spelling,
    )


def texts(queries: Queries, brands: Brands) -> list[str]:
    """What each query reads like."""
    columns = [getattr(queries, f.name).tolist() for f in fields(queries)]
    rival = brands.rival.tolist()
    return [_text(brands.names, rival, *row) for row in zip(*columns, strict=True)]


def _text(
    brand_names: list[str],
    rival: list[int],
    intent: int,
    vertical: int,
    noun: int,
    brand: int,
    city: int,
    product: int,
    attribute: int,
    modifier: int,
    order: int,
    spelling: int,
) -> str:
    trade = VERTICALS[vertical]
    thing = trade.products[product] if product >= 0 else trade.nouns[noun % len(trade.nouns)]
    if intent == Intent.BRAND:
        words = [brand_names[brand], trade.products[product] if product >= 0 else "", BRAND_MODIFIERS[modifier]]
        text = " ".join(words[1:] + words[:1] if order else words)
    elif intent == Intent.VERSUS:
        pair = brand_names[brand], brand_names[rival[brand]]
        forms = ("{0} vs {1}", "{0} alternatives", "{0} or {1}")
        text = forms[order if rival[brand] != brand else 1].format(*pair)
    elif intent == Intent.GENERIC:
        extra = GENERIC_MODIFIERS[modifier]
        text = f"{thing} {extra}" if order else f"{extra} {thing}"
    elif intent == Intent.PRODUCT:
        text = thing
    elif intent == Intent.ATTRIBUTE:
        text = f"{thing} {trade.attributes[attribute]}" if order else f"{trade.attributes[attribute]} {thing}"
    elif intent == Intent.LOCAL and city < 0:
        text = (f"{thing} near me", f"{thing} nearby", f"{thing} close to me")[order]
    elif intent == Intent.LOCAL:
        text = (f"{thing} {CITIES[city]}", f"{thing} in {CITIES[city]}", f"{CITIES[city]} {thing}")[order]
    elif intent == Intent.PRICE:
        extra = PRICE_MODIFIERS[modifier]
        text = f"{thing} {extra}" if modifier >= 5 else f"{extra} {thing}"
    elif intent == Intent.VAGUE:
        text = STATES[city] if city >= 0 else trade.generic[noun]
    else:
        text = trade.questions[noun].format(product=thing)
    text = " ".join(text.lower().replace("&", "and").split())
    return misspelled(text, spelling) if spelling > 0 else text


def misspelled(text: str, variant: int) -> str:
    """A wrong spelling of a text, the same for the same variant: a letter dropped, doubled or swapped.

    Words of up to three letters are left alone.

    >>> [misspelled("pizza delivery", variant) for variant in (1, 2, 3)]
    ['piza delivery', 'pizzza delivery', 'pizza deliveery']
    """
    words = text.split(" ")
    long = [i for i, word in enumerate(words) if len(word) >= 4]
    if not long:
        return text
    number = zlib.crc32(f"{variant} {text}".encode())
    chosen = long[number % len(long)]
    word = words[chosen]
    at = 1 + (number >> 8) % (len(word) - 2)
    kind = (number >> 16) % 3
    if kind == 0:
        word = word[:at] + word[at + 1 :]
    elif kind == 1 or word[at] == word[at + 1]:
        word = word[:at] + word[at] + word[at:]
    else:
        word = word[:at] + word[at + 1] + word[at] + word[at + 2 :]
    words[chosen] = word
    return " ".join(words)
