"""What a job keeps in its folder is not trusted: forged, it is refused, or the job ends with something whole."""

import shutil

import numpy as np
import pytest

from benchmarks.fuzz.models import array_bytes, read, read_array, signed, write
from broadmatch.cluster import ThreadEngine, beliefs_in_shards
from broadmatch.cluster.harvest_folder import _KeptHarvest
from broadmatch.cluster.shards import write_shards
from broadmatch.data import CSR
from broadmatch.errors import BadArtifact
from broadmatch.harvest import HarvestSettings, harvest
from broadmatch.io import ClickLog
from tests.io.test_forged import FORGERIES

Y = CSR.from_rows([[0, 2], [1], [0, 1], [2, 3], [3], [0, 3]], 4)


def shard(place):
    shards = write_shards(place, "these", CSR.from_rows([[0], [1, 2], [2], [0, 1], [], [1]], 3), Y, 2)
    return shards.folder / "00000001", lambda: shards.read(1).take(np.array([0, 2]))


def beliefs(place):
    """What is kept when a job is stopped behind its second iteration."""
    settings = {"iterations": 3, "n_shards": 2, "folder": place / "kept"}

    class Stopped(ThreadEngine):
        turns = 0

        def progress(self, refs, *, title, unit):
            super().progress(refs, title=title, unit=unit)
            self.turns += 1
            if self.turns == 2:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        beliefs_in_shards(Stopped(), Y, **settings)
    kept = max(file for file in (place / "kept").iterdir() if file.name.isdigit())
    return kept, lambda: beliefs_in_shards(ThreadEngine(), Y, **settings)


def labels(place):
    file = place / "log.csv"
    rows = [f"{query},https://s.example/{page}" for query in ("tea", "crêpe") for page in "abcdef"]
    file.write_text("\n".join(["query,page", *rows]), encoding="utf-8")
    settings = HarvestSettings(min_clicks=1, min_test_queries=1, test_share=0.5)
    kept = _KeptHarvest(place / "job", ClickLog(file), settings, [])
    kept.keep(harvest(ClickLog(file), min_clicks=1, min_test_queries=1, test_share=0.5))
    return place / "job" / "labels" / "00000000", lambda: kept.take().train_counts


@pytest.mark.parametrize("make", [shard, beliefs, labels])
@pytest.mark.parametrize("how", FORGERIES)
def test_every_array_of_a_job_may_be_forged(make, how, tmp_path):
    place, ask = make(tmp_path)
    files, whole = read(place), shutil.copytree(place.parent, tmp_path / "whole")
    assert ask() is not None
    refused = 0
    for name in [name for name in files if name.endswith(".npy") and read_array(files[name]).size]:
        shutil.rmtree(place.parent, ignore_errors=True)
        shutil.copytree(whole, place.parent)
        shutil.rmtree(place)
        forged = array_bytes(np.ascontiguousarray(FORGERIES[how](read_array(files[name]))))
        write(signed(files | {name: forged}), place)
        try:
            assert ask() is not None
        except BadArtifact as error:
            assert str(place.parent) in str(error)
            refused += 1
    assert refused
