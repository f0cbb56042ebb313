"""`/v1/signals`: the signal index over HTTP; who reads may look, who serves may report, admins change."""

import asyncio
import threading
from collections.abc import Callable
from concurrent.futures import Executor
from datetime import date
from typing import TYPE_CHECKING, Annotated, Any, Literal, TypeVar

import msgspec

from broadmatch.errors import BadParameter, MissingFile
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import LONGEST_IN_PATH, LONGEST_SIGNAL
from broadmatch.serve.problems import Problem
from broadmatch.serve.requests import requester

if TYPE_CHECKING:
    from broadmatch.registry import SignalIndex

_LARGEST = 1 << 22
_NONE = (
    "This server has no signal index. `broadmatch signals add` makes one in a folder; start the server with "
    "`--signals FOLDER`, or with postgresql://…"
)
_Found = TypeVar("_Found")
SignalText = Annotated[str, msgspec.Meta(max_length=10_000)]
SignalName = Annotated[str, msgspec.Meta(min_length=1, max_length=LONGEST_SIGNAL, examples=["price@2"])]
_Texts = Annotated[list[SignalText], msgspec.Meta(max_length=1000)]


class SignalBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A signal to be added, or, with `new_version`, the next version of one."""

    name: SignalName
    kind: Annotated[str, msgspec.Meta(examples=["number"])]
    owner: SignalText = ""
    settings: dict[str, Any] = {}
    description: SignalText = ""
    made_by: SignalText = ""
    data: dict[Literal["files", "tables", "columns"], _Texts] = {}
    platforms: _Texts = []
    domains: _Texts = []
    new_version: bool = False


class SignalChange(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A change of whether a signal may be consumed; `revision` is the one that was seen."""

    name: SignalName
    to: Literal["white-listed", "deprecated", "retired"]
    use: SignalName | None = None
    by_date: date | None = None
    reason: SignalText = ""
    force: bool = False
    revision: int | None = None


