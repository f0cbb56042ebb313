"""`broadmatch demo`: the whole path on a simulated marketplace, as a report to read."""

import contextlib
import io
import shlex
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from broadmatch.cli import options, output
from broadmatch.cli.explanations import print_explanation
from broadmatch.cli.output import Column, print_text

if TYPE_CHECKING:
    from broadmatch.data import CSR, Dataset
    from broadmatch.evaluate import Estimate, Report
    from broadmatch.labels import MLRF
    from broadmatch.simulate import Marketplace

_TREES, _KS, _PHRASES = 30, (1, 10), 10
_SESSIONS_A_PAGE, _TEST_SHARE, _MIN_TEST_QUERIES = 100, 0.2, 5
_PLAIN, _BELIEFS = "MLRF on plain labels", "MLRF on beliefs"
_OPENING = (
    "broadmatch learns from a click log which bid phrases fit a landing page. Real logs are private and nobody knows "
    "how wrong they are, so this demo simulates one, and holds the result against the truth behind it."
)
_OWN_DATA = """
The same with your own data:
  broadmatch harvest --clicks clicks.csv --columns query=q,page=url \\
      --pages pages/ --out data/ --labels beliefs
  broadmatch train data/ --out model/
  broadmatch evaluate model/ data/
  broadmatch recommend model/ landing.html
  broadmatch explain model/ landing.html "a phrase"
"""


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
    run = _Run(out, seed)
    with output.page_width(), contextlib.redirect_stdout(io.StringIO()) if json else contextlib.nullcontext():
        print_text(_OPENING)
        market = _simulate(run, n_pages)
        data = _harvest(run, market)
        forests = _train(run, data)
        reports = _evaluate(run, market, data, forests)
        samples = _recommend(run, market, data, forests[_BELIEFS])
        why = _explain(run, data, forests[_BELIEFS], samples)
        typer.echo(_OWN_DATA)
        print_text(f"Done in {run.total():.0f} s. The marketplace, the data and the model are in {out}.")
    if json:
        metrics = {name: {side: r.to_dict()["metrics"] for side, r in sides.items()} for name, sides in reports.items()}
        seconds = run.seconds | {"in all": run.total()}
        facts = {"out": str(out), "seconds": seconds, "harvest": data.kept, "metrics": metrics}
        output.print_json(facts | {"pages": [sample.to_dict() for sample in samples], "explanation": why})


class _Run:
    """Where everything goes, and how long each step took."""

    def __init__(self, out: Path, seed: int) -> None:
        self.out, self.seed = out, seed
        self.seconds: dict[str, float] = {}
        self._started = time.monotonic()

    @contextlib.contextmanager
    def step(self, title: str, *command: object) -> Iterator[None]:
        """Head a step, show the command that does the same, and at its end say how long it took."""
        started = time.monotonic()
        typer.secho(f"\n{len(self.seconds) + 1}  {title}", bold=True, fg="cyan")
        typer.secho(
            f"$ {shlex.join(['broadmatch', *map(str, command)])}", dim=True
        )  # one line, so that it can be copied
        yield
        self.seconds[title] = round(time.monotonic() - started, 1)
        typer.secho(f"{self.seconds[title]:.1f} s", dim=True)

    def total(self) -> float:
        return round(time.monotonic() - self._started, 1)


class _Data(NamedTuple):
    """What was harvested: plain labels, and the same pages with beliefs."""

    train: "Dataset"
    test: "Dataset"
    beliefs: "CSR"
    vectorizer: Any
    kept: dict[str, Any]


class _Sample(NamedTuple):
    """A page that no model has seen, and what is recommended for it."""

    page: str
    file: str
    about: str
    words: int
    known: int
    phrases: list[tuple[str, float, bool]]

    def to_dict(self) -> dict[str, Any]:
        phrases = [{"phrase": phrase, "score": score, "relevant": ok} for phrase, score, ok in self.phrases]
        return self._asdict() | {"phrases": phrases}

    def print(self) -> None:
        """The phrases in two columns, or in one where the page is too narrow."""
        typer.secho(f"\n{self.page}", italic=True)
        print_text(f"{self.about} · {self.words:,} words, {self.known:,} known to the model", dim=True)
        cells = [(f"{'✓' if right else '·'} {phrase}", f"{score:.2f}") for phrase, score, right in self.phrases]
        half = (len(cells) + 1) // 2
        rows = [cells[i] + (cells[i + half] if i + half < len(cells) else ("", "")) for i in range(half)]
        columns = [Column(""), Column("", right=True)]
        _, *lines = output.table_lines(columns * 2, rows)
        if max(map(len, lines), default=0) > (output.terminal_width() or 80):
            _, *lines = output.table_lines(columns, cells)
        typer.echo("\n".join(lines))


