"""SIGKILL of a writer under readers' load: nothing acknowledged is lost, and no reader sees half a change."""

from benchmarks.ads_kill import measure


def test_a_writer_that_is_killed_loses_nothing(tmp_path):
    found = measure(tmp_path, kills=3)
    assert (found["lost"], found["half_after_a_kill"]) == (0, 0)
    assert found["changes"] > 0
    assert all(one["looks"] > 0 and one["halves"] == one["went_back"] == 0 for one in found["readers"])
