"""Vowpal Wabbit text agrees with the obvious parser, bad lines are told, and reading goes on anywhere."""

import gzip
import io
import json
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from broadmatch.errors import BadInput, BadParameter, MissingFile, TooManyBadRows
from broadmatch.io import Rejects, VWStream
from broadmatch.io import vw as module
from broadmatch.io.streams import Mark
from broadmatch.io.vw import VWPosition
from broadmatch.kernels.hashing import key_of
from tests.reference import vw as reference


def read_all(text, **more):
    """Rows as plain values, (line, reason) of rejected lines, and the last batch."""
    with tempfile.TemporaryDirectory() as folder:
        file, kept = Path(folder) / "log", Path(folder) / "rejects"
        file.write_bytes(text)
        with Rejects(kept) as rejects:
            batches = list(VWStream(file, rejects=rejects, **more))
        bad = [json.loads(line) for line in kept.read_text().splitlines()] if rejects.count else []
    return [row for b in batches for row in plain(b.batch)], [(b["line"], b["reason"]) for b in bad], batches


def plain(batch):
    """(clicked, weight, name, [(key, field, value)]) of each row."""
    rows = batch.impressions
    values = rows.values if len(rows.values) else np.ones(len(rows.keys), np.float32)
    names = batch.id
    assert rows.fields.dtype == np.int16
    assert rows.keys.dtype == np.uint64
    out = []
    for i in range(len(batch)):
        here = slice(rows.indptr[i], rows.indptr[i + 1])
        features = zip(rows.keys[here].tolist(), rows.fields[here].tolist(), values[here].tolist(), strict=True)
        name = int(names[i]) if len(names) else None
        out.append((float(rows.clicked[i]), float(rows.weight[i]), name, list(features)))
    return out


def assert_same(found, expected):
    nothing = int(key_of("id", None))
    assert len(found) == len(expected)
    for (clicked, weight, name, features), row in zip(found, expected, strict=True):
        np.testing.assert_equal(clicked, row.clicked)
        assert weight == np.float32(row.weight)
        assert (None if name == nothing else name) == row.name
        assert [(k, f) for k, f, _ in features] == [(k, f) for k, (f, _) in row.features.items()]
        # The kernel may be one float32 beside the nearest one.
        np.testing.assert_allclose([v for *_, v in features], [v for _, v in row.features.values()], rtol=2e-7)


blank = st.sampled_from([" ", " ", " ", "  ", "\t", " \r", "\x00"])
good_number = st.sampled_from(["1", "0", "-1", "2", "0.5", "1e3", "-.25", "+1", "3.", "1e-30", "123456.789", "-0"])
bad_number = st.sampled_from(["", "nan", "inf", "-inf", "1e39", "1e-39", "x", "1x", "1:1", "--1", "1e", "0x1", "3e38"])
any_number = st.one_of(good_number, good_number, good_number, bad_number)
name = st.sampled_from(["a", "b", "7", "07", "-3", "é", "a'b", "a#b", "constant", "feature", "1", "pizza", "#"])
space = st.one_of(
    st.just(""), name, name, st.builds("{}:{}".format, st.one_of(name, st.just("")), any_number)
)  # fmt: skip
vw_feature = st.one_of(name, name, st.builds("{}:{}".format, name, any_number), st.just(":1"))
vw_space = st.builds("|{}{}{}".format, space, blank, st.lists(st.builds("{}{}".format, vw_feature, blank)).map("".join))
head = st.one_of(
    st.sampled_from(["1 ", "-1 ", "0 ", "+1.0 ", "", "1 2 ", "1 0.5 0 ", "1 -1 ", "1 1 0.5 ", "1 1 0 0 ", "2 ", "x "]),
    st.sampled_from(["1 'tag", "'tag ", "1 2 tag", "1 '", "1", " 1\t", "nan ", "1 inf ", "1 'a 'b ", "1 nan 't "]),
)
vw_line = st.one_of(
    st.builds("{}{}".format, head, st.lists(vw_space, min_size=1, max_size=3).map("".join)),
    st.builds("{} |a {}".format, st.sampled_from(["1", "-1"]), st.lists(name).map(" ".join)),
    st.sampled_from(["", " ", "\r", "1", "no bar", "||", "|", "1 |a b\r"]),
)


