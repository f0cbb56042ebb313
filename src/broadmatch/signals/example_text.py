"""Vowpal Wabbit text and svmlight, which are features already: lines to impressions, with no description needed.

Vowpal Wabbit: `label [importance [base]] ['tag]|namespace[:scale] feature[:value] … |namespace …`; svmlight:
`label [qid:n] index:value … [# comment]`.
"""

import os
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.files import Source, expand
from broadmatch.data.impressions import Batch, Impressions
from broadmatch.data.rejects import Rejects
from broadmatch.errors import BadInput, BadParameter
from broadmatch.kernels import example_text as kernels
from broadmatch.kernels.hashing import key_of, signal_seed
from broadmatch.kernels.text_matrix import POWERS_OF_TEN
from broadmatch.params import OneOf, Parameters, Rule, Whole
from broadmatch.signals.text_blocks import LONGEST_LINE, STANDARD_INPUT, Block, blocks, open_at

CONSTANT = "constant"
"""The signal of the feature that every row has."""
NO_NAMESPACE = "feature"
"""The signal of features without a namespace, and of the features of svmlight."""

REASONS = {
    kernels.TOO_LONG: f"the line is longer than {LONGEST_LINE:,} bytes",
    kernels.NO_BAR: "the line has no |",
    kernels.BAD_LABEL: "the label is none of 1, 0 and -1",
    kernels.BAD_WEIGHT: "the importance is not a number of at least 0",
    kernels.BAD_BASE: "a base prediction other than 0 is not supported",
    kernels.TOO_MANY_WORDS: "more than a label, an importance and a base stand before the tag",
    kernels.BAD_VALUE: "a value is not a finite number",
    kernels.OUT_OF_RANGE: "a value is too large or too small for a 32-bit number",
    kernels.NO_NAME: "a feature has no name before its colon",
    kernels.BAD_INDEX: "an index is not a whole number of at most 18 digits",
    kernels.NO_VALUE: "a feature has no value",
    kernels.BAD_QUERY: "the qid is not a whole number of at most 18 digits",
}
"""Why a line is rejected, by the code of the kernel."""
_SHOWN = 2000


@dataclass(frozen=True)
class Examples:
    """Some lines of a file as impressions.

    `first` is the number of lines before them in the file, `end` the place to go on from (`start` of `ExampleText`),
    which can be written as JSON, `bad` the lines that were rejected: number, reason and text.
    """

    batch: Batch
    file: str
    first: int
    end: dict[str, Any]
    bad: list[tuple[int, str, str]]


@dataclass(frozen=True)
class Piece:
    """Lines that are not parsed yet; any thread may `read` them."""

    file: str
    first: int
    end: dict[str, Any]
    _vw: bool
    _block: Block
    _signals: "_Signals"

    def read(self) -> Examples:
        """Parse the lines."""
        block, lines = self._block, self._block.lines - self._block.first
        n = block.blanks + 2 * lines
        indptr, keys = np.empty(lines + 1, np.int64), np.empty(n, np.uint64)
        values, fields = np.empty(n, np.float32), np.empty(n, np.int16)
        clicked, weight, names = np.empty(lines, np.float32), np.empty(lines, np.float32), np.empty(lines, np.uint64)
        bad = np.empty((lines, 4), np.int64)
        marks = np.zeros(1 << (2 * n).bit_length(), np.int64)
        rows, n_bad, plain, named = kernels.parse_block(
            block.text, len(block.text), self._vw, LONGEST_LINE, key_of(CONSTANT, ""), self._signals.no_namespace,
            POWERS_OF_TEN, self._signals.seeds, self._signals.numbers, marks, indptr, keys, values, fields, clicked,
            weight, names, bad,
        )  # fmt: skip
        n = int(indptr[rows])
        impressions = Impressions(
            indptr[: rows + 1], keys[:n], np.empty(0, np.float32) if plain else values[:n], fields[:n],
            clicked[:rows], weight[:rows],
        )  # fmt: skip
        batch = Batch(impressions)
        if named and self._vw:
            batch.id = names[:rows]
        elif named:
            batch.query = names[:rows]
        return Examples(batch, self.file, self.first, self.end, [self._rejected(*row) for row in bad[:n_bad].tolist()])

    def _rejected(self, line: int, code: int, begin: int, end: int) -> tuple[int, str, str]:
        text = self._block.text[begin : min(end, begin + _SHOWN)].tobytes().decode("utf-8", "replace")
        return self.first + line, REASONS[code], text.rstrip("\r")


