"""Event logs with damage in any of their files, frames with checksums that fit among it: read, and written to."""

import functools
import random
import shutil
import tempfile
from pathlib import Path

import numpy as np

from benchmarks.fuzz import target
from benchmarks.fuzz.mutate import mutated
from broadmatch.io import EmbeddedEventLog, Event, Rejects
from broadmatch.io.event_log import _frames as kernels
from broadmatch.io.event_log import writer

PAYLOADS = (b'{"ad":"a","price":1}', b'{"ad":"b","price":0.5,"more":[1]}', b"{}", '{"query":"naïve"}'.encode())


@functools.cache
def _files() -> dict[str, bytes]:
    """The files of a log with segments that are closed, and one that is not."""
    before, writer.SEGMENT_EVENTS = writer.SEGMENT_EVENTS, 6
    with tempfile.TemporaryDirectory() as place:
        with EmbeddedEventLog(Path(place) / "log", write=True) as log:
            for i in range(0, 20, 3):
                log.append(
                    [
                        Event(f"id-{j}", j, "clicks" if j % 2 else "impressions", PAYLOADS[j % 4])
                        for j in range(i, i + 3)
                    ]
                )
        writer.SEGMENT_EVENTS = before
        return {file.name: file.read_bytes() for file in (Path(place) / "log").iterdir()}


def _signed(content: bytes) -> bytes:
    """Frames with checksums that fit what they hold now."""
    data, at = np.frombuffer(bytearray(content), np.uint8), 0
    while len(data) - at >= kernels.HEADER:
        length = int(kernels.number_at(data, at + 16, 8))
        if not kernels.HEADER <= length <= len(data) - at:
            break
        data[at + 8 : at + 16] = np.array([kernels.checksum(data, at + 16, at + length)]).view(np.uint8)
        at += length
    return data.tobytes()


@target
def event_log(draw: random.Random, folder: Path) -> None:
    """A log with one or two files that are damaged."""
    place = folder / "log"
    shutil.rmtree(place, ignore_errors=True)
    place.mkdir()
    files = dict(_files())
    for _ in range(draw.randint(1, 2)):
        name = draw.choice(sorted(files))
        files[name] = mutated(draw, [files[name]])
        if name.endswith(".events") and draw.random() < 0.7:
            files[name] = _signed(files[name])
    if draw.random() < 0.1:
        del files[draw.choice(sorted(files))]
    for name, content in files.items():
        (place / name).write_bytes(content)
    try:
        _read(EmbeddedEventLog(place))
    finally:
        with EmbeddedEventLog(place, write=True) as log:
            log.append([Event("id-3", 0, "clicks", b"{}"), Event("new", 0, "clicks", b"{}")])
            _read(log)


def _read(log: EmbeddedEventLog) -> None:
    position = log.begin
    while True:
        batch, position = log.read(position, 5)
        if not len(batch):
            break
        batch.to_arrow(["ad", "price", "id", "time", "kind"], Rejects(max_bad_rows=1 << 40))
        assert len(list(batch)) == len(batch)
    log.tail(3, "clicks")
