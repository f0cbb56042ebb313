"""What is asked and answered over HTTP: the types that bodies are decoded into, and that the document is made from."""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

MOST_CANDIDATES, MOST_COLUMNS, MOST_TOGETHER = 200, 100, 10_000
"""Candidates of a search, columns of a row, and rows or events of a request."""
RESERVED = frozenset(
    (
        *("query", "ad", "advertiser", "campaign", "page", "title", "text", "phrase", "match", "position"),
        *("bid", "price", "probability", "uncertainty", "arm", "version", "search", "session"),
        *("impression", "id", "time", "kind"),
    )
)
"""Columns that the server fills in itself: no context may have them."""
_LARGEST_INT = 2**63 - 1

Text = Annotated[str, Meta(max_length=10_000)]
Name = Annotated[str, Meta(min_length=1, max_length=200)]
ColumnName = Annotated[str, Meta(min_length=1, max_length=100)]
Scalar = Text | Annotated[int, Meta(ge=-_LARGEST_INT, le=_LARGEST_INT)] | float | bool | None
Columns = Annotated[dict[ColumnName, Scalar], Meta(max_length=MOST_COLUMNS)]
Context = Annotated[
    dict[ColumnName, Scalar],
    Meta(
        max_length=MOST_COLUMNS,
        description="What else is known of the search, by column: texts, numbers, flags, or null.",
        examples=[{"city": "boston", "hour": 14}],
        extra_json_schema={"propertyNames": {"minLength": 1, "maxLength": 100, "not": {"enum": sorted(RESERVED)}}},
    ),
]
Moment = Annotated[
    Annotated[str, Meta(max_length=40)] | Annotated[int, Meta(ge=-(2**60), le=2**60)] | float | None,
    Meta(
        description="ISO 8601 text, or seconds, milliseconds or microseconds since 1970, UTC.",
        examples=["2026-11-18T02:05:00Z"],
    ),
]
ImpressionId = Annotated[
    str, Meta(min_length=1, max_length=190, description="The `impression` of a place that was answered.")
]
Key = Annotated[
    str,
    Meta(
        pattern="^[0-9a-f]{16}$",
        description="The auction's key, 16 hexadecimal digits: draws depend on it, and the same search with the same "
        "key is logged once. Made up if it is not given.",
        examples=["00000000000000ff"],
    ),
]
Limit = Annotated[
    int, Meta(ge=1, le=MOST_CANDIDATES, description="Candidates that take part, those with the highest bids.")
]


PageAddress = Annotated[str, Meta(min_length=1, max_length=2_000, description="Of a page that the server knows.")]
LONGEST_AD, LONGEST_SIGNAL, LONGEST_IN_PATH = 500, 10_010, 5_000
"""Letters of a name; in a path fewer, since encoded they are up to twelve times as many, and an address has 64 KB."""
AdName = Annotated[str, Meta(min_length=1, max_length=LONGEST_AD)]
AboutAd = Annotated[str, Meta(max_length=10_000)]
PhraseText = Annotated[str, Meta(min_length=1, max_length=1_000, examples=["red shoes"])]
MatchName = Annotated[Literal["exact", "phrase", "broad"], Meta(description="The match type.")]
Bid = Annotated[float, Meta(gt=0, le=1e6, description="For a click.")]


class Request(Struct, frozen=True, forbid_unknown_fields=True, kw_only=True, omit_defaults=True):
    """What all requests are: a field that nobody knows is refused."""


class Reply(Struct, frozen=True, kw_only=True):
    """What all answers are."""


class SearchRequest(Request, frozen=True):
    """A search: its query, what is known of it, and on which terms ads take part."""

    query: Annotated[str, Meta(max_length=10_000, description="What was searched for.", examples=["pizza delivery"])]
    context: Context = {}
    session: Annotated[
        Annotated[str, Meta(max_length=200)] | None,
        Meta(description="Searches of one session are answered by one arm."),
    ] = None
    key: Key | None = None
    time: Moment = None
    limit: Limit = MOST_CANDIDATES


