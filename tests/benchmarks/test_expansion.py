"""A guard of the benchmark of expansion: its graph is as it says, and pruning loses little of the best."""

import json

import numpy as np

from benchmarks.expansion import click_graph, measure, recall, write_logs


def test_the_graph_has_the_degrees_it_promises():
    graph = click_graph(20_000)
    assert graph.shape == (20_000, 4000)
    assert 1.0 <= graph.nnz / 200_000 < 1.05
    degrees = np.bincount(graph.indices)
    assert 195 <= degrees.max() <= 200
    assert degrees.max() > 3 * np.median(degrees)


def test_pruned_simrank_finds_the_best_fifty(capsys):
    recall(1500, sample=60)
    found = json.loads(capsys.readouterr().out)
    assert found["reference"] == "definition"
    assert found["recall"] >= 0.95
    assert found["series_recall"] >= 0.99


def test_all_arms_come_from_the_logs(tmp_path, capsys):
    write_logs(tmp_path, 1500)
    measure(str(tmp_path))
    found = json.loads(capsys.readouterr().out)
    assert found["queries"] >= 1490
    assert found["cpu_seconds"] < 20
    assert min(found[f"{arm}_kept"] for arm in ("rewrites", "walk", "simrank", "co_bid")) > 1
