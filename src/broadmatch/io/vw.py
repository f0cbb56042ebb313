"""Vowpal Wabbit text, whose lines are features already: lines to impressions, with no description needed.

A line is `label [importance [base]] ['tag]|namespace[:scale] feature[:value] … |namespace …`.
"""

import io
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.impressions import CONSTANT, Batch, Impressions
from broadmatch.errors import BadInput
from broadmatch.io import _vw as kernels
from broadmatch.io.files import Source, expand, open_at, skip
from broadmatch.io.formats import STANDARD_INPUT
from broadmatch.io.matrices._text_matrix import POWERS_OF_TEN
from broadmatch.io.rejects import Rejects
from broadmatch.io.streams import Mark, Position
from broadmatch.kernels.hashing import key_of, seed_of, signal_seed
from broadmatch.params import Flag, Whole

NO_NAMESPACE = "feature"
"""The signal of features without a namespace."""

LONGEST_LINE = 4 << 20
"""Bytes of a line beyond which it is not a line of examples; of a longer one only the beginning is kept."""

_READ = 4 << 20
_ENOUGH, _MOST = 64 << 20, 16 << 20

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
    kernels.NO_LABEL: "the line has no label",
}
"""Why a line is rejected, by the code of the kernel."""
_SHOWN = 2000


@dataclass(frozen=True)
class Block:
    """Whole lines, and how far the file is read with them; `first` lines stand before them in the file."""

    text: NDArray[np.uint8]
    first: int
    n_lines: int
    separators: int
    mark: Mark


def blocks(stream: io.BufferedIOBase, mark: Mark, most_lines: int) -> Iterator[Block]:
    """Cut the rest of a stream, which stands at `mark`, into blocks of `most_lines`.

    A block of 64 MB, or of 16 million separators, ends before that. The last block of the stream may have fewer.
    """
    held = np.empty(0, np.uint8)
    # Bytes of long lines that are not held: `beyond` of whole lines, `dropped` of one whose end is not reached.
    at = n = separators = beyond = dropped = added = 0
    ended = False
    while True:
        at, n, more = kernels.scan(held, at, len(held), n, most_lines, _ENOUGH - beyond, _MOST - separators)
        separators += more
        if n == most_lines or at + beyond >= _ENOUGH or separators >= _MOST or (ended and n):
            last = ended and at == len(held)
            lines, offset = mark.line + n, mark.offset + at + beyond - (added if last else 0)
            text, first, mark = held[:at], mark.line, Mark(lines, offset, lines, whole=last)
            yield Block(text, first, n, separators, mark)
            held = held[at:].copy()
            at = n = separators = beyond = 0
            continue
        if ended:
            return
        piece = stream.read(_READ)
        ended = not piece
        if len(held) - at > LONGEST_LINE:
            kept = at + LONGEST_LINE + 1
            newline = piece.find(b"\n")
            rest = len(piece) if newline < 0 else newline
            dropped += len(held) - kept + rest
            held, piece = held[:kept], piece[rest:]
        if piece or ended:
            beyond, dropped = beyond + dropped, 0
        if ended and len(held) > at:
            piece, added = b"\n", 1
        held = np.concatenate([held, np.frombuffer(piece, np.uint8)])


@dataclass(frozen=True)
class VWPosition(Position):
    """A position in text; `signals` are the names of the signals met up to there, by their number in `fields`."""

    signals: tuple[str, ...] = (CONSTANT,)

    def to_json(self) -> dict[str, Any]:
        """The position as plain dictionaries, lists and numbers."""
        return {**super().to_json(), "signals": list(self.signals)}

    @classmethod
    def from_json(cls, plain: Mapping[str, Any]) -> "VWPosition":
        """The position that `to_json` wrote."""
        return cls(Position.from_json(plain).files, tuple(map(str, plain.get("signals", (CONSTANT,)))))


@dataclass(frozen=True)
class VWExamples:
    """Some lines of a file as impressions: `first` lines stand before them, and `end` is the position after them."""

    batch: Batch
    file: str
    first: int
    end: VWPosition

    def __len__(self) -> int:
        return len(self.batch)


