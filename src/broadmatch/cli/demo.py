"""`broadmatch demo`: the whole path on a simulated marketplace, as a report to read."""

import contextlib
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from broadmatch.cli import demo_report, options, output
from broadmatch.cli.evaluate import measure
from broadmatch.cli.explain_tables import shown

if TYPE_CHECKING:
    from rich.console import Console

    from broadmatch.data import CSR, Dataset
    from broadmatch.evaluate import Report
    from broadmatch.labels import MLRF
    from broadmatch.simulate import Marketplace

_TREES = 30
_SESSIONS_A_PAGE = 100
_TEST_SHARE, _MIN_TEST_QUERIES = 0.2, 5
_KS = (1, 10)
_PHRASES = 10


def command(
    out: Annotated[Path, typer.Option("--out", metavar="FOLDER", help="Where the data and the model go.")] = Path(
        "demo"
    ),
    n_pages: Annotated[int, typer.Option("--pages", help="Landing pages in the marketplace.")] = 2000,
    seed: options.Seed = 0,
    json: options.Json = False,
) -> None:
    """See it work on a simulated marketplace.

    Simulates pages and a click log, harvests labels, fills in missing ones, trains, evaluates against the log and
    against the truth, recommends phrases for pages it has not seen, and explains one of them.

    \b
    Example:
      broadmatch demo
      broadmatch demo --pages 500 --seed 7 --json
    """
    output.notify_compilation()
    console = output.console(quiet=json)
    run = _Run(console, out, seed)
    demo_report.opening(console)
    market = _simulate(run, n_pages)
    data = _harvest(run, market)
    forests = _train(run, data)
    reports = _evaluate(run, market, data, forests)
    samples = _recommend(run, market, data, forests["MLRF on beliefs"])
    why = _explain(run, data, forests["MLRF on beliefs"], samples)
    demo_report.closing(console, out, run.total())
    if json:
        output.print_json(
            {
                "out": str(out),
                "seconds": run.seconds | {"in all": run.total()},
                "harvest": data.kept,
                "metrics": {
                    name: {side: report.to_dict()["metrics"] for side, report in sides.items()}
                    for name, sides in reports.items()
                },
                "pages": [sample.to_dict() for sample in samples],
                "explanation": why,
            }
        )


class _Run:
    """Where the report goes, and how long each step took."""

    def __init__(self, console: "Console", out: Path, seed: int) -> None:
        self.console, self.out, self.seed = console, out, seed
        self.seconds: dict[str, float] = {}
        self._started = time.monotonic()

    @contextlib.contextmanager
    def step(self, title: str, *command: object) -> Iterator[None]:
        """Head a step, show the command that does the same, and at its end say how long it took."""
        started = time.monotonic()
        line = shlex.join(["broadmatch", *map(str, command)]) if command else ""
        demo_report.heading(self.console, len(self.seconds) + 1, title, line)
        yield
        self.seconds[title] = round(time.monotonic() - started, 1)
        self.console.print(f"{self.seconds[title]:.1f} s", style="dim")

    def total(self) -> float:
        return round(time.monotonic() - self._started, 1)


class _Data(NamedTuple):
    """What was harvested: plain labels, and the same pages with beliefs."""

    train: "Dataset"
    test: "Dataset"
    beliefs: "CSR"
    vectorizer: Any
    kept: dict[str, Any]


class Sample(NamedTuple):
    """A page that no model has seen, and what is recommended for it."""

    page: str
    file: str
    about: str
    words: int
    known: int
    phrases: list[tuple[str, float, bool]]

    def to_dict(self) -> dict[str, Any]:
        """Plain data for JSON."""
        phrases = [{"phrase": phrase, "score": score, "relevant": ok} for phrase, score, ok in self.phrases]
        return self._asdict() | {"phrases": phrases}


def _simulate(run: _Run, n_pages: int) -> "Marketplace":
    from broadmatch.simulate import simulate_marketplace

    place, sessions = run.out / "market", n_pages * _SESSIONS_A_PAGE
    asked = ("simulate", place, "--pages", n_pages, "--sessions", sessions, "--seed", run.seed)
    with run.step("Simulate a marketplace", *asked):
        market = simulate_marketplace(place, n_pages=n_pages, n_sessions=sessions, seed=run.seed)
        run.console.print(
            f"{market.n_pages:,} landing pages. In {market.days} days, {market.n_searches:,} searches for "
            f"{market.n_queries:,} different queries, {market.n_impressions:,} ads shown, {market.n_clicks:,} clicks; "
            f"{market.n_wrong_pairs:,} pairs of page and query were clicked though they do not fit."
        )
    return market


