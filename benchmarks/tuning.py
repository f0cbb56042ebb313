"""Tuning and the choice of a model: python -m benchmarks.tuning [PART …] [--defaults] [--every N] [--points N]

rule        every model with its defaults on a fifth of the training points of each set, by which the rule of
            `train` without --model was chosen: P@1, P@5, PSP@5, CPU seconds. No test part is looked at.
mlrf-bibtex, mlrf-eurlex, one-vs-rest, pfastrexml
            `tune` with a budget of ten trainings, chosen on a fifth of the training points; then default, tuned, and
            the settings of the docs (`hand`), which took grids of many more trainings, on the test part, with the
            paired interval of tuned − hand and tuned − default.

--every 3 trains all of them on every third training point. --defaults prints the rows of docs/defaults.md too.
"""

import argparse
import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common import held_out, load, need_data, tell
from broadmatch.data import Dataset, propensity
from broadmatch.evaluate import Report, paired_difference, ranking_report
from broadmatch.labels import MLRF, AdaBoostLC, FastXML, OneVsRest, PfastreXML, advise_model, tune
from broadmatch.labels.choosing import trials

KS = (1, 3, 5)
MODELS: dict[str, Callable[[int], Any]] = {
    "OneVsRest": lambda jobs: OneVsRest(n_jobs=jobs),
    "MLRF": lambda jobs: MLRF(n_jobs=jobs),
    "FastXML": lambda jobs: FastXML(n_jobs=jobs),
    "PfastreXML": lambda jobs: PfastreXML(n_jobs=jobs),
}
TUNED: dict[str, tuple[str, str, str, dict[str, Any]]] = {
    # part: data, model, metric, the settings of the docs
    "mlrf-bibtex": ("bibtex", "MLRF", "P@5", {"n_trees": 500, "max_leaf": 5, "features_per_node": 50}),
    "mlrf-eurlex": ("eurlex-4k", "MLRF", "P@5", {"n_trees": 100, "max_leaf": 10, "features_per_node": 200}),
    "one-vs-rest": ("eurlex-4k", "OneVsRest", "PSP@5", {"tail": 0.03}),
    "pfastrexml": ("eurlex-4k", "PfastreXML", "PSP@5", {}),
}


def report_of(model: Any, train: Dataset, test: Dataset) -> Report:
    """All ranking metrics on points that the model has not seen."""
    weights = propensity(np.bincount(train.Y.indices, minlength=train.Y.n_cols), len(train))
    return ranking_report(test.Y, model.predict_topk(test.X, k=max(KS)), ks=KS, propensity=weights)


def figures(report: Report) -> dict[str, list[float]]:
    """P@k and PSP@k in percent."""
    return {name: [round(100 * report[f"{name}@{k}"].value, 2) for k in KS] for name in ("P", "PSP")}


def marketplace(labels: str) -> Dataset:
    """The training part of a simulated marketplace: pages, and the queries that were clicked, or beliefs."""
    import tempfile

    from broadmatch.features import PageVectorizer
    from broadmatch.harvest import build_datasets, harvest
    from broadmatch.io import ClickLog, PageSource
    from broadmatch.simulate import simulate_marketplace

    with tempfile.TemporaryDirectory() as name:
        made = simulate_marketplace(Path(name) / "market", n_pages=2000, n_sessions=200_000, seed=1)
        found = harvest(ClickLog(made.clicks), min_test_queries=10, test_share=0.2)
        return build_datasets(found, PageSource(made.pages), PageVectorizer(), weights=labels)[0]


def training_sets(names: list[str]) -> Iterator[tuple[str, Dataset]]:
    """The training parts to choose on."""
    from benchmarks.hierarchy import biotools, topics_and_operations
    from benchmarks.sets import SETS

    plain = ("bibtex", "delicious", "mediamill", "eurlex-4k", "debian-deps")
    made: dict[str, Callable[[], Dataset]] = {name: (lambda name=name: load(name)[0]) for name in plain}
    made |= {name: (lambda make=make: make()[0]) for name, make in SETS.items()}
    made["biotools"] = lambda: biotools(topics_and_operations(), 1)[0]
    made |= {f"marketplace {how}": (lambda how=how: marketplace(how)) for how in ("plain", "beliefs")}
    for name, make in made.items():
        if not names or name in names:
            yield name, make()


def rule(names: list[str], n_points: int, jobs: int, defaults: bool) -> None:
    """Every model on held-out training points, and what the rule says."""
    for name, whole in training_sets(names):
        some = np.random.default_rng(0).permutation(len(whole))[:n_points]
        train, check = held_out(whole.take(np.sort(some)))
        seen = int(np.count_nonzero(np.bincount(whole.Y.indices, minlength=whole.Y.n_cols)))
        truth = check
        if name.endswith("beliefs"):
            from broadmatch.labels.choosing.held_out import true_labels

            truth = Dataset(check.X, true_labels(check.Y), check.labels)
        words = name.startswith("marketplace")
        advised, reports = advise_model(whole.X, whole.Y, words=words).model.__name__, {}
        for model, make in MODELS.items():
            started = time.process_time()
            learner = make(jobs).fit(train.X, train.Y)
            fit_s = time.process_time() - started
            reports[model] = report_of(learner, train, truth)
            found = figures(reports[model])
            tell(benchmark="tuning rule", data=name, points=len(train), features=whole.X.n_cols, labels=seen,
                 values=round(whole.X.nnz / len(whole), 1), labels_a_point=round(whole.Y.nnz / len(whole), 1),
                 model=model, **found, cpu_s=round(fit_s, 1), rule=advised)  # fmt: skip
        if defaults:
            print(json.dumps(rule_row(name, advised, reports, n_points, names)), flush=True)


