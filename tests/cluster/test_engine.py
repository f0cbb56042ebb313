"""The engine that is this process: order, pieces, read-only arrays, room."""

from functools import partial
from typing import NamedTuple

import numpy as np
import pytest

from broadmatch.cluster import ThreadEngine
from broadmatch.errors import ClusterFailed


class Pair(NamedTuple):
    left: np.ndarray
    right: list


def deal(numbers, n_parts):
    return [numbers[numbers % n_parts == part] for part in range(n_parts)]


def join(offset, number, pieces):
    return np.concatenate(pieces) + offset + number


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_pieces_arrive_in_the_order_of_the_items(n_jobs):
    engine = ThreadEngine(n_jobs)
    shards = engine.map(np.arange, [(0, 5), (5, 7), (7, 12)], memory=0, title="Making")
    pieces = engine.shuffle(deal, [(shard, 2) for shard in shards], 2, memory=0, title="Dealing")
    assert [len(part) for part in pieces] == [3, 3]
    joined = engine.reduce(partial(join, 100), pieces, memory=0, title="Joining")
    engine.progress(joined, title="Joining", unit="parts")
    even, odd = engine.get(joined)
    assert even.tolist() == [100 + n for n in (0, 2, 4, 6, 8, 10)]
    assert odd.tolist() == [101 + n for n in (1, 3, 5, 7, 9, 11)]


def test_results_are_read_only_as_in_a_cluster():
    (ref,) = ThreadEngine().map(Pair, [(np.zeros(2), [np.ones(1)])], memory=0, title="Making")
    (pair,) = ThreadEngine().get([ref])
    assert isinstance(pair, Pair)
    for array in (pair.left, pair.right[0]):
        with pytest.raises(ValueError, match="read-only"):
            array[0] = 1


def test_a_task_that_fits_nowhere_is_refused_at_once():
    with pytest.raises(ClusterFailed, match=r"^Making needs 2.0 GB of memory a task, and no node has more than 1.0 GB"):
        ThreadEngine(memory=10**9).map(np.zeros, [(1,)], memory=2 * 10**9, title="Making")


def test_another_number_of_pieces_is_an_error():
    with pytest.raises(ValueError, match="another number of pieces"):
        ThreadEngine().shuffle(deal, [(np.arange(3), 2)], 3, memory=0, title="Dealing")