def _simulate(run: _Run, n_pages: int) -> "Marketplace":
    from broadmatch.simulate import simulate_marketplace

    place, sessions = run.out / "market", n_pages * _SESSIONS_A_PAGE
    same = ("simulate", place, "--pages", n_pages, "--sessions", sessions, "--seed", run.seed)
    with run.step("Simulate a marketplace", *same):
        market = simulate_marketplace(place, n_pages=n_pages, n_sessions=sessions, seed=run.seed)
        print_text(
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
    same = ("harvest", "--clicks", market.clicks, "--pages", market.pages, "--out", place, "--labels", "beliefs",
            "--test-share", _TEST_SHARE, "--min-test-queries", _MIN_TEST_QUERIES, "--seed", run.seed)  # fmt: skip
    with run.step("Harvest labels, and infer those that are missing", *same):
        with output.warnings_only():
            found = harvest(
                ClickLog(market.clicks), test_share=_TEST_SHARE, min_test_queries=_MIN_TEST_QUERIES, seed=run.seed
            )
        vectorizer, pages = PageVectorizer(), PageSource(market.pages)
        train, test = build_datasets(found, pages, vectorizer)
        believed, _ = build_datasets(found, pages, vectorizer, weights="beliefs")
        kept = summarise(found, train, test, "beliefs") | {"bad_pages": 0}
        write_harvested(place, believed, test, vectorizer, kept)
        print_text(
            f"{kept['labels']:,} queries with at least five clicks are labels; {len(train):,} pages are for training "
            f"and {len(test):,}, with {test.Y.nnz / max(1, len(test)):.0f} labels each, for testing. "
            f"Beliefs: {train.Y.nnz:,} clicked labels became {believed.Y.nnz:,} weighted ones."
        )
    return _Data(train, test, believed.Y, vectorizer, kept)


def _train(run: _Run, data: _Data) -> "dict[str, MLRF]":
    from broadmatch.labels import MLRF, Recommender

    same = ("train", run.out / "data", "--out", run.out / "model", "--trees", _TREES, "--seed", run.seed)
    train = data.train
    names: dict[str, Any] = {
        "label_names": train.labels, "feature_names": train.features, "point_names": train.points
    }  # fmt: skip
    with run.step("Train two forests: on plain labels, and on beliefs", *same):
        forests = {
            name: MLRF(n_trees=_TREES, seed=run.seed).fit(train.X, labels, **names)
            for name, labels in ((_PLAIN, train.Y), (_BELIEFS, data.beliefs))
        }
        Recommender(data.vectorizer, forests[_BELIEFS]).save(run.out / "model")
        nodes = sum(len(forest.forest_.feature) for forest in forests.values())
        print_text(
            f"{_TREES} trees each, {nodes:,} nodes in all, over {train.X.n_cols:,} words. "
            f"The one on beliefs is saved in {run.out / 'model'}."
        )
    return forests


def _evaluate(
    run: _Run, market: "Marketplace", data: _Data, forests: "dict[str, MLRF]"
) -> "dict[str, dict[str, Report]]":
    from broadmatch.evaluate import paired_difference, ranking_report
    from broadmatch.labels import ranking_reports
    from broadmatch.simulate import truth_matrix

    test, sides = data.test, {"log": "clicked", "truth": "true"}
    same = ("evaluate", run.out / "model", run.out / "data", "--truth", market.folder)
    with run.step("Evaluate on pages that were held back", *same):
        truth, popular = truth_matrix(market.folder, test.points or test.labels, test.labels), _popular(data)
        both = {"log": test.Y, "truth": truth}
        reports = {"the most clicked phrases": {n: ranking_report(one, popular, ks=_KS) for n, one in both.items()}}
        reports |= {name: ranking_reports(one, test, ks=_KS, truth=truth) for name, one in forests.items()}
        figures = [Column(f"{word}@{k}", right=True) for word in sides.values() for k in _KS]
        rows = [
            (name, *(_percent(report[side][f"P@{k}"]) for side in sides for k in _KS))
            for name, report in reports.items()
        ]
        output.print_table([Column("right of the first k, in %"), *figures], rows)
        print_text(
            f"On {len(test):,} pages; in brackets, where 95 % of the bootstrap samples lie. 'Clicked' asks whether a "
            "phrase led to a click in the log, which knows only some of the right phrases; 'true' asks the simulator.",
            dim=True,
        )
        for side, against in (("log", "in the log"), ("truth", "in truth")):
            gain = paired_difference(reports[_BELIEFS][side], reports[_PLAIN][side], "P@10")
            verdict = "better" if gain.low > 0 else "worse" if gain.high < 0 else "no clear difference"
            print_text(
                f"Beliefs against plain labels, first 10, {against}: {100 * gain.value:+.1f} points "
                f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f}): {verdict}."
            )
    return reports


