"""A process that answers requests: alone, with the log it writes itself, or one of several under a supervisor."""

import asyncio
import contextlib
import ctypes
import dataclasses
import json
import logging
import os
import signal
import socket
import sys
from collections.abc import Awaitable, Callable, Iterator
from pathlib import Path

import uvicorn
import uvloop

from broadmatch.errors import BroadmatchError
from broadmatch.io.event_log.log import EventLog
from broadmatch.io.event_log.opening import KAFKA, open_event_log
from broadmatch.serve.api_keys import ApiKeys
from broadmatch.serve.app import App, make_app
from broadmatch.serve.config import SIGNALS, ServeConfig, ServeFolder
from broadmatch.serve.endpoints.server_state import warm_arm
from broadmatch.serve.event_writer import SocketSink
from broadmatch.serve.service import LiveService
from broadmatch.serve.sink import EventSink, LocalSink
from broadmatch.serve.spending.pacing import Spending
from broadmatch.serve.spending.sums import SharedSums

_FINISH_SECONDS, _KEEP_ALIVE_SECONDS = 3, 75
_PARENT_DIED_SIGNAL = 1  # PR_SET_PDEATHSIG
OpenSink = Callable[[Callable[[], None]], Awaitable[EventSink]]
"""Opens where events go, in the event loop; given what to call when that ends by itself."""


class _Server(uvicorn.Server):
    """A server whose signals are ours, and that says when it takes requests."""

    def __init__(self, config: uvicorn.Config, started: Callable[[], None]) -> None:
        super().__init__(config)
        self._started = started

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Take requests from now on."""
        await super().startup(sockets)
        self._started()

    @contextlib.contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Leave signals alone."""
        yield

    def stop(self) -> None:
        """Finish the requests that are being answered; at a second call, end at once."""
        if self.should_exit:
            os._exit(1)  # what was acknowledged is on disk
        self.should_exit = True


@dataclasses.dataclass(frozen=True)
class Worker:
    """What a worker process is made of."""

    config: ServeConfig
    listener: socket.socket
    open_sink: OpenSink
    sums: SharedSums
    follow: Callable[[], None] | None = None
    started: Callable[[EventSink], None] = lambda _: None
    hung_up: Callable[[], None] = lambda: None
    """Called at SIGHUP, beside taking up what was published."""

    def run(self) -> None:
        """Answer requests until SIGTERM or SIGINT."""
        service = LiveService(self.config.folder)
        for arm in service.current.arms:
            warm_arm(arm)  # before the first client comes
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            runner.run(self._serve(service))

    async def _serve(self, service: LiveService) -> None:
        folder, loop = ServeFolder(self.config.folder), asyncio.get_running_loop()
        sink = await self.open_sink(lambda: os._exit(1))  # without the log, nothing can be answered
        spending = Spending(self.sums, lambda: service.current.arms[0].engine.tables(), follow=self.follow)
        app = make_app(self.config, service, sink, spending=spending, keys=ApiKeys.at(folder.keys))
        settings = uvicorn.Config(
            app,
            lifespan="on",
            http=app.protocol,  # type: ignore[arg-type]
            ws="none",
            log_config=None,
            log_level=logging.WARNING,
            access_log=False,
            server_header=False,
            proxy_headers=False,
            backlog=4096,
            timeout_keep_alive=_KEEP_ALIVE_SECONDS,
            timeout_graceful_shutdown=_FINISH_SECONDS,
        )
        server = _Server(settings, lambda: self.started(sink))
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, server.stop)
        loop.add_signal_handler(signal.SIGHUP, self._hang_up, app)
        await server.serve(sockets=[self.listener])

    def _hang_up(self, app: App) -> None:
        self.hung_up()
        app.look_now()


def is_kafka(config: ServeConfig) -> bool:
    """Whether the events are in Kafka, which every worker writes to itself."""
    return config.events is not None and config.events.startswith(KAFKA)


def open_log(config: ServeConfig, *, write: bool) -> EventLog:
    """The event log of a server."""
    address = str(ServeFolder(config.folder).events) if config.events is None else config.events
    return open_event_log(address, write=write, max_age=config.max_age)


def local_sink(log: EventLog) -> OpenSink:
    """Events go to a log that this process writes."""

    async def open_sink(_: Callable[[], None]) -> EventSink:
        return LocalSink(log)

    return open_sink


def arguments(config: ServeConfig, listener: int, link: int, sums: int) -> str:
    """What a worker process is started with, as a text."""
    plain = {**dataclasses.asdict(config), "folder": str(config.folder), "signals": None}
    return json.dumps({"config": plain, "listener": listener, "link": link, "sums": sums, "parent": os.getpid()})


def main(text: str) -> int:
    """Run a worker process; it ends with its parent."""
    given = json.loads(text)
    _end_with_parent(given["parent"])
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)  # Ctrl-C is for the parent, which says what to do
    logging.basicConfig(format="%(message)s", level=logging.INFO)
    own = {"folder": Path(given["config"]["folder"]), "signals": os.environ.get(SIGNALS) or None}
    config = ServeConfig(**{**given["config"], **own})
    listener, link = socket.socket(fileno=given["listener"]), socket.socket(fileno=given["link"])

    async def open_sink(lost: Callable[[], None]) -> EventSink:
        control = await SocketSink.connect(link, lost)
        links.append(control)
        return LocalSink(open_log(config, write=True)) if is_kafka(config) else control

    links: list[SocketSink] = []
    try:
        Worker(config, listener, open_sink, SharedSums(given["sums"]), started=lambda _: links[0].say_ready()).run()
    except BroadmatchError as error:
        print(error, file=sys.stderr)  # noqa: T201
        return 2
    return 0


def _end_with_parent(parent: int) -> None:
    """Have the system end this process when its parent is gone, however that went: port and log are free at once."""
    with contextlib.suppress(AttributeError, OSError):  # elsewhere, the socket to the parent says so
        ctypes.CDLL(None).prctl(_PARENT_DIED_SIGNAL, signal.SIGKILL)
    if os.getppid() != parent:
        os._exit(1)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
