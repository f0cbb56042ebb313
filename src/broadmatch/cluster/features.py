"""Page features over shards of pages: words are counted by shard, added up by hash of the word, and weighed by shard.

The vocabulary is in the order of the words and a row holds its words in the order of the page, so that the features are
the same bits for any shards. (Pairs of words are counted exactly here; one machine forgets rare ones where there are
more than 16 million words and pairs, and has fewer of them then.)
"""

import copy
from collections.abc import Iterator, Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from broadmatch.cluster.engine import Engine, Ref
from broadmatch.cluster.inputs import PageShard, page_shards
from broadmatch.cluster.shards import stacked
from broadmatch.data import CSR, Names
from broadmatch.features import PageVectorizer
from broadmatch.features.word_counts import CountedPages, Vocabulary, WordTotals
from broadmatch.io import PageSource
from broadmatch.io.rejects import PartRejects, Rejected, Rejects
from broadmatch.kernels import I64

MEMORY = 1 << 30
"""Bytes that a task may take for the words of its pages."""
_UPPER = np.uint64(32)  # the lower bits of a hash say where a word stands in a table


class PageNames(NamedTuple):
    """The names of the good pages of a shard, in order, and what was rejected."""

    text: Any
    offsets: I64
    rejected: Rejected

    @property
    def names(self) -> Names:
        """The names."""
        return Names(self.text, self.offsets)


class ShardedPages:
    """A source of pages in shards, of which the names are known: those that come twice are found over all shards."""

    def __init__(self, engine: Engine, pages: PageSource, n_shards: int, memory: int = MEMORY) -> None:
        self.engine, self.memory, self.shards = engine, memory, page_shards(pages, n_shards)
        rejects = pages.rejects
        self.seen: list[Names] = [Names.of([]) for _ in self.shards]
        self._read = partial(_names, keep=rejects.path is not None, most=rejects.max_bad_rows)
        found = self._named(range(len(self.shards)))
        seen: set[str] = set()
        twice = []
        for number, part in enumerate(found):
            names = set(part.names)
            if again := seen & names:
                self.seen[number] = Names.of(sorted(again))
                twice.append(number)
            seen |= names
        for number, part in zip(twice, self._named(twice), strict=True):
            found[number] = part
        self.names = [part.names for part in found]
        for part in found:
            rejects.take_over(part.rejected)
        rejects.finish(sum(map(len, self.names)))

    def _named(self, numbers: Sequence[int]) -> list[PageNames]:
        items = [(self.shards[number], self.seen[number]) for number in numbers]
        refs = self.engine.map(self._read, items, memory=self.memory, title="Reading the names of pages")
        self.engine.progress(refs, title="Reading the names of pages", unit="shards")
        return self.engine.get(refs)

    def __iter__(self) -> Iterator["NumberedPage"]:
        """The names with the shard and the number of each page, in order."""
        for shard, names in enumerate(self.names):
            for number, name in enumerate(names):
                yield NumberedPage(name, (shard, number))

    def features(
        self, vectorizer: PageVectorizer, train: list[tuple[int, int]], test: list[tuple[int, int]]
    ) -> tuple[CSR, CSR]:
        """Fit the vectorizer on some of the pages and give their rows, and those of others, as they were numbered."""
        how: dict[str, Any] = {"memory": self.memory, "title": "Counting words"}
        n = len(self.shards)
        train_at, test_at = (np.array(pages, np.int64).reshape(-1, 2) for pages in (train, test))
        chosen = [[at[at[:, 0] == shard, 1] for at in (train_at, test_at)] for shard in range(n)]
        items = [
            (shard, seen, vectorizer, *some) for shard, seen, some in zip(self.shards, self.seen, chosen, strict=True)
        ]
        counted, *words = self.engine.shuffle(partial(_count, n_parts=n), items, n + 1, **how)
        self.engine.progress(counted, title="Counting words", unit="shards")
        least = vectorizer.least_pages(len(train))
        totals = self.engine.get(self.engine.reduce(partial(_add, least=least), words, **how))
        vectorizer.learn(totals, len(train))
        how["title"] = "Weighing words"
        return self._joined(vectorizer, counted, how)

    def _joined(self, vectorizer: PageVectorizer, counted: list[Ref], how: dict[str, Any]) -> tuple[CSR, CSR]:
        refs = self.engine.map(_weigh_words, [(vectorizer, one) for one in counted], **how)
        self.engine.progress(refs, title="Weighing words", unit="shards")
        train, test = map(list, zip(*self.engine.get(refs), strict=True))
        return stacked(train), stacked(test)


