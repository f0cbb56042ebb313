"""Packed files, patterns and files that replace others."""

import doctest
import gzip
from pathlib import Path

import pytest

from broadmatch.errors import BadInput, CannotWrite, MissingFile
from broadmatch.io import files
from broadmatch.io.files import expand, open_binary, replacing_file

CONTENT = b"".join(b"%d some line\n" % i for i in range(100_000))


def test_examples() -> None:
    assert doctest.testmod(files).failed == 0


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.txt.zst", "A.GZ"])
def test_what_is_written_is_read(tmp_path: Path, name: str) -> None:
    with replacing_file(tmp_path / name) as out:
        for start in range(0, len(CONTENT), 77_777):
            out.write(CONTENT[start : start + 77_777])
    with open_binary(tmp_path / name) as stream:
        assert stream.readline() == b"0 some line\n"
        assert stream.read() == CONTENT[len(b"0 some line\n") :]
    assert [f.name for f in tmp_path.iterdir()] == [name]
    if name != "a.txt":
        assert (tmp_path / name).stat().st_size < len(CONTENT) / 2


def test_packing_is_told_by_content(tmp_path: Path) -> None:
    (tmp_path / "plain-name").write_bytes(gzip.compress(b"hello"))
    with open_binary(tmp_path / "plain-name") as stream:
        assert stream.read() == b"hello"


@pytest.mark.parametrize("suffix", [".gz", ".zst"])
@pytest.mark.parametrize("share", [0.1, 0.5, 0.999])
def test_truncated_stream_names_the_file(tmp_path: Path, suffix: str, share: float) -> None:
    file = tmp_path / f"log{suffix}"
    with replacing_file(file) as out:
        out.write(CONTENT)
    whole = file.read_bytes()
    file.write_bytes(whole[: int(len(whole) * share)])
    with open_binary(file) as stream, pytest.raises(BadInput, match=f"log{suffix} is truncated or damaged"):
        stream.read()


def test_damaged_gzip_names_the_file(tmp_path: Path) -> None:
    packed = bytearray(gzip.compress(CONTENT))
    packed[len(packed) // 2] ^= 255
    (tmp_path / "a.gz").write_bytes(packed)
    with open_binary(tmp_path / "a.gz") as stream, pytest.raises(BadInput, match=r"a\.gz is truncated or damaged gzip"):
        stream.read()


def test_wrong_suffix_and_missing_file(tmp_path: Path) -> None:
    (tmp_path / "a.gz").write_bytes(b"not packed")
    with pytest.raises(BadInput, match=r"a\.gz is not gzip"):
        open_binary(tmp_path / "a.gz")
    with pytest.raises(MissingFile, match="nothing"):
        open_binary(tmp_path / "nothing")
    with pytest.raises(BadInput, match="Cannot read"):
        open_binary(tmp_path)


def test_failed_writing_leaves_the_old_file(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_bytes(b"old")
    with pytest.raises(RuntimeError), replacing_file(tmp_path / "a.txt") as out:
        out.write(b"new")
        raise RuntimeError
    assert (tmp_path / "a.txt").read_bytes() == b"old"
    assert len(list(tmp_path.iterdir())) == 1


def test_full_disk_is_a_clear_error(tmp_path: Path) -> None:
    with pytest.raises(CannotWrite, match=r"a\.txt: No space left"), replacing_file(tmp_path / "a.txt"):
        raise OSError(28, "No space left on device")
    assert not list(tmp_path.iterdir())
    with pytest.raises(CannotWrite, match="it is a folder"), replacing_file(tmp_path):
        pass
    (tmp_path / "file").touch()
    with pytest.raises(CannotWrite, match="Cannot write"), replacing_file(tmp_path / "file" / "a.txt"):
        pass


def test_expand(tmp_path: Path) -> None:
    for name in ("b.csv", "a.CSV", "sub/c.csv.gz", "d.txt", ".hidden.csv", "[x].csv"):
        file = tmp_path / name
        file.parent.mkdir(exist_ok=True)
        file.touch()

    def names(source: files.Source, *suffixes: str) -> list[str]:
        return [f.relative_to(tmp_path).as_posix() for f in expand(source, suffixes or None)]

    assert names(tmp_path, ".csv", ".csv.gz") == ["[x].csv", "a.CSV", "b.csv", "sub/c.csv.gz"]
    assert names(tmp_path) == ["[x].csv", "a.CSV", "b.csv", "d.txt", "sub/c.csv.gz"]
    assert names(str(tmp_path / "*.csv")) == ["[x].csv", "b.csv"]
    assert names(tmp_path / "**" / "*.gz") == ["sub/c.csv.gz"]
    assert names(tmp_path / "s*", ".csv.gz") == ["sub/c.csv.gz"]
    assert names(tmp_path / "[x].csv") == ["[x].csv"]
    assert names([tmp_path / "d.txt", tmp_path / "b.csv", tmp_path], ".csv") == ["d.txt", "b.csv", "[x].csv", "a.CSV"]


@pytest.mark.parametrize(
    ("source", "said"),
    [
        ("none.csv", r"no file .*none\.csv"),
        ("*.csv", r"matches the pattern .*\*\.csv"),
        ("", r"holds no files whose names end in \.csv"),
    ],
)
def test_nothing_found_says_what_was_looked_for(tmp_path: Path, source: str, said: str) -> None:
    with pytest.raises(MissingFile, match=said):
        expand(tmp_path / source, [".csv"])
    with pytest.raises(MissingFile, match="No file was named"):
        expand([])
