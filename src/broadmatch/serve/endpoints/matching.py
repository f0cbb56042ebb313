"""`match`: searches that wait in one turn of the event loop are answered together, logged together, then sent."""

import asyncio
import logging
import random
from concurrent.futures import Executor
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from msgspec import json

from broadmatch.ads import AdAnswers
from broadmatch.errors import BroadmatchError, CannotWrite
from broadmatch.harvest import normalise_query
from broadmatch.io.event_log.events import MOST_EVENTS
from broadmatch.serve.endpoints.ad_texts import AdTexts
from broadmatch.serve.endpoints.clocks import RequestTimes
from broadmatch.serve.endpoints.endpoint import Done
from broadmatch.serve.endpoints.shown_events import Search, ShownEvents
from broadmatch.serve.messages import RESERVED, MatchRequest, SearchRequest
from broadmatch.serve.problems import Problem, place_of
from broadmatch.serve.service import LiveService, ServiceArm

if TYPE_CHECKING:
    from broadmatch.io.event_log.log import Appended
    from broadmatch.serve.impression_ids import ImpressionIds
    from broadmatch.serve.metrics import Metrics
    from broadmatch.serve.service import Service
    from broadmatch.serve.sink import EventSink
    from broadmatch.serve.spending.pacing import Spending

log = logging.getLogger("broadmatch")
_MOST_SEARCHES = 64
"""Searches that are answered together, at most: those behind them wait for the next turn."""


class _WaitingSearch(NamedTuple):
    search: Search
    done: Done


class PreparedSearch(NamedTuple):
    """A search with the arm that answers it, what its model reads of the context, and on which terms ads take part."""

    arm: ServiceArm
    search: Search
    context: dict[str, Any]
    terms: dict[str, Any]


