"""Page features in shards: the same words, weights and rows as on one machine, whatever the pages are cut into."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from broadmatch.cluster import ThreadEngine, features_in_shards
from broadmatch.cluster.inputs import page_shards
from broadmatch.data import CSR
from broadmatch.errors import BadInput, BadParameter, TooManyBadRows
from broadmatch.features import PageVectorizer, PivotedVectorizer
from broadmatch.io import PageSource, Rejects

SHARDS = (1, 2, 3, 5)
pages = st.lists(
    st.tuples(st.text(max_size=3), st.binary(max_size=30) | st.text("ab <>&é\x00", max_size=12).map(str.encode)),
    max_size=12,
)


def write(path: Path, rows: list[tuple[str, bytes]], group: int = 2) -> Path:
    names = pa.array([name.encode("utf-8", "replace").decode() for name, _ in rows], pa.string())
    pq.write_table(pa.table({"name": names, "html": pa.array([html for _, html in rows])}), path, row_group_size=group)
    return path


def same(found: CSR, vectorizer: PageVectorizer, expected: Any, other: PageVectorizer) -> bool:
    arrays = zip(found[:3], CSR.from_scipy(expected)[:3], strict=True)
    learned = vectorizer.vocabulary_ == other.vocabulary_ and np.array_equal(vectorizer.idf_, other.idf_)
    return learned and vectorizer.n_pages_ == other.n_pages_ and all(np.array_equal(a, b) for a, b in arrays)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("pages")


@settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(pages, st.sampled_from(SHARDS))
def test_any_pages_in_any_shards(folder: Path, rows: list[tuple[str, bytes]], n_shards: int) -> None:
    """Any bytes, names that come twice and thrice, pages that are none: the same pages are taken and rejected."""
    file = write(folder / "pages.parquet", rows)
    whole, cut = Rejects(folder / "whole", max_bad_rows=99), Rejects(folder / "cut", max_bad_rows=99)
    for rejects in (whole, cut):
        rejects.path.unlink(missing_ok=True)
    expected, found = PageVectorizer(min_pages=1, n_jobs=1), PageVectorizer(min_pages=1, n_jobs=1)
    error = None
    with whole:
        try:
            X = expected.fit_transform(page.html for page in PageSource(file, rejects=whole))
        except BadInput as problem:
            error = str(problem)
    with cut:
        source = PageSource(file, rejects=cut)
        if error is not None:
            with pytest.raises(BadInput) as caught:
                features_in_shards(ThreadEngine(1), source, found, n_shards=n_shards)
            assert str(caught.value) == error
        else:
            assert same(features_in_shards(ThreadEngine(1), source, found, n_shards=n_shards), found, X, expected)
    assert (whole.count, whole.reasons) == (cut.count, cut.reasons)
    if whole.count:
        assert cut.path.read_text() == whole.path.read_text()


@pytest.fixture(scope="module")
def many(folder: Path) -> Path:
    """A folder of 300 pages in a Parquet, a CSV and a JSON lines file, with words of any frequency."""
    place = folder / "many"
    place.mkdir()
    rng = np.random.default_rng(0)
    texts = [" ".join(f"w{w}" for w in rng.zipf(1.3, rng.integers(0, 60)) % 400) for _ in range(300)]
    html = [f"<title>{text[:20]}</title><p>{text} ÄÖ<a href=x>{text[-9:]}</a>" for text in texts]
    write(place / "a.parquet", [(f"a{i}", page.encode()) for i, page in enumerate(html[:150])], group=40)
    lines = "".join(f'b{i},"{page}"\n' for i, page in enumerate(html[150:260]))
    (place / "b.csv").write_text(f"name,html\n{lines}")
    rows = [json.dumps({"name": f"c{i}", "html": page}) for i, page in enumerate(html[260:])]
    (place / "c.jsonl").write_text("\n".join([*rows, '{"name": "c0", "html": "again"}', '{"name": "a3", "html": "x"}']))
    return place


@pytest.mark.parametrize("n_shards", SHARDS)
@pytest.mark.parametrize("kind", [PageVectorizer, PivotedVectorizer])
def test_files_of_all_formats(many: Path, n_shards: int, kind: type[PageVectorizer]) -> None:
    expected, found = kind(ngrams=2, n_jobs=1), kind(ngrams=2, n_jobs=1)
    X = expected.fit_transform(page.html for page in PageSource(many))
    source = PageSource(many)
    assert same(features_in_shards(ThreadEngine(2), source, found, n_shards=n_shards), found, X, expected)
    assert dict(source.rejects.reasons) == {"the name was there before": 2}
    if n_shards == 5:
        files = [[(file.path.name, file.start.rows) for file in shard.files] for shard in page_shards(source, n_shards)]
        assert sum(len(shard) for shard in files) > 4  # large files are cut
        assert any(rows for shard in files for _, rows in shard)


def test_what_cannot_be_done_is_said(many: Path, tmp_path: Path) -> None:
    with pytest.raises(BadParameter, match="Standard input cannot be read by several hosts"):
        features_in_shards(ThreadEngine(), PageSource("-"), PageVectorizer())
    file = write(tmp_path / "bad.parquet", [("a", b"pizza"), ("b", b""), ("c", b" ")])
    with pytest.raises(
        TooManyBadRows, match=r"2 of 3 rows are bad; the first is .*bad.parquet, line 2: the page is em"
    ):
        features_in_shards(ThreadEngine(), PageSource(file), PageVectorizer(), n_shards=3)
    (tmp_path / "empty.html").write_text(" ")
    with pytest.raises(BadInput, match=r"empty.html: the page is empty .*; give a page"):
        features_in_shards(ThreadEngine(), PageSource(tmp_path / "empty.html"), PageVectorizer())
