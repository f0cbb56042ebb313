"""The words of a column of texts."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from broadmatch.io.values import as_text, codes_of, compact, is_text, missing_of, texts_of
from broadmatch.kernels.words import letters
from broadmatch.signals._encoder import sizes_of
from broadmatch.signals._words import words_of_texts


@dataclass
class TextWords:
    """The words of each distinct text, and which text each row has; `spans` says where they stand in `text`."""

    codes: NDArray[np.int32]
    indptr: NDArray[np.int64]
    keys: NDArray[np.uint64]
    text: NDArray[np.uint8]
    spans: NDArray[np.int64]

    @classmethod
    def of_column(cls, array: Any, seed: np.uint64, spans: bool = False) -> "TextWords":
        """The words of an Arrow column."""
        array = compact(array)
        if pa.types.is_dictionary(array.type):
            codes, texts = codes_of(array), array.dictionary
        else:
            codes, texts = np.arange(len(array), dtype=np.int32), array
        texts = texts if is_text(texts.type) else as_text(texts)
        if (missing := missing_of(texts)) is not None:
            codes = np.where(np.append(missing, True)[codes], np.int32(len(texts)), codes)
        text, offsets = texts_of(texts)
        return cls.of_texts(text, offsets, codes, seed, spans)

    @classmethod
    def of_values(cls, values: Sequence[object], seed: np.uint64) -> "TextWords":
        """The words of a few values."""
        texts = [b"" if value is None else str(value).encode("utf-8", "surrogatepass") for value in values]
        text, offsets = np.frombuffer(b"".join(texts) or b"\0", np.uint8), np.array([0, *accumulate(map(len, texts))])
        return cls.of_texts(text, offsets, np.arange(len(texts), dtype=np.int32), seed)

    @classmethod
    def of_texts(
        cls,
        text: NDArray[np.uint8],
        offsets: NDArray[np.int64],
        codes: NDArray[np.int32],
        seed: np.uint64,
        spans: bool = False,
    ) -> "TextWords":
        """The words of texts that lie one after the other."""
        most = (int(offsets[-1] - offsets[0]) + len(offsets)) // 2 + 1
        indptr = np.empty(len(offsets) + 1, np.int64)  # one text more, without words: where it is missing
        keys, found = np.empty(most, np.uint64), np.empty(2 * most if spans else 0, np.int64)
        indptr[-1] = words_of_texts(text, offsets, letters(), seed, indptr, keys, found)
        return cls(codes, indptr, keys, text, found)

    @property
    def counts(self) -> NDArray[np.int32]:
        """How many words each row has."""
        found = np.empty(len(self.codes), np.int32)
        sizes_of(self.codes, self.indptr, found)
        return found

    def word(self, row: int, place: int) -> str:
        """The word at a place of a row, if the spans were kept."""
        j = int(self.indptr[self.codes[row]]) + place
        piece = self.text[self.spans[2 * j] : self.spans[2 * j + 1]].tobytes()
        return piece.decode("utf-8", "replace").lower()
