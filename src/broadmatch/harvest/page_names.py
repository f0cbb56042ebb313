"""One name for pages whose addresses differ only in how a visitor came there, or in a slash at the end."""

import re
from collections import UserDict
from collections.abc import Iterable
from typing import TYPE_CHECKING, TypeVar

import numpy as np
from numpy.typing import NDArray

from broadmatch.data import Names
from broadmatch.io.duck import create_text_function

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

Value = TypeVar("Value")

TRACKING_PREFIXES = ("utm_", "mtm_", "matomo_", "hsa_")
TRACKING_PARAMETERS = frozenset(
    (
        # Google, Microsoft, Meta, Yandex, TikTok, X, LinkedIn, Pinterest, Snapchat, Reddit
        "gclid", "gclsrc", "dclid", "gbraid", "wbraid", "gad_source", "gad_campaignid", "srsltid", "_ga", "_gl", "_gac",
        "msclkid", "fbclid", "fb_action_ids", "fb_action_types", "fb_source", "fb_ref", "igshid", "igsh", "yclid",
        "ysclid", "_openstat", "ttclid", "twclid", "li_fat_id", "epik", "sccid", "scclid", "rdt_cid",
        # Mail, affiliates and analytics
        "mc_cid", "mc_eid", "_hsenc", "_hsmi", "hsctatracking", "mkt_tok", "ml_subscriber", "ml_subscriber_hash",
        "_kx", "_branch_match_id", "_bta_c", "_bta_tid", "vero_id", "oly_anon_id", "oly_enc_id", "s_cid", "s_kwcid",
        "ef_id", "cjevent", "irclickid", "irgwc", "awc", "wickedid", "zanpid", "piwik_campaign", "piwik_kwd",
        "pk_campaign", "pk_cid", "pk_content", "pk_keyword", "pk_kwd", "pk_medium", "pk_source",
    )
)  # fmt: skip
"""Parameters of an address that say how a visitor came to the page, not which page it is."""

PLAIN_PAGE = "CASE WHEN regexp_matches({0}, '[?]|/(#|$)') THEN plain_page({0}) ELSE {0} END"
"""SQL for `plain_page` of {0}, where `register_plain_page` made it known."""


def plain_page(name: str) -> str:
    """The name of a page without tracking parameters and slashes at the end; what is no address stays as it is.

    >>> plain_page("https://shop.example/pizza/?utm_source=mail&size=2&gclid=x"), plain_page("a.html"), plain_page("/")
    ('https://shop.example/pizza?size=2', 'a.html', '/')
    """
    address, sharp, fragment = name.partition("#")
    path, _, query = address.partition("?")
    kept = "&".join(part for part in query.split("&") if part and not _is_tracking(part.partition("=")[0]))
    bare = path.rstrip("/")
    path = path if not bare or bare.endswith(":") else bare
    return f"{path}{'?' if kept else ''}{kept}{sharp}{fragment}"


def saved_as(address: str) -> str:
    """The path that a mirrored site (`wget --mirror`, HTTrack) has for the page, without what such tools add to it.

    >>> saved_as("https://shop.example/pizza"), saved_as("shop.example/pizza/index.html"), saved_as("pizza.html")
    ('shop.example/pizza', 'shop.example/pizza', 'pizza')
    """
    return re.sub(r"(/index)?\.html?$|/$", "", re.sub(r"^https?://", "", address))


def addresses_of_files(addresses: Iterable[str]) -> dict[str, str]:
    """The address of each file of a mirrored site; of a single site, also of its files without the folder of the host.

    >>> addresses_of_files(["https://shop.example/pizza"])
    {'shop.example/pizza': 'https://shop.example/pizza', 'pizza': 'https://shop.example/pizza'}
    """
    found = {saved_as(address): address for address in addresses if "://" in address}
    if len({path.partition("/")[0] for path in found}) == 1:
        found |= {path.partition("/")[2] or "index": address for path, address in found.items()}
    return found


def pages_of(given: Iterable[str], known: Names, exact: bool) -> NDArray[np.int64]:
    """The position of each given page among the known ones of a log, −1 if it is none of them.

    Unless `exact`, addresses match without what is no part of the page, and a file is the page that it mirrors.

    >>> pages_of(["https://shop.example/tea/?gclid=1", "tea.html"], Names.of(["https://shop.example/tea"]), False)
    array([0, 0])
    """
    if exact:
        return known.places(given)
    names = [plain_page(page) for page in given]
    found = known.places(names)
    if (found < 0).any():
        addresses = addresses_of_files(known)
        found = known.places(
            addresses.get(saved_as(name), name) if at < 0 else name for name, at in zip(names, found, strict=True)
        )
    return found


class ByPage(UserDict[str, Value]):
    """A mapping by page, in which pages of the same `plain_page` are one.

    >>> bids = ByPage({"https://shop.example/pizza/": ["pizza"]})
    >>> bids.get("https://shop.example/pizza?utm_source=mail")
    ['pizza']
    """

    def __getitem__(self, page: str) -> Value:
        return self.data[plain_page(page)]

    def __setitem__(self, page: str, value: Value) -> None:
        self.data[plain_page(page)] = value

    def __contains__(self, page: object) -> bool:
        return isinstance(page, str) and plain_page(page) in self.data


def _is_tracking(parameter: str) -> bool:
    plain = parameter.lower()
    return plain in TRACKING_PARAMETERS or plain.startswith(TRACKING_PREFIXES)


def register_plain_page(db: "DuckDBPyConnection") -> str:
    """Make `plain_page` known to `db`; the SQL for it, with {} for the name. Names without ? and slash stay there."""
    create_text_function(db, plain_page)
    return PLAIN_PAGE
