"""fastText's text: `__label__x __label__y some words` a point; X counts the words, and all names are kept.

Words are what stands between blanks; a word that opens with `__label__` is a label, wherever it stands. Every line is
a point, an empty one too. Columns are numbered as the words appear, or as in `<file>.features.txt` if that is there.
"""

from array import array
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.csr import CSR
from broadmatch.data.names import Names
from broadmatch.errors import BadInput
from broadmatch.io.files import open_whole, replacing_file
from broadmatch.io.matrices.sidecar_names import beside, read_names
from broadmatch.io.matrices.text_rows import tidy
from broadmatch.io.matrices.xmc import refuse_weights

PREFIX = b"__label__"
_MOST_COPIES = 100_000
_LONGEST_LINE = 1 << 24


def read(path: Path) -> tuple[CSR, CSR, Names, Names]:
    """Read X (word counts), Y, and the names of features and labels."""
    words, labels = _Column(path, "features"), _Column(path, "labels")
    with open_whole(path) as stream:
        for number, line in enumerate(iter(lambda: stream.readline(_LONGEST_LINE), b""), 1):
            if len(line) == _LONGEST_LINE:
                raise BadInput(f"{path}, line {number}: the line is longer than {_LONGEST_LINE >> 20} megabytes.")
            tokens = line.split()
            words.add([t for t in tokens if not t.startswith(PREFIX)], number)
            labels.add([t[len(PREFIX) :] for t in tokens if t.startswith(PREFIX)], number)
    if not words.ends:
        raise BadInput(f"{path} is empty; fastText has a line a point, such as '__label__x some words'.")
    Y = labels.matrix()
    Y.data[:] = 1.0
    return words.matrix(), Y, words.names(), labels.names()


def write(X: CSR, Y: CSR, features: Names | None, labels: Names, path: Path) -> None:
    """Write each word as often as it counts; X has to be counts, and names have to be words without blanks."""
    refuse_weights(Y, path)
    if features is None:
        raise BadInput(f"{path}: fastText is words, but the features have no names; write svmlight or a folder.")
    if ((X.data < 1) | (X.data != np.floor(X.data)) | (X.data > _MOST_COPIES)).any():
        raise BadInput(f"{path}: fastText holds counts of words, but X has other values; write svmlight or a folder.")
    words = [_word(name, "feature", path) for name in features]
    tags = [PREFIX + _word(name, "label", path) for name in labels]
    for word in words:
        if word.startswith(PREFIX):
            raise BadInput(f"{path}: the feature {word.decode()!r} would be read as a label; rename it.")
    with replacing_file(path) as out:
        for i in range(X.n_rows):
            columns, counts = X.row(i)
            line = [tags[j] for j in Y.row(i)[0]]
            for j, count in zip(columns.tolist(), counts.tolist(), strict=True):
                line += [words[j]] * int(count)
            out.write(b" ".join(line) + b"\n")


class _Column:
    """Words that become columns: numbered as they come, or fixed by the names beside the file."""

    def __init__(self, path: Path, kind: str) -> None:
        given = read_names(path, kind)
        self.path, self.kind, self.fixed = path, kind, given is not None
        self.known: dict[bytes, int] = {name.encode(): i for i, name in enumerate(given or ())}
        self.given = given
        self.columns, self.ends = array("i"), array("q")

    def add(self, words: list[bytes], line: int) -> None:
        """Take the words of one point."""
        known = self.known
        try:
            if self.fixed:
                self.columns.extend([known[word] for word in words])
            else:
                self.columns.extend([self._number(word) for word in words])
        except KeyError as error:
            raise BadInput(
                f"{self.path}, line {line}: {error.args[0].decode('utf-8', 'replace')!r} is not among the names in "
                f"{beside(self.path, self.kind)}; add it, or remove that file."
            ) from error
        except UnicodeDecodeError as error:
            raise BadInput(f"{self.path}, line {line}: {error.object!r} is not UTF-8; convert the file.") from error
        self.ends.append(len(self.columns))

    def _number(self, word: bytes) -> int:
        number = self.known.get(word)
        if number is None:
            word.decode()
            number = self.known[word] = len(self.known)
        return number

    def names(self) -> Names:
        return self.given if self.given is not None else Names.of(word.decode() for word in self.known)

    def matrix(self) -> CSR:
        """How often each word stands in each row."""
        indptr: NDArray[np.int64] = np.zeros(len(self.ends) + 1, np.int64)
        indptr[1:] = np.frombuffer(self.ends, np.int64)
        indices = np.frombuffer(self.columns, np.int32) if self.columns else np.zeros(0, np.int32)
        width = len(self.known) if self.given is None else len(self.given)
        return tidy(indptr, indices, np.ones(len(indices), np.float32), width)


def _word(name: str, what: str, path: Path) -> bytes:
    word = name.encode("utf-8", "surrogatepass")
    if len(word.split()) != 1 or word.split()[0] != word or b"\0" in word:
        raise BadInput(f"{path}: the {what} {name!r} is not one word, which is all that fastText can hold; rename it.")
    return word
