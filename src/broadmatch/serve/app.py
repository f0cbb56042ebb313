"""The server as an ASGI application: what it is made of, and what it does beside answering."""

import asyncio
import contextlib
import logging
from collections.abc import AsyncIterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from starlette.applications import Starlette
from starlette.convertors import PathConvertor, register_url_convertor
from starlette.exceptions import HTTPException
from starlette.routing import Route

from broadmatch.errors import BroadmatchError
from broadmatch.serve.config import ServeConfig, ServeFolder
from broadmatch.serve.endpoints.ads import Ads
from broadmatch.serve.endpoints.clocks import RequestTimes
from broadmatch.serve.endpoints.endpoint import Endpoint, waiting_for
from broadmatch.serve.endpoints.matching import Matching
from broadmatch.serve.endpoints.pages import document_endpoint, page_endpoints
from broadmatch.serve.endpoints.posting import Posting
from broadmatch.serve.endpoints.predicting import Predicting
from broadmatch.serve.endpoints.recommending import Recommending
from broadmatch.serve.endpoints.served_signals import ServedSignals
from broadmatch.serve.endpoints.server_state import ServerState
from broadmatch.serve.endpoints.signals import Signals
from broadmatch.serve.garbage import leave_old_objects
from broadmatch.serve.hot_protocol import hot_protocol
from broadmatch.serve.impression_ids import ImpressionIds
from broadmatch.serve.messages import (
    EventsReply,
    MatchReply,
    MatchRequest,
    PostedEvents,
    PredictReply,
    PredictRequest,
    RecommendReply,
    RecommendRequest,
)
from broadmatch.serve.metrics import Metrics
from broadmatch.serve.problems import MEDIA_TYPE, Problem
from broadmatch.serve.requests import Answer, Receive, Requests, Scope, Send, send_answer
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.endpoints import studio_endpoints

if TYPE_CHECKING:
    from broadmatch.serve.api_keys import ApiKeys
    from broadmatch.serve.sink import EventSink
    from broadmatch.serve.spending.pacing import Spending

log = logging.getLogger("broadmatch")
_THREADS = 2
_LOOK_SECONDS = 1.0
KB, MB = 1 << 10, 1 << 20


class _Text(PathConvertor):
    """The rest of a path, whatever is in it; Starlette's own stops at a line's end."""

    regex = "(?s:.+)"


register_url_convertor("text", _Text())


def make_app(
    config: ServeConfig,
    service: LiveService,
    sink: "EventSink",
    *,
    spending: "Spending | None" = None,
    keys: "ApiKeys | None" = None,
) -> "App":
    """The application that answers by a service and logs to a sink, with budgets and API keys if there are some."""
    return App(config, service, sink, spending, keys)


