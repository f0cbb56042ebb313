"""`signals`: what the studio shows of the signal index; names stand in bodies, so that any name can be asked for."""

import json
import re
from typing import TYPE_CHECKING, Any, get_args

from broadmatch.errors import BadInput
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.endpoints.signals import Signals
from broadmatch.serve.requests import requester_role
from broadmatch.serve.studio.signal_messages import (
    FoundSignal,
    FoundSignalsReply,
    SignalBoardReply,
    SignalBoardRequest,
    SignalFinding,
    SignalGraphReply,
    SignalHistoryLine,
    SignalNamed,
    SignalPageReply,
    SignalPicture,
    SignalSearch,
)

if TYPE_CHECKING:
    from broadmatch.registry import SignalGraph, SignalIndex, SignalVersion

_LARGEST = 1 << 18
_MOST_LINES, _MOST_CONSUMERS, _MOST_VERSIONS, _MOST_TEAMS, _LONGEST = 100, 500, 200, 6, 300
"""Lines of the history, consumers, versions and teams that are answered, and letters of a text among many."""
_KNOWN = ("name", "full_name", "version", "created")
"""What a line of the history need not say."""
_PROBLEMS = (404, 503)


class SignalPages:
    """Answers what the pages of signals ask."""

    def __init__(self, signals: Signals) -> None:
        self._signals = signals

    def endpoints(self) -> tuple[Endpoint, ...]:
        """A list, a signal, its graph, the board."""
        at = "/v1/studio/signals"
        rows: list[tuple[str, str, Any, Any, Any]] = [
            (at, "Signals by text, status and owner.", self.search, SignalSearch, FoundSignalsReply),
            (f"{at}/one", "A signal with all that belongs to it.", self.one, SignalNamed, SignalPageReply),
            (f"{at}/graph", "Signals and models around one.", self.graph, SignalNamed, SignalGraphReply),
            (f"{at}/board", "What deprecations wait for.", self.board, SignalBoardRequest, SignalBoardReply),
        ]
        return tuple(
            Endpoint("studio", "POST", path, "read", about, call, body, reply, _LARGEST, problems=_PROBLEMS)
            for path, about, call, body, reply in rows
        )

    async def search(self, request: SignalSearch) -> FoundSignalsReply:
        """Signals, page by page."""
        from broadmatch.registry.records import Status

        asked: dict[str, Any] = {
            name: getattr(request, name) for name in ("status", "owner", "order", "offset", "limit")
        }
        page = await self._signals.ask(lambda index: index.page(search=request.text, **asked))
        found = [
            FoundSignal(
                name=one.full_name, status=one.status, owner=_short(one.owner), kind=one.kind,
                about=_short(one.description), by_date=None if one.by_date is None else one.by_date.isoformat(),
                open=n_open,
            )
            for one, n_open in page.found
        ]  # fmt: skip
        by_status = {one: page.by_status.get(one, 0) for one in get_args(Status)}
        return FoundSignalsReply(found=found, total=page.total, by_status=by_status)

    async def one(self, request: SignalNamed) -> SignalPageReply:
        """A signal."""
        may_change = requester_role() == "admin"
        return await self._signals.ask(lambda index: _one(index, request.name, may_change))

    async def graph(self, request: SignalNamed) -> SignalGraphReply:
        """The lineage around a signal."""
        from broadmatch.registry.graph import lineage

        return await self._signals.ask(lambda index: _graph(lineage(index, request.name), request.name))

    async def board(self, request: SignalBoardRequest) -> SignalBoardReply:
        """Deprecations, the most urgent first."""

        def asked(index: "SignalIndex") -> SignalBoardReply:
            rows = index.board()
            shown = rows[request.offset : request.offset + request.limit]
            teams = index.waiting_for([row.signal for row in shown])
            found = [
                row.to_dict()
                | {"teams": list(teams[row.signal].items())[:_MOST_TEAMS], "n_teams": len(teams[row.signal])}
                for row in shown
            ]
            return SignalBoardReply(found=found, total=len(rows), overdue=sum(row.overdue for row in rows))

        return await self._signals.ask(asked)


def _one(index: "SignalIndex", name: str, may_change: bool) -> SignalPageReply:
    version, consumers, vettings = index.get(name), index.consumers(name), index.vettings(name)
    others = sorted((one for one in index.related(name) if one.name == version.name), key=lambda one: -one.version)
    n_open = sum(one.open for one in consumers)
    findings, pictures = _vetted(vettings[0]["report"]) if vettings else ([], [])
    return SignalPageReply(
        name=version.full_name,
        status=version.status,
        revision=version.revision,
        replacement=version.replacement,
        by_date=None if version.by_date is None else version.by_date.isoformat(),
        reason=version.reason,
        next=_next(version, n_open, bool(vettings)),
        facts=_facts(version),
        versions=[(one.full_name, one.status) for one in others[:_MOST_VERSIONS]],
        consumers=[one.to_dict() for one in consumers[:_MOST_CONSUMERS]],
        n_consumers=len(consumers),
        n_open=n_open,
        vettings=[(one["time"], one["passed"]) for one in vettings[:_MOST_LINES]],
        findings=findings,
        pictures=pictures,
        history=[_line(one) for one in index.audit(name, limit=_MOST_LINES)],
        may_change=may_change,
    )


