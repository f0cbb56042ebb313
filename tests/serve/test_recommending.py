"""Phrases over HTTP: those of the model in service, for pages that are sent or known."""

import pytest

from broadmatch.ads import KSP
from broadmatch.data import CSR
from broadmatch.features import PageVectorizer
from broadmatch.io import Page, write_pages
from broadmatch.labels import MLRF, Recommender
from broadmatch.serve.app import make_app
from broadmatch.serve.config import ServeConfig
from broadmatch.serve.endpoints import recommending
from broadmatch.serve.publishing import PublishedModels
from broadmatch.serve.service import LiveService
from broadmatch.sets import RCut
from tests.serve.shop import Sink, call, make_folder

TOPICS = {"pizza": ["cheap pizza", "pizza delivery"], "taxi": ["airport taxi", "taxi"]}
TAXI = "<title>Taxi</title> order a taxi"


def train(sets=False):
    shops = [(topic, i) for i in range(8) for topic in TOPICS]
    vectorizer = PageVectorizer(min_pages=2)
    rows = vectorizer.fit_transform([f"<title>{topic} shop</title><p>order {topic} {i % 2}" for topic, i in shops])
    phrases = [TOPICS[topic][: 1 + i % 2] for topic, i in shops]
    model = MLRF(n_trees=3, max_leaf=3)
    return Recommender(vectorizer, RCut(model, k=2).fit(rows, phrases) if sets else model.fit(rows, phrases))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    path = make_folder(tmp_path_factory.mktemp("phrases") / "engine")
    train().save(path / "recommender")
    queries = [phrase for phrases in TOPICS.values() for phrase in phrases]
    KSP(min_llr=0.0).fit_graphs(queries, clicks=CSR.from_rows([[0], [0], [1], [1]], 2)).save(path / "ksp")
    pages = [Page("https://taxi.example/", TAXI.encode()), Page("https://p.example/", b"pizza")]
    write_pages(pages, path / "pages.parquet")
    return path


@pytest.fixture(scope="module")
def app(folder):
    return make_app(ServeConfig(folder=folder), LiveService(folder), Sink())


def ask(app, **body):
    return call(app, ("POST", "/v1/recommend", body))[0]


def test_phrases_are_those_of_the_model(app, folder):
    (expected,) = train().recommend([TAXI], 3)
    for page in ({"html": TAXI}, {"address": "https://taxi.example/"}):
        answer = ask(app, **page, k=3)
        assert answer.status_code == 200, answer.text
        found = answer.json()
        assert [(one["phrase"], one["score"]) for one in found["phrases"]] == expected.phrases
        assert found["version"] == "initial" and "explanations" not in found
    assert ask(app, text="order a <taxi").json()["phrases"][0]["phrase"] == "airport taxi"


def test_revealed_phrases_are_not_recommended_again(app):
    found = ask(app, html=TAXI, revealed=["airport taxi", "nobody knows it"]).json()["phrases"]
    assert found and "airport taxi" not in [one["phrase"] for one in found]


def test_phrases_are_expanded_and_explained(app):
    found = ask(app, html=TAXI, expand=True, k=4, explain=True).json()
    assert len(found["phrases"]) == 2 and all(one["sources"] for one in found["phrases"])
    assert {source["arm"] for one in found["phrases"] for source in one["sources"]} > {"seeds"}
    assert found["explanations"][0]["label"] == "airport taxi" and found["explanations"][0]["leaves"]
    (why,) = ask(app, html=TAXI, explain="cheap pizza").json()["explanations"]
    assert why["label"] == "cheap pizza"


@pytest.mark.parametrize(
    ("status", "body"),
    [
        (422, {}),
        (422, {"html": "x", "text": "x"}),
        (404, {"address": "https://nobody.example/"}),
        (404, {"address": "../../secret"}),
        (422, {"html": "x", "set": True}),
        (422, {"html": "x", "k": 0}),
        (422, {"html": "x", "explain": "no phrase of the model"}),
    ],
)
def test_what_cannot_be_answered_says_why(app, status, body):
    answer = ask(app, **body)
    assert answer.status_code == status and answer.json()["detail"].endswith("."), answer.text


def test_who_finds_the_pool_full_comes_again(app, monkeypatch):
    monkeypatch.setattr(recommending, "_MOST_WAITING", 0)
    answer = ask(app, html=TAXI)
    assert answer.status_code == 503 and answer.headers["retry-after"] == "1"


def test_a_model_of_sets_that_is_published_answers_with_sets(tmp_path):
    folder = make_folder(tmp_path / "engine")
    live = LiveService(folder)
    app = make_app(ServeConfig(folder=folder), live, Sink())
    assert ask(app, html=TAXI).status_code == 404
    PublishedModels(folder).publish("recommender", train(sets=True), version="sets")
    (reloaded,) = call(app, ("POST", "/v1/models/reload"))
    assert reloaded.json()["changed"] and "recommender" in [one["kind"] for one in reloaded.json()["models"]["models"]]
    found = ask(app, html=TAXI, set=True).json()
    assert found["version"] == "sets" and len(found["phrases"]) == 2