class ExampleText(Parameters):
    """The lines of Vowpal Wabbit (`format` "vw") or svmlight text as batches of impressions.

    `source` is a file, a folder, a pattern, a list of these, or "-" for standard input; files may be packed (.gz,
    .zst). A batch is made of `batch_rows` lines of one file, fewer at its end, where lines are longer than a kilobyte,
    and where lines are empty or rejected. `start` is the `end` of a batch that was read before: reading goes on after
    it, with the same batches as without the break. Files that it does not know are read from their beginning.

    Labels: 1 is a click, 0 and -1 are none, also within one file; a line without a label has NaN. The key of a feature
    is that of the signal with the name of the namespace ("feature" without one, and in svmlight); every row also has
    the feature "constant". Values of a feature that stands twice in a line are added up, zeros are left out. The tag
    is the `id` of the row, the qid its `query`. `fields` numbers the namespaces as they first appear, from 1;
    `end["signals"]` has their names.

    >>> from pathlib import Path
    >>> _ = Path("log.vw").write_text("1 2.0 'first|ad pizza cheap:0.5\\n-1 |ad pizza |user 7\\nclick me\\n")
    >>> rejects = Rejects()
    >>> [examples] = ExampleText("log.vw", rejects=rejects)
    >>> rows = examples.batch.impressions
    >>> rows.clicked, rows.weight, rows.values
    (array([1., 0.], dtype=float32), array([2., 1.], dtype=float32), array([1. , 1. , 0.5, 1. , 1. , 1. ], dtype=float32))
    >>> examples.end["signals"], examples.bad
    (['constant', 'ad', 'user'], [(3, 'the line has no |', 'click me')])
    """

    rules: ClassVar[Mapping[str, Rule]] = {"format": OneOf(("vw", "svmlight")), "batch_rows": Whole(1, 1 << 24)}

    def __init__(
        self,
        source: Source,
        *,
        format: str = "vw",
        rejects: Rejects | None = None,
        batch_rows: int = 65_536,
        start: Mapping[str, Any] | None = None,
    ) -> None:
        self.format, self.batch_rows = format, batch_rows
        self.check_params()
        self.rejects = Rejects() if rejects is None else rejects
        self.files = _files(source)
        self._done, self._names = _read_start(start)

    def __iter__(self) -> Iterator[Examples]:
        """Read all that is left; bad lines go to the rejects, in order."""
        good = 0
        for piece in self.pieces():
            examples = piece.read()
            for line, reason, text in examples.bad:
                self.rejects.add(examples.file, line, reason, text)
            good += len(examples.batch)
            yield examples
        self.rejects.finish(good)

    def pieces(self) -> Iterator[Piece]:
        """What `__iter__` reads, piece by piece and not parsed yet, for several threads to `read`.

        Whoever reads them hands `Examples.bad` to the rejects.
        """
        signals, done = _Signals(self._names), {file: list(place) for file, place in self._done.items()}
        vw = self.format == "vw"
        for file in self.files:
            lines, offset = done.get(file, (0, 0))
            stream = open_at(file, offset)
            try:
                for block in blocks(stream, lines, offset, self.batch_rows):
                    if vw:
                        signals.add(block)
                    done[file] = [block.lines, block.offset]
                    end = {"files": {name: list(place) for name, place in done.items()}, "signals": list(signals.names)}
                    yield Piece(file, block.first, end, vw, block, signals)
            finally:
                if file != STANDARD_INPUT:
                    stream.close()
            if file not in done:
                raise BadInput(f"{_shown(file)} is empty; give a file with a line for each example.")


class _Signals:
    """The signals met so far, by number, and a table that kernels look the number up in."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: list[str] = []
        self.seeds = np.zeros(2 * kernels.MOST_FIELDS, np.uint64)
        self.numbers = np.full(2 * kernels.MOST_FIELDS, -1, np.int64)
        self.no_namespace = _seed(NO_NAMESPACE)
        for name in names:
            slot = kernels.slot_of(_seed(name), self.seeds, self.numbers)
            self.seeds[slot], self.numbers[slot] = _seed(name), len(self.names)
            self.names.append(name)

    def add(self, block: Block) -> None:
        """Number the namespaces of a block; other threads may look up those of earlier blocks meanwhile."""
        spans = np.empty((kernels.MOST_FIELDS, 2), np.int64)
        before = len(self.names)
        after = kernels.find_namespaces(
            block.text, len(block.text), self.no_namespace, self.seeds, self.numbers, before, spans
        )
        for begin, end in spans[before:after]:
            self.names.append(_text(block.text[begin:end]) if end > begin else NO_NAMESPACE)


def _seed(name: str) -> np.uint64:
    """As `seed_of`, also for names that are not UTF-8."""
    return np.uint64(signal_seed(np.frombuffer(name.encode("utf-8", "surrogateescape"), np.uint8).copy()))


def _text(name: NDArray[np.uint8]) -> str:
    return name.tobytes().decode("utf-8", "surrogateescape")


def _files(source: Source) -> list[str]:
    named = [source] if isinstance(source, str | os.PathLike) else list(source)
    found: list[str] = []
    for one in named or expand([]):
        found += [STANDARD_INPUT] if one == STANDARD_INPUT else [str(file) for file in expand(one)]
    return list(dict.fromkeys(found))


def _shown(file: str) -> str:
    return "Standard input" if file == STANDARD_INPUT else file


def _read_start(start: Mapping[str, Any] | None) -> tuple[dict[str, tuple[int, int]], list[str]]:
    if start is None:
        return {}, []
    try:
        done = {str(file): (int(lines), int(offset)) for file, (lines, offset) in start["files"].items()}
        names = [str(name) for name in start["signals"]]
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise BadParameter(f"start must be the `end` of a batch that was read before, but it is {start!r}.") from error
    return done, names