@settings(max_examples=400)
@given(st.lists(vw_line, min_size=1, max_size=6), st.sampled_from(["", "\n", "\n\n"]), st.sampled_from([1, 2, 100]))
@example(["1 |a b:3e38 b:3e38", "1 |a b:1 b:-1", "1 |a:1e30 b:1e30", "1 |a:1e-30 b:1e-30"], "", 100)
@example(["1 |a b:1:", "1 |a:1: b", "1 |a:1|b:2 c:3|d", "|:2 a", "| |constant 1"], "\n", 2)
def test_vw_agrees_with_the_obvious_parser(lines, end, batch_rows):
    text = ("\n".join(lines) + end).encode()
    if not text:
        return
    rows, bad, signals = reference.read(text)
    found, found_bad, batches = read_all(text, batch_rows=batch_rows)
    assert found_bad == bad
    assert_same(found, rows)
    assert list(batches[-1].end.signals) == signals


LOG = "".join(f"{(-1) ** i} 'row{i} |s{i % 7} a{i} b:{i % 3} |t c\n" for i in range(60)) + "bad\n\n1 |z last"


def same(ours, theirs):
    arrays = [(a.batch.impressions, b.batch.impressions) for a, b in zip(ours, theirs, strict=True)]
    return all(np.array_equal(x, y, equal_nan=True) for a, b in arrays for x, y in zip(a, b, strict=True))