class NumberedPage(NamedTuple):
    """A page whose HTML stands elsewhere: in that shard, it is the page of that number."""

    name: str
    html: tuple[int, int]


def features_in_shards(
    engine: Engine, pages: PageSource, vectorizer: PageVectorizer, *, n_shards: int = 2, memory: int = MEMORY
) -> CSR:
    """`vectorizer.fit_transform` of the HTML of all pages, over shards of them: the same bits.

    >>> from pathlib import Path
    >>> from broadmatch.cluster import ThreadEngine
    >>> for name, text in (("a", "fresh pizza"), ("b", "pizza pasta")):
    ...     _ = Path(f"{name}.html").write_text(text)
    >>> vectorizer = PageVectorizer(min_pages=1)
    >>> source = PageSource(["a.html", "b.html"])
    >>> features_in_shards(ThreadEngine(), source, vectorizer).to_scipy().toarray().round(2)
    array([[0.81, 0.  , 0.58],
           [0.  , 0.81, 0.58]], dtype=float32)
    """
    read = ShardedPages(engine, pages, n_shards, memory)
    return read.features(vectorizer, [page.html for page in read], [])[0]


# Tasks.


def _names(shard: PageShard, seen: Names, *, keep: bool, most: int | None) -> PageNames:
    """The names of the good pages of a shard; those `seen` came in an earlier one."""
    rejects = PartRejects(keep=keep, max_bad_rows=most)
    names = Names.of([page.name for page in shard.read(rejects, seen)])
    return PageNames(names.text, names.offsets, rejects.rejected)


def _count(
    shard: PageShard, seen: Names, vectorizer: PageVectorizer, train: I64, test: I64, *, n_parts: int
) -> list[Any]:
    """The counted words of the pages to fit on and of the others; then the words to fit on by their hashes."""
    own = copy.copy(vectorizer)
    own.n_jobs = 1
    fitted, others = (own.count(_html(shard, seen, chosen)) for chosen in (train, test))
    part = (fitted.words.hashes >> _UPPER) % np.uint64(n_parts)
    return [[fitted, others], *(fitted.words.take(np.flatnonzero(part == p)) for p in range(n_parts))]


def _html(shard: PageShard, seen: Names, chosen: I64) -> Iterator[bytes]:
    """The HTML of the good pages with these numbers, which rise."""
    wanted = iter(chosen.tolist())
    following = next(wanted, None)
    pages = shard.read(Rejects(), seen) if following is not None else iter(())
    for number, page in enumerate(pages):
        if number == following:
            yield page.html
            following = next(wanted, None)
        if following is None:
            return


def _add(part: int, pieces: list[WordTotals], *, least: int) -> WordTotals:
    """The words of a part that are on enough pages of all shards."""
    seen = Vocabulary()
    for piece in pieces:
        seen.add_totals(piece)
    totals = seen.totals
    return totals.take(np.flatnonzero(totals.pages >= least))


def _weigh_words(vectorizer: PageVectorizer, counted: list[CountedPages]) -> list[CSR]:
    """The rows of the pages that were fitted on, and of the others."""
    own = copy.copy(vectorizer)
    own.idf_ = np.array(vectorizer.idf_)  # a copy, for what comes from another task is read-only
    return [own.weigh(pages) for pages in counted]
