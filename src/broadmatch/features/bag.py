"""One page's words and how much each counts: what a vectorizer sees of it."""

from typing import Any

from broadmatch.features.tokens import as_stop_words
from broadmatch.features.word_counts import Page, Vocabulary, count_block


def bag_of_words(page: Page, *, boost: int = 10, stop_words: Any = "english") -> dict[str, int]:
    """How often each word of `page` counts: `boost` times in the title and in links, once elsewhere (MLRF §3.1).

    The same as `extract(page).words(boost)` without the stop words, many times as fast.

    >>> bag_of_words("<title>Pizza</title><p>Pizza and <a href=/pasta>pasta</a> since 1986")
    {'pizza': 11, 'pasta': 10, '1986': 1}
    """
    block = count_block([page], boost=boost)
    seen = Vocabulary()
    numbers = seen.add(block)
    dropped = as_stop_words(stop_words)
    words = [word.decode() for word in seen.words(numbers[block.rows.words])]
    return {word: int(n) for word, n in zip(words, block.rows.counts, strict=True) if word not in dropped}
