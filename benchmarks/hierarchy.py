"""Flat and hierarchical, tables 7 and 8 and figure 6 of the MetaLabeler paper: python -m benchmarks.hierarchy

biotools: description -> EDAM topics and operations, random 80/20, seed 0, tf-idf of the words. Left out are categories
that EDAM has withdrawn or that are not in its tree, and tools that have no others. All categories count with their
ancestors. The settings of each method are chosen alike, one after the other, by its own micro-F1 with ancestors on a
fifth of the training points, after training on a third of the others; "with scores" ranks with the C of the method
without them. --small takes every eighth tool.
"""

import argparse
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from benchmarks.common import DATA, held_out, lines, need_data, searched, tell
from benchmarks.sets import random_split
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
    return MetaLabeler(model=model, counter=counter, score_weight=found.get("score_weight"))


def down_one_way(found: Settings, jobs: int) -> HierarchicalLabels:
    """The paper's hierarchy without a MetaLabeler: the winning child is followed."""
    return HierarchicalLabels(model=OneVsRest(c=found["c"]), most=1, n_jobs=jobs)


def down(found: Settings, jobs: int) -> HierarchicalLabels:
    return HierarchicalLabels(OneVsRest(c=found["c"]), sets=None, n_jobs=jobs)


def down_meta(found: Settings, jobs: int) -> HierarchicalLabels:
    model, counter = (OneVsRest(c=found[name]) for name in ("c", "number_c"))
    return HierarchicalLabels(model=model, counter=counter, score_weight=found.get("score_weight"), n_jobs=jobs)


META = {"c": GRID, "number_c": GRID}
WEIGHTS = {"number_c": GRID, "score_weight": (0.25, 0.5, 1.0, 2.0, 4.0, 8.0)}
METHODS: dict[str, tuple[Make, dict[str, tuple[float, ...]]]] = {
    "flat": (flat, {"c": GRID}),
    "hierarchy, the best child": (down_one_way, {"c": GRID}),
    "hierarchy, children above 0": (down, {"c": GRID}),
    "flat, MetaLabeler": (flat_meta, META),
    "hierarchy, MetaLabeler": (down_meta, META),
    "flat, MetaLabeler with scores": (flat_meta, WEIGHTS),
    "hierarchy, MetaLabeler with scores": (down_meta, WEIGHTS),
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

    return searched(score, grid, start | dict.fromkeys(grid, 1.0))


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
                       ("hierarchy, MetaLabeler with scores", "hierarchy, children above 0"),
                       ("hierarchy, MetaLabeler with scores", "flat, MetaLabeler")):  # fmt: skip
        for depth, report in reports[ours].items():
            gains = {m: str(paired_difference(report, reports[peer][depth], m)) for m in ("recall", "precision")}
            tell(method=ours, gain_over=peer, depth=depth, **gains)


def figures(report: Report) -> dict[str, float]:
    return {name: 100 * report[name].value for name in ("precision", "recall", "micro-F1", "macro-F1")}


def main() -> None:
    """Measure all methods."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="every eighth tool")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    asked = parser.parse_args()
    need_data()
    measure(8 if asked.small else 1, asked.jobs)


if __name__ == "__main__":
    main()
