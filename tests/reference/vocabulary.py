"""Numbering words: a dictionary. Twin of kernels.vocabulary."""


def number_words(known: list[bytes], words: list[bytes], *, enter: bool) -> tuple[list[bytes], list[int]]:
    """The words known afterwards, and the number of each of `words`, -1 for those unknown."""
    numbers = {word: i for i, word in enumerate(known)}
    for word in words if enter else ():
        numbers.setdefault(word, len(numbers))
    return list(numbers), [numbers.get(word, -1) for word in words]


def hash_word(word: bytes) -> int:
    """FNV-1a, mixed as splitmix64 ends."""
    h = 14695981039346656037
    for byte in word:
        h = (h ^ byte) * 1099511628211 % 2**64
    h = (h ^ h >> 30) * 0xBF58476D1CE4E5B9 % 2**64
    h = (h ^ h >> 27) * 0x94D049BB133111EB % 2**64
    return h ^ h >> 31