class MatchRequest(SearchRequest, frozen=True):
    """A search that is answered, and whose impressions are logged."""

    explain: Annotated[bool, Meta(description="Whether every step of every candidate comes with the answer.")] = False


class AnsweredVersions(Reply, frozen=True):
    """What an answer was made with, all of one moment."""

    arm: str
    clicks: str
    index: str


class ServedPlace(Reply, frozen=True):
    """An ad in a place, counted from 1; `probability` is that of a click in the first place."""

    impression: Annotated[str, Meta(description="Its id in the log: clicks, conversions and bounces name it.")]
    place: int
    ad: str
    page: str
    title: str
    text: str
    phrase: str
    match: Literal["exact", "phrase", "broad", "extended"]
    bid: float
    price: Annotated[float, Meta(description="Of a click.")]
    probability: float
    uncertainty: float


class MatchReply(Reply, frozen=True):
    """The places beside the answer to a search, from the first on; they are in the log already."""

    search: Key
    versions: AnsweredVersions
    places: list[ServedPlace]
    explanation: dict[str, Any] | UnsetType = UNSET


class PredictRequest(Request, frozen=True):
    """Impressions, as column → value each."""

    rows: Annotated[list[Columns], Meta(min_length=1, max_length=MOST_TOGETHER)]
    session: Annotated[str, Meta(max_length=200)] | None = None


class PredictReply(Reply, frozen=True):
    """The click probability of each row, calibrated, and its uncertainty u(x) in log-odds."""

    versions: dict[str, str]
    probability: list[float]
    uncertainty: list[float]


class PostedImpression(Request, frozen=True, tag_field="kind", tag="impressions"):
    """An ad that another server showed; `columns` are what is known of it."""

    id: Annotated[str, Meta(min_length=1, max_length=190)]
    columns: Columns = {}
    time: Moment = None


class PostedClick(Request, frozen=True, tag_field="kind", tag="clicks"):
    """A click: the second on one impression is `repeated`, and charged once."""

    impression: ImpressionId
    time: Moment = None


class PostedBounce(Request, frozen=True, tag_field="kind", tag="bounces"):
    """Somebody who clicked came back at once."""

    impression: ImpressionId
    time: Moment = None


class PostedConversion(Request, frozen=True, tag_field="kind", tag="conversions"):
    """What became of a click, and its value; more than one on an impression need ids."""

    impression: ImpressionId
    id: Annotated[str, Meta(min_length=1, max_length=190)] | None = None
    value: Annotated[float, Meta(ge=-1e12, le=1e12)] | None = None
    time: Moment = None


PostedEvent = PostedImpression | PostedClick | PostedBounce | PostedConversion
PostedEvents = PostedEvent | Annotated[list[PostedEvent], Meta(min_length=1, max_length=MOST_TOGETHER)]


class EventsReply(Reply, frozen=True):
    """What became of the events: `new` ones are on disk now, `repeated` ones were there already."""

    new: int
    repeated: int


class HealthReply(Reply, frozen=True):
    """The server is well."""

    status: Literal["ok"]


class ServedModel(Reply, frozen=True):
    """A model in service, what it was trained on, and the arm and its share of the traffic if it is a click model."""

    kind: Literal["clicks", "recommender", "index"]
    version: str
    training: dict[str, Any]
    arm: str | None = None
    share: float | None = None


class ModelsReply(Reply, frozen=True):
    """What is served, all since one moment, in seconds since 1970."""

    since: float
    models: list[ServedModel]


class ReloadReply(Reply, frozen=True):
    """Whether something else is served than before, and what is served now."""

    changed: bool
    models: ModelsReply


class PageRequest(Request, frozen=True):
    """A page, given by one of `html`, `text` and `address`."""

    html: Annotated[str, Meta(min_length=1, max_length=4_000_000)] | None = None
    text: Annotated[str, Meta(min_length=1, max_length=4_000_000)] | None = None
    address: PageAddress | None = None


