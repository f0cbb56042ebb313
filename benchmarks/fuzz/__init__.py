"""Fuzzers: random damage to small valid inputs, read with bounds checks on; only our own errors may come out."""

import random
from collections.abc import Callable
from importlib import import_module
from pathlib import Path

Target = Callable[[random.Random, Path], None]
"""Makes one case of the random numbers, in a folder of its own that is kept between cases, and reads it."""

MODULES = ("models", "logs", "html", "checkpoints", "events")
"""Where the targets are: files beside this one, the one that compiles longest first."""
_TARGETS: dict[str, Target] = {}


def target(function: Target) -> Target:
    """Make a function known as the target of its name."""
    _TARGETS[function.__name__] = function
    return function


def targets() -> dict[str, Target]:
    """All targets by name."""
    for module in MODULES:
        import_module(f"{__name__}.{module}")
    return _TARGETS