def _next(version: "SignalVersion", n_open: int, vetted: bool) -> str:
    """What to do with a version, by its status."""
    name = version.full_name if re.fullmatch(r"[\w.@-]{1,80}", version.full_name) else "NAME"
    models = f"{n_open:,} model{'s' if n_open != 1 else ''}"
    replace = f"{models} still to replace it." if n_open else ""
    failed = "The last vetting did not pass. " if vetted else ""
    due = f"Due {version.by_date}. " if version.by_date else ""
    return {
        "proposed": f"{failed}Next: vet it, `broadmatch signals vet {name} DATA --description TOML`.",
        "vetted": "Vetting passed. Next: white-list it, so that models may consume it.",
        "white-listed": f"Models may consume it; {models} now. Next, when a better one is there: deprecate it.",
        "deprecated": due + (replace or "Nobody consumes it any more. Next: retire it."),
        "retired": replace or "Nobody consumes it. Next: `broadmatch signals sweep` lists what can be deleted.",
    }[version.status]


def _facts(version: "SignalVersion") -> list[tuple[str, list[str]]]:
    """What a version is, by term; what is not known is left out."""
    facts = [
        ("About", [version.description]), ("Owner", [version.owner or "nobody: it was only reported"]),
        ("Kind", [version.kind]),
        ("Settings", [json.dumps(version.settings, ensure_ascii=False)] if version.settings else []),
        ("Made by", [version.made_by]), *((what.title(), list(listed)) for what, listed in version.data.items()),
        ("Platforms", list(version.platforms) or ["all"]), ("Domains", list(version.domains) or ["all"]),
        ("Reason", [version.reason]),
    ]  # fmt: skip
    return [(term, texts[:_MOST_LINES]) for term, texts in facts if any(texts)]


def _vetted(plain: Any) -> tuple[list[SignalFinding], list[SignalPicture]]:
    """Findings and pictures of a report; what cannot be read as one has none."""
    from broadmatch.registry.vetting.page import vetting_pictures
    from broadmatch.registry.vetting.report import VettingReport

    try:
        report = VettingReport.from_dict(plain)
        findings = [
            SignalFinding(rule=one.rule, value=one.value, bound=one.bound, passed=one.passed, text=one.text)
            for one in sorted(report.findings, key=lambda one: one.passed)
        ]
        return findings, [_picture(*one) for one in vetting_pictures(report)]
    except (BadInput, TypeError, ValueError, KeyError, AttributeError, IndexError):
        return [], []


def _picture(title: str, lines: Any, dates: bool, bound: float | None) -> SignalPicture:
    """A picture with its bound as a line, if that is near enough to be seen beside the others."""
    drawn = [(one.name, list(zip(map(float, one.x), one.y, strict=True))) for one in lines]
    values = [y for _, points in drawn for _, y in points if y is not None]
    if bound is not None and values and bound < 4 * max(*values, 1e-9):
        drawn.append(("bound", [(x, bound) for x, _ in drawn[0][1]]))
    return SignalPicture(title=title, dates=dates, lines=drawn if len(values) > 1 else [])


def _line(row: dict[str, Any]) -> SignalHistoryLine:
    before, after = row["before"] or {}, row["after"] or {}
    changed = [what for what, now in after.items() if what not in _KNOWN and (now or before.get(what))]
    changes = [(what, _short(before.get(what)), _short(after[what])) for what in changed]
    return SignalHistoryLine(time=row["time"], who=_short(row["who"]), what=row["what"], changes=changes)


def _graph(graph: "SignalGraph", name: str) -> SignalGraphReply:
    """A graph in layers: what comes before the signal, its versions, what comes after, and models by team."""
    from broadmatch.registry.names import parse_name

    plain = parse_name(name)[0]
    signals = [one for one in graph.nodes if one.kind == "signal"]
    own = {one.id for one in signals if parse_name(one.name)[0] == plain}
    after = {one.target for one in graph.edges if one.source in own} - own
    models = sorted((one for one in graph.nodes if one.kind == "model"), key=lambda one: (one.group, one.name, one.id))
    layers = [
        ("before", [one for one in signals if one.id not in own | after]),
        ("versions", [one for one in signals if one.id in own]),
        ("after", [one for one in signals if one.id in after]),
        ("models", models[:_MOST_CONSUMERS]),
    ]
    place = {one.id: i for i, one in enumerate(one for _, layer in layers for one in layer)}
    edges = [
        (place[one.source], place[one.target], one.kind)
        for one in graph.edges
        if one.source in place and one.target in place
    ]
    nodes = [(title, [{"name": one.name, "group": one.group} for one in layer]) for title, layer in layers]
    return SignalGraphReply(layers=nodes, edges=edges, n_models=len(models))


def _short(value: object) -> str:
    """A text as one among many."""
    text = "" if value is None else value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"
