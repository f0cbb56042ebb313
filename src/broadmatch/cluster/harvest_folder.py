"""`broadmatch harvest` on a cluster: log and pages to the folder that one machine would write, byte for byte."""

import json
import shutil
import tempfile
from collections.abc import Iterable
from functools import partial
from pathlib import Path
from typing import Annotated, Any, NamedTuple

import numpy as np

from broadmatch.cluster.beliefs import beliefs_in_shards
from broadmatch.cluster.engine import Engine
from broadmatch.cluster.features import ShardedPages
from broadmatch.cluster.harvest import MEMORY, harvest_in_shards
from broadmatch.cluster.inputs import shards_for
from broadmatch.data import CSR, Names
from broadmatch.features import PageVectorizer
from broadmatch.harvest import Harvest, HarvestSettings, write_harvested
from broadmatch.harvest.datasets import WEIGHTS, ChosenPages, join_datasets, named_pages, weigh_labels
from broadmatch.harvest.harvested import check_place, summarise
from broadmatch.io import ClickLog, PageSource, buckets
from broadmatch.io.artifacts import opening
from broadmatch.io.checkpoints import Checkpoints
from broadmatch.io.files import PathLike
from broadmatch.io.rejects import Rejected
from broadmatch.kernels import F32, I32, I64, Bytes
from broadmatch.layout import Axes, Index, Offsets, Within, require
from broadmatch.params import OneOf


def harvest_folder(
    engine: Engine,
    clicks: ClickLog,
    pages: PageSource,
    out: PathLike,
    settings: HarvestSettings,
    *,
    labels: str = "plain",
    vectorizer: PageVectorizer | None = None,
    exclude: Iterable[tuple[str, str]] | None = None,
    n_shards: int = 2,
    folder: PathLike | None = None,
    memory: int = MEMORY,
) -> dict[str, Any]:
    """Harvest a log and its pages over `n_shards` shards of each into the folder `out`; gives what was kept.

    There are more shards if tasks would not have the `memory` for theirs. All hosts see the files of both. What was
    harvested, and each iteration of beliefs, is kept in `folder`, which all hosts see too: the same job goes on from
    there.
    """
    OneOf(WEIGHTS).check("labels", labels)
    check_place(out)
    settings = settings._replace(positions=labels == "coec")
    wrong, n_shards = sorted(set(exclude or ())), max(n_shards, shards_for(clicks, memory))
    with tempfile.TemporaryDirectory(prefix="broadmatch-") as temporary:
        job = None if folder is None else Path(folder)
        queries = Path(temporary) if job is None else job / "queries"
        kept = _KeptHarvest(job, clicks, settings, wrong)
        found = kept.take()
        if found is None:
            queries.mkdir(parents=True, exist_ok=True)
            how: dict[str, Any] = {"exclude": wrong, "queries": queries, "n_shards": n_shards, "memory": memory}
            found = harvest_in_shards(engine, clicks, settings, **how)
            buckets.send(queries)
            kept.keep(found)
        buckets.fetch(queries)
        read = ShardedPages(engine, pages, n_shards, memory)
        named = named_pages(read, found)
        train = ChosenPages(named, found.train_pages, "training")
        test = ChosenPages(named, found.test_pages, "test")
        made = PageVectorizer() if vectorizer is None else vectorizer
        X_train, X_test = read.features(made, list(train), list(test))
        infer = partial(beliefs_in_shards, engine, n_shards=n_shards, folder=None if job is None else job / "beliefs")
        Y = weigh_labels(found, labels, infer)
        at_train, at_test = (np.array(chosen.rows, np.int64) for chosen in (train, test))
        data = join_datasets(found, Y, (X_train, at_train), (X_test, at_test), made)
        summary = summarise(found, clicks, *data, labels) | {"bad_pages": pages.rejects.count}
        write_harvested(out, *data, made, summary, queries=queries)
        kept.clear(queries)
        return summary