class SignalReportBody(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a model consumes: signals with their coverage, or null."""

    model: SignalName
    signals: Annotated[dict[str, float | None], msgspec.Meta(max_length=100_000)]
    use: Literal["training", "serving"] = "training"
    team: SignalText = ""
    environment: SignalText = ""
    contact: SignalText = ""
    reason: SignalText = ""
    seen: int | None = None
    id: str | None = None


class SignalsReply(msgspec.Struct, frozen=True, kw_only=True):
    """Signals, consumers, rows of the board, or changes, as `signals … --json` gives them."""

    found: list[dict[str, Any]]


class SignalReply(msgspec.Struct, frozen=True, kw_only=True):
    """A signal with what belongs to it, or a graph."""

    found: dict[str, Any]


class Signals:
    """Answers for the index of an address, which is opened when it is asked for first."""

    def __init__(self, address: str | None, pool: Executor) -> None:
        self._address, self._pool = address, pool
        self._index: SignalIndex | None = None
        self._opening = threading.Lock()

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What is answered about signals."""
        at, may = "/v1/signals", (404, 503)
        many, one = SignalsReply, SignalReply
        read: list[tuple[str, str, str, Any, Any]] = [
            ("signals", at, "All signals of the index.", self.all, many),
            ("signals_search", f"{at}/search/{{text:text}}", "Signals with a text.", self.search, many),
            ("signals_board", f"{at}/board", "Deprecated signals, and what is left to do.", self.board, many),
            ("signals_graph", f"{at}/graph", "Which model consumes which signal.", self.graph, one),
            ("signal_graph", f"{at}/graph/{{name:text}}", "The graph of one signal.", self.graph, one),
            ("signal", f"{at}/version/{{name:text}}", "A signal, its consumers, vettings, history.", self.show, one),
            ("signal_consumers", f"{at}/consumers/{{name:text}}", "Who consumes a signal.", self.consumers, many),
        ]  # fmt: skip
        write: list[tuple[str, str, Any, str, Any, Any]] = [
            ("signals", at, "admin", "Add a signal, or a new version.", self.add, SignalBody),
            ("signals_status", f"{at}/status", "admin", "White-list, deprecate or retire.", self.change, SignalChange),
            ("signals_report", f"{at}/report", "serve", "Report consumption.", self.report, list[SignalReportBody]),
        ]  # fmt: skip
        return (
            *(Endpoint(name, "GET", path, "read", about, call, None, reply, problems=may)
              for name, path, about, call, reply in read),
            *(Endpoint(name, "POST", path, role, about, call, body, one, _LARGEST, problems=(*may, 409))
              for name, path, role, about, call, body in write),
        )  # fmt: skip

    async def all(self) -> SignalsReply:
        """All signals."""
        return SignalsReply(found=await self.ask(lambda index: [one.to_dict() for one in index.signals()]))

    async def search(self, text: str) -> SignalsReply:
        """Signals with a text in name, owner or description."""
        _check_length(text)
        return SignalsReply(found=await self.ask(lambda index: [one.to_dict() for one in index.signals(search=text)]))

    async def board(self) -> SignalsReply:
        """What is deprecated."""
        return SignalsReply(found=await self.ask(lambda index: [one.to_dict() for one in index.board()]))

    async def consumers(self, name: str) -> SignalsReply:
        """Who consumes a signal."""
        _check_length(name)
        return SignalsReply(found=await self.ask(lambda index: [one.to_dict() for one in index.consumers(name)]))

    async def graph(self, name: str | None = None) -> SignalReply:
        """The lineage."""
        _check_length(name or "")
        from broadmatch.registry.graph import lineage

        return SignalReply(found=await self.ask(lambda index: lineage(index, name).to_dict()))

    async def show(self, name: str) -> SignalReply:
        """A signal with all that belongs to it."""
        _check_length(name)

        def shown(index: "SignalIndex") -> dict[str, Any]:
            lists = {"consumers": [one.to_dict() for one in index.consumers(name)], "vettings": index.vettings(name)}
            return {**index.get(name).to_dict(), **lists, "history": index.audit(name)}

        return SignalReply(found=await self.ask(shown))

    async def add(self, body: SignalBody) -> SignalReply:
        """Add a signal or a version."""
        by, about = requester(), {"settings": body.settings or None, "data": body.data or None}

        def added(index: "SignalIndex") -> dict[str, Any]:
            more: Any = {"kind": body.kind, "platforms": body.platforms, "domains": body.domains, **about}
            if body.new_version:
                return index.add_version(body.name, by=by, **more).to_dict()
            more |= {"owner": body.owner or by, "description": body.description, "made_by": body.made_by}
            return index.add(body.name, by=by, **more).to_dict()

        return SignalReply(found=await self.ask(added))

    async def change(self, body: SignalChange) -> SignalReply:
        """Change whether a signal may be consumed."""
        by = requester()

        def changed(index: "SignalIndex") -> dict[str, Any]:
            if body.to == "white-listed":
                return index.allow(body.name, by=by, revision=body.revision).to_dict()
            if body.to == "retired":
                made = index.retire(body.name, by=by, reason=body.reason, force=body.force, revision=body.revision)
                return made.to_dict()
            consumers = index.deprecate(
                body.name, by=by, use=body.use, by_date=body.by_date, reason=body.reason, revision=body.revision
            )
            return {**index.get(body.name).to_dict(), "consumers": [one.to_dict() for one in consumers]}

        return SignalReply(found=await self.ask(changed))

    async def report(self, bodies: list[SignalReportBody]) -> SignalReply:
        """Take reports in, all or none."""
        from broadmatch.registry import ConsumptionReport

        given = [{k: v for k, v in msgspec.structs.asdict(one).items() if v is not None} for one in bodies]
        reports = [ConsumptionReport.from_dict(one) for one in given]
        await self.ask(lambda index: index.report(*reports))
        return SignalReply(found={"reports": len(reports)})

    def close(self) -> None:
        """Let go of the index."""
        if self._index is not None:
            self._index.close()

    async def ask(self, question: Callable[["SignalIndex"], _Found]) -> _Found:
        """What the index answers, in a thread of the pool."""
        return await asyncio.get_running_loop().run_in_executor(self._pool, lambda: question(self._open_once()))

    def _open_once(self) -> "SignalIndex":
        if self._address is None:
            raise Problem(404, _NONE)
        with self._opening:
            if self._index is None:
                from broadmatch.registry import SignalIndex

                try:
                    self._index = SignalIndex.open(self._address, make=False)
                except (BadParameter, MissingFile) as error:
                    raise Problem(503, str(error)) from error
            return self._index


def _check_length(text: str) -> None:
    """Refuse what is too long for a path, though the index may have it."""
    if len(text) > LONGEST_IN_PATH:
        how = "`broadmatch signals` on the command line takes longer ones"
        raise Problem(
            422, f"A name in a path has at most {LONGEST_IN_PATH:,} letters, but it has {len(text):,}; {how}."
        )
