"""The first process of a server: binds the address, owns the event log, starts workers and looks after them."""

import contextlib
import functools
import ipaddress
import json
import logging
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from broadmatch.ads import AdEngine
from broadmatch.errors import BadArtifact, BadInput, BadParameter, CannotWrite, MissingFile
from broadmatch.io import EmbeddedEventLog, Event, EventBatch
from broadmatch.io.event_log.id_runs import FAN
from broadmatch.io.event_log.ids import keys_of
from broadmatch.io.event_log.kept_ids import KeptIds
from broadmatch.io.event_log.kinds import KINDS
from broadmatch.io.event_log.log import EventLog
from broadmatch.params import Whole
from broadmatch.serve import worker
from broadmatch.serve.api_keys import read_keys
from broadmatch.serve.config import SIGNALS, ServeConfig, ServeFolder
from broadmatch.serve.endpoints.server_state import warm_arm
from broadmatch.serve.event_writer import WorkerLink
from broadmatch.serve.garbage import leave_old_objects
from broadmatch.serve.service import LiveService
from broadmatch.serve.spending.sums import SharedSums, SpendingFollower

log = logging.getLogger("broadmatch.serve")
_MOST_WORKERS, _BACKLOG = 256, 4096
_STOP_SECONDS, _BIND_SECONDS = 4.5, 2.0
_PAUSES = (0.1, 5.0)
"""Seconds before a worker that died is started again: at first, and at most."""
_SETTLED_SECONDS = 30.0
_SIGNALS = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP, signal.SIGCHLD)
_METRICS = "broadmatch-metrics-"


def run(config: ServeConfig, started: Callable[[str], None] = lambda _: None) -> int:
    """Serve until SIGTERM or SIGINT; gives the exit code. `started` gets the address when requests are taken."""
    Whole(1, _MOST_WORKERS).check("workers", config.workers)
    _check_folder(config)
    listeners = _bind(config)
    address = _address(config, listeners[0])
    kafka, alone = worker.is_kafka(config), config.workers == 1
    with contextlib.ExitStack() as stack:
        for listener in listeners:
            stack.callback(listener.close)
        log_written: EventLog | None = None
        if alone or not kafka:
            log_written = worker.open_log(config, write=True)
            stack.callback(log_written.close)
        reader = stack.enter_context(_open_reader(config))
        today = None if config.clock == "request" else _today
        _warm_log()
        follower = SpendingFollower(reader, SharedSums(), today)
        follower.catch_up()
        if alone and log_written is not None:
            return _run_alone(config, listeners[0], log_written, follower, address, started)
        follower.start()
        stack.callback(follower.stop)
        written = log_written if isinstance(log_written, EmbeddedEventLog) else None
        leave_old_objects()  # for the threads that write the log
        return _Supervisor(config, listeners, written, follower.sums, address, started).run()


def _run_alone(
    config: ServeConfig,
    listener: socket.socket,
    written: EventLog,
    follower: SpendingFollower,
    address: str,
    started: Callable[[str], None],
) -> int:
    """One worker is this process itself."""
    follow = follower.catch_up if config.clock == "request" else None
    if follow is None:
        follower.start()

    def ready(_: object) -> None:
        _say("started", address=address, folder=str(config.folder), workers=1)
        started(address)

    sink = worker.local_sink(written)
    worker.Worker(config, listener, sink, follower.sums, follow, ready, lambda: _say("reload")).run()
    follower.stop()
    _say("stopped", address=address)
    return 0


class _Process:
    """A worker process, with the sockets that were made for it."""

    def __init__(self, config: ServeConfig, listener: socket.socket, sums: SharedSums, metrics: str) -> None:
        ours, theirs = socket.socketpair()
        files = listener.fileno(), theirs.fileno(), sums.file
        command = [sys.executable, "-m", "broadmatch.serve.worker", worker.arguments(config, *files)]
        environment = {**os.environ, "PROMETHEUS_MULTIPROC_DIR": metrics, SIGNALS: config.signals or ""}
        self.child = subprocess.Popen(command, pass_fds=files, env=environment, stdin=subprocess.DEVNULL)  # noqa: S603
        theirs.close()
        self.link, self.began, self.ready = ours, time.monotonic(), False