class HarvestArrays(NamedTuple):
    """A harvest as it is kept on disk; what is no array is JSON."""

    train_indptr: Annotated[I64, Offsets("train_pages", "train_entries")]
    train_indices: Annotated[I32, Axes("train_entries"), Index("labels")]
    train_data: Annotated[F32, Axes("train_entries"), Within(0.0)]
    test_indptr: Annotated[I64, Offsets("test_pages", "test_entries")]
    test_indices: Annotated[I32, Axes("test_entries"), Index("labels")]
    test_data: Annotated[F32, Axes("test_entries"), Within(0.0)]
    expected: Annotated[F32, Axes(".expected"), Within(0.0)]
    label_text: Annotated[Bytes, Axes("label_bytes")]
    label_offsets: Annotated[I64, Offsets("labels", "label_bytes")]
    train_text: Annotated[Bytes, Axes("train_bytes")]
    train_offsets: Annotated[I64, Offsets("train_pages", "train_bytes")]
    test_text: Annotated[Bytes, Axes("test_bytes")]
    test_offsets: Annotated[I64, Offsets("test_pages", "test_bytes")]
    said: Annotated[Bytes, Axes(".said")]

    def _check_whole(self) -> None:
        for matrix in (CSR(*self[:3], 0), CSR(*self[3:6], 0)):
            matrix._check_whole()
        for names in (Names(*self[7:9]), Names(*self[9:11]), Names(*self[11:13])):
            names._check_whole()


class _KeptHarvest:
    """The harvest of a job that is in its folder, if it has one, with the rows that were rejected."""

    def __init__(
        self, folder: Path | None, clicks: ClickLog, settings: HarvestSettings, exclude: list[tuple[str, str]]
    ) -> None:
        files = [(file, stat.st_size, stat.st_mtime_ns) for file in clicks.files for stat in [Path(file).stat()]]
        how = (clicks.mapped, clicks.names, clicks.format, clicks.time_format, exclude)
        shaping = settings._asdict() | {"files": files, "how": how}
        self.folder, self.clicks, self.settings = folder, clicks, settings
        self.checkpoints = Checkpoints.of_parts(None if folder is None else folder / "labels", shaping, ())

    def take(self) -> Harvest | None:
        """The harvest, if it was kept; what was rejected then is rejected now."""
        kept = self.checkpoints.take(0, HarvestArrays)
        if kept is None:
            return None
        with opening(self.checkpoints.folder):
            facts, rejected = _facts(json.loads(kept.said.tobytes()))
            wanted = len(kept.train_data) if self.settings.positions else 0
            require(len(kept.expected) == wanted, "it has another number of expected clicks")
        self.clicks.rejects.take_over(rejected)
        labels, train_pages, test_pages = Names(*kept[7:9]), Names(*kept[9:11]), Names(*kept[11:13])
        train, test = CSR(*kept[:3], len(labels)), CSR(*kept[3:6], len(labels))
        expected = train._replace(data=kept.expected) if self.settings.positions else None
        exact = self.settings.exact_pages
        split = self.settings.split
        return Harvest(train, test, labels, train_pages, test_pages, facts, exact, expected, split)

    def keep(self, found: Harvest) -> None:
        """File the harvest."""
        said = json.dumps({"facts": dict(found.facts), "rejected": self.clicks.rejects.rejected}).encode()
        expected = np.zeros(0, np.float32) if found.train_expected is None else found.train_expected.data
        labels, train, test = found.labels, found.train_pages, found.test_pages
        texts = (labels.text, labels.offsets, train.text, train.offsets, test.text, test.offsets)
        counts = (*found.train_counts[:3], *found.test_counts[:3])
        self.checkpoints.keep(0, HarvestArrays(*counts, expected, *texts, np.frombuffer(said, np.uint8)))

    def clear(self, queries: Path) -> None:
        """Remove what was kept, since the job is done."""
        if self.folder is not None:
            shutil.rmtree(queries, ignore_errors=True)
            self.checkpoints.clear()


def _facts(said: Any) -> tuple[dict[str, int], Rejected]:
    """What a kept harvest says of itself, checked."""
    facts, (n_rows, reasons, first, lines, recoded) = said["facts"], said["rejected"]
    counts = (n_rows, *facts.values(), *reasons.values(), *recoded.values())
    require(all(type(count) is int and count >= 0 for count in counts), "a count is none")
    require(isinstance(first, str) and all(isinstance(line, str) for line in lines), "a rejected row is no text")
    return facts, Rejected(n_rows, reasons, first, lines, recoded)
