"""Pages to TF-IDF: broadmatch against scikit-learn's TfidfVectorizer with selectolax, in the same run, one core each.

    python -m benchmarks.features            # libreoffice-help repeated to 100,000 pages
    python -m benchmarks.features --small    # to 5,000

Both sides get the same bytes, drop the same stop words and the words on fewer than ten pages, and give the same
words (checked). The peer comes in two kinds: `text` is the cheapest there is, all text once, no boost; `boosted`
repeats the title and the links so that their words count ten times as they do on our side.
"""

import argparse
import gzip
import itertools
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PAGES = Path(__file__).parents[2] / "shared" / "data" / "libreoffice-help" / "pages.jsonl.gz"
BOOST, MIN_PAGES = 10, 10
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")


def read_pages(n: int) -> list[bytes]:
    """The raw pages, repeated until there are n."""
    with gzip.open(PAGES, "rt", encoding="utf-8") as lines:
        once = [json.loads(line)["html"].encode() for line in lines]
    return list(itertools.islice(itertools.cycle(once), n))


def page_text(page: bytes) -> str:
    """All text of a page, each piece once: the cheapest use of selectolax that gives the same words."""
    from selectolax.lexbor import LexborHTMLParser

    from tests.reference.html import UNSEEN

    tree = LexborHTMLParser(page)
    tree.strip_tags(list(UNSEEN))
    return str(tree.root.text(separator=" "))


def boosted_text(page: bytes) -> str:
    """All text of a page, its title and links ten times."""
    from selectolax.lexbor import LexborHTMLParser

    from tests.reference.html import UNSEEN

    tree = LexborHTMLParser(page)
    tree.strip_tags(list(UNSEEN))
    often = [node.text(separator=" ") for node in tree.css("title, a[href]")]
    return " ".join([tree.root.text(separator=" "), *(often * (BOOST - 1))])


def peer(text_of: Callable[[bytes], str]) -> Any:
    """scikit-learn's vectorizer with our stop words, on the text that selectolax gives; its own token pattern."""
    import numpy as np
    from sklearn.feature_extraction.text import TfidfVectorizer

    from broadmatch.features.stop_words import ENGLISH

    return TfidfVectorizer(
        preprocessor=lambda page: text_of(page).lower(), stop_words=sorted(ENGLISH), min_df=MIN_PAGES, dtype=np.float32
    )


def ours(boost: int) -> Any:
    from broadmatch.features import PageVectorizer

    return PageVectorizer(min_pages=MIN_PAGES, boost=boost, n_jobs=1)


SIDES: dict[str, Callable[[], Any]] = {
    "broadmatch": lambda: ours(BOOST),
    "peer, text": lambda: peer(page_text),
    "peer, boosted": lambda: peer(boosted_text),
}


def timed(call: Callable[[], Any]) -> tuple[float, Any]:
    start = time.perf_counter()
    result = call()
    return time.perf_counter() - start, result


def check_same_words(pages: list[bytes]) -> dict[str, Any]:
    """Both sides' vocabularies and matrices agree; the share of pages with the very same weighted words is told."""
    import numpy as np

    from broadmatch.features import bag_of_words
    from tests.reference.html import extract

    mine, theirs = ours(BOOST), peer(boosted_text)
    gap = abs(mine.fit_transform(pages) - theirs.fit_transform(pages))
    same = sum(bag_of_words(page, stop_words=None) == extract(page).words() for page in pages)
    return {
        "same_vocabulary": bool(np.array_equal(mine.get_feature_names_out(), theirs.get_feature_names_out())),
        "largest_difference": float(gap.max()),
        "pages_with_the_same_words": same,
        "pages": len(pages),
    }


def peak(side: str, n: int) -> float:
    """Megabytes at the peak of one fit and transform of a stream of n pages, in a process of its own."""
    code = f"from benchmarks.features import *; print(memory_of({side!r}, {n}))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return float(done.stdout)


def memory_of(side: str, n: int) -> float:
    """How far fit_transform over a stream of n pages lifts this process's memory at its peak, in megabytes."""
    pages = read_pages(n)
    SIDES[side]().fit_transform(pages[:50])
    clear = Path("/proc/self/clear_refs")
    clear.write_text("5")  # the peak so far is forgotten
    before = peak_so_far()
    SIDES[side]().fit_transform(iter(pages))
    return round(peak_so_far() - before, 1)


def peak_so_far() -> float:
    status = Path("/proc/self/status").read_text()
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--small", action="store_true", help="5,000 pages")
    parser.add_argument("--pages", type=int, help="how many pages")
    parser.add_argument("--rounds", type=int, default=3, help="how often each side runs, in turn; the best counts")
    options = parser.parse_args()
    n = options.pages or (5_000 if options.small else 100_000)
    os.environ.update(ONE_THREAD)
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
    pages = read_pages(n)
    megabytes = sum(map(len, pages)) / 1e6
    print(json.dumps({"benchmark": "features: same words", **check_same_words(list(dict.fromkeys(pages)))}))
    SIDES["broadmatch"]().fit(pages[:100]).transform(pages[:100])  # the kernels are compiled or opened here
    best: dict[tuple[str, str], float] = {}
    for _ in range(options.rounds):
        for side, make in SIDES.items():
            vectorizer = make()
            for step in ("fit_transform", "fit", "transform"):
                seconds, _result = timed(lambda v=vectorizer, s=step: getattr(v, s)(pages))
                best[side, step] = min(best.get((side, step), seconds), seconds)
    for (side, step), seconds in best.items():
        print(
            json.dumps(
                {
                    "benchmark": f"features: {step}",
                    "side": side,
                    "pages": n,
                    "cores": 1,
                    "seconds": round(seconds, 3),
                    "microseconds_a_page": round(seconds / n * 1e6, 1),
                    "pages_a_second": round(n / seconds),
                    "megabytes_a_second": round(megabytes / seconds, 1),
                    "times_as_fast_as_peer_text": round(best["peer, text", step] / seconds, 2),
                    "times_as_fast_as_peer_boosted": round(best["peer, boosted", step] / seconds, 2),
                }
            ),
            flush=True,
        )
    for side in SIDES:
        print(json.dumps({"benchmark": "features: memory", "side": side, "pages": n, "peak_megabytes": peak(side, n)}))


if __name__ == "__main__":
    main()