class _Supervisor:
    """Keeps several workers running; all it does itself is in the main thread, with which they end."""

    def __init__(
        self,
        config: ServeConfig,
        listeners: list[socket.socket],
        written: EmbeddedEventLog | None,
        sums: SharedSums,
        address: str,
        started: Callable[[str], None],
    ) -> None:
        self._config, self._listeners, self._log, self._sums = config, listeners, written, sums
        self._address, self._started = address, started
        self._workers: list[_Process | None] = [None] * config.workers
        self._links: list[WorkerLink] = []
        self._start_at, self._pause = [0.0] * config.workers, [_PAUSES[0]] * config.workers
        self._was_ready, self._stopping = False, False

    def run(self) -> int:
        """Run until a signal says otherwise."""
        with _metrics_folder() as self._metrics, _signals() as came:
            try:
                while not self._stopping:
                    self._start_missing()
                    for number in came(self._wait_seconds()):
                        self._handle(number)
                    if not self._look_after():
                        return 1
                return self._finish(came)
            finally:
                self._kill()

    def _wait_seconds(self) -> float:
        missing = [at for one, at in zip(self._workers, self._start_at, strict=True) if one is None]
        return min(1.0, max(0.0, min(missing, default=1e18) - time.monotonic()))

    def _start_missing(self) -> None:
        for i, at in enumerate(self._start_at):
            if self._workers[i] is None and time.monotonic() >= at:
                self._workers[i] = one = _Process(self._config, self._listeners[i], self._sums, self._metrics)
                self._links.append(WorkerLink(one.link, self._log, functools.partial(self._take_ready, one)))

    def _take_ready(self, one: _Process) -> None:
        """A worker takes requests; called by the thread that listens to it."""
        one.ready = True
        _say("worker started", pid=one.child.pid, seconds=round(time.monotonic() - one.began, 2))
        if not self._was_ready and all(other is not None and other.ready for other in self._workers):
            self._was_ready = True
            _say("started", address=self._address, folder=str(self._config.folder), workers=self._config.workers)
            self._started(self._address)

    def _handle(self, number: int) -> None:
        if number in (signal.SIGTERM, signal.SIGINT):
            self._stopping = True
        elif number == signal.SIGHUP:
            _say("reload")
            self._signal(signal.SIGHUP)

    def _look_after(self) -> bool:
        """Have workers that died started again; False if none could start at all."""
        for i, one in enumerate(self._workers):
            if one is None or (code := one.child.poll()) is None:
                continue
            _say("worker died", pid=one.child.pid, code=code)
            _forget_metrics(self._metrics, one.child.pid)
            self._workers[i] = None
            if not one.ready and not self._was_ready:
                return self._stopping
            lived = time.monotonic() - one.began
            self._pause[i] = _PAUSES[0] if lived > _SETTLED_SECONDS else min(2 * self._pause[i], _PAUSES[1])
            self._start_at[i] = time.monotonic() + self._pause[i]
        return True

    def _finish(self, came: Callable[[float], list[int]]) -> int:
        """Let workers answer what they have, and write down all that came from them."""
        until = time.monotonic() + _STOP_SECONDS
        for listener in self._listeners:
            listener.close()
        self._signal(signal.SIGTERM)
        while any(one is not None and one.child.poll() is None for one in self._workers):
            left = until - time.monotonic()
            if left <= 0:
                _say("killed", pids=[one.child.pid for one in self._workers if one and one.child.poll() is None])
                break
            for number in came(left):
                if number in (signal.SIGTERM, signal.SIGINT):
                    self._kill()
                    os._exit(128 + number)  # what was acknowledged is on disk
        self._kill()
        for link in self._links:
            link.join()
        _say("stopped", address=self._address)
        return 0

    def _signal(self, number: int) -> None:
        for one in self._workers:
            if one is not None and one.child.poll() is None:
                one.child.send_signal(number)

    def _kill(self) -> None:
        self._signal(signal.SIGKILL)
        for one in self._workers:
            if one is not None:
                one.child.wait()


def _check_folder(config: ServeConfig) -> None:
    """Refuse what cannot be served, and what must not."""
    if not config.folder.is_dir():
        raise MissingFile(f"There is no folder {config.folder}; make an engine with broadmatch ads index --clicks.")
    if not AdEngine.is_at(config.folder):
        raise BadArtifact(
            f"{config.folder} is not the folder of an ad engine; make one with broadmatch ads index --clicks."
        )
    address, keys = _resolve(config)[4][0].partition("%")[0], ServeFolder(config.folder).keys
    if keys.exists() and not read_keys(keys):
        raise BadParameter(
            f"{keys} has no key, so that nobody could ask anything: make one with broadmatch keys add {config.folder}, "
            "or remove the file to serve on 127.0.0.1 without keys."
        )
    if not ipaddress.ip_address(address).is_loopback and not keys.exists():
        raise BadParameter(
            f"host {config.host} can be reached from elsewhere, and there are no API keys: make one with "
            f"broadmatch keys add {config.folder}, or serve on 127.0.0.1."
        )


