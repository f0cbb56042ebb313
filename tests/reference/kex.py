"""The candidates of a text by regular expressions, and the objective of the logistic regression."""

import math
import re

from broadmatch.features.stop_words import ENGLISH

STOP = ENGLISH | set("aidmst")


def stem(word: str) -> str:
    """A word without the ending of an English plural."""
    if len(word) > 3 and word.endswith("s"):
        if word.endswith("ies"):
            return word[:-3] + "y" if word[-4] not in "ae" else word[:-1]
        if word.endswith(("xes", "zes")) or (len(word) > 4 and word.endswith(("sses", "ches", "shes"))):
            return word[:-2]
        if not word.endswith(("ss", "us")):
            return word[:-1]
    return word


def runs(text: str) -> list[list[str]]:
    """The words of a plain text without markup, cut where no phrase goes on."""
    found: list[list[str]] = []
    last = 0
    for match in re.finditer(r"\w+", text):
        gap, word = text[last : match.start()], match.group()
        joined = gap.isspace() or gap in ("-", "'", "/", "&", "+") or gap == ""
        if gap == ".":
            joined = not (word[0].isupper() and len(word) > 1 and not word.isupper())
        if not found or not joined or gap.count("\n") > 1:
            found.append([])
        found[-1].append(word.lower())
        last = match.end()
    return found


def candidates(text: str) -> dict[tuple[str, ...], int]:
    """The phrases of a text by their stems, in order of appearance, and how often each is there."""
    found: dict[tuple[str, ...], int] = {}
    for words in runs(text):
        for i in range(len(words)):
            for j in range(i + 1, min(i + 5, len(words)) + 1):
                if words[i] not in STOP and words[j - 1] not in STOP:
                    key = tuple(map(stem, words[i:j]))
                    found[key] = found.get(key, 0) + 1
    return found


def objective(rows: list[list[int]], positive: list[bool], cost: list[float], weights: list[float]) -> float:
    """½‖w‖² + Σ c·log(1 + exp(−y·w·x)), all features 1, the bias last."""
    total = 0.5 * sum(w * w for w in weights)
    for row, right, c in zip(rows, positive, cost, strict=True):
        margin = weights[-1] + sum(weights[f] for f in row)
        total += c * math.log1p(math.exp(-margin if right else margin))
    return total
