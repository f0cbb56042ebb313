"""Keys of phrases that are given: chosen phrases and queries, each a page of tokens."""

import numpy as np

from broadmatch.kernels import I32, I64, U64, kernel
from broadmatch.labels.kex._candidates import LONGEST, longer_key


@kernel
def phrase_keys(starts: I64, word: I32, stem: U64, keys: U64) -> None:
    """The key of each phrase; 0 if it has no words, or more than any candidate has."""
    for p in range(len(starts) - 1):
        keys[p] = np.uint64(0)
        if starts[p + 1] - starts[p] <= LONGEST:
            for i in range(starts[p], starts[p + 1]):
                keys[p] = longer_key(keys[p], stem[word[i]])


@kernel
def part_keys(starts: I64, word: I32, stem: U64, owner: I32, keys: U64) -> int:
    """The keys of all phrases within each phrase, and which it is; gives how many there are."""
    n = 0
    for p in range(len(starts) - 1):
        for i in range(starts[p], starts[p + 1]):
            key = np.uint64(0)
            for j in range(i, min(i + LONGEST, starts[p + 1])):
                key = longer_key(key, stem[word[j]])
                owner[n], keys[n] = p, key
                n += 1
    return n
