"""Warm starts side by side: python -m benchmarks.warm_start [--data eurlex debian citeulike] [--small] [--tune]

20, 40, 60 and 80 % of the labels of each test point are revealed, and the rest is to be found: P@1, P@5 and PSP@5 with
95 % intervals over points, and the paired differences between SwiftXML and every other system. Label models are fitted
on the training points alone and see revealed labels at prediction only, and so are nearest neighbours; WRMF and BPR
are fitted on the revealed labels too, since they know no point that they have not seen. --transductive fits the label
models on the test points with their revealed labels as well, as the SwiftXML paper does. Label models have their
defaults. The settings of the recommenders were chosen with --tune, on a fifth of the training points; the test points
were not looked at.

The published figures (SwiftXML paper, tables 2 and 3) are of label features made from the names of the labels, which
this copy of EURLex-4K does not have: what can be compared is the gain over PfastreXML.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from typing import Any

from benchmarks.common import need_data, tell
from benchmarks.warm_start.data import SETS, WarmStart, sizes
from benchmarks.warm_start.label_models import KINDS, OF_LABELS, fitted, inductive, transductive
from benchmarks.warm_start.measure import SHARES, System, difference, figures, mean_of, table
from benchmarks.warm_start.recommenders import GRID, popularity, recommender, tune
from broadmatch.labels import SwiftXML
from broadmatch.labels.ranking_trees.neighbours import GRID as GRID_OF_NEAR

METRICS = ("P@1", "P@5", "PSP@5")
RECOMMENDERS: dict[str, dict[str, dict[str, Any]]] = {
    "eurlex": {
        "user-kNN": {"neighbours": 50},
        "item-kNN": {"neighbours": 500},
        "WRMF": {"factors": 256, "regularization": 10.0, "alpha": 40.0},
        "BPR": {"factors": 64, "regularization": 0.01, "learning_rate": 0.1, "iterations": 300},
    },
    "debian": {
        "user-kNN": {"neighbours": 100},
        "item-kNN": {"neighbours": 500},
        "WRMF": {"factors": 256, "regularization": 10.0, "alpha": 40.0},
        "BPR": {"factors": 64, "regularization": 0.001, "learning_rate": 0.1, "iterations": 300},
    },
    "citeulike": {
        "user-kNN": {"neighbours": 20},
        "item-kNN": {"neighbours": 10_000},
        "WRMF": {"factors": 256, "regularization": 10.0, "alpha": 40.0},
        "BPR": {"factors": 256, "regularization": 0.01, "learning_rate": 0.1, "iterations": 300},
    },
}
LABEL_MODELS: dict[str, dict[str, Any]] = {
    "MLRF": {"n_trees": 50, "features_per_node": 100},
    "OneVsRest": {},
    "OneVsRest-joined": {},
    "PfastreXML": {},
    "PfastreXML-early": {},
    "PfastreXML-late": {},
    "SwiftXML": {},
}
SMALL = {"eurlex": 0.2, "debian": 0.1, "citeulike": 0.5}
PUBLISHED = {  # PSP@5 at 20, 40, 60, 80 %
    "SwiftXML": (48.45, 49.72, 53.12, 55.70),
    "PfastreXML": (48.21, 48.64, 51.13, 52.46),
    "PfastreXML-early": (47.29, 49.82, 52.04, 54.40),
    "PfastreXML-late": (48.21, 49.55, 52.25, 46.05),
    "WRMF": (11.05, 16.58, 19.77, 22.85),
    "BPR": (1.13, 1.01, 0.86, 2.24),
}


def recommenders(data: WarmStart, asked: argparse.Namespace) -> Iterator[System]:
    """Popularity, WRMF and BPR; these are fitted anew for each share and seed of the revealed labels."""
    yield System("popularity", figures(popularity(data), data, seeds=reveal_seeds(asked)).by_share)
    for name in asked.recommenders:
        settings = RECOMMENDERS[data.name][name]
        used = settings | ({"factors": 32} if asked.small and "factors" in settings else {})
        start = time.process_time()
        found = figures(recommender(name, data, used), data, seeds=reveal_seeds(asked))
        seconds = (time.process_time() - start) / (len(SHARES) * len(reveal_seeds(asked)))
        yield System(name, found.by_share, {"settings": used, "cpu_s": round(seconds, 1)})


def label_models(data: WarmStart, asked: argparse.Namespace) -> Iterator[System]:
    """The mean over the training seeds of each label model."""
    for name in asked.models:
        settings = LABEL_MODELS[name] | ({"n_trees": 10} if asked.small and name not in OF_LABELS else {})
        reports, seconds, chosen = [], 0.0, list[Any]()
        for seed in range(asked.seeds):
            start = time.process_time()
            if asked.transductive:
                predict = transductive(name, data, settings, seed=seed)
            else:
                model = fitted(name, data, settings, seed=seed)
                chosen.append(settings_of(model))
                predict = inductive(model, data)
            seconds += time.process_time() - start
            reports.append(figures(predict, data, seeds=reveal_seeds(asked)).by_share)
        facts = {"settings": settings, "training_seeds": asked.seeds}
        if not asked.transductive:
            facts["chosen"] = chosen
            facts["cpu_s"] = round(seconds / asked.seeds, 1)
        yield System(name, mean_of(reports), facts)


def settings_of(model: Any) -> dict[str, Any] | None:
    """What SwiftXML chose."""
    return {name: getattr(model.neighbours_, name) for name in GRID_OF_NEAR} if isinstance(model, SwiftXML) else None


def reveal_seeds(asked: argparse.Namespace) -> tuple[int, ...]:
    """Fitting anew for each is dear: one then."""
    return (0,) if asked.small or asked.transductive else tuple(range(asked.reveals))


def compare(data: WarmStart, asked: argparse.Namespace) -> None:
    """All systems on one set: a line each, then how much better SwiftXML is than each, then a table."""
    tell(benchmark="warm_start data", data=data.name, **sizes(data))
    systems = []
    for system in chain(recommenders(data, asked), label_models(data, asked)):
        tell(benchmark="warm_start", data=data.name, system=system.name, transductive=asked.transductive,
             shares=SHARES, **{metric: system.percent(metric) for metric in METRICS}, **system.facts,
             **published(data, system.name))  # fmt: skip
        systems.append(system)
    ours = next((system for system in systems if system.name == "SwiftXML"), None)
    for other in systems if ours else ():
        if other is not ours:
            tell(benchmark="warm_start gain", data=data.name, of="SwiftXML", over=other.name, shares=SHARES,
                 **{metric: difference(ours, other, metric) for metric in METRICS},
                 **published(data, "SwiftXML", other.name))  # fmt: skip
    if asked.defaults and ours is not None:
        for row in default_rows(data, systems, ours):
            tell(**row)
    for metric in METRICS:
        print(table(data.name, systems, ours, metric), file=sys.stderr)


def default_rows(data: WarmStart, systems: Sequence[System], ours: System) -> Iterator[dict[str, Any]]:
    """What SwiftXML's defaults reach at each share beside the best of the others, for docs/defaults.md."""
    for metric in ("PSP@5", "P@1"):
        for number, share in enumerate(SHARES):
            others = [system for system in systems if system.name in ("user-kNN", "item-kNN", "WRMF")]
            rival = max(others, key=lambda system: system.percent(metric)[number][0])
            gain, low, high = difference(ours, rival, metric)[number]
            yield {
                "part": "SwiftXML",
                "default": "neighbours, their share, who is near and α chosen in fit, on points some trees do not see",
                "chosen_on": "up to 500 training points of each fit, their labels revealed at 20 to 80 %; on citeulike "
                "`fit(revealed=…)` says whose words the users have",
                "data": f"{data.name}, {share:.0%} of the labels revealed, {len(data.train):,} training points",
                "metric": metric,
                "ours": ours.percent(metric)[number][0],
                "tuned": rival.percent(metric)[number][0],
                "rival": rival.name,
                "difference": gain,
                "interval": [low, high],
                "command": f"python -m benchmarks.warm_start --data {data.name} --defaults",
                "cpu_s": ours.facts.get("cpu_s"),
            }


