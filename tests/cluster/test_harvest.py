"""A log harvested in shards: the same labels, tables of queries and rejects as on one machine, and the same folder."""

import pickle
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyarrow import csv

from broadmatch.cluster import ThreadEngine, harvest_folder, harvest_in_shards
from broadmatch.cluster.inputs import log_shards
from broadmatch.errors import BadInput, BroadmatchError, MissingFile, TooManyBadRows
from broadmatch.features import PageVectorizer
from broadmatch.harvest import Harvest, HarvestSettings, build_datasets, harvest, write_harvested
from broadmatch.harvest.harvested import summarise
from broadmatch.io import ClickLog, PageSource, Rejects, records
from broadmatch.simulate import simulate_marketplace

SHARDS = (1, 2, 3, 5)
KINDS = {"query": pa.string(), "page": pa.string(), "clicked": pa.int64(), "clicks": pa.float64(), "time": pa.int64(),
         "position": pa.int64(), "session": pa.string(), "bid": pa.float64(), "price": pa.float64()}  # fmt: skip
queries = st.sampled_from(
    ["pizza", "Pizza!", "tea", "TEA ", "crêpe", "CREPE\u0302", "?!", "", "a\x00b", "ß"]
) | st.text(max_size=3)
addresses = st.sampled_from([f"https://s.example/{p}" for p in ("a", "a/", "a?gclid=1", "b", "b/?x=1", "c", "é\n")])
rows = st.fixed_dictionaries(
    {
        "query": queries,
        "page": addresses,
        "clicked": st.sampled_from([0, 1, 1]),
        "clicks": st.sampled_from([1.0, 2.0, 0.0, -1.0]),
        "time": st.sampled_from([None, 1_700_000_000, 1_702_000_000, 1_704_000_000]),
        "position": st.integers(1, 3),
        "session": st.sampled_from(["u", "v", "w"]),
        "bid": st.sampled_from([None, 0.0, 0.5, 0.501, 1e9]),
        "price": st.sampled_from([None, 0.25, 0.7]),
    }
)
columns = st.sampled_from(
    [("query", "page"), ("query", "page", "clicks"), ("query", "page", "clicked", "time", "position"), tuple(KINDS)]
)
options = st.fixed_dictionaries(
    {
        "min_clicks": st.integers(1, 3),
        "min_test_queries": st.sampled_from([None, 0, 1]),
        "test_share": st.sampled_from([0.0, 0.5, 1.0]),
        "exact_pages": st.booleans(),
        "normalise": st.booleans(),
        "seed": st.integers(0, 2),
    }
)


def write(file: Path, given_rows: list[dict[str, Any]], names: tuple[str, ...], group: int = 3) -> Path:
    table = pa.table({name: pa.array([row[name] for row in given_rows], KINDS[name]) for name in names})
    pq.write_table(table, file, row_group_size=group)
    return file


def same(a: Harvest, b: Harvest) -> bool:
    pairs = [(a.train_counts, b.train_counts), (a.test_counts, b.test_counts), (a.train_expected, b.train_expected)]
    for one, other in pairs:
        assert (one is None) == (other is None)
        if one is not None and other is not None:
            assert all(x.dtype == y.dtype and np.array_equal(x, y) for x, y in zip(one[:3], other[:3], strict=True))
    named = [(a.labels, b.labels), (a.train_pages, b.train_pages), (a.test_pages, b.test_pages)]
    return all(x == y for x, y in named) and list(a.facts.items()) == list(b.facts.items())


def outcome(run: Any, folder: Path) -> tuple[Harvest | str, dict[str, bytes]]:
    """What a harvest gives, or its error, and the files that it writes."""
    folder.mkdir(exist_ok=True)
    for file in folder.iterdir():
        file.unlink()
    found: Harvest | str
    with Rejects(folder / "rejects", max_bad_rows=99) as rejects:
        try:
            found = run(rejects, folder)
        except BroadmatchError as error:
            found = str(error)
    return found, {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("harvest")


@settings(max_examples=8, deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])
@given(st.lists(rows, min_size=1, max_size=40), columns, options, st.data(), st.sampled_from(SHARDS))
def test_any_log_in_any_shards(
    folder: Path, given_rows: list[dict[str, Any]], names: tuple[str, ...], how: dict[str, Any], data: st.DataObject,
    n_shards: int,
) -> None:  # fmt: skip
    file = write(folder / "log.parquet", given_rows, names)
    how = how | {"positions": "position" in names and data.draw(st.booleans())}
    if "time" in names and data.draw(st.booleans()):
        how |= {
            "split": "time",
            "split_time": 1_701_000_000,
            "until": data.draw(st.sampled_from([None, 1_703_000_000])),
        }
    more: dict[str, Any] = {
        "pages": data.draw(st.sampled_from([None, ["https://s.example/a", "https://s.example/b"]])),
        "exclude": data.draw(st.sampled_from([None, [("https://s.example/a/", "PIZZA"), ("x", "y")]])),
    }

    def whole(rejects: Rejects, place: Path) -> Harvest:
        log = ClickLog(file, rejects=rejects)
        return harvest(log, queries=place, memory_limit="300MB", n_jobs=1, **how, **more)

    def cut(rejects: Rejects, place: Path) -> Harvest:
        log, asked = ClickLog(file, rejects=rejects), HarvestSettings(**how)
        return harvest_in_shards(ThreadEngine(1), log, asked, queries=place, n_shards=n_shards, **more)

    expected, files = outcome(whole, folder / "whole")
    found, found_files = outcome(cut, folder / "cut")
    assert found_files == files or isinstance(expected, str)
    assert same(found, expected) if isinstance(found, Harvest) and isinstance(expected, Harvest) else found == expected


