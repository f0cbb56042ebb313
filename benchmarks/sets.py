"""How many labels, tables 3 and 4 of the MetaLabeler paper: python -m benchmarks.sets [--small] [SET …]

Sets: reuters (its date split), cooking and debian-tags (random 80/20, seed 0); tf-idf of the words. All methods are
around OneVsRest. The settings of each (C, damped, tail; for MetaLabeler also the C of the number of labels, and weight
and bar) are chosen alike: by the mean of exact match and micro-F1 on a fifth of the training points, which is the
latest fifth where the test points are later ones. MetaLabeler on scores and ranks takes the settings of the ranking
from the one on content. `tuning_s` is what a method takes beyond the training of the ranking, with these settings.
debian-deps (18,160 labels) shows only what MetaLabeler adds to the time of training. --small leaves the two large sets
out. --defaults has all methods as they come, nothing chosen: MetaLabeler() against each, paired, and rows for
docs/defaults.md against the best of the others.
"""

import argparse
import gzip
import hashlib
import time
from collections.abc import Callable
from typing import Any, ClassVar

import numpy as np

from benchmarks.common import DATA, held_out, lines, load, need_data, reuters, searched, tell
from broadmatch.data import CSR, Dataset, Names, as_labels
from broadmatch.errors import BadInput
from broadmatch.evaluate import Report, exact_match, micro_f1, paired_difference, set_report
from broadmatch.labels import OneVsRest
from broadmatch.sets import MetaLabeler, PCut, RCut, SCut, TargetCut, Threshold
from broadmatch.sets.base import SetModel

COSTS = (0.1, 0.3, 1.0, 3.0, 10.0)
RANKING: dict[str, tuple[Any, ...]] = {"c": COSTS, "damped": (False, True), "tail": (0.0, 0.03, 0.06, 0.1)}
BARS = (0.2, 0.1, 0.0, -0.1, -0.2, -0.3, -0.4, -0.5, -0.6)  # in scores of labels
CANDIDATES = 1000  # all labels of each of these sets
MANY = "debian-deps"
Make = Callable[[dict[str, Any], type[OneVsRest]], SetModel]


def dataset(texts: list[str], labels: list[list[str]], train: np.ndarray, test: np.ndarray) -> tuple[Dataset, Dataset]:
    """tf-idf with the words and weights of the training texts."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    words = TfidfVectorizer(sublinear_tf=True, min_df=2, stop_words="english", dtype=np.float32)
    words.fit([texts[i] for i in train])
    X = CSR.from_scipy(words.transform(texts))
    Y, names = as_labels(labels)
    both = Dataset(X, Y, Names.numbers(Y.n_cols) if names is None else names)
    return both.take(train), both.take(test)


def random_split(n: int) -> tuple[np.ndarray, np.ndarray]:
    order = np.random.default_rng(0).permutation(n)
    return order[: int(0.8 * n)], order[int(0.8 * n) :]


def by_date() -> tuple[Dataset, Dataset]:
    """Reuters-21578, its earlier articles to train on."""
    texts, topics, n_train = reuters()
    order = np.arange(len(texts))
    return dataset(texts, topics, order[:n_train], order[n_train:])


def debian_tags() -> tuple[Dataset, Dataset]:
    """The descriptions of the packages that have tags."""
    found = [p for p in lines("debian/packages.jsonl.gz") if p.get("tags")]
    texts = [f"{p.get('short', '')} {p.get('long', '')}" for p in found]
    return dataset(texts, [p["tags"] for p in found], *random_split(len(found)))


def cooking() -> tuple[Dataset, Dataset]:
    """Questions and their tags, in fastText's format."""
    words = []
    for name in ("train.txt.gz", "valid.txt.gz"):
        with gzip.open(DATA / "cooking" / name, "rt", encoding="utf-8") as file:
            words += [line.split() for line in file]
    labels = [[w.removeprefix("__label__") for w in row if w.startswith("__label__")] for row in words]
    texts = [" ".join(w for w in row if not w.startswith("__label__")) for row in words]
    return dataset(texts, labels, *random_split(len(texts)))


BY_DATE = ("reuters",)
SETS = {"reuters": by_date, "cooking": cooking, "debian-tags": debian_tags}


class Remembered(OneVsRest):
    """A one-vs-rest that is trained once on the same data: only for choosing settings, where time is not measured."""

    known: ClassVar[dict[tuple[float, bool, str], OneVsRest]] = {}

    def fit(self, X: Any, Y: Any, **more: Any) -> "Remembered":
        """Take what was learned before from the same data with the same settings; the tail only scales weights."""
        digest = hashlib.sha256()
        for array in (X.indptr, X.indices, X.data, Y.indptr, Y.indices):
            digest.update(np.ascontiguousarray(array).data)
        key = (float(self.c), self.damped, digest.hexdigest())
        if key not in self.known:
            self.known[key] = OneVsRest(c=self.c, damped=self.damped, tail=0.0, n_jobs=self.n_jobs).fit(X, Y, **more)
        vars(self).update({name: v for name, v in vars(self.known[key]).items() if name not in self.rules})
        lift = self._lift(np.bincount(Y.indices, minlength=Y.n_cols))
        self.weights_ = self.weights_._replace(data=self.weights_.data * lift[self.weights_.indices])
        return self


