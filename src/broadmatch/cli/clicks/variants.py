"""`--variant "small: alpha=0.05 without=title"`: several models that `broadmatch clicks train` trains in one pass."""

import fnmatch
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broadmatch.cli.clicks.common import source_of
from broadmatch.errors import BadParameter
from broadmatch.io.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from broadmatch.clicks import ManyModels
    from broadmatch.signals import Description

OWN = ("alpha", "beta", "l1", "l2", "rates", "power")
"""Parameters that each variant may have for itself; the others are shared."""


def variants_of(
    texts: Sequence[str], settings: Mapping[str, Any], described: "Description | str", data: Sequence[str]
) -> "ManyModels":
    """Several models for one pass; what a variant does not say is as in `settings`."""
    from broadmatch.clicks import ManyModels

    own = {name: value for name, value in settings.items() if name in OWN and value is not None}
    shared = {name: value for name, value in settings.items() if name not in OWN}
    return ManyModels([_variant(text, own, described, data) for text in texts], **shared)


def _variant(
    text: str, base: Mapping[str, Any], described: "Description | str", data: Sequence[str]
) -> tuple[str, Any]:
    """The name of a variant, and the variant."""
    from broadmatch.clicks import FTRL, Variant

    name, _, rest = text.partition(":")
    if not name.strip() or "=" in name:
        raise BadParameter(f'--variant {text!r} must begin with its name, as in "small: alpha=0.05".')
    given = dict(base)
    for word in rest.split():
        key, equals, value = word.partition("=")
        if not equals or key not in (*OWN, "without"):
            raise BadParameter(
                f"--variant {text!r}: {word!r} must be one of {', '.join(OWN)}, without with = and a value."
            )
        if key == "without":
            given["fields"] = _fields(text, value.split(","), _signals(described, data))
        else:
            given[key] = FTRL.rules[key].parse(value)
    try:
        return name.strip(), Variant(**given)
    except BadParameter as error:
        raise BadParameter(f"--variant {text!r}: {error}") from error


def _fields(text: str, without: Sequence[str], signals: Sequence[str]) -> list[int]:
    """The numbers of the signals that are left; the constant, which is the last, always is."""
    for pattern in without:
        if not fnmatch.filter(signals, pattern):
            raise BadParameter(f"--variant {text!r}: there is no signal {pattern!r}, but {', '.join(signals)}.")
    left_out = {name for pattern in without for name in fnmatch.filter(signals, pattern)}
    return [*(i for i, name in enumerate(signals) if name not in left_out), len(signals)]


def _signals(described: "Description | str", data: Sequence[str]) -> list[str]:
    """The names of the signals, patterns written out; the columns are looked up only where there are patterns."""
    if isinstance(described, str):
        raise BadParameter("--variant: without= needs a description, for vw text does not name signals.")
    names = [one.name for one in described.signals]
    if not any(mark in name for name in names for mark in "*?"):
        return names
    if STANDARD_INPUT in data:
        raise BadParameter("--variant: without= needs signals that are written out, not patterns, on standard input.")
    from broadmatch.io import RecordStream

    columns = RecordStream(source_of(data), format=described.format).columns
    return [one.name for one in described.resolve(columns).signals]
