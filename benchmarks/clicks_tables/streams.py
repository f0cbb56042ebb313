"""The two streams, encoded once and kept in memory: reddit, and the synthetic click log."""

import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.clicks import POSTS, TOOL, log_description, reddit_description
from broadmatch.clicks.training.batches import BatchStream
from broadmatch.data import Batch, Impressions
from broadmatch.signals import Cross, Description, Weekday

SMALL = 200_000
TUNING = 0.2
"""Share of the stream, at its start, on which everything is tuned; figures are about what comes after it."""
EXTRAS: dict[str, list[Weekday | Cross]] = {
    "reddit": [
        Weekday("time", name="weekday"),
        Cross("subreddit", "is_self"),
        Cross("domain", "is_self"),
        Cross("subreddit", "weekday"),
    ],
    "log": [Cross("f2", "f3"), Cross("f1", "f5")],
}
"""Signals beyond the usual ones: for variants and for a truth that the learner cannot express."""


@dataclass
class Stream:
    """All rows of a stream, with every signal; `usual` has the signals of the speed benchmark only."""

    name: str
    batch: Batch
    signals: tuple[str, ...]
    n_usual: int
    truth: NDArray[np.float64] | None = None
    """The true probability of each row, where it is known."""

    @property
    def n_rows(self) -> int:
        """How many impressions there are."""
        return len(self.batch)

    @property
    def first(self) -> int:
        """The first row that counts: all before are for tuning."""
        return int(TUNING * self.n_rows)

    @property
    def clicked(self) -> NDArray[np.float32]:
        """The labels."""
        return self.batch.impressions.clicked

    @property
    def usual_signals(self) -> list[str]:
        """Names of the usual signals, and of the constant one."""
        return [*self.signals[: self.n_usual], self.signals[-1]]

    @cached_property
    def usual(self) -> Impressions:
        """The impressions with the usual signals."""
        return self.only(self.usual_signals)

    @cached_property
    def tuning(self) -> Impressions:
        """The part to tune on."""
        return self.usual.between(0, self.first)

    def only(self, signals: Sequence[str]) -> Impressions:
        """The impressions with the features of some signals."""
        kept = np.zeros(len(self.signals), bool)
        kept[[self.signals.index(name) for name in signals]] = True
        x = self.batch.impressions
        used = kept[x.fields]
        indptr = np.concatenate([np.zeros(1, np.int64), np.cumsum(used)])[x.indptr]
        return x._replace(indptr=indptr, keys=x.keys[used], fields=x.fields[used])

    def head(self, n: int) -> "Stream":
        """The first n rows."""
        return replace(self, batch=self.batch.between(0, min(n, self.n_rows)))


def load(name: str, small: bool) -> Stream:
    """Encode a stream; the click log is made first."""
    with tempfile.TemporaryDirectory() as folder:
        sources: Any = POSTS
        if name == "log":
            rows = ["--rows", str(SMALL)] if small else []
            subprocess.run([sys.executable, str(TOOL), folder, *rows], check=True, stdout=sys.stderr)
            sources = [Path(folder) / "train.parquet", Path(folder) / "test.parquet"]
        usual = reddit_description() if name == "reddit" else log_description()
        told = {"label": usual.label, "time": usual.time, "slices": usual.slices}
        wide = Description(signals=[*usual.signals, *EXTRAS[name]], **told)
        batches = BatchStream(sources, wide)
        parts, n = [], 0
        for batch, _ in batches:
            parts.append(batch)
            n += len(batch)
            if small and n >= SMALL:
                break
        truth = np.load(Path(folder) / "truth.npy") if name == "log" else None
        stream = Stream(name, Batch.concatenate(parts), tuple(batches.encoder.signal_names), len(usual.signals), truth)
    return stream.head(SMALL) if small else stream