@dataclass(frozen=True)
class VWChunk:
    """Lines that are not parsed yet; any thread may `read` them."""

    file: str
    end: VWPosition
    _block: Block
    _signals: "_Signals"
    _rejects: Rejects
    _labelled: bool

    @property
    def mark(self) -> Mark:
        """How much of the file is done after this chunk."""
        return self._block.mark

    def read(self) -> Iterator[VWExamples]:
        """Parse the lines, as one batch; once for each chunk, or bad lines are counted twice."""
        block, lines, signals = self._block, self._block.n_lines, self._signals
        n = block.separators + 2 * lines
        indptr, keys = np.empty(lines + 1, np.int64), np.empty(n, np.uint64)
        values, fields = np.empty(n, np.float32), np.empty(n, np.int16)
        clicked, weight, names = np.empty(lines, np.float32), np.empty(lines, np.float32), np.empty(lines, np.uint64)
        bad = np.empty((lines, 4), np.int64)
        # Zeros that are never touched cost no memory, and rows touch the first few only, unless they are long.
        marks = np.zeros(1 << (8 * n).bit_length(), np.int64)
        separators, ends = np.empty(block.separators + 1, np.int64), np.empty(lines + 1, np.int64)
        rows, n_bad, plain, named = kernels.parse_block(
            block.text, lines, self._labelled, LONGEST_LINE, signals.constant, signals.no_namespace,
            signals.tag, POWERS_OF_TEN, signals.seeds, signals.numbers, marks,
            separators, ends, indptr, keys, values, fields, clicked, weight, names, bad,
        )  # fmt: skip
        for row in bad[:n_bad].tolist():
            self._reject(*row)
        n = int(indptr[rows])
        impressions = Impressions(
            indptr[: rows + 1], keys[:n], np.empty(0, np.float32) if plain else values[:n], fields[:n],
            clicked[:rows], weight[:rows],
        )  # fmt: skip
        batch = Batch(impressions)
        if named:
            batch.id = names[:rows]
        yield VWExamples(batch, self.file, block.first, self.end)

    def filled(self) -> NDArray[np.int64]:
        """The numbers in the file, from 1, of the lines that are not empty."""
        text = self._block.text
        ends = np.flatnonzero(text == ord("\n"))
        starts = np.concatenate([np.zeros(1, np.int64), ends[:-1] + 1])
        return self._block.first + 1 + np.flatnonzero(np.add.reduceat(text > ord(" "), starts, dtype=np.int64) > 0)

    def _reject(self, line: int, code: int, begin: int, end: int) -> None:
        text = self._block.text[begin : min(end, begin + _SHOWN)].tobytes().decode("utf-8", "replace")
        self._rejects.add(self.file, self._block.first + line, REASONS[code], text.rstrip("\r"))


class VWStream:
    """The lines of Vowpal Wabbit text as batches of impressions.

    `source` is a file, a folder, a pattern, a list of these, or "-" for standard input; files may be packed (.gz,
    .zst). A batch is made of `batch_rows` lines of one file: fewer at its end, where lines are longer than a kilobyte,
    and where lines are empty or rejected. `start` is the `end` of a batch that was read before: reading goes on after
    it, with the same batches as without the break. Files that it does not know are read from their beginning.

    Labels: 1 is a click, 0 and -1 are none, also within one file; a line without a label has NaN, and is rejected if
    `labelled`. The key of a feature is that of the signal with the name of the namespace ("feature" without one); every
    row begins with the feature of the signal "constant". Values of a feature that stands twice in a line are added up,
    zeros are left out. The tag is the `id` of the row. `fields` numbers the namespaces as they first appear, from 1 (0
    is the constant); `end.signals` has their names.

    >>> from pathlib import Path
    >>> _ = Path("log.vw").write_text("1 2.0 'first|ad pizza cheap:0.5\\n-1 |ad pizza |user 7\\nclick me\\n")
    >>> text = VWStream("log.vw")
    >>> [examples] = text
    >>> rows = examples.batch.impressions
    >>> rows.clicked.tolist(), rows.weight.tolist(), rows.values.tolist()
    ([1.0, 0.0], [2.0, 1.0], [1.0, 1.0, 0.5, 1.0, 1.0, 1.0])
    >>> examples.end.signals, dict(text.rejects.reasons)
    (('constant', 'ad', 'user'), {'the line has no |': 1})
    """

    def __init__(
        self,
        source: Source,
        *,
        labelled: bool = False,
        rejects: Rejects | None = None,
        batch_rows: int = 65_536,
        start: VWPosition | None = None,
    ) -> None:
        Flag().check("labelled", labelled)
        Whole(1, 1 << 24).check("batch_rows", batch_rows)
        self.labelled, self.batch_rows = labelled, batch_rows
        self.rejects = Rejects() if rejects is None else rejects
        self.files = [str(file) for file in expand(source)]
        self._start = VWPosition() if start is None else start
        self._start.check(self.files)

    def __iter__(self) -> Iterator[VWExamples]:
        for chunk in self.chunks():
            yield from chunk.read()

    def chunks(self) -> Iterator[VWChunk]:
        """The same, not parsed yet, for threads to `read`; to be asked for by one thread at a time."""
        signals, marks = _Signals(self._start.signals), dict(self._start.files)
        for file in self.files:
            stream = _open(file, marks.get(file, Mark()).offset)
            try:
                for block in blocks(stream, marks.get(file, Mark()), self.batch_rows):
                    signals.add(block)
                    marks[file] = block.mark
                    end = VWPosition(dict(marks), tuple(signals.names))
                    yield VWChunk(file, end, block, signals, self.rejects, self.labelled)
            finally:
                if file != STANDARD_INPUT:
                    stream.close()
            if file not in marks:
                shown = "Standard input" if file == STANDARD_INPUT else file
                raise BadInput(f"{shown} is empty; leave it out or fetch it again.")


def _open(file: str, offset: int) -> io.BufferedIOBase:
    if file != STANDARD_INPUT:
        return open_at(file, offset)
    stream = cast(io.BufferedIOBase, sys.stdin.buffer)
    skip(stream, offset, Path(file))
    return stream


class _Signals:
    """The signals met so far, by number, and a table that kernels look the number up in."""

    def __init__(self, names: Iterable[str]) -> None:
        self.names: list[str] = []
        self.seeds = np.zeros(2 * kernels.MOST_FIELDS, np.uint64)
        self.numbers = np.full(2 * kernels.MOST_FIELDS, -1, np.int64)
        self.no_namespace, self.tag = seed_of(NO_NAMESPACE), seed_of("id")
        self.constant = key_of(CONSTANT, 1)
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
