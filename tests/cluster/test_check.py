"""What is said of nodes, without a cluster; and the settings that are deployed."""

import re
from pathlib import Path

import pytest

from broadmatch.cluster import ClusterReport, NodeReport
from broadmatch.cluster.build import this_build
from broadmatch.cluster.check import check_cluster, probe, unset_settings
from broadmatch.cluster.ray_engine import SETTINGS, ClusterNode
from broadmatch.errors import ClusterFailed

DEPLOY = Path(__file__).parents[2] / "deploy"


class OneNode:
    """An engine whose only node answers as it is told to."""

    address = "10.0.0.5:6379"

    def __init__(self, answer=None, memory=4 * 10**9, cpus=1):
        self.answer, self.node = answer, ClusterNode("0123456789abcdef", "10.0.0.6", cpus, memory, 10**9)

    def nodes(self):
        return [self.node] if self.node.cpus else []

    def on_each_node(self, task, *arguments, limit):
        assert limit < 30
        return {self.node.id: task(*arguments) if self.answer is None else self.answer}


def test_the_settings_to_deploy_are_those_that_are_needed():
    lines = dict(re.findall(r"^(RAY_\w+)=(\S+)$", (DEPLOY / "cluster.env").read_text(), re.MULTILINE))
    assert {name: value for name, value in lines.items() if not name.startswith("RAY_AUTH")} == SETTINGS
    assert unset_settings(lines) == {}
    assert unset_settings(lines | {"RAY_task_oom_retries": "9"}) == {"RAY_task_oom_retries": "3"}


def test_a_node_that_is_as_this_host_has_no_problem(tmp_path, monkeypatch):
    for name, value in SETTINGS.items():
        monkeypatch.setenv(name, value)
    report = check_cluster(OneNode(), tmp_path / "not there yet" / "model")
    assert (report.problems, report.n_cpus, report.task_memory) == ([], 1, 4 * 10**9)
    assert report.subtree_rows > 10**6
    assert report.to_dict()["nodes"][0]["sees"] is True
    assert not list(tmp_path.iterdir())


def test_a_node_that_cannot_answer_is_one_sentence(tmp_path):
    report = check_cluster(
        OneNode(ClusterFailed("Checking: a task failed: ModuleNotFoundError: no broadmatch.")), tmp_path
    )
    assert report.problems == [
        "Node 10.0.0.6 (01234567) cannot run the check: a task failed: ModuleNotFoundError: no broadmatch; "
        f"install broadmatch {this_build()} there."
    ]


def test_no_node_with_a_cpu(tmp_path):
    with pytest.raises(
        ClusterFailed, match=r"^No node of the cluster at 10.0.0.5:6379 has a CPU; start one that has\.$"
    ):
        check_cluster(OneNode(cpus=0), tmp_path)


def test_a_file_of_other_content_is_another_folder(tmp_path):
    (tmp_path / "file").write_bytes(b"other")
    assert not probe(str(tmp_path / "file"), "0").sees
    assert not probe(str(tmp_path / "nothing"), "0").sees


@pytest.mark.parametrize(("gigabytes", "expected"), [(0.001, 2), (1, 2), (30, 32)])
def test_shards_fit_tasks(gigabytes, expected):
    node = ClusterNode("0", "10.0.0.6", 2, 4 * 10**9, 10**9)
    report = ClusterReport("", "", [NodeReport(node, None, [], [])], node.memory, 0)
    assert report.shards_for(int(gigabytes * 10**9)) == expected
