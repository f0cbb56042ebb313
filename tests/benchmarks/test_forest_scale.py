"""What runs of several sizes told, read for the picture."""

import json

from benchmarks.forest_scale import by_size


def test_a_run_that_was_taken_up_again_costs_what_growing_cost(tmp_path):
    lines = [
        {"benchmark": "forest_scale plant", "points": 10},
        {"benchmark": "forest_scale tree", "points": 10, "cpu_s_per_tree": 3.0},
        {"benchmark": "forest_scale fit", "points": 10, "grown_now": 2, "cpu_s_per_tree": 2.0},
        {"benchmark": "forest_scale fit", "points": 10, "grown_now": 0, "cpu_s_per_tree": 0.0},
        {"benchmark": "forest_scale tree", "points": 20, "cpu_s_per_tree": 4.0},  # and interrupted
        {"benchmark": "forest_scale ask", "points": 10, "p99_ms": 1.0},
    ]
    told = tmp_path / "told"
    told.write_text("Compiling\n" + "\n".join(map(json.dumps, lines)))
    grew, asks = by_size(told)
    assert {n: line["cpu_s_per_tree"] for n, line in grew.items()} == {10: 2.0, 20: 4.0}
    assert list(asks) == [10]
