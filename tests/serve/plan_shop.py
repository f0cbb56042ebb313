"""A server for tests of the planner: a few ads, a phrase model, an expansion, known pages and facts of queries."""

import pyarrow as pa
import pyarrow.parquet as pq

from broadmatch.ads import KSP
from broadmatch.data import CSR
from broadmatch.features import PageVectorizer
from broadmatch.io import Page, write_pages
from broadmatch.labels import MLRF, Recommender
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.planner.query_facts import write_query_facts
from broadmatch.sets import RCut
from tests.serve.shop import Sink, make_folder

TOPICS = {
    "pizza": ["pizza", "pizza delivery", "cheap pizza", "stone oven pizza"],
    "taxi": ["taxi", "airport taxi", "cheap taxi", "taxi fare"],
}
QUERIES = [phrase for phrases in TOPICS.values() for phrase in phrases] + ["pizza near me", "minicab"]
TAXI = "<title>City taxi</title><h1>Airport taxi</h1><p>Order a taxi to the airport, day &amp; night.</p>"
ADDRESS = "https://taxi.example/"


def train(sets=False):
    shops = [(topic, i) for i in range(8) for topic in TOPICS]
    vectorizer = PageVectorizer(min_pages=2)
    rows = vectorizer.fit_transform([f"<title>{topic} shop</title><p>order {topic} {i % 2}" for topic, i in shops])
    phrases = [TOPICS[topic][: 2 + i % 3] for topic, i in shops]
    model, how = MLRF(n_trees=3, max_leaf=3), {"point_names": [f"https://{topic}{i}.example/" for topic, i in shops]}
    names = {"feature_names": vectorizer.vocabulary_}
    return Recommender(
        vectorizer, RCut(model, k=2).fit(rows, phrases) if sets else model.fit(rows, phrases, **names, **how)
    )


def auctions(path):
    """A log of two days: three ads for each search, the first the dearest."""
    rows = [
        {"time": f"2024-03-0{1 + day}T10:00:0{i}", "session": f"s{day}.{i}", "query": query, "page": f"p{place}",
         "position": place, "bid": 2.0 - place / 2 + i / 10, "price": 0.5, "clicked": int(place == 1 and i == 0)}
        for query in QUERIES[:-2] for day in range(2) for i in range(3) for place in (1, 2, 3)
    ]  # fmt: skip
    pq.write_table(pa.Table.from_pylist(rows), path)
    return path


def make_plan_folder(path, *, model=True, facts=True, sets=False):
    make_folder(path)
    if model:
        train(sets).save(path / "recommender")
        clicks = CSR.from_rows([[0], [0], [0], [0], [1], [1], [1], [1], [0], [1]], 2)
        KSP(min_llr=0.0).fit_graphs(QUERIES, clicks=clicks).save(path / "ksp")
        write_pages([Page(ADDRESS, TAXI.encode()), Page("https://p.example/", b"pizza")], path / "pages.parquet")
    if facts:
        write_query_facts(StudioFolder(path).queries, auctions=auctions(path.parent / "auctions.parquet"))
    return path


def plan_app(folder, keys=None):
    return make_app(ServeConfig(folder=folder), LiveService(folder), Sink(), keys=keys)
