"""Parameters by a search on training points that are held out, within a budget of seconds."""

import json
import logging
import os
import tempfile
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from broadmatch.data import Names
from broadmatch.errors import BadParameter
from broadmatch.io.files import replacing_file
from broadmatch.labels.choosing import trials as clock
from broadmatch.labels.choosing.held_out import HeldOut, Metric
from broadmatch.labels.choosing.search import BudgetedSearch
from broadmatch.labels.choosing.trials import Settings, Trial, Trials, in_words
from broadmatch.labels.one_vs_rest import OneVsRest
from broadmatch.labels.predictor import training_data
from broadmatch.params import Number, Tries, Whole, clone

log = logging.getLogger("broadmatch")
FILE = "tuning.json"
_OF_ALL_POINTS = ("point_names", "checkpoint")


@dataclass(frozen=True)
class Tuned:
    """A model that was tuned: trained on all points, with what was chosen and all that was tried.

    `settings` are the parameters that are not as they were given; none where nothing was better. `chosen` is the best
    trial; where twice as many trees helped, the model has as many more as there was time for. `trials` stand in their
    order, `difference` of each is to the default. `seconds` is what it took, of a `budget`.
    """

    model: Any
    settings: Settings
    chosen: Trial
    metric: str
    trials: list[Trial]
    budget: float
    seconds: float

    def __str__(self) -> str:
        """In a sentence."""
        chosen, n = self.chosen, len(self.trials)
        gain = "the default is the best" if not self.settings else f"{in_words(self.settings)} is the best"
        text = f"{gain} of {n} trials: {self.metric} {100 * chosen.score.value:.2f} on points held out"
        if self.settings:
            d = chosen.difference
            text += f", {100 * d.value:+.2f} [{100 * d.low:+.2f}, {100 * d.high:+.2f}] to the default"
        return f"{text}; {self.seconds:.1f} s of {self.budget:.1f} s"

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        facts = {"metric": self.metric, "settings": self.settings, "budget": round(self.budget, 3)}
        return facts | {"seconds": round(self.seconds, 3), "trials": [trial.to_dict() for trial in self.trials]}

    def write(self, folder: str | os.PathLike[str]) -> None:
        """Write what was tried into the folder of a saved model, as `tuning.json`."""
        with replacing_file(Path(folder) / FILE) as out:
            out.write(json.dumps(self.to_dict(), indent=1, ensure_ascii=False).encode())


def tune(
    model: Any,
    X: Any,
    Y: Any,
    *,
    metric: str = "P@5",
    budget: float | None = None,
    fixed: Iterable[str] = (),
    seed: int = 0,
    **options: Any,
) -> Tuned:
    """Tries the ranges that the parameters of a model declare, and train the best on all points.

    A fifth of the points is held out by chance, and `metric` there decides: P@k, PSP@k, nDCG@k, PSnDCG@k, recall@k,
    average precision, or of sets exact match, micro-F1, macro-F1. `budget` is in seconds, the last training included;
    None is ten times one training of the model as it is given. The parameters named `fixed` stay as they are.
    `options` go to `fit`. SwiftXML is shown the share `reveal` of the labels of each held-out point.

    >>> X, Y = [[1, 0, 3], [1, 0, 9], [0, 1, 3], [0, 1, 9]] * 10, [["pizza"], ["pizza"], ["taxi"], ["taxi"]] * 10
    >>> tuned = tune(OneVsRest(c=0.1), X, Y, metric="P@1")
    >>> tuned.chosen.score.value, tuned.model.predict_topk([[0, 1, 9]], k=1).labels.shape
    (1.0, (1, 1))
    """
    wanted = Metric.of(metric)
    Number(0, above=True, none=True).check("budget", budget)
    Whole(0).check("seed", seed)
    base = clone(model)
    if "model" in base.rules and base.model is None:
        base.set_params(model=OneVsRest())
    base.check_params()
    features, labels, found = training_data(X, Y)
    names = found if options.get("label_names") is None else Names.of(options["label_names"])
    shown = float(getattr(base, "reveal", 0.0)) if wanted.k else 0.0
    held = HeldOut.of(features, labels, wanted, names, seed=seed, shown=shown)
    more = {k: v for k, v in options.items() if k not in _OF_ALL_POINTS}
    more |= {} if names is None else {"label_names": names}
    started = clock.now()
    with tempfile.TemporaryDirectory(prefix="broadmatch-tune-") as folder:
        trials = Trials(base, features, labels, held, Path(folder), more)
        search = BudgetedSearch(trials, spaces_of(base, fixed), budget)
        try:
            settings = search.run()
        except KeyboardInterrupt:
            if trials.path:
                log.info("Best so far: %s.", in_words(search.best))
            raise
    log.info("Training %s on all %s points.", in_words(settings), f"{features.n_rows:,}")
    best, chosen = base.set_params(**settings).fit(X, Y, **options), search.chosen
    return Tuned(best, settings, chosen, wanted.name, trials.path, search.limit, clock.now() - started)


def spaces_of(model: Any, fixed: Iterable[str] = ()) -> dict[str, Tries]:
    """What may be tried of each parameter, those of a label model inside as `model__c`.

    >>> from broadmatch.labels import MLRF
    >>> list(spaces_of(MLRF(), fixed=["n_trees", "bootstrap"]))
    ['max_leaf', 'min_leaf', 'features_per_node', 'balance']
    """
    left_out = set(fixed)
    inner = model.get_params(deep=False).get("model")
    found = {f"model__{name}": space for name, space in spaces_of(inner).items()} if inner is not None else {}
    found |= {p.name: p.search for p in model.parameters.values() if p.search is not None}
    if unknown := left_out - model.get_params().keys():
        raise BadParameter(f"fixed names {min(unknown)!r}, which is not a parameter of {type(model).__name__}.")
    return {name: space for name, space in found.items() if name not in left_out}
