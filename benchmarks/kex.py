"""Phrases from the page: KEX against YAKE and tf-idf n-grams, in the same run, on abstracts and on real HTML.

    python -m benchmarks.kex            # all documents in 5 folds; YAKE on every tenth
    python -m benchmarks.kex --odd      # only the half of each set that no setting was chosen on
    python -m benchmarks.kex --small    # 200 documents of each set

Inspec (abstracts; controlled and uncontrolled phrases together) and the keywords of libreoffice-help (index entries,
cut at commas; they stand in `itemprop` attributes, which nobody here reads). F1@5/10/15: exact match of Porter stems;
all gold phrases count, also those that are not on the page; what is the same after stemming counts once. Speed is CPU
time from text to phrases, on one thread. `shape` is the learned noun phrase; `untrained` has weights set by hand.
"""

import argparse
import functools
import re
import time
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from benchmarks.common import lines, need_data, tell
from broadmatch.labels import KEX

FOLDS, DEPTHS, MOST = 5, (5, 10, 15), 20
Pages, Gold = list[Any], list[list[str]]


@functools.cache
def stem(word: str) -> str:
    """Porter's stem."""
    import snowballstemmer

    return str(snowballstemmer.stemmer("porter").stemWord(word))


def stems_of(phrases: Iterable[str]) -> list[str]:
    """Phrases as Porter stems, each once, in their order."""
    stemmed = (" ".join(map(stem, re.findall(r"\w+", phrase.lower()))) for phrase in phrases)
    return [phrase for phrase in dict.fromkeys(stemmed) if phrase]


def f1(ranked: Iterable[str], gold: Iterable[str], depths: Iterable[int] = DEPTHS) -> list[float]:
    """F1 of the first k phrases, for each depth k."""
    found, wanted = stems_of(ranked), set(stems_of(gold))
    hits = [len(wanted & set(found[:k])) for k in depths]
    return [2 * hit / (len(found[:k]) + len(wanted)) if hit else 0.0 for hit, k in zip(hits, depths, strict=True)]


def inspec() -> tuple[Pages, Gold]:
    found = list(lines("inspec/documents.jsonl.gz"))
    return [one["text"] for one in found], [one["keyphrases"] for one in found]


def libreoffice() -> tuple[Pages, Gold]:
    found = [page for page in lines("libreoffice-help/pages.jsonl.gz") if page["keywords"]]
    gold = [[part for keyword in page["keywords"] for part in keyword.split(",")] for page in found]
    return [(page["path"], page["html"]) for page in found], gold


SETS: dict[str, Callable[[], tuple[Pages, Gold]]] = {"inspec": inspec, "libreoffice-help": libreoffice}


def text_of(page: Any) -> str:
    """The text of a page for extractors that take no HTML; what is text already stays."""
    if isinstance(page, str):
        return page
    from selectolax.lexbor import LexborHTMLParser

    tree = LexborHTMLParser(page[1])
    tree.strip_tags(["script", "style"])
    return str(tree.root.text(separator="\n"))


def in_folds(pages: Pages, gold: Gold, **settings: Any) -> tuple[list[list[float]], list[list[float]], float]:
    """F1 of each page's ranking and set by a model that has not seen it, and the CPU seconds of recommending."""
    ranked: list[Any] = [None] * len(pages)
    sets: list[Any] = [None] * len(pages)
    seconds = 0.0
    for fold in range(FOLDS):
        train = [i for i in range(len(pages)) if i % FOLDS != fold]
        test = [i for i in range(len(pages)) if i % FOLDS == fold]
        model = KEX(n_jobs=1, **settings).fit([pages[i] for i in train], [gold[i] for i in train])
        asked = [pages[i] for i in test]
        start = time.process_time()
        found = list(model.recommend(asked, MOST))
        seconds += time.process_time() - start
        for i, best, whole in zip(test, found, model.recommend(asked, None), strict=True):
            ranked[i] = f1([one.phrase for one in best.phrases], gold[i])
            sets[i] = [*f1([one.phrase for one in whole.phrases], gold[i], [10**9]), len(whole.phrases)]
    return ranked, sets, seconds


