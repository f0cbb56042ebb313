"""Flat and hierarchical, tables 7 and 8 and figure 6 of the MetaLabeler paper: python -m benchmarks.hierarchy

biotools: description -> EDAM topics and operations, random 80/20, seed 0, tf-idf of the words. Left out are categories
that EDAM has withdrawn or that are not in its tree, and tools that have no others. All categories count with their
ancestors. The settings of each method are chosen alike, one after the other, by its own micro-F1 with ancestors on a
fifth of the training points, after training on a third of the others; "with scores" ranks with the C of the method
without them. --small takes every eighth tool. --defaults has HierarchicalLabels() as it comes against flat models as
they come, and against a flat MetaLabeler whose weight and bar are tuned for micro-F1 with ancestors.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import DATA, held_out, lines, need_data, searched, tell
from benchmarks.sets import Remembered, random_split, tell_default
from broadmatch.data import CSR, Dataset, Hierarchy, as_labels, with_ancestors
from broadmatch.evaluate import Report, depth_reports, micro_f1, paired_difference, set_report
from broadmatch.features import PageVectorizer
from broadmatch.io import read_hierarchy
from broadmatch.labels import OneVsRest
from broadmatch.sets import HierarchicalLabels, MetaLabeler, Threshold
from broadmatch.sets.hierarchy import by_category

GRID = (0.03, 0.1, 0.3, 1.0, 3.0, 10.0, 30.0)
WITHDRAWN = "DeprecatedClass"
Settings = dict[str, float]
Make = Callable[[Settings, int], Any]


def topics_and_operations() -> Hierarchy:
    """EDAM without data types, formats and what it has withdrawn."""
    edam = read_hierarchy(DATA / "biotools" / "edam_tree.json.gz")
    names = list(edam.names)
    above = {name: [names[p] for p in edam.parents.at(i).tolist()] for i, name in enumerate(names)}
    live = {name for name, parents in above.items() if not any(parent.endswith(WITHDRAWN) for parent in parents)}
    wanted = {name for name in live if "/topic_" in name or "/operation_" in name}
    return Hierarchy.of({name: [p for p in above[name] if p in wanted] for name in names if name in wanted})


def biotools(hierarchy: Hierarchy, every: int) -> tuple[Dataset, Dataset]:
    """The tools that have categories, their words weighed by the training part."""
    texts, labels = [], []
    for tool in list(lines("biotools/tools.jsonl.gz"))[::every]:
        named = sorted({name for name, _ in tool["topics"] + tool["operations"] if name in hierarchy.names})
        if named:
            texts.append(tool["description"])
            labels.append(named)
    train, test = random_split(len(texts))
    words = PageVectorizer(min_pages=2, boost=1).fit([texts[i] for i in train])
    Y, names = as_labels(labels)
    both = Dataset(CSR.from_scipy(words.transform(texts)), by_category(Y, hierarchy, names), hierarchy.names)
    return both.take(train), both.take(test)


def flat(found: Settings, jobs: int) -> Threshold:
    return Threshold(model=OneVsRest(c=found["c"], n_jobs=jobs), threshold=0.0, candidates=10_000)


def flat_meta(found: Settings, jobs: int) -> MetaLabeler:
    model, counter = (OneVsRest(c=found[name], n_jobs=jobs) for name in ("c", "number_c"))
    return MetaLabeler(model=model, counter=counter, score_weight=found.get("score_weight", 0.0), bar=0.0)


def down_one_way(found: Settings, jobs: int) -> HierarchicalLabels:
    """The paper's hierarchy without a MetaLabeler: the winning child is followed."""
    return HierarchicalLabels(model=OneVsRest(c=found["c"]), most=1, score_weight=0.0, n_jobs=jobs)


def down(found: Settings, jobs: int) -> HierarchicalLabels:
    return HierarchicalLabels(OneVsRest(c=found["c"]), sets=None, bar=found.get("bar", -1.5), n_jobs=jobs)


def down_meta(found: Settings, jobs: int) -> HierarchicalLabels:
    model, counter = (OneVsRest(c=found[name]) for name in ("c", "number_c"))
    weight = found.get("score_weight", 0.0)
    bar = weight * found["bar"] if weight else None
    return HierarchicalLabels(model=model, counter=counter, score_weight=weight, bar=bar, n_jobs=jobs)


