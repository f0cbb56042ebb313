"""Phrases in groups that a marketer would make ad groups of: those that share a telling word."""

import math
from collections import Counter
from collections.abc import Sequence

from broadmatch.ads.expansion.phrases import variant_key
from broadmatch.features.stop_words import ENGLISH

OTHERS = ""
"""The theme of phrases that share no word with another."""


def themes(phrases: Sequence[str]) -> list[str]:
    """The theme of each phrase, in order: the word that it shares with others of its group.

    In turn, the word is taken that tells most: of N phrases that are left, n have it, and n · log(N / n) is largest; a
    word that all have tells nothing, and is taken when nothing else is shared. Of equal ones, the word is taken that
    more phrases end with, where English has the head. A plural is its singular, stop words are no themes.

    >>> themes(["cheap pizza", "pizza", "pizzas near me", "airport taxi", "cheap taxi", "flowers"])
    ['pizza', 'pizza', 'pizza', 'taxi', 'taxi', '']
    """
    words = [set(variant_key(phrase).split()) - ENGLISH for phrase in phrases]
    heads = Counter(variant_key(phrase.split()[-1]) for phrase in phrases if phrase.split())
    found, left = [OTHERS] * len(phrases), set(range(len(phrases)))
    while left:
        counts = Counter(word for i in left for word in words[i])
        shared = [(n * math.log(len(left) / n), heads[word], word) for word, n in counts.items() if n > 1]
        if not shared:
            break
        theme = min(shared, key=lambda one: (-one[0], -one[1], one[2]))[2]
        taken = {i for i in left if theme in words[i]}
        for i in taken:
            found[i] = theme
        left -= taken
    return found