def _harvest(run: _Run, market: "Marketplace") -> _Data:
    from broadmatch.features import PageVectorizer
    from broadmatch.harvest import build_datasets, harvest, write_harvested
    from broadmatch.harvest.harvested import summarise
    from broadmatch.io import ClickLog, PageSource

    place = run.out / "data"
    asked = ("harvest", "--clicks", market.clicks, "--pages", market.pages, "--out", place, "--labels", "beliefs",
             "--test-share", _TEST_SHARE, "--min-test-queries", _MIN_TEST_QUERIES, "--seed", run.seed)  # fmt: skip
    with run.step("Harvest labels, and infer those that are missing", *asked):
        log = ClickLog(market.clicks)
        with output.warnings_only():
            found = harvest(log, test_share=_TEST_SHARE, min_test_queries=_MIN_TEST_QUERIES, seed=run.seed)
        vectorizer = PageVectorizer()
        pages = PageSource(market.pages)
        train, test = build_datasets(found, pages, vectorizer)
        believed, _ = build_datasets(found, pages, vectorizer, weights="beliefs")
        kept = summarise(found, train, test, "beliefs") | {"bad_pages": 0}
        write_harvested(place, believed, test, vectorizer, kept)
        run.console.print(
            f"{kept['labels']:,} queries with at least five clicks are labels; {len(train):,} pages are for training "
            f"and {len(test):,}, with {test.Y.nnz / max(1, len(test)):.0f} labels each, for testing. "
            f"Beliefs: {train.Y.nnz:,} clicked labels became {believed.Y.nnz:,} weighted ones."
        )
    return _Data(train, test, believed.Y, vectorizer, kept)


def _train(run: _Run, data: _Data) -> "dict[str, MLRF]":
    from broadmatch.labels import MLRF, Recommender

    asked = ("train", run.out / "data", "--out", run.out / "model", "--trees", _TREES, "--seed", run.seed)
    names: dict[str, Any] = {"feature_names": data.train.features, "point_names": data.train.points}
    forests = {}
    with run.step("Train two forests: on plain labels, and on beliefs", *asked):
        for name, labels in (("MLRF on plain labels", data.train.Y), ("MLRF on beliefs", data.beliefs)):
            forest = MLRF(n_trees=_TREES, seed=run.seed)
            forests[name] = forest.fit(data.train.X, labels, label_names=data.train.labels, **names)
        Recommender(data.vectorizer, forests["MLRF on beliefs"]).save(run.out / "model")
        nodes = sum(len(forest.forest_.feature) for forest in forests.values())
        run.console.print(
            f"{_TREES} trees each, {nodes:,} nodes in all, over {data.train.X.n_cols:,} words. "
            f"The one on beliefs is saved in {run.out / 'model'}."
        )
    return forests


def _evaluate(
    run: _Run, market: "Marketplace", data: _Data, forests: "dict[str, MLRF]"
) -> "dict[str, dict[str, Report]]":
    from broadmatch.evaluate import ranking_report
    from broadmatch.simulate import truth_matrix

    asked = ("evaluate", run.out / "model", run.out / "data", "--truth", market.folder)
    with run.step("Evaluate on pages that were held back", *asked):
        truth = truth_matrix(market.folder, data.test.points or data.test.labels, data.test.labels)
        popular = _popular(data)
        reports = {
            "the most clicked phrases": {
                "log": ranking_report(data.test.Y, popular, ks=_KS),
                "truth": ranking_report(truth, popular, ks=_KS),
            }
        }
        for name, forest in forests.items():
            reports[name] = measure(forest, data.test, market.folder, _KS, run.out / "data")
        demo_report.metrics(run.console, reports)
    return reports


def _popular(data: _Data) -> "CSR":
    """The same phrases for every page: those that most training pages have."""
    import numpy as np

    from broadmatch.data import CSR

    counts = np.bincount(data.train.Y.indices, minlength=data.train.Y.n_cols).astype(np.float32)
    best = np.sort(np.argsort(-counts, kind="stable")[:100]).astype(np.int32)
    n = len(data.test)
    return CSR(np.arange(n + 1, dtype=np.int64) * len(best), np.tile(best, n), np.tile(counts[best], n), len(counts))


def _recommend(run: _Run, market: "Marketplace", data: _Data, forest: "MLRF") -> list[Sample]:
    from broadmatch.features import bag_of_words
    from broadmatch.labels import Recommender

    chosen = demo_report.pages_to_show(market, data.test)
    files = [run.out / "pages" / f"page{i}.html" for i in range(1, len(chosen) + 1)]
    samples = []
    with run.step("Recommend phrases for pages it has not seen", "recommend", run.out / "model", *files):
        recommender = Recommender(data.vectorizer, forest)
        files[0].parent.mkdir(exist_ok=True)
        for page, file in zip(chosen, files, strict=True):
            file.write_bytes(page.html)
            phrases = next(iter(recommender.recommend(page.html, _PHRASES))).phrases
            right = demo_report.truly_relevant(market, page.name, [phrase for phrase, _ in phrases])
            marked = [(phrase, score, ok) for (phrase, score), ok in zip(phrases, right, strict=True)]
            words, known = len(bag_of_words(page.html, stop_words=None)), data.vectorizer.transform([page.html]).nnz
            samples.append(Sample(page.name, str(file), page.about, words, known, marked))
            demo_report.recommendations(run.console, samples[-1])
        run.console.print("✓ truly relevant   · not", style="dim")
    return samples


def _explain(run: _Run, data: _Data, forest: "MLRF", samples: list[Sample]) -> dict[str, Any]:
    from broadmatch.labels import Recommender

    sample = samples[0]
    phrase = next((phrase for phrase, _, ok in sample.phrases if ok), sample.phrases[0][0])
    with run.step("Explain one of them", "explain", run.out / "model", sample.file, phrase):
        why = Recommender(data.vectorizer, forest).explain(Path(sample.file).read_bytes(), phrase)
        for part in shown(why):
            run.console.print(part)
    return {
        "page": sample.page,
        **{key: why.to_dict()[key] for key in ("label", "score", "contributions", "neighbours")},
    }
