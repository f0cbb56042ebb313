"""Which ads bid on which phrases, from a table of any format."""

from collections.abc import Mapping, Sequence
from typing import ClassVar

from broadmatch.io import ClickLog


class BidTable(ClickLog):
    """The bid phrases of ads: one row for a phrase of an ad, or of a campaign, or of a landing page.

    A `ClickLog` with other usual names of its two columns: `query` is the bid phrase, `page` what bids on it.

    >>> from pathlib import Path
    >>> _ = Path("bids.csv").write_text("Ad group,Keyword\\nspring,pizza delivery\\nspring,pizza\\n")
    >>> [batch.column("query").to_pylist() for batch in BidTable("bids.csv").read()]
    [['pizza delivery', 'pizza']]
    """

    usual: ClassVar[Mapping[str, Sequence[str]]] = {
        "query": ("phrase", "bid phrase", "keyword", "search keyword", "query"),
        "page": ("page", "ad", "ad id", "ad group", "final url", "landing page", "url", "campaign"),
    }
