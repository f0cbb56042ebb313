"""What jobs ask of a cluster: five functions, so that the engine below can be exchanged; and one that is this process.

A task is a function of a module, or a `functools.partial` of one with small arguments; it must be pure, since it may
run twice, and what it gives must be a function of its arguments alone. Values are arrays, named tuples and lists of
these, paths, numbers. **Arrays that come from another task are read-only**: kernels want writable ones, so join or copy
them first.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, Protocol

import numpy as np

from broadmatch import progress
from broadmatch.errors import ClusterFailed
from broadmatch.parallel import map_threads

Item = tuple[Any, ...]


class Ref:
    """A result that stands somewhere in the cluster, or will; `title` names the work that makes it."""

    __slots__ = ("held", "title")

    def __init__(self, held: Any, title: str) -> None:
        self.held, self.title = held, title


class Engine(Protocol):
    """Where jobs run. All waits have time limits; what fails is an error of one sentence.

    `memory` is the most bytes that one task needs beside its arguments; a request that no node can ever meet is an
    error at once. `title` is what people read while it runs.
    """

    def map(self, task: Callable[..., Any], items: Iterable[Item], *, memory: int, title: str) -> list[Ref]:
        """Start task(*item) for each item; a Ref in an item arrives as its value."""
        ...

    def shuffle(
        self, task: Callable[..., Sequence[Any]], items: Iterable[Item], n_parts: int, *, memory: int, title: str
    ) -> list[list[Ref]]:
        """Start task(*item), which gives `n_parts` pieces, for each item; found[part][item] are the pieces."""
        ...

    def reduce(self, task: Callable[..., Any], parts: Iterable[Sequence[Ref]], *, memory: int, title: str) -> list[Ref]:
        """Start task(number of the part, its pieces as a list, in their order) for each part."""
        ...

    def progress(self, refs: Sequence[Ref], *, title: str, unit: str) -> None:
        """Wait until all are there, with a bar; the first error is raised."""
        ...

    def get(self, refs: Sequence[Ref]) -> list[Any]:
        """The values, in the order of the refs."""
        ...


class ThreadEngine:
    """An engine that is this process, with threads: for tests, and for jobs in shards on one machine.

    >>> engine = ThreadEngine()
    >>> pieces = engine.shuffle(divmod, [(7, 2), (9, 4)], 2, memory=0, title="Dividing")
    >>> engine.get([ref for part in pieces for ref in part])
    [3, 2, 1, 1]
    """

    def __init__(self, n_jobs: int | None = None, memory: int | None = None) -> None:
        self.n_jobs, self.memory = n_jobs, memory

    def map(self, task: Callable[..., Any], items: Iterable[Item], *, memory: int, title: str) -> list[Ref]:
        """See `Engine.map`; it ends with the last task."""
        if self.memory is not None and memory > self.memory:
            raise ClusterFailed(too_large(title, memory, self.memory))

        def run(item: Item) -> Ref:
            return Ref(_frozen(task(*(one.held if isinstance(one, Ref) else one for one in item))), title)

        return list(map_threads(run, items, self.n_jobs))

    def shuffle(
        self, task: Callable[..., Sequence[Any]], items: Iterable[Item], n_parts: int, *, memory: int, title: str
    ) -> list[list[Ref]]:
        """See `Engine.shuffle`."""
        made = [ref.held for ref in self.map(task, items, memory=memory, title=title)]
        if any(len(pieces) != n_parts for pieces in made):
            raise ValueError(f"{title}: a task gave another number of pieces than {n_parts}.")
        return [[Ref(pieces[part], title) for pieces in made] for part in range(n_parts)]

    def reduce(self, task: Callable[..., Any], parts: Iterable[Sequence[Ref]], *, memory: int, title: str) -> list[Ref]:
        """See `Engine.reduce`."""
        items = ((number, [piece.held for piece in pieces]) for number, pieces in enumerate(parts))
        return self.map(task, items, memory=memory, title=title)

    def progress(self, refs: Sequence[Ref], *, title: str, unit: str) -> None:
        """See `Engine.progress`: all are there."""
        with progress.task(title, total=len(refs), unit=unit) as bar:
            bar.advance(len(refs))

    def get(self, refs: Sequence[Ref]) -> list[Any]:
        """See `Engine.get`."""
        return [ref.held for ref in refs]


def too_large(title: str, memory: int, most: int) -> str:
    """The sentence for a task that no node has room for.

    >>> too_large("Growing trees", 3_000_000_000, 2_000_000_000)[:49]
    'Growing trees needs 3.0 GB of memory a task, and '
    """
    return (
        f"{title} needs {memory / 1e9:.1f} GB of memory a task, and no node has more than {most / 1e9:.1f} GB: "
        "give nodes more --memory, or lower subtree_rows."
    )


def _frozen(value: Any) -> Any:
    """The value with its arrays read-only, as they are where they come through another process's memory."""
    if isinstance(value, np.ndarray):
        view = value.view()
        view.flags.writeable = False
        return view
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return type(value)(*map(_frozen, value))
    return type(value)(map(_frozen, value)) if isinstance(value, tuple | list) else value
