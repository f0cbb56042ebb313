"""A day over HTTP and the event log decides and learns what it does in one process, to the last bit."""

from pathlib import Path

from benchmarks.serve_replay import replay
from broadmatch.simulate import simulate_marketplace


def test_a_day_over_http_is_the_day_in_one_process(tmp_path: Path) -> None:
    market = simulate_marketplace(tmp_path / "market", n_pages=150, n_sessions=6_000, days=10, seed=5)
    found = replay(market, tmp_path, 150, budget=0.1)
    assert found["searches"] > 150 and found["events"] > 100 and found["spent"] > 0
    assert found["kept_back"] > 50  # budgets matter: the server knows what was charged
    assert found["models"] == 24
    assert found["other_decisions"] == found["other_models"] == 0