@settings(max_examples=60)
@given(st.integers(1, 70), st.integers(0, 80), st.sampled_from([1, 17, 300, 1 << 20]), st.sampled_from([40, 1 << 26]))
def test_reading_goes_on_at_every_place(batch_rows, some, read, enough):
    with tempfile.TemporaryDirectory() as folder, pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "_READ", read)
        patch.setattr(module, "_ENOUGH", enough)
        plain_file, packed = Path(folder) / "a.vw", Path(folder) / "b.vw.gz"
        plain_file.write_text(LOG)
        packed.write_bytes(gzip.compress(LOG.replace("|t", "|u").encode()))
        whole = list(VWStream(folder, batch_rows=batch_rows))
        assert sum(map(len, whole)) == 122
        assert not any(len(b.batch) > batch_rows for b in whole)
        assert whole[-1].end.signals == ("constant", "s0", "t", *(f"s{i}" for i in range(1, 7)), "z", "u")
        for i in {0, len(whole) // 2, some % len(whole), len(whole) - 1}:
            end = whole[i].end
            start = VWPosition.from_json(json.loads(json.dumps(end.to_json()))) if i % 2 else end
            rest = list(VWStream(folder, batch_rows=batch_rows, start=start))
            assert same(rest, whole[i + 1 :])
            assert [r.end for r in rest] == [w.end for w in whole[i + 1 :]]


def test_blocks_do_not_depend_on_how_much_is_read_at_a_time(monkeypatch):
    monkeypatch.setattr(module, "LONGEST_LINE", 20)
    monkeypatch.setattr(module, "_ENOUGH", 50)
    # The lines end at 6, 57, 79, 80, 84 and 184: the first block is full by its bytes, the second by its lines.
    text = b"short\n" + b"x" * 50 + b"\n" + b"y" * 21 + b"\n\nabc\n" + b"z" * 100
    found = set()
    for read in (1, 2, 7, 30, 1000):
        monkeypatch.setattr(module, "_READ", read)
        cut = module.blocks(io.BytesIO(text), Mark(), 3)
        found.add(tuple((b.first, b.n_lines, b.mark.offset) for b in cut))
    assert found == {((0, 2, 57), (2, 3, 84), (5, 1, 184))}


def test_a_line_that_never_ends_is_rejected_and_the_next_is_read(monkeypatch, tmp_path):
    monkeypatch.setattr(module, "LONGEST_LINE", 100)
    monkeypatch.setattr(module, "_READ", 64)
    file = tmp_path / "log.vw"
    file.write_text("1 |a b\n1 |a " + "x" * 5000 + "\n-1 |a c\n")
    rejects = Rejects()
    batches = list(VWStream(file, rejects=rejects))
    assert [b.batch.impressions.clicked.tolist() for b in batches] == [[1.0, 0.0]]
    assert rejects.count == 1
    assert batches[-1].end.files[str(file)] == Mark(3, file.stat().st_size, 3, whole=True)


def test_keys_are_those_of_the_signals():
    rows, _, [examples] = read_all(b"1 'x|ad a5 12\n-1 | a5\n")
    assert [k for k, *_ in rows[0][3]] == [int(key_of(*p)) for p in (("constant", 1), ("ad", "a5"), ("ad", 12))]
    assert [k for k, *_ in rows[1][3]] == [int(key_of("constant", 1)), int(key_of("feature", "a5"))]
    assert examples.batch.id.tolist() == [int(key_of("id", "x")), int(key_of("id", None))]
    assert len(examples.batch.query) == 0
    assert len(examples.batch.impressions.values) == 0


def test_values_are_the_float32_that_were_written():
    rng = np.random.default_rng(0)
    index, value = rng.integers(0, 50, (200, 6)), rng.normal(size=(200, 6)).astype(np.float32)
    pairs = [" ".join(f"{i}:{v}" for i, v in zip(a, b, strict=True)) for a, b in zip(index, value, strict=True)]
    vw, _, _ = read_all("\n".join(f"1 | {p}" for p in pairs).encode())
    once = [row for row, line in zip(vw, index, strict=True) if len(set(line)) == 6]
    kept = [v for v, line in zip(value, index, strict=True) if len(set(line)) == 6]
    assert [[v for *_, v in row[3][1:]] for row in once] == [v.tolist() for v in kept]


def test_threads_read_chunks_as_one_does(tmp_path):
    file = tmp_path / "log.vw"
    file.write_text(LOG)
    alone, rejects = list(VWStream(file, batch_rows=5)), Rejects()
    with ThreadPoolExecutor(4) as pool:
        together = list(
            pool.map(lambda chunk: next(chunk.read()), VWStream(file, batch_rows=5, rejects=rejects).chunks())
        )
    assert same(together, alone)
    assert rejects.count == 1


def test_names_that_are_not_utf8_survive_a_restart(tmp_path):
    file = tmp_path / "log.vw"
    file.write_bytes(b"1 |\xff\xfe \xff\n1 |b c\n1 |\xff\xfe \xff |b c\n")
    one, two, three = VWStream(file, batch_rows=1)
    start = VWPosition.from_json(json.loads(json.dumps(two.end.to_json())))
    [again] = VWStream(file, batch_rows=1, start=start)
    assert again.batch.impressions.fields.tolist() == three.batch.impressions.fields.tolist() == [0, 1, 2]
    assert one.batch.impressions.keys[1] == again.batch.impressions.keys[1]


def test_standard_input():
    code = (
        "from broadmatch.io import VWStream\n[e] = VWStream('-')\nprint(e.batch.impressions.clicked.tolist(), e.file)"
    )
    run = subprocess.run([sys.executable, "-c", code], input="1 |a b\n0 |a c\n", capture_output=True, text=True)
    assert run.stdout == "[1.0, 0.0] -\n", run.stderr


@pytest.mark.parametrize("name", ["log.vw", "log.vw.gz"])
def test_an_empty_file_is_an_error(tmp_path, name):
    file = tmp_path / name
    file.write_bytes(gzip.compress(b"") if name.endswith("gz") else b"")
    with pytest.raises(BadInput, match=f"{name} is empty"):
        list(VWStream(file))


def test_errors_are_clear(tmp_path):
    file = tmp_path / "log.vw"
    file.write_text("1 |a b\n")
    with pytest.raises(BadParameter, match="batch_rows must be"):
        VWStream(file, batch_rows=0)
    with pytest.raises(MissingFile):
        VWStream([])
    with pytest.raises(BadInput, match="not the position"):
        VWPosition.from_json({"files": {str(file): 3}})
    with pytest.raises(BadInput, match="about other files, such as x"):
        VWStream(file, start=VWPosition({"x": Mark(whole=True)}))
    with pytest.raises(BadInput, match="has become shorter: 100 bytes of it are done and it has 7"):
        list(VWStream(file, start=VWPosition({str(file): Mark(9, 100, 9)})))
    with pytest.raises(TooManyBadRows, match=r"log.vw, line 1: the label is none of 1, 0 and -1"):
        file.write_text("7 |a b\n")
        list(VWStream(file, rejects=Rejects(max_bad_rows=0)))
