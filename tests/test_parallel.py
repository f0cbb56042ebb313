"""Threads: order, errors, early ends, and Ctrl-C."""

import os
import signal
import subprocess
import sys
import textwrap
import threading
import time

import pytest

from broadmatch.errors import BadParameter
from broadmatch.parallel import Stop, blocks, map_threads, n_workers


@pytest.mark.parametrize("n_jobs", [1, 2, 7, None, -1])
def test_results_come_in_order(n_jobs):
    def late(i):
        time.sleep(0.002 * (i % 3))
        return i * i

    assert list(map_threads(late, range(40), n_jobs)) == [i * i for i in range(40)]


def test_no_number_of_threads_is_too_large():
    assert n_workers(10**9) == n_workers(256)


@pytest.mark.parametrize("n_jobs", [1, 3])
def test_no_items(n_jobs):
    assert list(map_threads(abs, [], n_jobs)) == []


def test_it_runs_on_several_threads():
    together = threading.Barrier(2, timeout=10)
    assert len(list(map_threads(lambda _: together.wait(), range(2), 2))) == 2


def test_it_runs_only_a_few_ahead_of_the_consumer():
    asked = []

    def items():
        for i in range(1000):
            asked.append(i)
            yield i

    results = map_threads(lambda i: i, items(), 2)
    for _ in range(3):
        next(results)
    assert len(asked) <= 3 + 2 * 2
    results.close()


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_an_error_comes_through_and_stops_the_rest(n_jobs):
    stop, started = Stop(), []

    def work(i):
        started.append(i)
        if i == 3:
            raise ZeroDivisionError("item 3")
        return i

    with pytest.raises(ZeroDivisionError, match="item 3"):
        list(map_threads(work, range(1000), n_jobs, stop))
    assert stop.flag[0] == 1
    assert len(started) < 20


def test_a_consumer_that_leaves_early_stops_the_rest():
    stop = Stop()

    def until_stopped(i):
        deadline = time.monotonic() + 10
        while i and not stop.flag[0] and time.monotonic() < deadline:
            time.sleep(0.001)
        return time.monotonic() < deadline

    results = map_threads(until_stopped, range(100), 2, stop)
    assert next(results)
    results.close()
    assert stop.flag[0] == 1


def test_a_run_that_ends_well_does_not_stop_anything():
    stop = Stop()
    assert list(map_threads(abs, range(9), 2, stop)) == list(range(9))
    assert stop.flag[0] == 0


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_ctrl_c_reaches_a_running_kernel(n_jobs):
    """The only item in flight has been taken from the queue: it has to be told to stop all the same."""
    code = """
        import sys, time
        from broadmatch.parallel import Stop, map_threads
        stop = Stop()
        def kernel(_):
            print("running", flush=True)
            for _ in range(3000):
                if stop.flag[0]:
                    return
                time.sleep(0.01)
        try:
            list(map_threads(kernel, [0], int(sys.argv[1]), stop))
        except KeyboardInterrupt:
            print("stopped" if stop.flag[0] else "not told")
    """
    child = subprocess.Popen(
        [sys.executable, "-c", textwrap.dedent(code), str(n_jobs)], stdout=subprocess.PIPE, text=True
    )
    assert child.stdout.readline() == "running\n"
    started = time.monotonic()
    child.send_signal(signal.SIGINT)
    out, _ = child.communicate(timeout=60)
    assert out == "stopped\n"
    assert time.monotonic() - started < 10


def test_n_workers():
    assert n_workers(5) == 5
    assert n_workers(None) == n_workers(-1) >= 1
    if hasattr(os, "sched_getaffinity"):
        assert n_workers(None) == len(os.sched_getaffinity(0))
    for wrong in (0, -2, 1.5, "2"):
        with pytest.raises(BadParameter, match="n_jobs"):
            n_workers(wrong)


@pytest.mark.parametrize(("n", "size"), [(0, 3), (1, 3), (3, 3), (10, 3), (10, 100)])
def test_blocks_cover_the_range_once(n, size):
    cut = list(blocks(n, size))
    assert [i for start, stop in cut for i in range(start, stop)] == list(range(n))
    assert all(0 < stop - start <= size for start, stop in cut)
