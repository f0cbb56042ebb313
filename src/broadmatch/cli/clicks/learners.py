"""The options of `broadmatch clicks train` that are small languages: what to include, and variants."""

import fnmatch
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from broadmatch.errors import BadParameter

if TYPE_CHECKING:
    from broadmatch.clicks import ManyModels
    from broadmatch.clicks.inclusion import Inclusion
    from broadmatch.clicks.learner import ClickLearner

_NUMBERS = ("alpha", "beta", "l1", "l2")
_SETTINGS = ("learner", *_NUMBERS, "without")


def inclusion_of(text: str | None) -> "Inclusion":
    """The rule that `poisson:0.1` or `bloom:2` names.

    >>> inclusion_of("poisson:0.1")
    Poisson(p=0.1)
    """
    from broadmatch.clicks import Bloom, Poisson

    if text is None:
        return None
    kind, _, number = text.partition(":")
    try:
        if kind == "poisson":
            return Poisson(float(number))
        if kind == "bloom":
            return Bloom(int(number))
    except ValueError as error:
        if isinstance(error, BadParameter):
            raise BadParameter(f"--include {text}: {error}") from error
    raise BadParameter(
        f"--include must be poisson:P, such as poisson:0.1, or bloom:N, such as bloom:2, but it is {text!r}."
    )


def learner_of(name: str, settings: Mapping[str, Any]) -> "ClickLearner":
    """The learner of that name."""
    from broadmatch.clicks import FOBOS, FTRL, OGD, RDA

    learners: dict[str, type[ClickLearner]] = {"ftrl": FTRL, "rda": RDA, "fobos": FOBOS, "ogd": OGD}
    return learners[name](**settings)


def variants_of(
    texts: Sequence[str], learner: str, settings: Mapping[str, Any], signals: Callable[[], Sequence[str]]
) -> "ManyModels":
    """Several models for one pass; what a variant does not say is as in `settings`. Asks for `signals` if need be."""
    from broadmatch.clicks import ManyModels

    if settings["rates"] == "global":
        raise BadParameter("--rates must be counts for variants, which share their counts, but it is 'global'.")
    base = {"learner": learner, **{name: settings[name] for name in _NUMBERS}}
    common = {name: settings[name] for name in ("encoding", "inclusion", "seed")}
    return ManyModels([_variant(text, base, signals) for text in texts], **common)


def _variant(text: str, base: Mapping[str, Any], signals: Callable[[], Sequence[str]]) -> tuple[str, Any]:
    """The name and the variant of a text such as "small: alpha=0.05 without=title,domain"."""
    from broadmatch.clicks import Variant

    name, _, rest = text.partition(":")
    settings = dict(base)
    for word in rest.split():
        key, equals, value = word.partition("=")
        if not equals or key not in _SETTINGS:
            raise BadParameter(
                f"--variant {text!r}: {word!r} must be one of {', '.join(_SETTINGS)} with = and a value."
            )
        settings[key] = _number(text, word, value) if key in _NUMBERS else value
    if not name.strip() or "=" in name:
        raise BadParameter(f'--variant {text!r} must begin with its name, as in "small: alpha=0.05".')
    without = settings.pop("without", None)
    if without is not None:
        settings["fields"] = _fields(text, without.split(","), signals())
    try:
        return name.strip(), Variant(**settings)
    except BadParameter as error:
        raise BadParameter(f"--variant {text!r}: {error}") from error


def _number(text: str, word: str, value: str) -> float:
    try:
        return float(value)
    except ValueError:
        raise BadParameter(f"--variant {text!r}: {word!r} must give a number.") from None


def _fields(text: str, without: Sequence[str], signals: Sequence[str]) -> list[int]:
    """The numbers of the signals that are left; the constant, which is the last, always is."""
    for pattern in without:
        if not fnmatch.filter(signals, pattern):
            raise BadParameter(f"--variant {text!r}: there is no signal {pattern!r}, but {', '.join(signals)}.")
    left_out = {name for pattern in without for name in fnmatch.filter(signals, pattern)}
    return [*(i for i, name in enumerate(signals) if name not in left_out), len(signals)]
