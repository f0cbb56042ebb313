"""Words that say nothing of what a page is about."""

from collections.abc import Iterable
from typing import Any

from broadmatch.errors import BadParameter
from broadmatch.kernels.words import tokenize
from broadmatch.params import Rule

_ENGLISH = (
    # Articles, pronouns and determiners.
    "an the this that these those it its itself he him his himself she her hers herself they them their theirs "
    "themselves we us our ours ourselves you your yours yourself yourselves me my mine myself one ones who whom whose "
    "which what all any both each either neither every few many more most much no none other others same some such "
    # Forms of be, have, do, and the auxiliaries.
    "am is are was were be been being have has had having do does did doing done can could may might must shall "
    "should will would cannot "
    # Prepositions and conjunctions.
    "about above after against along among around as at before behind below between by down during for from in into "
    "of off on onto out over per since through to toward towards under until up upon via with within without and but "
    "because if nor or so than though although unless while whether "
    # Adverbs of place, time and degree that bind sentences, and what contractions leave behind.
    "again also here there then thus too very when where why how not now once only just yet "
    "ll re ve don doesn didn isn aren wasn weren hasn haven hadn won wouldn couldn shouldn ain"
)
ENGLISH = frozenset(_ENGLISH.split())
"""English words of the closed classes: they bind sentences and say nothing of what a page is about."""


def as_stop_words(stop_words: object) -> frozenset[str]:
    """The words to drop: "english" is the list above, None is no word, a collection is one's own.

    >>> sorted(as_stop_words(["The", "Free-Shipping"]))
    ['free', 'shipping', 'the']
    """
    if stop_words is None:
        return frozenset()
    if isinstance(stop_words, str):
        if stop_words == "english":
            return ENGLISH
    elif isinstance(stop_words, Iterable):
        own = list(stop_words)
        if all(isinstance(word, str) for word in own):
            return frozenset(token for word in own for token in tokenize(word))
    raise BadParameter(f"stop_words must be {StopWords().text()}, but it is {stop_words!r}.")


class StopWords(Rule):
    """The rule of a `stop_words` parameter."""

    def holds(self, value: object) -> bool:
        try:
            as_stop_words(value)
        except BadParameter:
            return False
        return True

    def text(self) -> str:
        return "'english', None, or a collection of words"

    def to_plain(self, value: Any) -> Any:
        return value if value is None or isinstance(value, str) else sorted(value)