def published(data: WarmStart, name: str, over: str | None = None) -> dict[str, Any]:
    """The paper's PSP@5, or the difference of two, where there are such."""
    if data.name != "eurlex" or name not in PUBLISHED or (over is not None and over not in PUBLISHED):
        return {}
    less = PUBLISHED[over] if over else (0.0,) * len(SHARES)
    return {"published PSP@5": [round(a - b, 2) for a, b in zip(PUBLISHED[name], less, strict=True)]}


def main() -> None:
    """Measure the asked sets, or choose the settings of the recommenders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", nargs="+", choices=list(SETS), default=list(SETS))
    parser.add_argument("--models", nargs="*", choices=list(KINDS), default=list(KINDS), help="label models to measure")
    parser.add_argument("--seeds", type=int, default=3, help="training seeds of the label models")
    parser.add_argument("--recommenders", nargs="*", choices=list(GRID), default=list(GRID), help="others to measure")
    parser.add_argument("--reveals", type=int, default=3, help="times that labels are drawn to be revealed")
    parser.add_argument("--points", type=float, default=1.0, help="share of the points of both parts")
    parser.add_argument("--defaults", action="store_true", help="print rows for docs/defaults.md too")
    parser.add_argument("--small", action="store_true", help="ten trees, a part of the points, one seed")
    parser.add_argument("--transductive", action="store_true", help="fit on the revealed test labels too (eurlex)")
    parser.add_argument("--tune", action="store_true", help="choose the settings of the recommenders")
    asked = parser.parse_args()
    need_data()
    if asked.small:
        asked.seeds = 1
    for name in asked.data:
        data = SETS[name]()
        if asked.small or asked.points < 1:
            data = data.small(min(asked.points, SMALL[name]) if asked.small else asked.points)
        if asked.tune:
            tune(data, asked.recommenders)
        else:
            compare(data, asked)


if __name__ == "__main__":
    main()
