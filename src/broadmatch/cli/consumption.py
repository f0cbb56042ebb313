"""What learners consume, told to the signal index: `--signals` and `--allow-signals` of every command that learns."""

import contextlib
import functools
import inspect
import os
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec

import typer

from broadmatch.cli import output
from broadmatch.errors import BadParameter, CannotWrite, MissingExtra
from broadmatch.serve.config import SIGNALS as VARIABLE

if TYPE_CHECKING:
    from broadmatch.registry import Reporter, SignalIndex, SignalProblem
    from broadmatch.registry.records import SignalUse
    from broadmatch.signals import Description

Signals = Annotated[
    str | None,
    typer.Option("--signals", metavar="INDEX", envvar=VARIABLE, show_envvar=False, help="Signal index to report to."),
]
AllowSignals = Annotated[
    str | None, typer.Option("--allow-signals", metavar="REASON", help="Use what it does not allow.")
]
_Given = ParamSpec("_Given")


class Consumption:
    """What one run consumes: checked before it learns, reported when it begins and when it ends.

    Without an address nothing happens; a folder without an index is refused. If the index is down, the run goes on.
    """

    def __init__(self, address: str | None, reason: str | None) -> None:
        if reason is not None and not reason.strip():
            raise BadParameter("--allow-signals needs a reason, which is kept in the signal index.")
        if address is not None:
            check_extra()
            from broadmatch.registry.reporting.addresses import check_there

            check_there(address)
        self.address, self._reason = address, reason
        self.allowed_because = ""
        self._reporter: Reporter | None = None
        self._model = ""
        self._use: SignalUse = "training"

    def check(
        self, wanted: "Description | str | Iterable[str]", model: Path | str, *, use: "SignalUse" = "training"
    ) -> None:
        """Refuse signals that the index does not allow, unless there is a reason; of vw text nothing is known yet."""
        self._model, self._use = _name_of(model), use
        if self.address is None or isinstance(wanted, str):
            return
        try:
            problems = _problems(self.address, wanted)
            if use == "serving":  # what is in service stays there while it is replaced
                problems = [one for one in problems if not one.replaceable]
        except CannotWrite as error:
            output.log.warning("%s Signals are not checked.", error)
            return
        if problems and self._reason is None:
            from broadmatch.registry.validation import refuse

            refuse(problems, f"What {self._model} would consume is not allowed")
        for problem in problems:
            output.log.warning("%s It is used all the same: %s.", problem.text, self._reason)
        self.allowed_because = self.allowed_because or (self._reason or "" if problems else "")

    def report(self, signals: "Mapping[str, float | None] | Iterable[str]") -> None:
        """Report what is consumed, as far as it is known."""
        if self.address is None:
            return
        from broadmatch.registry import ConsumptionReport, Reporter
        from broadmatch.registry.records import reporting_as

        if self._reporter is None:
            self._reporter = Reporter(self.address)
        given = signals if isinstance(signals, Mapping) else dict.fromkeys(signals)
        report = ConsumptionReport(
            model=self._model, signals=given, use=self._use, reason=self.allowed_because, **reporting_as()
        )
        self._reporter.report(report)
        self.allowed_because = ""  # once is enough

    def take(self, wanted: list[str], model: Path) -> None:
        """Check signals, and report them."""
        self.check(wanted, model)
        self.report(wanted)

    def close(self) -> None:
        """Send what waits, as far as the index takes it."""
        if self._reporter is not None:
            self._reporter.close()


def _problems(address: str, wanted: "Description | Iterable[str]") -> "list[SignalProblem]":
    """What is wrong; where all is well, which is nearly always, a folder is looked into without SQLAlchemy."""
    from broadmatch.registry.reporting.quick import find_in_folder
    from broadmatch.registry.validation import check_names, faults, wanted_of
    from broadmatch.signals import Description

    at = {"platform": os.environ.get("BROADMATCH_PLATFORM"), "domain": os.environ.get("BROADMATCH_DOMAIN")}
    named = wanted_of(wanted) if isinstance(wanted, Description) else dict.fromkeys(wanted)
    found = find_in_folder(address, list(named))
    if found is not None and not faults(found, named, **at):
        return []
    with open_index(address) as index:
        return check_names(index, named, **at)


_current: ContextVar[Consumption | None] = ContextVar("consumption", default=None)


def consumption() -> Consumption:
    """That of the command that runs."""
    return _current.get() or Consumption(None, None)


def reports_signals(command: Callable[_Given, None]) -> Callable[..., None]:
    """A command with `--signals` and `--allow-signals`, whose body finds what they say in `consumption()`."""

    @functools.wraps(command)
    def run(*args: Any, signals: str | None = None, allow_signals: str | None = None, **given: Any) -> None:
        with _consuming(signals, allow_signals):
            command(*args, **given)

    own = inspect.signature(command)
    kind, more = inspect.Parameter.KEYWORD_ONLY, {"signals": Signals, "allow_signals": AllowSignals}
    added = [inspect.Parameter(name, kind, default=None, annotation=what) for name, what in more.items()]
    shown = [one.replace(kind=kind) for one in own.parameters.values()]
    run.__signature__ = own.replace(parameters=[*shown[:-1], *added, shown[-1]])  # type: ignore[attr-defined]
    run.__annotations__ = {**command.__annotations__, **more}
    return run


@contextlib.contextmanager
def _consuming(address: str | None, reason: str | None) -> Iterator[None]:
    current = Consumption(address, reason)
    token = _current.set(current)
    try:
        yield
    finally:
        _current.reset(token)
        current.close()


def check_extra() -> None:
    """Refuse where the libraries of the index are missing."""
    missing = [name for name in ("sqlalchemy", "alembic") if find_spec(name) is None]
    if missing:
        raise MissingExtra(
            f"The signal index needs {', '.join(missing)}; pip install 'broadmatch[registry]' brings it."
        )


def open_index(address: str | None, *, make: bool = False) -> "SignalIndex":
    """The signal index of an address."""
    if address is None:
        raise BadParameter(f"--signals must name the signal index, a folder or postgresql://…, or set {VARIABLE}.")
    check_extra()
    from broadmatch.registry import SignalIndex

    return SignalIndex.open(address, make=make)


def _name_of(model: Path | str) -> str:
    return model if isinstance(model, str) else model.resolve().name or "model"
