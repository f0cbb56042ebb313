"""SIGKILL at any moment: what was learned is kept, and the end is the same bits as without."""

from benchmarks.clicks_kill import measure


def test_a_run_that_is_killed_and_taken_up_again_ends_with_the_same_bits(tmp_path):
    found = measure(tmp_path, kills=8, rows=12_000, seed=1)
    assert found["kills"] == 8
    assert found["runs"] >= 1
    assert found["where"].get("before the first checkpoint", 0) < 8, "all kills came before there was anything to lose"
    assert found["same_bits"] == dict.fromkeys(("predictions", "rejects", "counts", "model", "learner"), True)
    assert found["each_impression_learned_once"]
    counts = found["counts"]
    assert min(counts[name] for name in ("late_impressions", "duplicate_clicks", "orphan_clicks", "rejected")) > 0
