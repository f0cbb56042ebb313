"""From versions in the index to signals of a description."""

from collections.abc import Iterable

from broadmatch.registry.records import SignalVersion
from broadmatch.signals import Cross, Description
from broadmatch.signals.signal import Signal, signal_from


def described_signal(version: SignalVersion) -> Signal | Cross:
    """The signal of a description that a version is; its column is what its data say, if that is one, or its name."""
    if version.kind == "cross":
        return signal_from(version.described_as, dict(version.settings))
    columns = version.data.get("columns", ())
    column = columns[0] if len(columns) == 1 else version.name
    return signal_from(version.described_as, {"kind": version.kind, "column": column, **version.settings})


def with_versions(description: Description, versions: Iterable[SignalVersion]) -> Description:
    """The description with signals of the index added; those that it has already stay as it says."""
    there = {signal.name for signal in description.signals}
    added = [described_signal(version) for version in versions if version.described_as not in there]
    plain = description.to_dict()
    signals = plain["signals"] | {signal.name: signal.to_dict() for signal in added}
    return Description.from_dict(plain | {"signals": signals})


def only_signals(description: Description, names: Iterable[str]) -> Description:
    """The description with some of its signals only; the parts of a cross stay with it."""
    kept = set(names)
    kept |= {part for s in description.signals if isinstance(s, Cross) and s.name in kept for part in s.parts}
    plain = description.to_dict()
    signals = {name: given for name, given in plain["signals"].items() if name in kept}
    return Description.from_dict(plain | {"signals": signals})