META = {"c": GRID, "number_c": GRID}
WEIGHTS = {"number_c": GRID, "score_weight": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)}
BARS = tuple(-0.6 - 0.2 * i for i in range(12))  # log-chances of ways
METHODS: dict[str, tuple[Make, dict[str, tuple[float, ...]]]] = {
    "flat": (flat, {"c": GRID}),
    "hierarchy, the best child": (down_one_way, {"c": GRID}),
    "hierarchy, likely children": (down, {"c": GRID, "bar": BARS}),
    "flat, MetaLabeler": (flat_meta, META),
    "hierarchy, MetaLabeler": (down_meta, META),
    "flat, MetaLabeler with scores": (flat_meta, WEIGHTS),
    "hierarchy, MetaLabeler with scores": (down_meta, {**WEIGHTS, "bar": BARS}),
}
"""How each is made of its settings, and the settings to choose from."""


def trained(model: Any, data: Dataset, hierarchy: Hierarchy) -> Any:
    more = (hierarchy,) if isinstance(model, HierarchicalLabels) else ()
    return model.fit(data.X, data.Y, *more)


def chosen(name: str, start: Settings, kept: Dataset, check: Dataset, hierarchy: Hierarchy, jobs: int) -> Settings:
    """The settings that are best on the points held out."""
    make, grid = METHODS[name]
    truth = with_ancestors(check.Y, hierarchy)

    def score(settings: Settings) -> float:
        sets = trained(make(settings, jobs), kept, hierarchy).predict(check.X)
        return micro_f1(truth, with_ancestors(sets, hierarchy))

    return searched(score, grid, start | dict.fromkeys(grid, 1.0) | ({"bar": -1.4} if "bar" in grid else {}))


def measure(every: int, jobs: int) -> None:
    """Train and test all methods."""
    hierarchy = topics_and_operations()
    train, test = biotools(hierarchy, every)
    rest, check = held_out(train)
    kept = rest.take(np.arange(0, len(rest), 3))
    truth = with_ancestors(test.Y, hierarchy)
    tell(train=len(train), test=len(test), categories=hierarchy.n_categories, features=train.X.n_cols,
         categories_a_point=train.Y.nnz / len(train))  # fmt: skip
    reports: dict[str, dict[int, Report]] = {}
    best: dict[str, Settings] = {}
    for name, (make, _) in METHODS.items():
        without_scores = best.get(name.removesuffix(" with scores"), {})
        settings = best[name] = chosen(name, without_scores, kept, check, hierarchy, jobs)
        start = time.perf_counter()
        model = trained(make(settings, jobs), train, hierarchy)
        seconds = time.perf_counter() - start
        sets = model.predict(test.X)
        whole, plain = set_report(truth, with_ancestors(sets, hierarchy)), set_report(test.Y, sets)
        tell(method=name, depth="all", **settings, **figures(whole), exact_match=100 * whole["exact match"].value,
             exact_match_plain=100 * plain["exact match"].value, micro_F1_plain=100 * plain["micro-F1"].value,
             train_s=seconds)  # fmt: skip
        reports[name] = depth_reports(test.Y, sets, hierarchy, n_bootstrap=200)
        for depth, report in reports[name].items():
            in_truth = int(np.isin(truth.indices, np.flatnonzero(hierarchy.depth == depth)).sum())
            if in_truth:
                tell(method=name, depth=depth, true=in_truth, **figures(report))
    for ours, peer in (("flat, MetaLabeler", "flat"), ("hierarchy, MetaLabeler", "hierarchy, the best child"),
                       ("hierarchy, MetaLabeler with scores", "hierarchy, the best child"),
                       ("hierarchy, MetaLabeler with scores", "hierarchy, likely children"),
                       ("hierarchy, MetaLabeler with scores", "flat, MetaLabeler")):  # fmt: skip
        for depth, report in reports[ours].items():
            gains = {m: str(paired_difference(report, reports[peer][depth], m)) for m in ("recall", "precision")}
            tell(method=ours, gain_over=peer, depth=depth, **gains)