def _resolve(config: ServeConfig) -> tuple[int, int, int, str, tuple[str, int]]:
    try:
        family, kind, protocol, name, address = socket.getaddrinfo(
            config.host, config.port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )[0]
    except (OSError, OverflowError) as error:
        raise BadParameter(f"{config.host} port {config.port} is no address to serve on ({error}).") from error
    return family, kind, protocol, name, (str(address[0]), int(address[1]))


def _bind(config: ServeConfig) -> list[socket.socket]:
    """A listening socket for each worker, all of one address; the system deals connections out among them."""
    family, *_, (host, port) = _resolve(config)
    until = time.monotonic() + _BIND_SECONDS
    while True:
        try:
            with _socket(family, shared=False) as alone:  # a port that another server has, shared or not, is refused
                alone.bind((host, port))
                alone.listen(1)
            found: list[socket.socket] = []
            for _ in range(config.workers):
                listener = _socket(family, shared=config.workers > 1)
                listener.bind((host, port))
                listener.listen(_BACKLOG)
                found.append(listener)
                port = listener.getsockname()[1]
            return found
        except OSError as error:
            if time.monotonic() > until:  # workers of a server that was killed are gone by then
                raise CannotWrite(
                    f"Cannot serve on {host} port {port}: {error.strerror or error}; choose another with --port, or "
                    "end what uses it."
                ) from error
            time.sleep(0.05)


def _socket(family: int, *, shared: bool) -> socket.socket:
    made = socket.socket(family, socket.SOCK_STREAM)
    made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    if shared:
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    return made


def _open_reader(config: ServeConfig) -> EventLog:
    """The event log to read, which is made if it is a topic that is not there yet."""
    try:
        return worker.open_log(config, write=False)
    except BadInput:
        with worker.open_log(config, write=True):
            return worker.open_log(config, write=False)


def warm_up(folder: Path) -> None:
    """Compile what a server of an engine uses."""
    _warm_log()
    for arm in LiveService(folder).current.arms:
        warm_arm(arm)


def _warm_log() -> None:
    """Load the kernels of the log, with a small one, so that no client waits for them."""
    events = [Event(f"{kind}", 0, kind, b"{}") for kind in KINDS]
    with tempfile.TemporaryDirectory() as folder, EmbeddedEventLog(folder, write=True) as small:
        for batch in (events[:2], [*events, events[0]]):
            small.append(batch)
        SpendingFollower(small, SharedSums()).catch_up()
        ids = KeptIds(small.path)
        for first, event in enumerate([events[0]] * FAN):
            ids.add(keys_of(EventBatch.of([event])))
            ids.wait_for_room()
            ids.seal(first, first + 1)
        ids.wait()


def _address(config: ServeConfig, listener: socket.socket) -> str:
    host = f"[{config.host}]" if ":" in config.host else config.host
    return f"http://{host}:{listener.getsockname()[1]}"


def _today() -> int:
    return int(time.time() // 86_400)


def _say(event: str, **facts: object) -> None:
    """One line of JSON in the log."""
    log.info(json.dumps({"time": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()), "event": event, **facts}))


@contextlib.contextmanager
def _signals() -> Iterator[Callable[[float], list[int]]]:
    """Collect signals; gives what waits for some, for up to so many seconds."""
    here, there = socket.socketpair()
    here.setblocking(False)
    there.setblocking(False)
    before = {number: signal.signal(number, lambda *_: None) for number in _SIGNALS}
    old = signal.set_wakeup_fd(there.fileno(), warn_on_full_buffer=False)

    def wait(seconds: float) -> list[int]:
        select.select([here], [], [], max(0.0, seconds))
        with contextlib.suppress(BlockingIOError):
            return list(here.recv(4096))
        return []

    try:
        yield wait
    finally:
        signal.set_wakeup_fd(old)
        for number, handler in before.items():
            signal.signal(number, handler)
        here.close()
        there.close()


@contextlib.contextmanager
def _metrics_folder() -> Iterator[str]:
    """Where workers keep their counts for each other; those of servers that were killed are removed."""
    for left in Path(tempfile.gettempdir()).glob(f"{_METRICS}*"):
        with contextlib.suppress(OSError, ValueError, IndexError):
            if left.stat().st_uid == os.getuid() and not _runs(int(left.name.split("-")[2])):
                shutil.rmtree(left)
    with tempfile.TemporaryDirectory(prefix=f"{_METRICS}{os.getpid()}-", ignore_cleanup_errors=True) as folder:
        yield folder


def _runs(process: int) -> bool:
    try:
        os.kill(process, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _forget_metrics(folder: str, process: int) -> None:
    from prometheus_client import multiprocess

    with contextlib.suppress(OSError):
        multiprocess.mark_process_dead(process, folder)  # type: ignore[no-untyped-call]
