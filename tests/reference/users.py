"""What users do by chance, slowly: splitmix64 in Python's whole numbers, and the chance of a click in words."""

_ALL = (1 << 64) - 1
_STRIDE = 0x9E3779B97F4A7C15


def _mix(z: int) -> int:
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _ALL
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _ALL
    return z ^ (z >> 31)


def _key(parent: int, number: int) -> int:
    return _mix((parent + (number + 1) * _STRIDE) & _ALL)


def drawn(seed: int, search: int, page: int, number: int) -> float:
    """The `number`-th number in [0, 1) of a pair: 53 bits of a hash of all four."""
    return (_key(_key(_key(seed, search), page), number) >> 11) / (1 << 53)


def chance(*, grade: int, quality: float, away: bool, vague: bool, device: str, place: int) -> float:
    """The probability of a click: how often the place is looked at, times how attractive the ad is; or a slip."""
    wanted = 0.05 if vague else {0: 0.02, 1: 0.12, 2: 0.26, 3: 0.42}[grade]
    wanted *= 0.5 + 2 / 3 * quality
    if away:
        wanted *= 0.4
    wanted *= {"mobile": 1.0, "desktop": 0.95, "tablet": 1.1}[device]
    return {1: 1.0, 2: 0.6, 3: 0.4, 4: 0.28}[place] * wanted + 0.005
