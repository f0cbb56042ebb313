"""The names of features, kept beside a model: which signal and which value each key stands for."""

import threading
from array import array
from collections.abc import Callable, Iterable
from typing import Annotated, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.kernels.hash_table import number_keys, numbers_of
from broadmatch.layout import Axes, Index, Offsets, require
from broadmatch.state import State, unpack

MISSING_VALUE = "(missing)"
AS_IS_VALUE = "(as is)"
_CHUNK = 1 << 16
_SAVED = {
    "keys": Annotated[NDArray[np.uint64], Axes("names")],
    "signal": Annotated[NDArray[np.int16], Axes("names"), Index("signals")],
    "text": Annotated[NDArray[np.uint8], Axes("bytes")],
    "offsets": Annotated[NDArray[np.int64], Offsets("names", "bytes")],
}


class FeatureNames:
    """A book of keys, each with its signal and the text of its value; an `Encoder` writes it while it encodes.

    Each key is entered once; what Python does, it does once for each new key. Several threads may enter keys.

    >>> import pyarrow as pa
    >>> from broadmatch.signals import Categorical, Description, Encoder, FeatureNames
    >>> names = FeatureNames()
    >>> encoder = Encoder(Description(label="clicked", signals=[Categorical("ad")]), names=names)
    >>> batch = encoder.encode(pa.record_batch({"clicked": [1, 0], "ad": ["shoes", "pizza"]}))
    >>> names.lookup(batch.impressions.keys[:3])
    [('ad', 'shoes'), ('constant', '1'), ('ad', 'pizza')]
    """

    def __init__(self) -> None:
        self._signals: list[str] = []
        self._signal_numbers: dict[str, int] = {}
        self._signal = array("h")
        self._keys = array("Q")
        self._text = bytearray()
        self._offsets = array("q", [0])
        self._slots = np.zeros(4 * _CHUNK, np.uint64)
        self._numbers = np.zeros(4 * _CHUNK, np.int64)
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._keys)

    def lookup(self, keys: NDArray[np.uint64]) -> list[tuple[str, str]]:
        """The signal and the value of each key; "?" and the key itself where it was never entered."""
        with self._lock:
            return self._lookup(np.ascontiguousarray(keys, np.uint64))

    def enter(self, keys: NDArray[np.uint64], name: Callable[[NDArray[np.int64]], Iterable[tuple[str, str]]]) -> None:
        """Enter the keys that are new; `name` gives the signal and value of each, from their places in `keys`.

        One name is entered before the next is asked for, which may be made of it.
        """
        with self._lock:
            new = np.empty(_CHUNK, np.int64)
            for start in range(0, len(keys), _CHUNK):
                piece = keys[start : start + _CHUNK]
                self._make_room(len(piece))
                n = number_keys(piece, self._slots, self._numbers, len(self), new)
                if n:
                    for key, (signal, value) in zip(piece[new[:n]].tolist(), name(new[:n] + start), strict=True):
                        self._append(key, signal, value)

    def named(self, keys: Iterable[int]) -> str:
        """The values of several keys as the value of their cross; only while `enter` asks for a name."""
        return " × ".join(value for _, value in self._lookup(np.fromiter(keys, np.uint64)))

    def to_state(self) -> State:
        """Everything that has to be kept."""
        with self._lock:
            arrays: dict[str, NDArray[Any]] = {
                "keys": np.array(self._keys, np.uint64),
                "signal": np.array(self._signal, np.int16),
                "text": np.frombuffer(bytes(self._text), np.uint8),
                "offsets": np.array(self._offsets, np.int64),
            }
            return State("feature_names", {}, arrays, {"signals": list(self._signals)})

    @classmethod
    def from_state(cls, state: State) -> "FeatureNames":
        """The names that `to_state` gave."""
        signals: list[Any] = unpack({"signals": list}, state)["signals"]
        require(all(isinstance(signal, str) for signal in signals), "a signal has no name")
        kept = unpack(_SAVED, state, {"signals": len(signals)})
        names = cls()
        names._signals = signals
        names._signal_numbers = {signal: number for number, signal in enumerate(signals)}
        names._signal = array("h", kept["signal"].tobytes())
        names._text = bytearray(kept["text"].tobytes())
        names._offsets = array("q", kept["offsets"].tobytes())
        names._make_room(len(kept["keys"]))
        names._keys = array("Q", kept["keys"].tobytes())
        names._renumber()
        return names

    def _lookup(self, keys: NDArray[np.uint64]) -> list[tuple[str, str]]:
        numbers = np.empty(len(keys), np.int64)
        numbers_of(keys, self._slots, self._numbers, numbers)
        return [
            self._entry(number) if number >= 0 else ("?", f"{key:016x}")
            for number, key in zip(numbers.tolist(), keys.tolist(), strict=True)
        ]

    def _entry(self, number: int) -> tuple[str, str]:
        value = bytes(self._text[self._offsets[number] : self._offsets[number + 1]])
        return self._signals[self._signal[number]], value.decode("utf-8", "replace")

    def _append(self, key: int, signal: str, value: str) -> None:
        number = self._signal_numbers.get(signal)
        if number is None:
            number = self._signal_numbers[signal] = len(self._signals)
            self._signals.append(signal)
        self._signal.append(number)
        self._keys.append(key)
        self._text += value.encode("utf-8", "surrogatepass")
        self._offsets.append(len(self._text))

    def _make_room(self, more: int) -> None:
        """At most half of the slots are ever taken."""
        size = len(self._slots)
        while size < 2 * (len(self) + more):
            size *= 2
        if size > len(self._slots):
            self._slots, self._numbers = np.zeros(size, np.uint64), np.zeros(size, np.int64)
            self._renumber()

    def _renumber(self) -> None:
        keys = np.array(self._keys, np.uint64)
        number_keys(keys, self._slots, self._numbers, 0, np.empty(len(keys), np.int64))
