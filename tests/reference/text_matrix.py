"""Sparse rows of text, read the obvious way: split lines, split words, round fractions exactly."""

import re
from fractions import Fraction

import numpy as np

NUMBER = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)([eE][+-]?\d+)?", re.ASCII)
LARGEST = Fraction(float(np.finfo(np.float32).max))


class Unreadable(Exception):
    """Line `line` (from 0) cannot be read."""

    def __init__(self, line: int) -> None:
        super().__init__(line)
        self.line = line


def nearest_float32(text: str) -> float:
    """The float32 nearest to a decimal number: the least distance among neighbours, ties to the even significand."""
    exact = Fraction(text)
    if abs(exact) >= LARGEST + Fraction(2) ** 103:  # half a unit above the largest
        return float("inf") if exact > 0 else float("-inf")
    guess = np.float32(max(min(exact, LARGEST), -LARGEST))
    with np.errstate(over="ignore"):
        around = [guess, np.nextafter(guess, np.float32(-np.inf)), np.nextafter(guess, np.float32(np.inf))]
    finite = [value for value in around if np.isfinite(value)]
    return float(min(finite, key=lambda v: (abs(Fraction(float(v)) - exact), int(v.view(np.uint32)) & 1)))


def parse_rows(
    text: str, labelled: bool, comments: bool, n_labels: int, n_columns: int
) -> list[tuple[list[int], list[tuple[int, float]]]]:
    """Labels and (column, value) pairs of each row."""
    rows = []
    lines = text.split("\n")
    if not lines[-1]:
        del lines[-1]
    for number, line in enumerate(lines):
        if comments and (not line.rstrip("\r") or line.startswith("#")):
            continue
        body = line.partition("#")[0] if comments else line
        words = body.split()
        opens_with_labels = labelled and words and body[0] not in " \t\r" and ":" not in words[0]
        labels_word, pairs = (words[0], words[1:]) if opens_with_labels else ("", words)
        rows.append((_labels(labels_word, number, n_labels), _pairs(pairs, comments, number, n_columns)))
    return rows


def _labels(word: str, line: int, n_labels: int) -> list[int]:
    labels = []
    for piece in word.split(",") if word else []:
        if not re.fullmatch(r"\+?\d+", piece, re.ASCII) or int(piece) >= n_labels:
            raise Unreadable(line)
        labels.append(int(piece))
    return labels


def _pairs(words: list[str], comments: bool, line: int, n_columns: int) -> list[tuple[int, float]]:
    pairs = []
    for word in words:
        if comments and word.startswith("qid"):
            continue
        column, colon, value = word.partition(":")
        if not colon or not re.fullmatch(r"\d+", column, re.ASCII) or not NUMBER.fullmatch(value):
            raise Unreadable(line)
        nearest = nearest_float32(value)
        if int(column) >= n_columns or not np.isfinite(nearest):
            raise Unreadable(line)
        pairs.append((int(column), nearest))
    return pairs
