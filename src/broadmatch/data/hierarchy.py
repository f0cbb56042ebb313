"""Named categories in a tree, or in a DAG where a category has several parents."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Annotated, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch.data.convert import check_structure
from broadmatch.data.csr import CSR, gathered, offsets
from broadmatch.data.names import Names
from broadmatch.errors import BadInput
from broadmatch.layout import Axes, Index, Offsets, require
from broadmatch.parallel import blocks
from broadmatch.state import State, unpack

if TYPE_CHECKING:
    import scipy.sparse as sp  # at run time only where it is used: click models do without

_CELLS = 1 << 22  # entries that are worked on at a time
_SHOWN = 20  # members of a cycle that an error names
_SAVED = {
    "names": Annotated[Names, Axes("categories")],
    "parent_ptr": Annotated[NDArray[np.int64], Offsets("categories", "links")],
    "parents": Annotated[NDArray[np.int32], Axes("links"), Index("categories")],
}


class Lists(tuple[NDArray[np.int64], NDArray[np.int32]]):
    """A list of category numbers for each category, in two arrays: where each list starts, and all lists in a row."""

    __slots__ = ()

    @classmethod
    def of(cls, lists: Sequence[Sequence[int] | NDArray[np.int32]]) -> "Lists":
        """Pack lists."""
        flat = [np.asarray(one, np.int32) for one in lists if len(one)]
        return cls((offsets([len(one) for one in lists]), np.concatenate([np.empty(0, np.int32), *flat])))

    def at(self, i: int) -> NDArray[np.int32]:
        """The list of one category."""
        ptr, flat = self
        return flat[ptr[i] : ptr[i + 1]]


@dataclass(frozen=True, eq=False)
class Hierarchy:
    """Categories by number, and the parents of each; a category without parents is a root.

    >>> h = Hierarchy.of({"food": [], "pizza": ["food"], "oven": [], "pizza oven": ["oven", "pizza"]})
    >>> h.depth.tolist()
    [1, 2, 1, 3]
    >>> [h.names[i] for i in h.ancestors.at(3)]
    ['food', 'pizza', 'oven', 'pizza oven']
    """

    names: Names
    parents: Lists

    @classmethod
    def of(cls, parents: Mapping[str, Sequence[str]]) -> "Hierarchy":
        """Take the parents of each category by name; every parent has to be a category, and none is below itself."""
        if not parents:
            raise BadInput("The hierarchy is empty; it needs one category at least.")
        number = {name: i for i, name in enumerate(parents)}
        lists = []
        for name, above in parents.items():
            if isinstance(above, str) or not all(isinstance(parent, str) for parent in above):
                raise BadInput(f"{name!r} must have a list of names of parents, but it has {above!r}.")
            for parent in above:
                if parent not in number:
                    raise BadInput(f"{name!r} has the parent {parent!r}, which is not a category; add it as one.")
            if len(set(above)) < len(above):
                twice = next(parent for parent in above if list(above).count(parent) > 1)
                raise BadInput(f"{name!r} has the parent {twice!r} twice; name each parent once.")
            lists.append(sorted(number[parent] for parent in above))
        found = cls(Names.of(parents), Lists.of(lists))
        found._refuse_cycles()
        return found

    @property
    def n_categories(self) -> int:
        """How many categories there are."""
        return len(self.names)

    @cached_property
    def children(self) -> Lists:
        """The categories just below each."""
        below: list[list[int]] = [[] for _ in range(self.n_categories)]
        for i in range(self.n_categories):
            for parent in self.parents.at(i).tolist():
                below[parent].append(i)
        return Lists.of(below)

    @cached_property
    def roots(self) -> NDArray[np.int32]:
        """The categories without parents."""
        return np.flatnonzero(np.diff(self.parents[0]) == 0).astype(np.int32)

    @cached_property
    def depth(self) -> NDArray[np.int64]:
        """1 for a root, and for others one more than for the deepest of their parents; so parents are less deep."""
        return self._layers()[0]

    @cached_property
    def ancestors(self) -> Lists:
        """The categories above each, however far, and the category itself, ascending."""
        found: list[NDArray[np.int32]] = [np.empty(0, np.int32)] * self.n_categories
        for i in np.argsort(self.depth, kind="stable").tolist():
            above = [found[parent] for parent in self.parents.at(i).tolist()]
            found[i] = np.unique(np.concatenate([np.array([i], np.int32), *above]))
        return Lists.of(found)

    def above(self, category: int) -> NDArray[np.int32]:
        """The categories above one, however far, and itself, ascending."""
        found, new = {category}, [category]
        while new:
            new = [parent for i in new for parent in self.parents.at(i).tolist() if parent not in found]
            found.update(new)
        return np.array(sorted(found), np.int32)

    def number(self, name: str) -> int:
        """The number of a category."""
        if name not in self.names:
            raise BadInput(f"{name!r} is not one of the {self.n_categories:,} categories of the hierarchy.")
        return self.names.index(name)

    def to_state(self) -> State:
        """Give names and parents to `broadmatch.io.artifacts.save`."""
        ptr, parents = self.parents
        arrays: dict[str, NDArray[Any]] = {"parent_ptr": ptr, "parents": parents}
        arrays |= {"names_text": self.names.text, "names_offsets": self.names.offsets}
        return State("hierarchy", {}, arrays)

    @classmethod
    def from_state(cls, state: State) -> "Hierarchy":
        """The hierarchy that was saved."""
        names, *parents = unpack(_SAVED, state).values()
        from scipy.sparse import csgraph, csr_matrix

        (ptr, above), n = parents, len(names)
        graph = csr_matrix((np.ones(len(above), np.int8), above, ptr), shape=(n, n))
        alone = csgraph.connected_components(graph, connection="strong")[0] == n and not graph.diagonal().any()
        require(bool(alone), "a category is below itself")
        return cls(names, Lists((ptr, above)))

    @property
    def _saved_shape(self) -> tuple[int]:
        return (self.n_categories,)

    def _layers(self) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """The depth of each category, and how many of its parents have none, for they are in a cycle or below one."""
        depth = np.zeros(self.n_categories, np.int64)
        waiting = np.diff(self.parents[0]).copy()
        ready, at = self.roots.tolist(), 1
        while ready:
            depth[ready] = at
            after = []
            for i in ready:
                for child in self.children.at(i).tolist():
                    waiting[child] -= 1
                    if not waiting[child]:
                        after.append(child)
            ready, at = after, at + 1
        return depth, waiting

    def _refuse_cycles(self) -> None:
        _, waiting = self._layers()
        stuck = np.flatnonzero(waiting)
        if not len(stuck):
            return
        # Every category that waits has a parent that waits: going up from one, some category comes again.
        path, i = [], int(stuck[0])
        while i not in path:
            path.append(i)
            i = next(parent for parent in self.parents.at(i).tolist() if waiting[parent])
        ring = [repr(self.names[member]) for member in path[path.index(i) :]]
        shown = ring if len(ring) <= _SHOWN else [*ring[:_SHOWN], f"… ({len(ring)} in all)"]
        raise BadInput(
            f"The hierarchy has a cycle: {' is below '.join([*shown, ring[0]])}; no category can be below itself, "
            "so take one of these lines out."
        )


def with_ancestors(sets: Any, hierarchy: Hierarchy) -> "sp.csr_matrix":
    """The sets of points (points × categories) with all categories above those in them.

    The value of an ancestor is the highest of what brought it in. A stored entry is in the set, whatever its value.

    >>> h = Hierarchy.of({"food": [], "pizza": ["food"], "oven": []})
    >>> with_ancestors(CSR.from_rows([[1], [2]], n_cols=3), h).toarray()
    array([[1., 1., 0.],
           [0., 0., 1.]], dtype=float32)
    """
    import scipy.sparse as sp

    if not isinstance(sets, CSR):
        if not sp.issparse(sets):
            raise BadInput(f"sets must be a CSR or a scipy sparse matrix, but it is a {type(sets).__name__}.")
        sets = CSR.stored(sets)
    check_structure(sets, "sets")
    return add_ancestors(sets, hierarchy).to_scipy()


def add_ancestors(sets: CSR, hierarchy: Hierarchy) -> CSR:
    """As `with_ancestors`, from and to CSR that are not checked but for the number of categories."""
    if sets.n_cols != hierarchy.n_categories:
        raise BadInput(
            f"The sets have {sets.n_cols:,} columns, but the hierarchy has {hierarchy.n_categories:,} categories; "
            "they must be the same, in the same order."
        )
    per_row = max(1.0, sets.nnz / max(sets.n_rows, 1)) * max(1.0, len(hierarchy.ancestors[1]) / sets.n_cols)
    spans = blocks(sets.n_rows, int(_CELLS / per_row) + 1)
    return CSR.of_blocks((_added(sets, start, stop, hierarchy) for start, stop in spans), sets.n_cols)


def _added(
    sets: CSR, start: int, stop: int, hierarchy: Hierarchy
) -> tuple[NDArray[np.int64], NDArray[np.int32], NDArray[np.float32]]:
    """Lengths, categories and values of some rows."""
    ptr, flat = hierarchy.ancestors
    here = slice(int(sets.indptr[start]), int(sets.indptr[stop]))
    own, value = sets.indices[here], sets.data[here]
    row = np.repeat(np.arange(stop - start), np.diff(sets.indptr[start : stop + 1]))
    starts, where = gathered(ptr, own)
    lengths = np.diff(starts)
    key = np.repeat(row, lengths) * sets.n_cols + flat[where]
    values = np.repeat(value, lengths)
    order = np.argsort(key, kind="stable")
    key, values = key[order], values[order]
    firsts = np.flatnonzero(np.diff(key, prepend=-1))
    highest = np.maximum.reduceat(values, firsts) if len(firsts) else values
    found_row, category = np.divmod(key[firsts], sets.n_cols)
    return np.bincount(found_row, minlength=stop - start), category.astype(np.int32), highest
