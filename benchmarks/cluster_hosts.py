"""Hosts of a Ray cluster as processes of this machine: a head without CPUs and nodes, each killed as a whole.

Used by tests/cluster and by benchmarks/cluster.py, which puts each host into a network namespace of its own.
"""

import contextlib
import os
import secrets
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from broadmatch.cluster.ray_engine import SETTINGS

RAY = Path(sys.executable).with_name("ray")
ROOT = Path(__file__).parents[1]
START_LIMIT = 90.0


class Hosts:
    """A cluster in `folder`: its own token, its own temporary folders, ports of its own."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.token = folder / "token"
        self.token.write_text(secrets.token_hex(32))
        self._sessions: dict[str, int] = {}
        self._starting: dict[str, subprocess.Popen[bytes]] = {}
        self.address = ""

    @property
    def environment(self) -> dict[str, str]:
        """What head, nodes and drivers have in their environment."""
        plain = {key: value for key, value in os.environ.items() if not key.startswith("RAY_")}
        path = f"{ROOT / 'src'}:{ROOT}"  # this one, wherever another is installed
        mine = {"RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token), "RAY_usage_stats_enabled": "0"}
        return plain | SETTINGS | mine | {"PYTHONPATH": path, "RAY_TMPDIR": str(self.folder / "driver")}

    def start_head(self, ip: str = "127.0.0.1", within: Sequence[str] = ()) -> None:
        """A head that runs no tasks."""
        port = free_port() if ip == "127.0.0.1" else 6379
        self.address = f"{ip}:{port}"
        words = ["--head", f"--port={port}", "--num-cpus=0", "--memory=100000000", "--include-dashboard=false"]
        self._start("head", [*words, f"--node-ip-address={ip}"], 80_000_000, within)

    def start_node(
        self, name: str, *, cpus: int = 1, memory: int = 10**9, store: int = 80_000_000, ip: str = "127.0.0.1",
        within: Sequence[str] = (), environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        """A node that joins; it need not be there when this returns: see `wait`."""
        words = [f"--address={self.address}", f"--num-cpus={cpus}", f"--memory={memory}", f"--node-ip-address={ip}"]
        self._start(name, [*words, "--include-log-monitor=false"], store, within, environment)

    def wait(self) -> None:
        """Until all that were started are there."""
        for name, process in self._starting.items():
            if process.wait(START_LIMIT):
                raise RuntimeError(f"{name} did not start: {(self.folder / name / 'start.log').read_text()[-2000:]}")
        self._starting.clear()

    def _start(
        self, name: str, words: list[str], store: int, within: Sequence[str],
        environment: Mapping[str, str] | None = None,
    ) -> None:  # fmt: skip
        place = self.folder / name  # two hosts of one machine need a temporary folder each
        place.mkdir(exist_ok=True)
        rest = [f"--object-store-memory={store}", f"--temp-dir={place}", "--disable-usage-stats"]
        command = [*within, str(RAY), "start", *words, *rest]
        with (place / "start.log").open("wb") as log:
            process = subprocess.Popen(
                command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True,
                env=self.environment | dict(environment or {}),
            )  # fmt: skip
        self._sessions[name], self._starting[name] = process.pid, process

    def session(self, name: str) -> int:
        """The session of a host, of which all its processes are."""
        return self._sessions[name]

    def processes(self, name: str) -> list[int]:
        """All processes of a host: they are of the session that started it."""
        return processes_of_session(self._sessions[name])

    def kill(self, name: str) -> None:
        """End a host at once, with its raylet and all its workers."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._sessions[name], signal.SIGKILL)
        for _ in range(3):  # what was being started meanwhile
            for pid in self.processes(name):
                with contextlib.suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGKILL)
        process = self._starting.pop(name, None)
        if process is not None:
            process.wait(10)

    def close(self) -> None:
        """End all hosts."""
        for name in self._sessions:
            self.kill(name)


def processes_of_session(session: int) -> list[int]:
    """The numbers of the processes of a session, from /proc."""
    found = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with contextlib.suppress(OSError, IndexError):
                rest = (entry / "stat").read_text().rpartition(")")[2].split()
                if int(rest[3]) == session:
                    found.append(int(entry.name))
    return found


def memory_of(pids: Sequence[int]) -> int:
    """The bytes of memory that processes hold together, what they share counted once (PSS)."""
    total = 0
    for pid in pids:
        with contextlib.suppress(OSError, StopIteration):
            lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
            total += 1024 * int(next(line for line in lines if line.startswith("Pss:")).split()[1])
    return total


def free_port() -> int:
    """A port that nobody has now."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


def wait_for_port(address: str, limit: float = START_LIMIT) -> None:
    """Until something answers there."""
    host, _, port = address.rpartition(":")
    end = time.monotonic() + limit
    while True:
        try:
            socket.create_connection((host, int(port)), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.1)
