"""Spread work over threads: kernels release the GIL, so threads are enough and arrays are shared, not copied."""

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.params import Whole

_most_threads = 256  # more only wait for each other, and a saved model may ask for any number

Item = TypeVar("Item")
Result = TypeVar("Result")


class Stop:
    """A flag that long kernels look at, so that Ctrl-C ends them between two nodes or blocks."""

    def __init__(self) -> None:
        self.flag: NDArray[np.int64] = np.zeros(1, np.int64)

    def set(self) -> None:
        """Ask every kernel that holds `flag` to return early."""
        self.flag[0] = 1


def limit_threads(most: int) -> None:
    """Let no work of this process have more threads, whatever `n_jobs` says: where others share the machine."""
    global _most_threads
    _most_threads = most


def n_workers(n_jobs: int | None) -> int:
    """How many threads `n_jobs` means: None or -1 is every core this process may use.

    >>> n_workers(3)
    3
    """
    if n_jobs is None or n_jobs == -1:
        # Not every core of the machine: containers and batch systems give a process only some.
        cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
        return min(cores, _most_threads)
    Whole(1).check("n_jobs, unless it is None or -1,", n_jobs)
    return min(n_jobs, _most_threads)


def map_threads(
    function: Callable[[Item], Result], items: Iterable[Item], n_jobs: int | None, stop: Stop | None = None
) -> Iterator[Result]:
    """Yield `function(item)` in the order of `items`, at most a few ahead of the consumer.

    An error or Ctrl-C sets `stop`, drops what has not started, and waits for what has.

    >>> list(map_threads(abs, [-1, 2, -3], n_jobs=2))
    [1, 2, 3]
    """
    workers = n_workers(n_jobs)
    # With a `stop`, even one worker is a thread: the main thread stays free to take Ctrl-C while a kernel runs.
    if workers == 1 and stop is None:
        for item in items:
            yield function(item)
        return
    pool = ThreadPoolExecutor(workers, thread_name_prefix="broadmatch")
    pending: deque[Future[Result]] = deque()
    finished = False
    try:
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) >= 2 * workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
        finished = True
    finally:
        if not finished and stop is not None:
            stop.set()
        pool.shutdown(wait=True, cancel_futures=True)


def each_block(function: Callable[[int, int], object], n: int, size: int, n_jobs: int | None) -> None:
    """Call `function(start, stop)` for all `blocks` of range(n)."""
    for _ in map_threads(lambda block: function(*block), blocks(n, size), n_jobs):
        pass


def blocks(n: int, size: int) -> Iterator[tuple[int, int]]:
    """Cut range(n) into (start, stop) pieces of at most `size`.

    >>> list(blocks(5, 2))
    [(0, 2), (2, 4), (4, 5)]
    """
    for start in range(0, n, size):
        yield start, min(start + size, n)