class App:
    """A plain ASGI application: hot paths go straight to what answers, the rest through Starlette."""

    def __init__(
        self,
        config: ServeConfig,
        service: LiveService,
        sink: "EventSink",
        spending: "Spending | None",
        keys: "ApiKeys | None",
    ) -> None:
        self._service, self._sink, self._events = service, sink, config.events
        self._pool = ThreadPoolExecutor(_THREADS, "broadmatch")
        ids, times = ImpressionIds.at(ServeFolder(config.folder).secret), RequestTimes(config.clock)
        self.metrics = Metrics(lambda: len(self._matching) + self._recommending.waiting)
        self._matching = Matching(service, ids, sink, times, spending, self.metrics, self._pool)
        self._posting = Posting(ids, sink, times, self.metrics, self._pool)
        self._predicting, self._ads = Predicting(service, self._pool), Ads(service, self._pool)
        self._recommending = Recommending(service, self._pool)
        self._served = ServedSignals(config)
        self._state = ServerState(service, self.metrics, self._pool, self._served.report)
        self._signals = Signals(config.signals, self._pool)
        table = self._table()
        self.endpoints = (*table, document_endpoint(table), *page_endpoints())
        self.requests = Requests(keys, self.metrics)
        self._hot = {one.path: one for one in self.endpoints if one.method == "POST" and "{" not in one.path}
        self._rest = self._routes()
        self.protocol = hot_protocol(self.requests, self._hot)
        """For `uvicorn.Config(http=…)`."""
        self._look = asyncio.Event()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] == "http" and scope["method"] == "POST":
            endpoint = self._hot.get(scope["path"])
            if endpoint is not None:
                await self.requests.answer(endpoint, scope, receive, send)
                return
        if scope["type"] == "websocket":
            await send({"type": "websocket.close", "code": 1000})
            return
        await self._rest(scope, receive, send)

    async def _start(self) -> None:
        """Become ready; what is there by then stays, and need not be looked through for garbage again and again."""
        await self.warm_up()
        leave_old_objects()

    async def warm_up(self) -> None:
        """Answer a first query, after which the server is ready."""
        await self._state.warm_up()

    def _table(self) -> Sequence[Endpoint]:
        """All endpoints."""
        begin, state = self._matching.begin, self._state
        return (
            Endpoint(
                "match", "POST", "/v1/match", "serve", "The ads beside the answer to a search, priced and logged.",
                waiting_for(begin), MatchRequest, MatchReply, 64 * KB, problems=(503,), hot=True, begin=begin,
            ),
            Endpoint(
                "events", "POST", "/v1/events", "serve", "Log impressions, clicks, conversions and bounces.",
                self._posting.answer, PostedEvents, EventsReply, 8 * MB, problems=(503,), hot=True,
            ),
            Endpoint(
                "predict", "POST", "/v1/predict", "serve", "The click probability of rows.",
                self._predicting.answer, PredictRequest, PredictReply, 8 * MB, hot=True,
            ),
            Endpoint(
                "recommend", "POST", "/v1/recommend", "serve", "The bid phrases that fit a page.",
                self._recommending.answer, RecommendRequest, RecommendReply, 4 * MB, problems=(404, 503),
            ),
            *self._ads.endpoints(),
            *self._signals.endpoints(),
            *state.endpoints(),
            *studio_endpoints(self._service, self._pool, self._matching, self._events, self._signals),
        )  # fmt: skip

    def _routes(self) -> Starlette:
        """What Starlette finds by path and method; HEAD is answered where GET is."""
        paths: dict[str, dict[str, Endpoint]] = {}
        for one in self.endpoints:
            paths.setdefault(one.path, {})[one.method] = one
        routes = [
            Route(path, _ByMethod(self.requests, methods), methods=list(methods)) for path, methods in paths.items()
        ]
        handlers: dict[Any, Any] = {HTTPException: _http_problem}
        return Starlette(routes=routes, lifespan=self._lifespan, exception_handlers=handlers)

    @contextlib.asynccontextmanager
    async def _lifespan(self, _: Starlette) -> AsyncIterator[None]:
        log.addFilter(_of_no_page)
        beside = [asyncio.create_task(self._look_after()), asyncio.create_task(self._start())]
        try:
            yield
        finally:
            log.removeFilter(_of_no_page)
            for task in beside:
                task.cancel()
            await asyncio.gather(*beside, return_exceptions=True)
            await self._sink.close()
            await asyncio.to_thread(self._served.close)
            self._signals.close()
            self._pool.shutdown(wait=False, cancel_futures=True)

    def look_now(self) -> None:
        """Take up at once what was published."""
        self._look.set()

    async def _look_after(self) -> None:
        """Once a second: end late bodies, hand over counts, take up what was published."""
        said = ""
        while True:
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._look.wait(), _LOOK_SECONDS)
            self._look.clear()
            self.requests.end_late()
            self.metrics.take_over()
            if self._service.changed():
                try:
                    await self._state.reload()
                    said = ""
                except BroadmatchError as error:
                    if str(error) != said:  # once, not every second
                        log.error("What was published cannot be served, and what was served stays: %s", error)
                    said = str(error)


def _of_no_page(record: logging.LogRecord) -> bool:
    """Keep what is said of single pages out of the log: clients could fill it."""
    return record.module != "recommender" or record.levelno > logging.WARNING


class _ByMethod:
    """The endpoints of one path."""

    def __init__(self, requests: Requests, methods: dict[str, Endpoint]) -> None:
        self._requests, self._methods = requests, methods

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        method = "GET" if scope["method"] == "HEAD" else scope["method"]
        await self._requests.answer(self._methods[method], scope, receive, send)


class _ProblemAnswer:
    """A problem as Starlette answers it."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        problem = self._problem
        await send_answer(send, Answer(problem.status, MEDIA_TYPE, problem.body(), problem.headers))


async def _http_problem(_: Any, error: HTTPException) -> _ProblemAnswer:
    """What Starlette found no endpoint for."""
    headers = [(name.lower().encode(), value.encode()) for name, value in (error.headers or {}).items()]
    if error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "other methods")
        return _ProblemAnswer(Problem(405, f"This path answers {allowed} alone; see /v1/openapi.json.", headers))
    return _ProblemAnswer(Problem(404, "There is nothing at this path; see /v1/openapi.json.", headers))
