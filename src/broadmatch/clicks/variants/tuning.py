"""Tuning in one pass: candidates learn side by side as variants, and the one with the least progressive log loss stays.

Each variant is exactly what it would be alone (§4.3 of the paper), so that the winner is a trained model already.
"""

import itertools
import json
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

from broadmatch.clicks.ftrl import FTRL
from broadmatch.clicks.variants.variant_models import Variant
from broadmatch.evaluate import rank_models
from broadmatch.io.files import replacing_file

FILE = "tuning.json"
_EACH = ("alpha", "rates")
"""Every value of these beside every value of the other; of other parameters, one value at a time."""


def tuning_candidates(fixed: Mapping[str, Any] | None = None) -> dict[str, Variant]:
    """The variants of a tuning by their settings: all that FTRL's parameters declare to try; `fixed` ones stay.

    >>> list(tuning_candidates({"alpha": 0.1, "beta": 1.0}))[:3]
    ['alpha=0.1 beta=1 rates=gradients', 'alpha=0.1 beta=1 rates=counts', 'alpha=0.1 beta=1 rates=gradients l1=0.5']
    """
    given = dict(fixed or {})
    declared = {name: p.search.around(None) for name, p in FTRL.parameters.items() if p.search is not None}
    left = {name: values for name, values in declared.items() if name not in given}
    grid = itertools.product(*(left.get(name, [None]) for name in _EACH))
    pairs = [{name: value for name, value in zip(_EACH, values, strict=True) if name in left} for values in grid]
    others = [{}, *({name: value} for name, values in left.items() if name not in _EACH for value in values
                    if value != FTRL.parameters[name].default)]  # fmt: skip
    settings = [given | pair | other for other in others for pair in pairs]
    return {_in_words(one): Variant(**one) for one in settings}


class TunedClicks(NamedTuple):
    """The candidate that won, and all of them by rising log loss, each with the interval of what it is behind."""

    name: str
    settings: dict[str, Any]
    ranking: list[dict[str, Any]]

    @classmethod
    def of(cls, predictions: Any, candidates: Mapping[str, Variant]) -> "TunedClicks":
        """Who won, by the predictions that all made before they learned from each impression."""
        ranking = rank_models(predictions)
        best = ranking[0]["model"]
        chosen = candidates[best]
        return cls(best, {name: getattr(chosen, name) for name in ("alpha", "rates", "beta", "l1", "l2")}, ranking)

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        kept = ("model", "value", "low", "high", "relative", "relative_low", "relative_high")
        trials = [{name: row[name] for name in kept if name in row} for row in self.ranking]
        return {"metric": "LogLoss", "settings": self.settings, "trials": trials}

    def __str__(self) -> str:
        """In words: what won, and how sure that is."""
        first, *rest = self.ranking
        text = f"{self.name} won of {len(self.ranking)}: progressive LogLoss {first['value']:.5f}"
        return f"{text}; the next is {_behind(rest[0])} behind" if rest else text

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write what was tried into the folder of a saved model, as `tuning.json`."""
        with replacing_file(Path(folder) / FILE) as out:
            out.write(json.dumps(self.to_dict(), indent=1, default=float).encode())


def _behind(row: Mapping[str, Any]) -> str:
    return f"{row['relative']:+.2f} % [{row['relative_low']:+.2f}, {row['relative_high']:+.2f}]"


def _in_words(settings: Mapping[str, Any]) -> str:
    return " ".join(f"{name}={value:g}" if isinstance(value, float) else f"{name}={value}"
                    for name, value in settings.items())  # fmt: skip