class RecommendRequest(PageRequest, frozen=True):
    """A page, and how many phrases are wanted for it."""

    revealed: Annotated[
        list[Annotated[str, Meta(min_length=1, max_length=1_000)]],
        Meta(max_length=1_000, description="Phrases that the page is known to have: they are not recommended again."),
    ] = []
    k: Annotated[int, Meta(ge=1, le=1_000, description="How many phrases.")] = 10
    set: Annotated[bool, Meta(description="As many phrases as the model finds right, instead of k.")] = False
    expand: Annotated[bool, Meta(description="Whether phrases that go with those found are added.")] = False
    explain: Annotated[
        bool | Annotated[str, Meta(min_length=1, max_length=1_000)],
        Meta(description="Why: of the best phrases that are answered, or of this phrase."),
    ] = False


class ScoredPhrase(Reply, frozen=True):
    """A phrase with its score, and where it came from, if phrases were expanded."""

    phrase: str
    score: float
    sources: list[dict[str, Any]] | UnsetType = UNSET


class RecommendReply(Reply, frozen=True):
    """The phrases of a page, best first, and why, if that was asked for."""

    version: str
    phrases: list[ScoredPhrase]
    explanations: list[dict[str, Any]] | UnsetType = UNSET


class BidOn(Struct, frozen=True, forbid_unknown_fields=True):
    """A phrase that an ad bids on."""

    phrase: PhraseText
    match: MatchName
    bid: Bid


class Negative(Struct, frozen=True, forbid_unknown_fields=True):
    """A phrase that keeps an ad from being shown."""

    phrase: PhraseText
    match: MatchName


class AdBody(Request, frozen=True):
    """An ad; of advertiser, page, title and text, what is not given stays as it was."""

    phrases: Annotated[list[BidOn], Meta(max_length=MOST_TOGETHER)]
    negatives: Annotated[list[Negative], Meta(max_length=MOST_TOGETHER)] = []
    campaign: AdName | None = None
    advertiser: AboutAd | None = None
    page: AboutAd | None = None
    title: AboutAd | None = None
    text: AboutAd | None = None


class AdReply(Reply, frozen=True):
    """An ad as the index has it; `extended` is how many recommended queries lead to it."""

    ad: str
    phrases: list[BidOn]
    negatives: list[Negative]
    campaign: str
    advertiser: str
    page: str
    title: str
    text: str
    extended: int


class PutAd(AdBody, frozen=True, kw_only=True, tag_field="change", tag="put"):
    """Add an ad, or replace it."""

    ad: AdName


class RemoveAd(Request, frozen=True, tag_field="change", tag="remove"):
    """Remove an ad."""

    ad: AdName


class SetBid(Request, frozen=True, tag_field="change", tag="bid"):
    """Let an ad bid on a phrase, or bid another amount."""

    ad: AdName
    phrase: PhraseText
    match: MatchName
    bid: Bid


class RemoveBid(Request, frozen=True, tag_field="change", tag="remove_bid"):
    """Let an ad bid on a phrase no more."""

    ad: AdName
    phrase: PhraseText
    match: MatchName


class SetNegatives(Request, frozen=True, tag_field="change", tag="negatives"):
    """Replace the negatives of an ad, or of a campaign."""

    negatives: Annotated[list[Negative], Meta(max_length=MOST_TOGETHER)]
    ad: AdName | None = None
    campaign: AdName | None = None


class SetBudget(Request, frozen=True, tag_field="change", tag="budget"):
    """Set what a campaign may spend in a day; null for no limit."""

    campaign: AdName
    amount: Annotated[float, Meta(ge=0, le=1e12)] | None


AdChange = PutAd | RemoveAd | SetBid | RemoveBid | SetNegatives | SetBudget


class ChangesRequest(Request, frozen=True):
    """Changes of ads, which are made together or not at all."""

    changes: Annotated[list[AdChange], Meta(min_length=1, max_length=1_000)]


class ChangedReply(Reply, frozen=True):
    """How many changes were made, and the version of the index that has them."""

    changed: int
    index: str