@pytest.fixture(scope="module")
def market(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return simulate_marketplace(tmp_path_factory.mktemp("market") / "m", n_pages=100, n_sessions=3000, seed=1)


def bytes_of(place: Path) -> dict[str, bytes]:
    return {str(file.relative_to(place)): file.read_bytes() for file in sorted(place.rglob("*")) if file.is_file()}


@pytest.fixture(autouse=True)
def small_chunks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(records, "_CHUNK_BYTES", 1 << 12)


@pytest.fixture(scope="module")
def inputs(market: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """The log as Parquet and as CSV files, one of them large; the pages in row groups, one of them twice."""
    place = tmp_path_factory.mktemp("inputs")
    (place / "log").mkdir()
    log = pq.read_table(market.clicks)
    most = len(log) * 3 // 4
    pq.write_table(log.slice(0, most), place / "log" / "a.parquet", row_group_size=200)
    csv.write_csv(log.slice(most), place / "log" / "b.csv")
    pages = pq.read_table(market.pages)
    pq.write_table(pa.concat_tables([pages, pages.slice(3, 1)]), place / "pages.parquet", row_group_size=13)
    return place / "log", place / "pages.parquet"


def one_machine(log: Path, pages: Path, out: Path, labels: str) -> None:
    """What `broadmatch harvest` does."""
    clicks, source, queries = ClickLog(log), PageSource(pages), out.with_name(f"{out.name}.queries")
    queries.mkdir()
    found = harvest(clicks, queries=queries, positions=labels == "coec", n_jobs=1, min_test_queries=2)
    vectorizer = PageVectorizer()
    train, test = build_datasets(found, source, vectorizer, weights=labels, n_jobs=1)
    kept = summarise(found, clicks, train, test, labels) | {"bad_pages": source.rejects.count}
    write_harvested(out, train, test, vectorizer, kept, queries=queries)


@pytest.mark.parametrize(("labels", "n_shards"), [("npmi", 1), ("plain", 2), ("beliefs", 3), ("plain", 5)])
def test_the_same_folder(inputs: tuple[Path, Path], tmp_path: Path, labels: str, n_shards: int) -> None:
    log, pages = inputs
    one_machine(log, pages, tmp_path / "one", labels)
    expected, asked = bytes_of(tmp_path / "one"), HarvestSettings(min_test_queries=2)
    how: dict[str, Any] = {"labels": labels, "n_shards": n_shards}
    harvest_folder(ThreadEngine(2), ClickLog(log), PageSource(pages), tmp_path / "cut", asked, **how)
    assert len(expected) > 20
    assert bytes_of(tmp_path / "cut") == expected
    if n_shards == 5:  # large files are cut
        held = Counter(file for shard in log_shards(ClickLog(log), 5) for file in shard.files)
        assert {Path(file).suffix for file, n in held.items() if n > 1} >= {".parquet", ".csv"}


def test_a_shard_travels_and_opens_its_own_files_alone(tmp_path: Path) -> None:
    """Columns are those of the whole log, also where a key stands in none of the shard's lines."""
    for name, more in (("a", ""), ("b", ', "position": 2'), ("c", ', "session": "u"')):
        (tmp_path / f"{name}.jsonl").write_text(f'{{"query": "tea", "page": "p/{name}"{more}}}\n' * 40)
    log = ClickLog(tmp_path)
    whole = pa.Table.from_batches(log.read(more=("position", "session"))).to_pylist()
    parts = [pickle.loads(pickle.dumps(shard)) for shard in log_shards(log, 3)]  # noqa: S301
    assert [[Path(file).stem for file in part.files] for part in parts] == [["a"], ["b"], ["c"]]
    read = []
    for part in parts:
        with Rejects() as rejects:
            (file,) = part.files
            opened = part.reopen(rejects)
            assert opened.columns == log.columns
            read += pa.Table.from_batches(opened.read(more=("position", "session"))).to_pylist()
            assert opened.rejects is rejects
        Path(file).unlink()
    assert read == whole
    with pytest.raises(MissingFile):
        parts[0].reopen(Rejects())
    Path(parts[1].files[0]).touch()
    with pytest.raises(BadInput, match=r"b\.jsonl had rows before, and is empty now; fetch it again\.$"):
        parts[1].reopen(Rejects())


class Interrupted(ThreadEngine):
    """An engine whose head dies when it comes to beliefs."""

    def map(self, task: Any, items: Any, *, memory: int, title: str) -> Any:
        if title == "Turning labels around":
            raise KeyboardInterrupt
        return super().map(task, items, memory=memory, title=title)


class Counting(ThreadEngine):
    """An engine that notes what it is asked for."""

    def __init__(self) -> None:
        super().__init__(2)
        self.titles: set[str] = set()

    def map(self, task: Any, items: Any, *, memory: int, title: str) -> Any:
        self.titles.add(title)
        return super().map(task, items, memory=memory, title=title)


def test_a_job_goes_on_from_its_labels(inputs: tuple[Path, Path], tmp_path: Path) -> None:
    log, pages = inputs
    one_machine(log, pages, tmp_path / "one", "beliefs")
    how: dict[str, Any] = {"labels": "beliefs", "n_shards": 2, "folder": tmp_path / "job"}
    asked = HarvestSettings(min_test_queries=2)
    with pytest.raises(KeyboardInterrupt):
        harvest_folder(Interrupted(), ClickLog(log), PageSource(pages), tmp_path / "out", asked, **how)
    assert not (tmp_path / "out").exists()
    engine = Counting()
    harvest_folder(engine, ClickLog(log), PageSource(pages), tmp_path / "out", asked, **how)
    assert "Reading the log" not in engine.titles
    assert "Counting words" in engine.titles
    assert bytes_of(tmp_path / "out") == bytes_of(tmp_path / "one")
    assert not any((tmp_path / "job").rglob("*.npy"))


def test_bad_rows_are_counted_over_all_shards(tmp_path: Path) -> None:
    texts = [["tea,a"] * 4, [",a"] * 3, ["tea,b"] * 3, [",b"] * 2]
    for number, lines in enumerate(texts):
        (tmp_path / f"{number}.csv").write_text("\n".join(["query,page", *lines]) + "\n")
    asked = HarvestSettings(min_clicks=1)
    log = ClickLog(tmp_path)
    found = harvest_in_shards(ThreadEngine(), log, asked, n_shards=4)  # a shard of bad rows only is no rubbish log
    assert (found.facts["rows"], found.facts["bad_rows"]) == (12, 5)
    assert dict(log.rejects.reasons) == {"the query is empty": 5}
    with pytest.raises(TooManyBadRows, match=r"More than 4 bad rows; the first is .*1.csv, line 2"):
        harvest_in_shards(ThreadEngine(), ClickLog(tmp_path, rejects=Rejects(max_bad_rows=4)), asked, n_shards=4)
    (tmp_path / "0.csv").write_text("query,page\n,a\n")
    with pytest.raises(TooManyBadRows, match="6 of 9 rows are bad"):
        harvest_in_shards(ThreadEngine(), ClickLog(tmp_path), asked, n_shards=4)


def test_a_damaged_shard_is_named(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    rows = [{"query": f"q{i}", "page": f"p{i}"} for i in rng.integers(0, 10**9, 2000).tolist()]
    file = write(tmp_path / "log.parquet", rows, ("query", "page"), group=500)
    raw = bytearray(file.read_bytes())
    raw[len(raw) // 2 : len(raw) // 2 + 200] = bytes(200)
    file.write_bytes(raw)
    with pytest.raises(BadInput, match=r"log.parquet, row group \d, is damaged"):
        harvest_in_shards(ThreadEngine(), ClickLog(file), HarvestSettings(), n_shards=3)


def test_a_log_without_clicks_is_refused_as_on_one_machine(tmp_path: Path) -> None:
    names = ("query", "page", "clicked", "position")
    file = write(tmp_path / "log.parquet", [dict(zip(names, ("tea", "a", 0, 1), strict=True))] * 4, names, group=1)
    with pytest.raises(BadInput, match="None of the 0 queries"):
        harvest_in_shards(ThreadEngine(), ClickLog(file), HarvestSettings(positions=True), n_shards=2)
