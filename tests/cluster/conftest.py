"""A real Ray cluster on this machine, for all tests of the folder: a head without CPUs and two nodes.

Each node has copies of its own of what is in the store: where those of this process stand it sees another folder, if
it may.
"""

import shutil
import subprocess
import tempfile
import time
from pathlib import Path

import pytest

from benchmarks.cluster_hosts import Hosts, wait_for_port
from broadmatch.cluster import RayEngine
from tests.object_store import object_store

LIMIT = 60.0
MOUNT = 'mount -t tmpfs -o mode=700 none "$BROADMATCH_COPIES" && exec "$@"'
OWN_COPIES = ("unshare", "--mount", "sh", "-c", MOUNT, "sh")


@pytest.fixture(scope="session")
def own_copies(store):
    """What a node is started within; nothing where this user must not mount."""
    tried = subprocess.run([*OWN_COPIES, "true"], capture_output=True, check=False)
    return () if tried.returncode else OWN_COPIES


@pytest.fixture(scope="session")
def store(tmp_path_factory):
    copies = tmp_path_factory.mktemp("copies")
    with object_store(copies):
        yield copies


@pytest.fixture(scope="session")
def hosts(own_copies):
    folder = Path(tempfile.mkdtemp(prefix="bm", dir="/tmp"))  # names of sockets are short
    found = Hosts(folder)
    try:
        found.start_head()
        wait_for_port(found.address)
        found.start_node("one", within=own_copies)
        found.start_node("two", within=own_copies)
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
def whole_cluster(hosts, ray_engine, own_copies):
    """Both nodes are there and no other, also after a test that killed one."""
    for name in ("one", "two"):
        if not hosts.processes(name):
            hosts.start_node(name, within=own_copies)
    hosts.wait()
    end = time.monotonic() + LIMIT
    while len(ray_engine.nodes()) != 2 and time.monotonic() < end:
        time.sleep(0.1)
    return ray_engine
