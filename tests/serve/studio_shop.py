"""A server's folder with something for every page of the studio: phrases, pages, traffic, hours, a loop, a sheet."""

import json

import numpy as np
import pyarrow as pa

from broadmatch.ads import AdEngine, Auction, Inventory
from broadmatch.clicks import FTRL, ClickModel, PoissonCalibration
from broadmatch.data import Impressions
from broadmatch.evaluate import HourFigures, QualityFolder, SheetKey
from broadmatch.evaluate.traffic_quality.figures import Figure
from broadmatch.features import PageVectorizer
from broadmatch.io import EmbeddedEventLog, Page, write_pages
from broadmatch.io.event_log.events import Event
from broadmatch.labels import MLRF, Recommender
from broadmatch.serve.endpoints.ad_texts import AdTexts
from broadmatch.serve.endpoints.shown_events import Search, ShownEvents
from broadmatch.serve.impression_ids import ImpressionIds
from broadmatch.serve.messages import SearchRequest
from broadmatch.serve.publishing import PublishedModels
from broadmatch.signals import Categorical, Description, Encoder

SCRIPT = '<script>alert("x")</script>'
IMAGE = '"><img src=x onerror=alert(1)>'
RTL, EMOJI, LONG = "‮שלום", "🍕🚕", "long " * 2000
HOUR, START = 3_600_000_000, 1_763_424_000_000_000
CITIES = ("rome", "oslo", SCRIPT)
DESCRIBED = Description(
    label="clicked", slices=["city"], signals=[*map(Categorical, ("query", "city", "ad", "match", "position"))]
)
TOPICS = {"pizza": ["cheap pizza", IMAGE], "taxi": ["airport taxi", RTL, EMOJI]}
ADDRESS = "https://taxi.example/?a=1&b=<b>"


def make_studio(path):
    """The folder, with all parts."""
    rows = [
        {"advertiser": f"v{i}", "campaign": f"c{i}", "ad": f"a{i}", "page": "https://x.example/", "bid": 1 + i / 4,
         "title": [f"Ad {i}", SCRIPT, RTL + EMOJI, LONG[:9000]][i % 4], "phrase": "red shoes", "match": "broad"}
        for i in range(8)
    ]  # fmt: skip
    AdEngine.create(path, Inventory.from_rows(rows), clicks=learned(), auction=Auction(places=3, reserve=0.01))
    phrase_model().save(path / "recommender")
    write_pages([Page(ADDRESS, b"<title>Taxi</title>order a taxi")], path / "pages.parquet")
    add_traffic(path)
    add_hours(path)
    add_versions(path)
    add_loop(path)
    add_sheet(path)
    return path


def learned(seed=0):
    """A click model that has learned that ads differ, calibrated by halves."""
    rng, learner = np.random.default_rng(seed), FTRL(alpha=0.3)
    n = 2000
    ad = rng.integers(0, 8, n)
    log = {
        "query": rng.choice(["red shoes", "shoes"], n).tolist(), "city": rng.choice(CITIES, n).tolist(),
        "ad": [f"a{i}" for i in ad], "match": ["broad"] * n, "position": rng.integers(1, 4, n).tolist(),
        "clicked": (rng.random(n) < 0.1 + ad / 20).astype(int).tolist(),
    }  # fmt: skip
    batch = Encoder(DESCRIBED).encode(pa.RecordBatch.from_pydict(log))
    impressions: Impressions = batch.impressions
    calibration = PoissonCalibration()
    calibration.learn_many(learner.learn_many(impressions), impressions.clicked)
    calibration.refresh()
    return ClickModel(DESCRIBED, {"ftrl": learner.to_serving()}, calibration=calibration, training={"rows": n})


def phrase_model():
    """A forest whose leaves know their pages by name."""
    shops = [(topic, i) for i in range(6) for topic in TOPICS]
    vectorizer = PageVectorizer(min_pages=2)
    rows = vectorizer.fit_transform([f"<title>{topic} shop</title><p>order {topic}" for topic, _ in shops])
    phrases = [TOPICS[topic][: 1 + i % 3] for topic, i in shops]
    names = [f"https://{topic}.example/{i}" if i else f"{SCRIPT}{topic}" for topic, i in shops]
    return Recommender(vectorizer, MLRF(n_trees=3, max_leaf=4).fit(rows, phrases, point_names=names))


