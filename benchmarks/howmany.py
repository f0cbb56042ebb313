"""How many labels, tables 3 and 4 of the MetaLabeler paper: python -m benchmarks.howmany [--small] [SET …]

Sets: reuters (its date split), cooking and debian-tags (random 80/20, seed 0); tf-idf of the words. All methods cut
the same ranking: OneVsRest with the same C, chosen by the micro-F1 of the plain answer (all scores above 0) on a
fifth of the training points; the C of the model of the number of labels is chosen likewise, by its micro-F1.
`tuning_s` is what a method takes beyond the training of the ranking. --small leaves debian-tags out.
"""

import argparse
import gzip
import json
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from benchmarks.common import DATA, held_out, need_data, tell
from broadmatch.data import CSR, Dataset, Names, as_labels
from broadmatch.evaluate import paired_difference, set_report
from broadmatch.howmany import MetaLabeler, PCut, RCut, SCut, TargetCut, Threshold
from broadmatch.howmany.base import SetModel
from broadmatch.labels import OneVsRest

GRID = (0.3, 1.0, 3.0, 10.0, 30.0)
CANDIDATES = 1000  # all labels of each of these sets


def lines(name: str) -> Iterator[dict[str, Any]]:
    """The records of a set of JSON lines."""
    with gzip.open(DATA / name, "rt", encoding="utf-8") as file:
        yield from map(json.loads, file)


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


def reuters() -> tuple[Dataset, Dataset]:
    """Title and body of the articles with topics; the first 14,818 articles train."""
    found = [(i, a) for i, a in enumerate(lines("reuters-21578/articles.jsonl.gz")) if a.get("topics")]
    texts = [f"{a.get('title', '')} {a.get('body', '')}" for _, a in found]
    early = np.array([i < 14_818 for i, _ in found])
    return dataset(texts, [a["topics"] for _, a in found], np.flatnonzero(early), np.flatnonzero(~early))


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


SETS = {"reuters": reuters, "cooking": cooking, "debian-tags": debian_tags}


def best_c(train: Dataset, n_jobs: int) -> tuple[float, float]:
    """C of the ranking and of the number of labels, on a fifth of the training points."""
    kept, check = held_out(train)
    rankings = {c: OneVsRest(c=c, n_jobs=n_jobs).fit(kept.X, kept.Y) for c in GRID}
    plain = {
        c: Threshold(model=m, threshold=0.0).fit(kept.X, kept.Y).score(check.X, check.Y) for c, m in rankings.items()
    }
    c = max(plain, key=lambda c: plain[c])
    meta = {}
    for number_c in GRID:
        counter = OneVsRest(c=number_c, n_jobs=n_jobs)
        meta[number_c] = MetaLabeler(model=rankings[c], counter=counter).fit(kept.X, kept.Y).score(check.X, check.Y)
    tell(plain_by_c={str(k): v for k, v in plain.items()}, metalabeler_by_c={str(k): v for k, v in meta.items()})
    return c, max(meta, key=lambda c: meta[c])


def methods(ranking: OneVsRest, number: OneVsRest, fitted: OneVsRest) -> dict[str, SetModel]:
    """The rows of the tables; what needs no scores of new points takes the ranking that is trained already."""
    deep: dict[str, Any] = {"candidates": CANDIDATES}
    return {
        "plain": Threshold(model=fitted, threshold=0.0, **deep),
        "RCut floor": RCut(model=fitted, k="floor"),
        "RCut ceiling": RCut(model=fitted, k="ceiling"),
        "PCut": PCut(model=fitted, **deep),
        "SCut micro": SCut(model=ranking, metric="micro-F1", **deep),
        "SCut macro": SCut(model=ranking, metric="macro-F1", **deep),
        "SCutFBR.1 micro": SCut(model=ranking, metric="micro-F1", fbr=0.3, **deep),
        "one threshold": Threshold(model=ranking, **deep),
        "MetaLabeler content": MetaLabeler(model=fitted, counter=number),
        "MetaLabeler scores": MetaLabeler(model=ranking, counter=number, on="scores", **deep),
        "MetaLabeler scores, calibrated": MetaLabeler(
            model=ranking, counter=number, on="scores", calibrated=True, **deep
        ),
        "MetaLabeler ranks": MetaLabeler(model=ranking, counter=number, on="ranks", **deep),
        "MetaLabeler ranks, calibrated": MetaLabeler(
            model=ranking, counter=number, on="ranks", calibrated=True, **deep
        ),
        "precision of 0.9": TargetCut(model=ranking, goal=0.9, **deep),
    }


def measure(name: str, n_jobs: int) -> None:
    """One table."""
    train, test = SETS[name]()
    tell(set=name, train=len(train), test=len(test), labels=train.Y.n_cols, labels_a_point=train.Y.nnz / len(train))
    c, number_c = best_c(train, n_jobs)
    ranking, number = OneVsRest(c=c, n_jobs=n_jobs), OneVsRest(c=number_c, n_jobs=n_jobs)
    start = time.perf_counter()
    fitted = OneVsRest(c=c, n_jobs=n_jobs).fit(train.X, train.Y)
    tell(set=name, c=c, number_c=number_c, ranking_s=time.perf_counter() - start)
    reports, seconds = {}, {}
    for row, method in methods(ranking, number, fitted).items():
        method.fit(train.X, train.Y)
        found = set_report(method.predict(test.X), test.Y)
        reports[row], seconds[row] = found, method.tuning_seconds_
        figures = {n: 100 * found[n].value for n in ("exact match", "micro-F1", "macro-F1", "precision", "recall")}
        tell(set=name, method=row, **figures, tuning_s=method.tuning_seconds_)
    ours = "MetaLabeler content"
    for peer in ("plain", "RCut floor", "RCut ceiling", "SCut micro", "SCut macro"):
        gains = {m: str(paired_difference(reports[ours], reports[peer], m)) for m in ("exact match", "micro-F1")}
        tell(set=name, gain_over=peer, **gains, time_ratio=seconds[ours] / max(seconds[peer], 1e-9))


def main() -> None:
    """Measure the sets asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("sets", nargs="*", choices=[*SETS, []], help="all, unless named")
    parser.add_argument("--small", action="store_true", help="without debian-tags")
    parser.add_argument("--jobs", type=int, default=2, help="threads")
    asked = parser.parse_args()
    need_data()
    for name in asked.sets or [name for name in SETS if not (asked.small and name == "debian-tags")]:
        measure(name, asked.jobs)


if __name__ == "__main__":
    main()
