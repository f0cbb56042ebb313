"""What is known of queries, as the columns that click models read."""

from collections.abc import Collection, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from broadmatch.ads.index._postings import count_words
from broadmatch.data import Names
from broadmatch.errors import BadInput
from broadmatch.io.values import arrow_of, names_to_arrow, texts_to_arrow


def refuse_own(context: Mapping[str, Any], own: Collection[str]) -> None:
    """Refuse a context that says what the engine itself knows."""
    for name in context:
        if name in own:
            raise BadInput(f"The engine fills in {name!r} itself; call what else is known of a query otherwise.")


def first_words(text: str, most: int) -> str:
    """The first words of a normalised text."""
    return text if text.count(" ") < most else " ".join(text.split(" ", most)[:most])


def context_columns(queries: Names, context: Mapping[str, Any], most: int) -> dict[str, Any]:
    """The columns of queries and of what is known of them, as Arrow arrays; of a query its first words count."""
    n, columns = len(queries), {"query": names_to_arrow(_shortened(queries, most))}
    for name, values in context.items():
        columns[name] = column = _arrow(values)
        if len(column) != n:
            raise BadInput(f"The context {name!r} has {len(column):,} values for {n:,} queries; give one each.")
    return columns


def _arrow(values: Any) -> Any:
    """A column of texts, numbers or flags in any form as an Arrow array."""
    if isinstance(values, pa.Array):
        return values
    if isinstance(values, pa.ChunkedArray):
        return values.combine_chunks()
    if isinstance(values, Names):
        return names_to_arrow(values)
    if isinstance(values, np.ndarray) and values.ndim == 1 and values.dtype.kind in "iufb":
        return arrow_of(values)
    plain = values.tolist() if isinstance(values, np.ndarray) else list(values)
    if all(value is None or isinstance(value, str) for value in plain):
        return texts_to_arrow(plain)
    try:
        return pa.array(plain)
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise BadInput(f"A context must be texts, numbers or flags of one kind: {error}.") from error


def _shortened(queries: Names, most: int) -> Names:
    counts = np.empty(len(queries), np.int64)
    text = np.require(queries.text, requirements="W") if len(queries.text) else np.zeros(1, np.uint8)
    count_words(text, queries.offsets[:-1], queries.offsets[1:], counts)
    if counts.max(initial=0) <= most:
        return queries
    return Names.of([first_words(query, most) for query in queries])
