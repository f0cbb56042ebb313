"""The fuzzers: cases follow from a seed, what is not our error is found, and a few cases of each reader are fine."""

import logging
import random

import pytest

from benchmarks.fuzz import __main__ as harness
from benchmarks.fuzz import targets
from benchmarks.fuzz.mutate import mutated
from broadmatch.errors import BadInput

LOGS = ("csv", "jsonl", "vw", "parquet")


@pytest.mark.parametrize("name", LOGS)
def test_a_few_cases_of_each_reader_of_logs(name, tmp_path, caplog):
    with caplog.at_level(logging.CRITICAL):
        for case in range(150):
            problem = harness._attempt(targets()[name], name, 1, case, tmp_path, 60)
            assert not problem, (case, problem)


def test_only_our_errors_are_fine(tmp_path):
    def fails(error):
        def run(draw, folder):
            raise error

        return harness._attempt(run, "x", 1, 1, tmp_path, 60)

    assert fails(BadInput("no")) == ""
    assert "IndexError: out" in fails(IndexError("out"))


def test_damage_follows_from_the_seed_and_is_bound():
    seeds = [b"a,b\n1,2\n", b"c" * 70_000]
    cases = [mutated(random.Random(i), seeds, [b"token"]) for i in range(300)]
    assert cases == [mutated(random.Random(i), seeds, [b"token"]) for i in range(300)]
    assert max(map(len, cases)) <= 1 << 16
    assert len(set(cases)) > 250
