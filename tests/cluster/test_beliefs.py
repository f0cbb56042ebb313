"""Beliefs in shards: the same bits as on one machine, for any number of shards, also taken up again."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import scipy.sparse as sp
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import array_shapes, arrays

from broadmatch.cluster import ThreadEngine, beliefs_in_shards
from broadmatch.cluster import beliefs as module
from broadmatch.data import CSR
from broadmatch.errors import BadArtifact, BadParameter
from broadmatch.harvest import belief_stages as stages
from broadmatch.harvest import sparse_beliefs
from tests.harvest.test_beliefs import zipf_labels

SHARDS = (1, 2, 3, 5)
tables = arrays(
    np.float32,
    array_shapes(min_dims=2, max_dims=2, min_side=1, max_side=9),
    elements=st.sampled_from([0.0, 0.0, 0.0, 1.0, 1.0, 0.25, 1e-3]),
)


def same(found: CSR, expected: CSR) -> bool:
    arrays = zip(found[:3], expected[:3], strict=True)
    return found.n_cols == expected.n_cols and all(a.dtype == b.dtype and np.array_equal(a, b) for a, b in arrays)


@settings(max_examples=60, deadline=None)
@given(tables, st.sampled_from(SHARDS), st.sampled_from([1.0, 1.3, 2.0]), st.sampled_from(["clicks", "walk"]))
def test_any_labels_in_any_shards(table: np.ndarray, n_shards: int, budget: float, similarity: str) -> None:
    """Fewer rows than shards, pages without labels, equal beliefs: few values are drawn from, so ties are many."""
    Y = CSR.from_scipy(sp.csr_matrix(table))
    how: dict[str, Any] = {"budget": budget, "iterations": 2, "similarity": similarity}
    found = beliefs_in_shards(ThreadEngine(1), Y, n_shards=n_shards, **how)
    assert same(found, sparse_beliefs(Y, n_jobs=1, **how))


@pytest.fixture
def small_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """Guess from few rows, so that guesses fail and floors rise."""
    monkeypatch.setattr(stages, "SAMPLE_ROWS", 5)
    monkeypatch.setattr(stages, "_SMALL_BLOCK", 3)


@pytest.mark.parametrize("n_shards", SHARDS)
@pytest.mark.parametrize("similarity", ["clicks", "walk"])
def test_pruning_and_shards_change_no_bit(
    n_shards: int, similarity: str, small_steps: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Y = zipf_labels(300, 80, 1)
    weights = np.random.default_rng(0).random(Y.nnz).astype(np.float32) + 0.1
    Y = Y._replace(data=weights)  # sums of these depend on their order
    found = beliefs_in_shards(ThreadEngine(2), Y, iterations=3, similarity=similarity, n_shards=n_shards)
    monkeypatch.undo()
    assert same(found, sparse_beliefs(Y, iterations=3, similarity=similarity, n_jobs=1))


def test_ties_go_to_the_first_shards() -> None:
    # Pages in pairs that share nothing with others: all beliefs of a kind are equal, and TopL cuts among them.
    Y = CSR.from_rows([[i // 2, 10 + i] for i in range(20)], 30)
    for n_shards in SHARDS:
        for budget in (1.0, 1.1, 1.45):
            found = beliefs_in_shards(ThreadEngine(1), Y, budget=budget, iterations=3, n_shards=n_shards)
            assert same(found, sparse_beliefs(Y, budget=budget, iterations=3, n_jobs=1))
            assert found.nnz == int(budget * Y.nnz)


class Interrupted(ThreadEngine):
    """An engine whose head dies after so many iterations."""

    left = 2

    def progress(self, refs: Any, *, title: str, unit: str) -> None:
        self.left -= 1
        if self.left < 0:
            raise KeyboardInterrupt


def test_a_run_goes_on_after_the_last_whole_iteration(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    Y, kept = zipf_labels(120, 40, 2), tmp_path / "beliefs"
    with pytest.raises(KeyboardInterrupt):
        beliefs_in_shards(Interrupted(), Y, iterations=5, n_shards=3, folder=kept)
    assert len(list(kept.iterdir())) == 6  # the second iteration, which was said to be whole, and the third
    next(iter(sorted(kept.iterdir(), reverse=True))).rename(tmp_path / "lost")
    steps: list[int] = []
    whole = module._BeliefJob.step
    monkeypatch.setattr(module._BeliefJob, "step", lambda self, *rest: steps.append(rest[-1]) or whole(self, *rest))
    found = beliefs_in_shards(ThreadEngine(), Y, iterations=5, n_shards=3, folder=kept)
    assert steps == [3, 4, 5]
    assert same(found, sparse_beliefs(Y, iterations=5, n_jobs=1))
    assert not kept.exists()


def test_what_other_labels_left_is_refused(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        beliefs_in_shards(Interrupted(), zipf_labels(60, 20, 0), n_shards=2, folder=tmp_path / "kept")
    with pytest.raises(BadArtifact, match="other data or with other parameters"):
        beliefs_in_shards(ThreadEngine(), zipf_labels(60, 20, 1), n_shards=2, folder=tmp_path / "kept")


def test_nothing_to_do_and_bad_settings() -> None:
    empty = CSR.from_rows([[], []], 3)
    assert beliefs_in_shards(ThreadEngine(), empty, n_shards=5).nnz == 0
    with pytest.raises(BadParameter, match="beta"):
        beliefs_in_shards(ThreadEngine(), empty, beta=0)
