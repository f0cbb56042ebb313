"""Whether a description may be learned with: before any data is read, and with what to use instead (002 §8)."""

from collections.abc import Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from typing import TYPE_CHECKING

from broadmatch.errors import BadInput
from broadmatch.registry.names import shown_name
from broadmatch.registry.records import ALLOWED, DEPRECATED, RETIRED, SignalVersion
from broadmatch.signals import Cross, Description
from broadmatch.signals.signal import Signal

if TYPE_CHECKING:
    from broadmatch.registry.index import SignalIndex
_LONGEST_GUESS = 200


@dataclass(frozen=True)
class SignalProblem:
    """Why a signal must not be used, in a sentence, and the version to use instead, if there is one.

    What is `replaceable` is deprecated only: nothing new may be trained with it, but what serves it goes on.
    """

    signal: str
    text: str
    use: str | None = None
    replaceable: bool = False


def check_signals(
    index: "SignalIndex", description: Description, *, platform: str | None = None, domain: str | None = None
) -> list[SignalProblem]:
    """What is wrong with the signals of a description: undefined, not white-listed, unavailable, of another type.

    A pattern such as "C*" is checked when its columns are known. A cross is as good as its parts, unless the index
    has it and says otherwise.

    >>> import tempfile
    >>> from broadmatch.registry import SignalIndex
    >>> from broadmatch.signals import Categorical
    >>> index = SignalIndex.open(tempfile.mkdtemp())
    >>> _ = index.add("ad", kind="categorical", owner="anna", by="anna")
    >>> [problem.text for problem in check_signals(index, Description(signals=[Categorical("add")]))]
    ["'add' is not in the index (is it 'ad'?); add it with `broadmatch signals add`."]
    """
    return check_names(index, wanted_of(description), platform=platform, domain=domain)


def wanted_of(description: Description) -> dict[str, Signal | Cross | None]:
    """The signals of a description by name; patterns are left out until their columns are known."""
    return {signal.name: signal for signal in description.signals if not {"*", "?"} & set(signal.name)}


def check_names(
    index: "SignalIndex",
    wanted: Mapping[str, Signal | Cross | None],
    *,
    platform: str | None = None,
    domain: str | None = None,
) -> list[SignalProblem]:
    """The same for signals by name, with what a description says of each, if there is one."""
    found, problems = index.find(list(wanted)), list[SignalProblem]()
    for name, what in faults(found, wanted, platform=platform, domain=domain).items():
        if what is None:
            problems.append(_undefined(index, name))
            continue
        use = _usable(index, found[name])
        instead = "" if use is None else f"; use {shown_name(use)} instead"
        text, deprecated = f"{shown_name(name)} {what}{instead}.", found[name].status == DEPRECATED
        problems.append(SignalProblem(name, text, use, deprecated))
    return problems


def faults(
    found: Mapping[str, SignalVersion],
    wanted: Mapping[str, Signal | Cross | None],
    *,
    platform: str | None,
    domain: str | None,
) -> dict[str, str | None]:
    """The signals that must not be used, with why; None of what is not in the index."""
    wrong: dict[str, str | None] = {}
    for name, signal in wanted.items():
        version = found.get(name)
        if isinstance(signal, Cross) and (version is None or version.status not in (DEPRECATED, RETIRED)):
            continue
        if version is None:
            wrong[name] = None
        elif (what := _status(version) or _place(version, platform, domain) or _type(version, signal)) is not None:
            wrong[name] = what
    return wrong


def refuse(problems: list[SignalProblem], where: str) -> None:
    """An error that tells the problems, if there are some."""
    if problems:
        more = f" And {len(problems) - 10:,} more." if len(problems) > 10 else ""
        first = " ".join(problem.text for problem in problems[:10])
        raise BadInput(f"{where}: {first}{more} Correct that, or say why not with --allow-signals.")


def _undefined(index: "SignalIndex", name: str) -> SignalProblem:
    known = {one.described_as for one in index.signals()}
    close = get_close_matches(name, [one for one in known if len(one) <= _LONGEST_GUESS], 1, 0.6)
    guess = close[0] if close and len(name) <= _LONGEST_GUESS else None
    asked = f" (is it {shown_name(guess)}?)" if guess else ""
    text = f"{shown_name(name)} is not in the index{asked}; add it with `broadmatch signals add`."
    return SignalProblem(name, text, guess)


def _status(version: SignalVersion) -> str | None:
    if version.status == ALLOWED:
        return None
    if version.status in (DEPRECATED, RETIRED):
        why = f" ({version.reason})" if version.reason else ""
        return f"is {version.status}{why}"
    return f"is {version.status}, not white-listed: `broadmatch signals vet` and `allow` it"


def _place(version: SignalVersion, platform: str | None, domain: str | None) -> str | None:
    for what, given, known in (("platform", platform, version.platforms), ("domain", domain, version.domains)):
        if given and known and given not in known:
            there = ", ".join(map(shown_name, known[:10]))
            return f"is not available on the {what} {shown_name(given)}, but on {there}"
    return None


def _type(version: SignalVersion, signal: Signal | Cross | None) -> str | None:
    """What a description says otherwise than the index; the column is its own affair."""
    if signal is None:
        return None
    given = {key: value for key, value in signal.to_dict().items() if key not in ("kind", "column")}
    known = {key: value for key, value in version.settings.items() if key != "column"}
    if signal.kind != version.kind:
        return f"is {version.kind} in the index, but {signal.kind} here"
    return None if given == known else f"has the settings {known} in the index, but {given} here"


def _usable(index: "SignalIndex", version: SignalVersion) -> str | None:
    """The first white-listed version among the replacements, as a description names it."""
    while version.replacement is not None:
        version = index.get(version.replacement)
        if version.status == ALLOWED:
            return version.described_as
    return None