def chosen(
    make: Make, grid: dict[str, tuple[Any, ...]], start: dict[str, Any], kept: Dataset, check: Dataset
) -> dict[str, Any]:
    """The settings that are best on the points held out, from the middle of each range."""

    def score(settings: dict[str, Any]) -> float:
        sets = make(settings, Remembered).fit(kept.X, kept.Y).predict(check.X)
        return (exact_match(check.Y, sets) + micro_f1(check.Y, sets)) / 2

    return searched(score, grid, start | {name: values[len(values) // 2] for name, values in grid.items()}, sweeps=2)


def methods(n_jobs: int) -> dict[str, tuple[Make, dict[str, tuple[Any, ...]]]]:
    """The rows of the tables: how each is made of its settings, and the settings to choose from."""

    def around(cls: type[SetModel], **settings: Any) -> Make:
        def make(found: dict[str, Any], learner: type[OneVsRest]) -> SetModel:
            more: dict[str, Any] = dict(settings)
            if cls is MetaLabeler:
                more["counter"] = learner(c=found["number_c"], damped=on_content and found["damped"], n_jobs=n_jobs)
            if cls is MetaLabeler:
                weight = found.get("weight", 0.0)
                more |= {"score_weight": weight, "bar": weight * found.get("bar", 0.0)}
            if "candidates" in cls.rules:
                more["candidates"] = CANDIDATES
            return cls(model=learner(**{name: found[name] for name in RANKING}, n_jobs=n_jobs), **more)

        on_content = settings.get("on", "content") == "content"

        return make

    meta = {**RANKING, "number_c": COSTS}
    return {
        "plain": (around(Threshold, threshold=0.0), RANKING),
        "plain, at least one": (around(Threshold, threshold=0.0, at_least=1), RANKING),
        "RCut floor": (around(RCut, k="floor"), RANKING),
        "RCut ceiling": (around(RCut, k="ceiling"), RANKING),
        "MetaLabeler content": (around(MetaLabeler), meta),
        "MetaLabeler content, weighted": (
            around(MetaLabeler),
            {**meta, "weight": (1.0, 2.0, 4.0, 8.0, 16.0), "bar": BARS},
        ),
        "PCut": (around(PCut), RANKING),
        "SCut micro": (around(SCut, metric="micro-F1"), RANKING),
        "SCut macro": (around(SCut, metric="macro-F1"), RANKING),
        "SCut macro, FBR 0.3": (around(SCut, metric="macro-F1", fbr=0.3), RANKING),
        "MetaLabeler scores": (around(MetaLabeler, on="scores"), {"number_c": COSTS}),
        "MetaLabeler scores, calibrated": (around(MetaLabeler, on="scores", calibrated=True), {"number_c": COSTS}),
        "MetaLabeler ranks": (around(MetaLabeler, on="ranks"), {"number_c": COSTS}),
        "MetaLabeler ranks, calibrated": (around(MetaLabeler, on="ranks", calibrated=True), {"number_c": COSTS}),
        "precision of 0.9": (around(TargetCut, goal=0.9), {name: values[:1] for name, values in RANKING.items()}),
    }


def tuned_on(name: str, train: Dataset) -> tuple[Dataset, Dataset]:
    """Training points to learn from, and others to choose settings by, which lie to them as the test points do."""
    if name in BY_DATE:
        order, cut = np.arange(len(train)), int(0.8 * len(train))
        return train.take(order[:cut]), train.take(order[cut:])
    return held_out(train)


def measure(name: str, n_jobs: int) -> None:
    """One table."""
    train, test = SETS[name]()
    kept, check = tuned_on(name, train)
    tell(set=name, train=len(train), test=len(test), labels=train.Y.n_cols, labels_a_point=train.Y.nnz / len(train))
    reports, seconds, found_on_content = {}, {}, {}
    for row, (make, grid) in methods(n_jobs).items():
        try:
            settings = chosen(make, grid, found_on_content if "c" not in grid else {}, kept, check)
            method = make(settings, OneVsRest).fit(train.X, train.Y)
        except BadInput as error:  # a target that cannot be reached
            tell(set=name, method=row, refused=str(error))
            continue
        if row == "MetaLabeler content":
            found_on_content = settings
        found = set_report(test.Y, method.predict(test.X))
        reports[row], seconds[row] = found, method.tuning_seconds_
        tell(set=name, method=row, **settings, **figures(found), tuning_s=method.tuning_seconds_)
    for ours in ("MetaLabeler content", "MetaLabeler content, weighted"):
        for peer in ("plain", "RCut floor", "RCut ceiling", "SCut micro", "SCut macro"):
            gains = {m: str(paired_difference(reports[ours], reports[peer], m)) for m in ("exact match", "micro-F1")}
            tell(set=name, method=ours, gain_over=peer, **gains, time_ratio=seconds[ours] / max(seconds[peer], 1e-9))
    Remembered.known.clear()


def many_labels(n_jobs: int) -> None:
    """What MetaLabeler adds to the training of 18,160 labels."""
    train, _ = load("debian-deps")
    start = time.perf_counter()
    ranking = OneVsRest(n_jobs=n_jobs).fit(train.X, train.Y)
    trained = time.perf_counter() - start
    for weight in (0.0, 1.0):
        sets = MetaLabeler(model=ranking, score_weight=weight, bar=0.0).fit(train.X, train.Y)
        facts = {"labels": train.Y.n_cols, "numbers": len(sets.numbers_), "score_weight": weight}
        tell(set=MANY, **facts, ranking_s=trained, tuning_s=sets.tuning_seconds_, ratio=sets.tuning_seconds_ / trained)


RIVALS: dict[str, Callable[[OneVsRest], SetModel]] = {
    "Threshold(threshold=0.0)": lambda model: Threshold(model, threshold=0.0),
    "Threshold(threshold=0.0, at_least=1)": lambda model: Threshold(model, threshold=0.0, at_least=1),
    "Threshold(), tuned": Threshold,
    "SCut()": SCut,
    "SCut(metric='macro-F1')": lambda model: SCut(model, metric="macro-F1"),
    "RCut()": RCut,
    "PCut()": PCut,
    "MetaLabeler(score_weight=0), the paper's": lambda model: MetaLabeler(model, score_weight=0.0),
}
DEFAULT = (
    "score_weight, bar and the one-vs-rest's c and tail chosen on 4,000 training points or more, held out in up to "
    "five folds, by the mean of exact match and micro-F1"
)


def defaults(name: str, n_jobs: int) -> None:
    """All methods as they come, on one set."""
    train, test = SETS[name]()
    start = time.process_time()
    ours = MetaLabeler(OneVsRest(n_jobs=n_jobs)).fit(train.X, train.Y)
    seconds = time.process_time() - start
    sets = ours.predict(test.X)
    found = set_report(test.Y, sets)
    start = time.process_time()
    OneVsRest(n_jobs=n_jobs).fit(train.X, train.Y)
    ranking = time.process_time() - start
    tell(set=name, method="MetaLabeler()", **figures(found), labels_a_set=sets.nnz / len(test), cpu_s=seconds,
         ranking_cpu_s=ranking, score_weight=ours.score_weight_, bar=ours.bar_,
         **{name: ours.model_.get_params()[name] for name in ("c", "tail")})  # fmt: skip
    reports = {}
    for rival, make in RIVALS.items():
        reports[rival] = set_report(test.Y, make(Remembered(n_jobs=n_jobs)).fit(train.X, train.Y).predict(test.X))
        gains = {m: str(paired_difference(found, reports[rival], m)) for m in ("exact match", "micro-F1")}
        tell(set=name, method=rival, **figures(reports[rival]), gains=gains)
    Remembered.known.clear()
    for metric in ("exact match", "micro-F1"):
        best = max(reports, key=lambda rival: reports[rival][metric].value)
        tell_default("MetaLabeler", DEFAULT, "each data set's own training points", name, metric, found, best,
                     reports[best], f"python -m benchmarks.sets --defaults {name}", seconds)  # fmt: skip


def tell_default(
    part: str,
    default: str,
    on: str,
    data: str,
    metric: str,
    ours: Report,
    rival: str,
    its: Report,
    how: str,
    cpu: float,
) -> None:
    """A row of docs/defaults.md."""
    gain = paired_difference(ours, its, metric)
    tell(part=part, default=default, chosen_on=on, data=data, metric=metric, ours=100 * ours[metric].value,
         tuned=100 * its[metric].value, rival=rival, difference=100 * gain.value,
         interval=[round(100 * gain.low, 2), round(100 * gain.high, 2)], command=how, cpu_s=cpu)  # fmt: skip


def figures(report: Report) -> dict[str, float]:
    return {n: 100 * report[n].value for n in ("exact match", "micro-F1", "macro-F1", "precision", "recall")}


def main() -> None:
    """Measure the sets asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", metavar="SET", help=f"some of {', '.join([*SETS, MANY])}; all, unless named")
    parser.add_argument("--small", action="store_true", help="without the two large ones")
    parser.add_argument("--defaults", action="store_true", help="all methods as they come")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    asked = parser.parse_args()
    need_data()
    if asked.defaults:
        for name in asked.sets or SETS:
            defaults(name, asked.jobs)
        return
    for name in asked.sets or (["reuters", "cooking"] if asked.small else [*SETS, MANY]):
        if name == MANY:
            many_labels(asked.jobs)
        else:
            measure(name, asked.jobs)


if __name__ == "__main__":
    main()
