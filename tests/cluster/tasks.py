"""Tasks that nodes import: small, pure, and slow enough to be interrupted."""

import time

import numpy as np


def make(start, stop):
    return np.arange(start, stop)


def deal(numbers, n_parts):
    return [numbers[numbers % n_parts == part] for part in range(n_parts)]


def join(offset, number, pieces):
    return np.concatenate(pieces) + offset + number


def slow(number, marks):
    """Leave a mark, then take a second."""
    (marks / f"{number}").touch()
    time.sleep(1)
    return np.full(100_000, number)


def names_below(folder):
    return sorted(place.name for place in folder.iterdir())


def fail(reason):
    raise ValueError(reason)
