"""SIGKILL at any moment while another process appends: the same bits in the end, and no half model is met."""

from benchmarks.event_learning_kill import measure


def test_a_learner_that_is_killed_ends_with_the_same_bits(tmp_path):
    found = measure(tmp_path, kills=8, events=6000, seed=1)
    assert found["kills"] == 8
    assert found["read"] == found["events"] > 6000
    assert found["models"] > 2
    assert set(found["same_bits"].values()) == {True}, found["same_bits"]
