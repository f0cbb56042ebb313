"""A real Ray cluster on this machine, for all tests of the folder: a head without CPUs and two nodes."""

import shutil
import tempfile
import time
from pathlib import Path

import pytest

from benchmarks.cluster_hosts import Hosts, wait_for_port
from broadmatch.cluster import RayEngine

LIMIT = 60.0


@pytest.fixture(scope="session")
def hosts():
    folder = Path(tempfile.mkdtemp(prefix="bm", dir="/tmp"))  # names of sockets are short
    found = Hosts(folder)
    try:
        found.start_head()
        wait_for_port(found.address)
        found.start_node("one")
        found.start_node("two")
        found.wait()
        yield found
    finally:
        found.close()
        shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture(scope="session")
def ray_engine(hosts):
    with pytest.MonkeyPatch.context() as patch:
        for name, value in hosts.environment.items():
            patch.setenv(name, value)
        with RayEngine(hosts.address, patience=LIMIT) as engine:
            yield engine


@pytest.fixture
def whole_cluster(hosts, ray_engine):
    """Both nodes are there and no other, also after a test that killed one."""
    for name in ("one", "two"):
        if not hosts.processes(name):
            hosts.start_node(name)
    hosts.wait()
    end = time.monotonic() + LIMIT
    while len(ray_engine.nodes()) != 2 and time.monotonic() < end:
        time.sleep(0.1)
    return ray_engine