def rule_row(name: str, advised: str, reports: dict[str, Report], n_points: int, names: list[str]) -> dict[str, Any]:
    """The row of docs/defaults.md: the model that the rule takes beside the best of the others."""
    scores = {model: round(100 * report["P@5"].value, 2) for model, report in reports.items()}
    other = max((model for model in scores if model != advised), key=scores.__getitem__)
    d = paired_difference(reports[advised], reports[other], "P@5")
    row = {"part": "train without --model", "default": "a model for the size and kind of the data"}
    row |= {"chosen_on": f"a fifth of up to {n_points:,} training points of these sets, as below; no test part"}
    row |= {"data": f"{name}: {advised}", "metric": "P@5", "ours": scores[advised], "tuned": scores[other]}
    row |= {"rival": f"{other}, the best of the others", "difference": round(100 * d.value, 2)}
    some = "".join(f" --data {one}" for one in names)
    row |= {"interval": [round(100 * d.low, 2), round(100 * d.high, 2)], "cpu_s": None}
    return row | {"command": f"python -m benchmarks.tuning rule{some} --points {n_points} --defaults"}


def tuned(part: str, defaults: bool, jobs: int, every: int) -> None:
    """One search, and the three models on the test part."""
    name, cls, metric, hand = TUNED[part]
    train, test = load(name)
    train = train.take(np.arange(0, len(train), every))
    make: Any = {"MLRF": MLRF, "OneVsRest": OneVsRest, "PfastreXML": PfastreXML, "AdaBoostLC": AdaBoostLC}[cls]
    few = train.take(np.arange(100))
    report_of(make(n_jobs=jobs).fit(few.X, few.Y), few, few)  # compiles
    started = time.process_time()
    base = make(n_jobs=jobs).fit(train.X, train.Y)
    one = time.process_time() - started
    trials.now = time.process_time  # the budget is of CPU time here: the machine may have other work
    started = time.process_time()
    found = tune(make(n_jobs=jobs), train.X, train.Y, metric=metric, budget=10 * one)
    cpu = time.process_time() - started
    reports = {"default": report_of(base, train, test), "tuned": report_of(found.model, train, test)}
    reports["hand"] = reports["default"]
    if hand:
        reports["hand"] = report_of(make(n_jobs=jobs, **hand).fit(train.X, train.Y), train, test)
    gains = {other: paired_difference(reports["tuned"], reports[other], metric) for other in ("default", "hand")}
    tell(benchmark="tuning", part=part, points=len(train), metric=metric, settings=found.settings,
         n_trials=len(found.trials), budget_s=found.budget, took_s=found.seconds, one_training_cpu_s=one,
         tuning_cpu_s=cpu, held_out=vars(found.chosen.difference),
         **{who: figures(report) for who, report in reports.items()},
         **{f"tuned_over_{who}": vars(gain) for who, gain in gains.items()})  # fmt: skip
    if defaults:
        d = gains["hand"]
        scores = {who: round(100 * reports[who][metric].value, 2) for who in ("tuned", "hand")}
        where = name if every == 1 else f"{name}, one in {every} training points"
        row = {"part": f"train --tune, {cls}", "default": f"--tune {metric}, ten trainings, found {found.settings}"}
        row |= {"chosen_on": "a fifth of the training points, held out", "data": where, "metric": metric}
        row |= {"ours": scores["tuned"], "tuned": scores["hand"], "rival": f"settings of the docs, {hand or 'default'}"}
        row |= {"difference": round(100 * d.value, 2), "interval": [round(100 * d.low, 2), round(100 * d.high, 2)]}
        row |= {"command": f"python -m benchmarks.tuning {part} --every {every} --defaults", "cpu_s": round(cpu, 1)}
        print(json.dumps(row), flush=True)


def main() -> None:
    """Measure the parts that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=["rule", *TUNED])
    parser.add_argument("--data", action="append", default=[], help="of `rule`, some sets")
    parser.add_argument("--points", type=int, default=5000, help="of `rule`, how many points of each set")
    parser.add_argument("--every", type=int, default=1, help="of the others, every so many-th training point")
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--defaults", action="store_true")
    asked = parser.parse_args()
    need_data()
    for part in asked.parts:
        if part == "rule":
            rule(asked.data, asked.points, asked.threads, asked.defaults)
        else:
            tuned(part, asked.defaults, asked.threads, asked.every)


if __name__ == "__main__":
    main()