def _percent(estimate: "Estimate") -> str:
    return f"{100 * estimate.value:.0f} ({100 * estimate.low:.0f}–{100 * estimate.high:.0f})"


def _popular(data: _Data) -> "CSR":
    """The same phrases for every page: those that most training pages have."""
    import numpy as np

    from broadmatch.data import CSR

    counts = np.bincount(data.train.Y.indices, minlength=data.train.Y.n_cols).astype(np.float32)
    best = np.sort(np.argsort(-counts, kind="stable")[:100]).astype(np.int32)
    n = len(data.test)
    return CSR(np.arange(n + 1, dtype=np.int64) * len(best), np.tile(best, n), np.tile(counts[best], n), len(counts))


def _recommend(run: _Run, market: "Marketplace", data: _Data, forest: "MLRF") -> list[_Sample]:
    from broadmatch.data import Names
    from broadmatch.features import bag_of_words
    from broadmatch.labels import Recommender
    from broadmatch.simulate import truth_matrix

    chosen = _pages_to_show(market, data.test)
    files = [run.out / "pages" / f"page{i}.html" for i in range(1, len(chosen) + 1)]
    samples = []
    with run.step("Recommend phrases for pages it has not seen", "recommend", run.out / "model", *files):
        files[0].parent.mkdir(exist_ok=True)
        pages = ((name, html) for name, html, _ in chosen)
        answers = Recommender(data.vectorizer, forest).recommend(pages, _PHRASES)
        for (name, html, about), file, (_, phrases) in zip(chosen, files, answers, strict=True):
            file.write_bytes(html)
            relevant = truth_matrix(market.folder, Names.of([name]), Names.of(p for p, _ in phrases)).row(0)[0]
            marked = [(phrase, score, i in relevant) for i, (phrase, score) in enumerate(phrases)]
            words, known = len(bag_of_words(html, stop_words=None)), data.vectorizer.transform([html]).nnz
            samples.append(_Sample(name, str(file), about, words, known, marked))
            samples[-1].print()
        typer.secho("✓ truly relevant   · not", dim=True)
    return samples


def _pages_to_show(market: "Marketplace", test: "Dataset") -> list[tuple[str, bytes, str]]:
    """Three pages that were held back: two with text, of different trades, and one that is almost all images."""
    import pyarrow.parquet as pq

    from broadmatch.io import read_pages

    held_back = set(test.points or ())
    rows = [row for row in pq.read_table(market.truth / "pages.parquet").to_pylist() if row["page"] in held_back]
    rows.sort(key=lambda row: str(row["page"]))
    chosen: list[dict[str, Any]] = []
    for wanted in (False, False, True):
        trades = {row["vertical"] for row in chosen}
        fitting = [r for r in rows if r["is_image_page"] == wanted and r["vertical"] not in trades and r not in chosen]
        chosen += (fitting or [r for r in rows if r not in chosen])[:1]
    contents = {page.name: page.html for page in read_pages(market.pages) if page.name in {r["page"] for r in chosen}}
    return [(row["page"], contents[row["page"]], _about(row)) for row in chosen]


def _about(row: dict[str, Any]) -> str:
    """What the simulator knows of a page, in words."""
    where = f", {row['city']}" if row["city"] else ""
    products = f"; sells {', '.join(row['products'][:3])}" if row["products"] else ""
    images = "; almost all images" if row["is_image_page"] else ""
    return f"{row['brand']}, {row['vertical']}{where}{products}{images}"


def _explain(run: _Run, data: _Data, forest: "MLRF", samples: list[_Sample]) -> dict[str, Any]:
    from broadmatch.labels import Recommender

    sample = samples[0]
    phrase = next((phrase for phrase, _, right in sample.phrases if right), sample.phrases[0][0])
    with run.step("Explain one of them", "explain", run.out / "model", sample.file, phrase):
        why = Recommender(data.vectorizer, forest).explain(Path(sample.file).read_bytes(), phrase)
        print_explanation(why)
    found = why.to_dict()
    return {"page": sample.page, **{key: found[key] for key in ("label", "score", "contributions", "neighbours")}}