def yake_f1(pages: Pages, gold: Gold) -> list[list[float]]:
    """YAKE as it comes: phrases of up to three words."""
    import yake

    extractor = yake.KeywordExtractor(lan="en", n=3, top=MOST)
    return [
        f1([phrase for phrase, _ in extractor.extract_keywords(text_of(p))], g)
        for p, g in zip(pages, gold, strict=True)
    ]


def tf_idf_f1(pages: Pages, gold: Gold) -> list[list[float]]:
    """scikit-learn's tf-idf of n-grams of up to three words without stop words, fitted on all pages."""
    from sklearn.feature_extraction.text import TfidfVectorizer

    vectorizer = TfidfVectorizer(ngram_range=(1, 3), stop_words="english")
    rows = vectorizer.fit_transform([text_of(page) for page in pages]).tocsr()
    names, found = vectorizer.get_feature_names_out(), []
    for i, wanted in enumerate(gold):
        row = rows[i]
        best = np.argsort(-row.data, kind="stable")[:MOST]
        found.append(f1(names[row.indices[best]], wanted))
    return found


def report(data: str, side: str, scores: list[list[float]], **more: Any) -> list[float]:
    """Tell the mean F1 of a side in percent."""
    mean = [round(100 * float(value), 2) for value in np.mean(scores, axis=0)]
    tell(
        benchmark="kex: F1",
        set=data,
        side=side,
        documents=len(scores),
        **dict(zip(("f1@5", "f1@10", "f1@15"), mean, strict=True)),
        **more,
    )
    return mean


def measure(data: str, small: bool, odd: bool) -> None:
    """All sides on one set."""
    pages, gold = SETS[data]()
    if odd:
        pages, gold = pages[1::2], gold[1::2]
    if small:
        pages, gold = pages[:200], gold[:200]
    sample = list(range(0, len(pages), 1 if small else 10))
    ranked, sets, seconds = in_folds(pages, gold)
    mean_set = np.mean(sets, axis=0)
    facts = {"f1 of sets": round(100 * float(mean_set[0]), 2), "phrases of a set": round(float(mean_set[1]), 2)}
    report(data, "KEX", ranked, **facts)
    report(data, "KEX, no shape", in_folds(pages, gold, shape=False)[0])
    untrained = list(KEX.untrained(n_jobs=1).recommend(pages, MOST))
    by_hand = [f1([p.phrase for p in found.phrases], g) for found, g in zip(untrained, gold, strict=True)]
    report(data, "KEX, untrained", by_hand)
    report(data, "tf-idf n-grams", tf_idf_f1(pages, gold))
    start = time.process_time()
    theirs = yake_f1([pages[i] for i in sample], [gold[i] for i in sample])
    rate = len(sample) / (time.process_time() - start)
    peer = report(data, "YAKE, sample", theirs)
    for side, scores in (("KEX, sample", ranked), ("KEX, untrained, sample", by_hand)):
        ours = report(data, side, [scores[i] for i in sample])
        tell(benchmark="kex: times YAKE's F1@10", set=data, side=side, ratio=ours[1] / peer[1])
    words = float(np.mean([len(text_of(page).split()) for page in pages[:200]]))
    tell(benchmark="kex: speed", set=data, documents_a_second=len(pages) / seconds, words_a_document=words, yake=rate)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="200 documents of each set")
    parser.add_argument("--odd", action="store_true", help="the odd documents only: settings were chosen on the even")
    parser.add_argument("--set", choices=SETS, help="one of the sets only")
    options = parser.parse_args()
    need_data()
    list(KEX(n_jobs=1).fit(["a red bus", "a blue car"], [["red bus"], ["blue car"]]).recommend("a red bus"))  # compiled
    for data in [options.set] if options.set else SETS:
        measure(data, options.small, options.odd)


if __name__ == "__main__":
    main()