def add_traffic(path, n=400):
    """Impressions as they are served, one a minute, with clicks; the last half hour is too young to tell."""
    engine, ids, shown = (
        AdEngine(path),
        ImpressionIds.at(path / "secret"),
        ShownEvents(ImpressionIds.at(path / "secret")),
    )
    rng = np.random.default_rng(1)
    assert ids is not None
    clicks = []
    with EmbeddedEventLog(path / "events", write=True) as log:
        for i in range(n):
            time = START + i * 60_000_000
            request = SearchRequest(query="red shoes", context={"city": CITIES[i % 3]})
            answers = engine.answer_few(["red shoes"], [dict(request.context)], key=np.array([i], np.uint64))
            search = Search(request, i, time, "red shoes")
            shown.add([search], answers, AdTexts(answers.ads), "main", "initial")
        batch = shown.batch()
        for i, event in enumerate(batch):
            if rng.random() < json.loads(event.payload)["probability"]:
                about = json.dumps({"impression": event.id}).encode()
                clicks.append(Event(f"click {i}", event.time + 5_000_000, "clicks", about))
        log.append(batch)
        log.append(clicks)


def add_hours(path, n=5):
    """Hours of traffic that a learner has measured."""
    hours = QualityFolder(path / "quality")
    for h in range(n):
        figures = [Figure("Impressions", "", "all", "all", 100.0 + h, 100)]
        figures += [
            Figure("LogLoss", m, "all", "all", 0.4 - h / 50 - k / 30, 100) for k, m in enumerate(("served", "learned"))
        ]
        figures += [Figure("LogLoss", "served", "city", c, 0.3 + k / 10, 10 * (k + 1)) for k, c in enumerate(CITIES)]
        figures += [Figure("Bias", "served", "all", "all", float("nan") if h == 2 else h / 10, 100)]
        hours.write(HourFigures(START + h * HOUR, tuple(figures)))


def add_versions(path):
    """A version that is not served: the guard held it back."""
    guard = {"decision": "hold", "reason": f"its log loss is higher {SCRIPT}", "log_loss": 0.4, "calibration": 1.1}
    PublishedModels(path).publish(
        "clicks", learned(1), version="worse", facts={"arm": "main", "guard": guard}, serve=False
    )


def add_loop(path, arms=("own", f"swift{SCRIPT}"), name="arms"):
    """What `simulate --arms --json` prints, NaN included."""

    def estimates(clicks, regret=float("nan")):
        both = {"clicks a search": clicks, "regret": regret}
        return {name: {"value": value, "low": value - 0.1, "high": value + 0.1} for name, value in both.items()}

    made = {
        arm: {
            "figures": estimates(0.5 + k), "relative": estimates(100.0 + 10 * k), "totals": {"searches": 1000.0},
            "by_day": [estimates(0.4 + k + day / 10, float("nan") if day == 1 else 0.1) for day in range(4)],
            "overspend": 0.01,
        }
        for k, arm in enumerate(arms)
    }  # fmt: skip
    (path / "studio" / "loop").mkdir(parents=True, exist_ok=True)
    run = {"days": 4, "burn_in": 1, "seconds": {}, "arms": made}
    (path / "studio" / "loop" / f"{name}.json").write_text(json.dumps(run))


def add_sheet(path, name="sheet"):
    """A blind sheet of two pages, as `broadmatch judge make` writes it."""
    folder = path / "studio" / "judgements"
    folder.mkdir(parents=True, exist_ok=True)
    answers = {
        "one": [(ADDRESS, ["airport taxi", IMAGE]), ("p2", [LONG, "=1+1"])],
        "two": [(ADDRESS, [RTL, "airport taxi"]), ("p2", [EMOJI])],
    }
    key = SheetKey.of(answers, k=2)
    key.write_sheet(folder / f"{name}.csv", seed=3)
    key.save(folder / f"{name}.key.json")
    return key