DEFAULT = "score_weight, bar, c and tail chosen by micro-F1 on up to five folds"


def defaults(every: int, jobs: int) -> None:
    """HierarchicalLabels() beside flat models."""
    hierarchy = topics_and_operations()
    train, test = biotools(hierarchy, every)
    start = time.process_time()
    model = HierarchicalLabels(n_jobs=jobs).fit(train.X, train.Y, hierarchy)
    seconds = time.process_time() - start
    start = time.process_time()
    HierarchicalLabels(n_jobs=jobs, score_weight=0.0).fit(train.X, train.Y, hierarchy)
    tell(method="HierarchicalLabels()", score_weight=model.score_weight_, bar=model.bar_, c=model.c_, tail=model.tail_,
         cpu_s=seconds,
         paper_cpu_s=time.process_time() - start)  # fmt: skip
    rivals: dict[str, Any] = {
        "HierarchicalLabels(score_weight=0), the paper's": HierarchicalLabels(n_jobs=jobs, score_weight=0.0),
        "HierarchicalLabels(sets=None)": HierarchicalLabels(n_jobs=jobs, sets=None),
        "flat MetaLabeler()": MetaLabeler(Remembered(n_jobs=jobs)),
        "flat Threshold(), tuned": Threshold(Remembered(n_jobs=jobs)),
        "flat MetaLabeler, weight and bar tuned with ancestors": tuned_flat(train, hierarchy, jobs),
    }

    def reports(model: Any) -> tuple[Report, Report]:
        sets = model.predict(test.X)
        return set_report(truth, with_ancestors(sets, hierarchy)), set_report(test.Y, sets)

    truth, ours = with_ancestors(test.Y, hierarchy), ()
    ours = reports(model)
    found = {name: reports(trained(rival, train, hierarchy)) for name, rival in rivals.items()}
    for name, both in {"HierarchicalLabels()": ours, **found}.items():
        gains = [str(paired_difference(a, b, "micro-F1")) for a, b in zip(ours, both, strict=True)]
        tell(method=name, with_ancestors=figures(both[0]), plain=figures(both[1]), gains=gains)
    flat_ones = [name for name in found if name.startswith("flat")]
    for i, how in enumerate(("micro-F1 with ancestors", "micro-F1")):
        best = max(flat_ones, key=lambda name: found[name][i]["micro-F1"].value)
        tell_default("HierarchicalLabels", DEFAULT, "the training points of biotools", f"biotools, {how}", "micro-F1",
                     ours[i], best, found[best][i], "python -m benchmarks.hierarchy --defaults", seconds)  # fmt: skip


def tuned_flat(train: Dataset, hierarchy: Hierarchy, jobs: int) -> MetaLabeler:
    """The best weight and bar of a flat MetaLabeler on a fifth of the training points."""
    kept, check = held_out(train)
    truth = with_ancestors(check.Y, hierarchy)

    def made(weight: float, bar: float, learner: type[OneVsRest]) -> MetaLabeler:
        model, counter = learner(n_jobs=jobs), learner(n_jobs=jobs)
        return MetaLabeler(model, counter=counter, score_weight=weight, bar=weight * bar)

    def score(how: tuple[float, float]) -> float:
        sets = made(*how, Remembered).fit(kept.X, kept.Y).predict(check.X)
        return micro_f1(truth, with_ancestors(sets, hierarchy))

    found = max(((w, -0.1 * b) for w in (0.5, 1.0, 2.0, 4.0, 8.0) for b in range(2, 9)), key=score)
    tell(method="flat MetaLabeler, tuned", score_weight=found[0], bar=found[0] * found[1])
    return made(*found, OneVsRest)


def figures(report: Report) -> dict[str, float]:
    return {name: 100 * report[name].value for name in ("precision", "recall", "micro-F1", "macro-F1")}


def main() -> None:
    """Measure all methods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="every eighth tool")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    parser.add_argument("--defaults", action="store_true", help="all as they come")
    asked = parser.parse_args()
    need_data()
    (defaults if asked.defaults else measure)(8 if asked.small else 1, asked.jobs)


if __name__ == "__main__":
    main()