class Matching:
    """Answers searches, in the event loop of a server."""

    def __init__(
        self,
        live: LiveService,
        ids: "ImpressionIds",
        sink: "EventSink",
        times: RequestTimes,
        spending: "Spending | None",
        metrics: "Metrics",
        pool: Executor,
    ) -> None:
        self._live, self._ids, self._sink, self._times = live, ids, sink, times
        self._spending, self._metrics, self._pool = spending, metrics, pool
        self._waiting: list[_WaitingSearch] = []
        self._texts: AdTexts | None = None
        self._crowded = False
        """Whether the last ones were several."""
        self._writing = 0
        """How many writes to the log are on their way."""

    def __len__(self) -> int:
        """How many searches wait for their turn."""
        return len(self._waiting)

    def begin(self, request: MatchRequest, done: Done) -> None:
        """Answer a search, when its impressions are on disk."""
        search = self._search(request)
        loop = asyncio.get_running_loop()
        if request.explain:
            self._explain(loop, search, done)
            return
        if not self._waiting and not self._writing:
            loop.call_soon(self._gather if self._crowded else self._flush, loop)
        self._waiting.append(_WaitingSearch(search, done))

    def prepare(self, request: SearchRequest) -> PreparedSearch:
        """A search as it would be answered now; nothing of it is logged."""
        return self._prepared(self._search(request))

    def _search(self, request: SearchRequest) -> Search:
        """A search with its key and its time."""
        if not RESERVED.isdisjoint(request.context):
            names = ", ".join(sorted(RESERVED & request.context.keys()))
            raise Problem(422, f"The server fills in {names} itself; call what else is known of a search otherwise.")
        key = random.getrandbits(64) if request.key is None else int(request.key, 16)
        return Search(request, key, self._times.of_search(request.time), normalise_query(request.query))

    def _prepared(self, search: Search) -> PreparedSearch:
        arm = self._arm(self._live.current, search)
        return PreparedSearch(arm, search, _context(arm, search), self._terms(search))

    def _gather(self, loop: asyncio.AbstractEventLoop) -> None:
        """Let those that were read from their sockets meanwhile join: it takes a turn, and saves whole answers."""
        loop.call_soon(self._flush, loop)

    def _flush(self, loop: asyncio.AbstractEventLoop) -> None:
        """Answer all that wait."""
        service = self._live.current
        most = max(1, min(_MOST_SEARCHES, MOST_EVENTS // service.arms[0].engine.auction.places))
        taken, self._waiting = self._waiting[:most], self._waiting[most:]
        if self._waiting:
            loop.call_soon(self._flush, loop)
        self._crowded = len(taken) > 1
        self._metrics.searches += len(taken)
        self._metrics.turns += 1
        try:
            self._answer_taken(service, taken)
        except Exception as error:  # nobody may wait for ever
            _settle([(one.done, b"") for one in taken], error)

    def _answer_taken(self, service: "Service", taken: list[_WaitingSearch]) -> None:
        """Answer searches by a service, those of one arm together; all impressions are logged at once."""
        shown = ShownEvents(self._ids)
        ready: list[tuple[Done, bytes]] = []
        for arm, group in self._groups(service, taken):
            for one, reply in self._answer_group(arm, group, shown):
                ready.append((one.done, f"{reply}}}".encode()))
        self._log(shown, ready)

    def _groups(self, service: "Service", taken: list[_WaitingSearch]) -> list[tuple[ServiceArm, list[_WaitingSearch]]]:
        """Searches that can be asked together; those with times of their own have budgets of their own."""
        if self._times.given:
            return [(self._arm(service, one.search), [one]) for one in taken]
        groups: dict[tuple[int, int], tuple[ServiceArm, list[_WaitingSearch]]] = {}
        for one in taken:
            arm = self._arm(service, one.search)
            groups.setdefault((id(arm), one.search.request.limit), (arm, []))[1].append(one)
        return list(groups.values())

    def _arm(self, service: "Service", search: Search) -> ServiceArm:
        if len(service.arms) == 1:
            return service.arms[0]
        return service.arms[service.arm_of(search.request.session or f"{search.key:016x}")]

    def _answer_group(
        self, arm: ServiceArm, group: list[_WaitingSearch], shown: ShownEvents
    ) -> list[tuple[_WaitingSearch, str]]:
        """The answers to searches of one arm; one that cannot be answered spoils no other's."""
        searches = [one.search for one in group]
        try:
            answers = self._ask(arm, searches)
        except Exception as error:
            if len(group) > 1:
                if not isinstance(error, BroadmatchError):
                    log.error("Searches could not be answered together, but are one by one: %s.", place_of(error))
                return [pair for one in group for pair in self._answer_group(arm, [one], shown)]
            group[0].done(error)
            return []
        replies = shown.add(searches, answers, self._texts_of(answers), arm.name, arm.version)
        return list(zip(group, replies, strict=True))

    def _ask(self, arm: ServiceArm, searches: list[Search]) -> AdAnswers:
        """The arrays of the answers."""
        terms = self._terms(searches[0])
        keys = np.array([one.key for one in searches], np.uint64)
        queries, rows = [one.query for one in searches], [_context(arm, one) for one in searches]
        return arm.engine.answer_few(queries, rows, key=keys, **terms)

    def _terms(self, search: Search) -> dict[str, Any]:
        """On which terms the candidates of a search take part."""
        terms: dict[str, Any] = {"limit": search.request.limit}
        if self._spending is not None:
            paced = self._spending.budgets(search.time / 1e6)
            if paced is not None:
                terms["budgets"], terms["hour"] = paced
        return terms

    def _texts_of(self, answers: AdAnswers) -> AdTexts:
        known = self._texts
        if known is None or known.tables is not answers.ads:
            self._texts = known = AdTexts(answers.ads)
        return known

    def _explain(self, loop: asyncio.AbstractEventLoop, search: Search, done: Done) -> None:
        """Answer one search with every step of it, made in another thread, since it takes long."""
        arm, _, context, terms = self._prepared(search)

        def ask() -> Any:
            return arm.engine.answer(search.query, context, key=search.key, explain=True, **terms)

        def explained(asked: "asyncio.Future[Any]") -> None:
            try:
                found, shown = asked.result(), ShownEvents(self._ids)
                (reply,) = shown.add([search], found.arrays, self._texts_of(found.arrays), arm.name, arm.version)
                why = json.encode(found.explanation.to_dict()).decode()
                self._log(shown, [(done, f'{reply},"explanation":{why}}}'.encode())])
            except Exception as error:  # nobody may wait for ever
                done(error)

        loop.run_in_executor(self._pool, ask).add_done_callback(explained)

    def _log(self, shown: ShownEvents, ready: list[tuple[Done, bytes]]) -> None:
        """Send the answers when their impressions are on disk; if these cannot be written, nobody is answered."""
        self._metrics.impressions += len(shown)
        if not len(shown):
            _settle(ready, None)
            return
        try:
            written = self._sink.submit(shown.batch())
        except BroadmatchError as error:
            _settle(ready, error)
            return
        if written.done():
            _settle(ready, _error_of(written))
        else:
            self._writing += 1
            written.add_done_callback(lambda done: self._written(ready, done))

    def _written(self, ready: list[tuple[Done, bytes]], written: "asyncio.Future[Appended]") -> None:
        """The log has written: those go out that waited for it, and the searches that came meanwhile have their turn.

        These had to wait for the log anyway, and together they cost less.
        """
        self._writing -= 1
        _settle(ready, _error_of(written))
        if self._waiting and not self._writing:
            loop = written.get_loop()
            loop.call_soon(self._gather, loop)


def _error_of(written: "asyncio.Future[Appended]") -> BaseException | None:
    """What kept events from being written; None if they are."""
    if written.cancelled():
        return CannotWrite("The server is ending, and has not logged the answer; ask again.")
    return written.exception()


def _context(arm: ServiceArm, search: Search) -> dict[str, Any]:
    """What the arm's model reads of the context."""
    given = search.request.context
    found = {name: given.get(name) for name in arm.context_columns}
    if "time" in found:
        found["time"] = search.time
    return found


def _settle(ready: list[tuple[Done, bytes]], error: BaseException | None) -> None:
    for done, reply in ready:
        done(reply if error is None else error)
