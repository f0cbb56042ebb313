"""An ad, or a campaign, as it stands in the store: 64-bit words, then the texts, filled up to 8 bytes.

The words are a head (campaign, −1 without one; how many phrases, negatives and extended matches; bytes of the name and
of all texts; the bits of the budget of a day, infinite without one), then for each phrase its number, the bits of its
bid and 256·bytes + match type, for each negative 256·bytes + match type, and for each extended match the place of its
phrase, the bits of its score and the bytes of its query. The texts are the name, then those of phrases, negatives and
extended matches. All texts but the name are normalised. Phrases are in the order of their numbers. Behind all this,
again filled up to 8 bytes, stand the bytes of advertiser, page, title and text, and these four texts, as they were
given.
"""

import math
import struct
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from broadmatch.ads.index._ad_columns import ABOUT
from broadmatch.ads.index._postings import HEAD
from broadmatch.errors import BadInput

LONGEST_TEXT = 1 << 14
"""Bytes of the advertiser, the page, the title and the text of an ad."""


class BidPhrase(NamedTuple):
    """A phrase that an ad bids on, with its number."""

    number: int
    text: str
    match: int
    bid: float


class ExtendedMatch(NamedTuple):
    """A query that an ad is shown for, by the number of the bid phrase that it goes with."""

    query: str
    phrase: int
    score: float


@dataclass
class AdRecord:
    """What is known of an ad, or of a campaign, which has negatives, an advertiser and a budget only.

    The advertiser of an ad is that of its campaign where it has none of its own.
    """

    name: str
    campaign: int = -1
    phrases: list[BidPhrase] = field(default_factory=list)
    negatives: list[tuple[str, int]] = field(default_factory=list)
    extended: list[ExtendedMatch] = field(default_factory=list)
    advertiser: str = ""
    page: str = ""
    title: str = ""
    text: str = ""
    budget: float = math.inf

    def to_bytes(self) -> bytes:
        """The record as it stands in the store."""
        phrases = sorted(self.phrases)
        place = {phrase.number: i for i, phrase in enumerate(phrases)}
        texts = [[text.encode() for text in part] for part in (
            [p.text for p in phrases], [text for text, _ in self.negatives], [e.query for e in self.extended]
        )]  # fmt: skip
        table = [(p.number, _bits(p.bid), len(t) << 8 | p.match) for p, t in zip(phrases, texts[0], strict=True)]
        packed = [len(t) << 8 | match for (_, match), t in zip(self.negatives, texts[1], strict=True)]
        queries = [(place[e.phrase], _bits(e.score), len(t)) for e, t in zip(self.extended, texts[2], strict=True)]
        words = np.array([word for row in (*table, packed, *queries) for word in row], np.int64)
        counts = (self.campaign, len(table), len(packed), len(queries))
        about = about_bytes(self.advertiser, self.page, self.title, self.text)
        parts = words.tobytes(), self.name.encode(), b"".join(b"".join(part) for part in texts), about
        return encode(counts, *parts, self.budget)

    @classmethod
    def from_bytes(cls, data: bytes) -> "AdRecord":
        """The record that `to_bytes` wrote."""
        words = np.frombuffer(data, np.int64)
        campaign, n, m, e, size, all_texts, budget = words[:HEAD].tolist()
        table = words[HEAD : HEAD + 3 * n].reshape(n, 3)
        packed = words[HEAD + 3 * n :][:m].tolist()
        queries = words[HEAD + 3 * n + m :][: 3 * e].reshape(e, 3)
        at = 8 * (HEAD + 3 * n + m + 3 * e)
        behind = at + all_texts + -all_texts % 8
        name, at = data[at : at + size].decode(), at + size

        def text(length: int) -> str:
            nonlocal at
            at += length
            return data[at - length : at].decode()

        bids, scores = table[:, 1].copy().view(np.float64).tolist(), queries[:, 1].copy().view(np.float64).tolist()
        rows = zip(table[:, 0].tolist(), bids, table[:, 2].tolist(), strict=True)
        phrases = [BidPhrase(number, text(code >> 8), code & 255, bid) for number, bid, code in rows]
        negatives = [(text(code >> 8), code & 255) for code in packed]
        found = zip(queries[:, 0].tolist(), scores, queries[:, 2].tolist(), strict=True)
        extended = [ExtendedMatch(text(length), phrases[i].number, score) for i, score, length in found]
        at = behind + 8 * ABOUT
        advertiser, page, title, body = (text(length) for length in words[behind // 8 :][:ABOUT].tolist())
        about = advertiser, page, title, body, _number(budget)
        return cls(name, campaign, phrases, negatives, extended, *about)


def encode(
    counts: tuple[int, int, int, int], words: bytes, name: bytes, texts: bytes, about: bytes, budget: float
) -> bytes:
    """A record of its parts: campaign, and how many phrases, negatives and extended matches its words are of."""
    size = len(name) + len(texts)
    head = struct.pack("<6qd", *counts, len(name), size, budget)
    return b"".join((head, words, name, texts, bytes(-size % 8), about))


def check_about(name: str, text: str) -> None:
    """Refuse a text of an ad that would make the features of every candidate long."""
    size = len(text.encode("utf-8", "replace"))
    if size > LONGEST_TEXT:
        raise BadInput(f"The {name} of an ad has at most {LONGEST_TEXT:,} bytes, but {text[:60]!r}… has {size:,}.")


def about_bytes(*texts: str) -> bytes:
    """The end of a record: advertiser, page, title and text."""
    encoded = [text.encode("utf-8", "replace") for text in texts]
    sizes = list(map(len, encoded))
    return b"".join((struct.pack(f"<{ABOUT}q", *sizes), *encoded, bytes(-sum(sizes) % 8)))


def _bits(value: float) -> int:
    bits: int = struct.unpack("<q", struct.pack("<d", value))[0]
    return bits


def _number(bits: int) -> float:
    value: float = struct.unpack("<d", struct.pack("<q", bits))[0]
    return value
