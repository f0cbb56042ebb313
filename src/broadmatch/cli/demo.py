"""`broadmatch demo`: the whole path on a simulated marketplace, as a report to read."""

import contextlib
import io
import itertools
import logging
import shlex
import shutil
import time
from collections.abc import Iterable, Iterator
from json import dumps as to_json
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from broadmatch.cli import options, output
from broadmatch.cli.common import run_command
from broadmatch.cli.explanations import print_explanation
from broadmatch.cli.output import Column, print_text
from broadmatch.cli.phrases.training import clicks_of, judged_rows
from broadmatch.cli.simulate import print_loop, run_arms

if TYPE_CHECKING:
    from broadmatch.data import CSR, Dataset, Names
    from broadmatch.evaluate import Estimate, Report
    from broadmatch.labels import Phrase, Recommendation
    from broadmatch.simulate import LoopReport

_TREES, _KS, _PHRASES = 30, (1, 10), 10
_SESSIONS_A_PAGE, _TEST_SHARE, _MIN_TEST_QUERIES = 100, 0.2, 5
_POPULAR = "the most clicked phrases"
_SYSTEMS = ("KEX", "KEX+KSP", "MLRF", "MLRF+SSL", "MLRF+SSL+KSP")
"""Those of the MLRF paper: extracted, expanded, learned from clicks, from beliefs, and expanded."""
_DEPTH = 100
_ARMS, _DAYS, _TRAFFIC_A_PAGE = ("own", "pfastrexml", "swiftxml"), 3, 20
_VARIANTS = ("usual: alpha=0.1", "fast: alpha=0.5", "sparse: alpha=0.1 l1=5")
_CLICKS = """label = "clicked"
time = "time"
slices = ["position", "page"]
[signals]
position = "categorical"
page = "categorical"
query = "text"
"""
_OPENING = (
    "broadmatch learns from a click log which bid phrases fit a landing page, and which ads to show for a query, at "
    "what price. Real logs are private and nobody knows how wrong they are, so this demo simulates one, and holds the "
    "result against the truth behind it."
)
_OWN_DATA = """
The same with your own data:
  broadmatch harvest --clicks clicks.csv --pages pages/ --out data/
  broadmatch train data/ --out model/
  broadmatch evaluate model/ data/
  broadmatch recommend model/ pages/ --out phrases.html
  broadmatch explain model/ pages/landing.html "a phrase"
  broadmatch ads index ads.csv --out index/
  broadmatch ads match index/ "a query"
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

    Simulates pages and a click log, harvests labels, fills in missing ones, trains what extracts, learns and expands
    phrases, compares them by the log and by the truth, recommends phrases for pages that they have not seen and
    explains one of them. Then days of traffic run through the ad engine, which learns from the clicks, and one query
    is taken apart.

    \b
    Example:
      broadmatch demo
      broadmatch demo --pages 500 --seed 7 --json
    """
    run, started = _Run(out, {}), time.monotonic()
    with output.page_width(), contextlib.redirect_stdout(io.StringIO()) if json else contextlib.nullcontext():
        print_text(_OPENING)
        with run.step("Simulate a marketplace"):
            run.call(
                "simulate", run.market, "--pages", n_pages, "--sessions", n_pages * _SESSIONS_A_PAGE, "--seed", seed
            )
        with run.step("Harvest labels, and infer those that are missing"):
            log = ("--clicks", run.market / "clicks.parquet", "--pages", run.market / "pages.parquet")
            test = ("--test-share", _TEST_SHARE, "--min-test-queries", _MIN_TEST_QUERIES, "--seed", seed)
            for name, labels in (("plain", "plain"), ("data", "beliefs")):
                run.call("harvest", *log, "--out", out / name, "--labels", labels, *test)
        with run.step("Train: extraction, two forests, on plain labels and on beliefs, and expansion"):
            pages, searches = ("--pages", run.market / "pages.parquet"), run.market / "impressions.parquet"
            run.call("train", out / "data", "--out", out / "kex", "--model", "kex", *pages, "--seed", seed)
            for name, model in (("plain", "plain-model"), ("data", "model")):
                forest = ("--model", "mlrf", "--trees", _TREES, "--seed", seed)
                run.call("train", out / name, "--out", out / model, *forest)
            logs = ("--clicks", searches, "--bids", run.market / "bids.parquet", "--seeds", out / "model")
            run.call("train", out / "data", "--out", out / "ksp", "--model", "ksp", *logs)
        reports = _evaluate(run)
        samples = _recommend(run)
        why = _explain(run, samples[0])
        loop = _serve_days(run, n_pages * _TRAFFIC_A_PAGE, seed)
        _take_apart(run)
        server = _put_together(run)
        _fill_studio(run, server, loop)
        typer.echo(_OWN_DATA)
        run.seconds["in all"] = round(time.monotonic() - started, 1)
        print_text(
            f"Done in {run.seconds['in all']:.0f} s. The marketplace, the data and the model are in {out}; "
            f"{out / 'phrases.html'} is a page to open, and `broadmatch studio {server}` opens the studio."
        )
    if json:
        metrics = {name: {side: r.to_dict()["metrics"] for side, r in sides.items()} for name, sides in reports.items()}
        facts = {"out": str(out), "seconds": run.seconds, "metrics": metrics, "loop": loop.to_dict()}
        output.print_json(facts | {"pages": [sample.to_dict() for sample in samples], "explanation": why})


def _serve_days(run: "_Run", sessions: int, seed: int) -> "LoopReport":
    """Days of traffic, by advertisers' own phrases and by those that two models add."""
    engines, arms = run.out / "engines", ",".join(_ARMS)
    with run.step("Serve ads for some days, and learn from the clicks"):
        run.show(
            "simulate", run.market, "--arms", arms, "--days", _DAYS, "--traffic", sessions, "--engines", engines,
            "--seed", seed,
        )  # fmt: skip
        with output.at_least(logging.ERROR):
            report = run_arms(run.market, arms, _DAYS, sessions, engines, seed)
        print_loop(report)
        print_text(
            "Own phrases are what advertisers bid on; PfastreXML adds queries that fit the page, SwiftXML queries that "
            "fit the page and the phrases: table 4 of Prabhu et al., WSDM 2018.",
            dim=True,
        )
    return report


def _take_apart(run: "_Run") -> None:
    """One query: its places, and why the first ad stands there."""
    from broadmatch.ads import AdEngine
    from broadmatch.simulate.verticals import CITIES

    where = {"city": CITIES[0], "device": "mobile"}
    given = [word for name, value in where.items() for word in ("--with", f"{name}={value}")]
    engine, query = run.out / "engines" / str(len(_ARMS) - 1), _searched_most(run)
    with run.step("Take one query apart"):
        run.call("ads", "match", engine, query, *given)
        places = AdEngine(engine).answer(query, where).places
        if places:
            typer.echo()
            run.call("ads", "why", engine, query, places[0].ad, *given)


def _put_together(run: "_Run") -> Path:
    """The folder of a server: the last engine, with the models that recommend and expand phrases, and the pages."""
    from broadmatch.ads import AdEngine
    from broadmatch.io.artifacts import replacing

    server, engine = run.out / "server", run.out / "engines" / str(len(_ARMS) - 1)
    parts = {"recommender": run.out / "model", "ksp": run.out / "ksp", "pages.parquet": run.market / "pages.parquet"}
    with run.step("Put a server together"), replacing(server, AdEngine.is_at) as folder:
        typer.secho(f"$ cp -r {engine} {server}", dim=True)
        shutil.copytree(engine, folder, dirs_exist_ok=True)
        for name, part in parts.items():
            typer.secho(f"$ cp -r {part} {server / name}", dim=True)
            (shutil.copytree if part.is_dir() else shutil.copy)(part, folder / name)
    return server


def _fill_studio(run: "_Run", server: Path, loop: "LoopReport") -> None:
    """What the studio shows beside the models: facts of queries, variants of a click model by slice, the days above."""
    described, arms, log = run.out / "clicks.toml", run.out / "arms.json", run.market / "impressions.parquet"
    with run.step("Fill the studio"):
        described.write_text(_CLICKS)
        arms.write_text(to_json(loop.to_dict()))
        kept = ("--out", run.out / "variants", "--predictions", run.out / "predictions", "--overwrite")
        variants = [word for variant in _VARIANTS for word in ("--variant", variant)]
        run.call("clicks", "train", log, "--describe", described, *kept, *variants)
        facts = ("--queries", run.out / "data", "--auctions", log, "--kex", run.out / "kex")
        run.call("publish", "studio", server, *facts, "--grid", f"variants={run.out / 'predictions'}", "--loop", arms)


def _searched_most(run: "_Run") -> str:
    """The query that was searched most."""
    import pyarrow.parquet as pq

    queries = pq.read_table(run.market / "truth" / "queries.parquet", columns=["query", "searches"]).to_pylist()
    return str(max(queries, key=lambda row: (row["searches"], row["query"]))["query"])


class _Run(NamedTuple):
    """Where everything goes, and how long each step took."""

    out: Path
    seconds: dict[str, float]

    @property
    def market(self) -> Path:
        return self.out / "market"

    @contextlib.contextmanager
    def step(self, title: str) -> Iterator[None]:
        """Head a step, and at its end say how long it took."""
        started = time.monotonic()
        typer.secho(f"\n{len(self.seconds) + 1}  {title}", bold=True, fg="cyan")
        yield
        self.seconds[title] = round(time.monotonic() - started, 1)
        typer.secho(f"{self.seconds[title]:.1f} s", dim=True)

    def show(self, *words: object) -> None:
        """Show a command on one line, so that it can be copied."""
        typer.secho(f"$ {shlex.join(['broadmatch', *map(str, words)])}", dim=True)

    def call(self, *words: object) -> None:
        """Show a command, and run it."""
        self.show(*words)
        with output.at_least(logging.WARNING):
            run_command(*words)


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
        typer.secho(f"\n{self.page}", italic=True)
        print_text(f"{self.about} · {self.words:,} words, {self.known:,} known to the model", dim=True)
        rows = [(f"{'✓' if right else '·'} {phrase}", f"{score:.2f}") for phrase, score, right in self.phrases]
        typer.echo("\n".join(output.table_lines([Column(""), Column("", right=True)], rows)[1:]))


def _evaluate(run: _Run) -> "dict[str, dict[str, Report]]":
    from broadmatch.data import Names
    from broadmatch.evaluate import paired_difference
    from broadmatch.harvest import open_harvested
    from broadmatch.labels import answer_reports
    from broadmatch.simulate import truth_matrix

    with run.step("Compare on pages that were held back"):
        run.show("evaluate", run.out / "model", run.out / "data", "--truth", run.market)
        plain, believed = (open_harvested(run.out / name) for name in ("plain", "data"))
        print_text(f"{plain.train.Y.nnz:,} clicked labels, which became {believed.train.Y.nnz:,} weighted beliefs.")
        test = plain.test.take(judged_rows(len(plain.test)))
        pages = test.points or Names.of([])
        answers = {_POPULAR: _popular(plain.train, len(test))} | _answers(run, list(_contents(run, pages).items()))
        known = _known_queries(run)
        names = Names.of(sorted({p for rows in answers.values() for row in rows for p, _ in row} & known))
        truth = truth_matrix(run.market, pages, names)
        sides = {
            "log": answer_reports([list(row) for row in clicks_of(test)], answers, ks=_KS),
            "truth": answer_reports(_named(truth, names), answers, ks=_KS),
        }
        reports = {name: {side: found[name] for side, found in sides.items()} for name in answers}
        words = {"log": "clicked", "truth": "true"}
        figures = [Column(f"{word}@{k}", right=True) for word in words.values() for k in _KS]
        rows = [(n, *(_percent(one[side][f"P@{k}"]) for side in sides for k in _KS)) for n, one in reports.items()]
        output.print_table([Column("right of the first k, in %"), *figures], rows)
        print_text(
            f"On {len(test):,} pages; in brackets, where 95 % of the bootstrap samples lie. 'Clicked' asks whether a "
            "phrase led to a click in the log, which knows only some of the right phrases; 'true' asks the simulator.",
            dim=True,
        )
        print_text(
            "KEX extracts phrases from the page, KSP expands them by searches, clicks and bids, MLRF learned from "
            "clicks on other pages, SSL from beliefs in labels that are missing: the comparison of Agrawal et al., "
            "WWW 2013.",
            dim=True,
        )
        for worse, better in itertools.pairwise(_SYSTEMS):
            gain = paired_difference(reports[better]["truth"], reports[worse]["truth"], "P@10")
            verdict = "better" if gain.low > 0 else "worse" if gain.high < 0 else "no clear difference"
            print_text(
                f"{better} against {worse}, first 10, in truth: {100 * gain.value:+.1f} points "
                f"({100 * gain.low:+.1f} to {100 * gain.high:+.1f}): {verdict}."
            )
    return reports


def _answers(run: _Run, pages: list[tuple[str, bytes]], k: int = _DEPTH) -> "dict[str, list[list[Phrase]]]":
    """The phrases of pages by each of the five systems."""
    import broadmatch
    from broadmatch.ads import KSP
    from broadmatch.labels import KEX, Recommender

    models = {"KEX": ("kex", KEX), "MLRF": ("plain-model", Recommender), "MLRF+SSL": ("model", Recommender)}
    ksp: KSP = broadmatch.load(run.out / "ksp", KSP)
    found: dict[str, list[list[Phrase]]] = {}
    for name, (folder, kind) in models.items():
        with output.at_least(logging.WARNING):
            seeds: list[Recommendation] = list(broadmatch.load(run.out / folder, kind).recommend(pages, _DEPTH))
            found[f"{name}+KSP"] = [one.phrases for one in ksp.expand_answers(seeds, k)]
        found[name] = [one.phrases[:k] for one in seeds]
    return {name: found[name] for name in _SYSTEMS}


def _contents(run: _Run, pages: Iterable[str]) -> dict[str, bytes]:
    """The HTML of pages, in the order asked for."""
    from broadmatch.harvest.page_names import plain_page
    from broadmatch.io import read_pages

    found = {plain_page(page.name): page.html for page in read_pages(run.market / "pages.parquet")}
    return {name: found[plain_page(name)] for name in pages}


def _known_queries(run: _Run) -> set[str]:
    """The queries whose truth the simulator knows."""
    import pyarrow.parquet as pq

    return set(pq.read_table(run.market / "truth" / "queries.parquet", columns=["query"])["query"].to_pylist())


def _named(matrix: "CSR", names: "Names") -> list[list[str]]:
    return [[names[j] for j in matrix.row(i)[0].tolist()] for i in range(matrix.n_rows)]


def _percent(estimate: "Estimate") -> str:
    return f"{100 * estimate.value:.0f} ({100 * estimate.low:.0f}–{100 * estimate.high:.0f})"


def _popular(train: "Dataset", n: int) -> "list[list[Phrase]]":
    """The same phrases for each of n pages: those that most training pages have."""
    import numpy as np

    from broadmatch.labels import Phrase

    counts = np.bincount(train.Y.indices, minlength=train.Y.n_cols)
    best = np.argsort(-counts, kind="stable")[:_DEPTH]
    return [[Phrase(train.labels[j], float(counts[j])) for j in best.tolist()]] * n


def _recommend(run: _Run) -> list[_Sample]:
    import broadmatch
    from broadmatch.features import bag_of_words
    from broadmatch.labels import Recommender

    chosen = _pages_to_show(run)
    files = [run.out / "pages" / f"page{i}.html" for i in range(1, len(chosen) + 1)]
    samples = []
    with run.step("Recommend phrases for pages it has not seen"):
        run.show("recommend", run.out / "model", *files)
        files[0].parent.mkdir(exist_ok=True)
        recommender = broadmatch.load(run.out / "model", Recommender)
        answers = recommender.recommend(((name, html) for name, html, _ in chosen), _PHRASES)
        for (name, html, about), file, (_, phrases) in zip(chosen, files, answers, strict=True):
            file.write_bytes(html)
            relevant = _relevant(run, name, {p for p, _ in phrases})
            marked = [(phrase, score, phrase in relevant) for phrase, score in phrases]
            words, known = len(bag_of_words(html, stop_words=None)), recommender.vectorizer.transform([html]).nnz
            samples.append(_Sample(name, str(file), about, words, known, marked))
            samples[-1].print()
        typer.secho("✓ truly relevant   · not", dim=True)
        _side_by_side(run, chosen[-1])
        run.call("recommend", run.out / "model", run.out / "pages", "--out", run.out / "phrases.html")
    return samples


def _side_by_side(run: _Run, page: tuple[str, bytes, str]) -> None:
    """What each of the five systems says of one page."""
    name, html, about = page
    answers = {system: rows[0] for system, rows in _answers(run, [(name, html)], _PHRASES).items()}
    relevant = _relevant(run, name, {p for row in answers.values() for p, _ in row})
    cells = {s: [f"{'✓' if p in relevant else '·'} {p}" for p, _ in row] for s, row in answers.items()}
    rows = [[cells[s][i] if i < len(cells[s]) else "" for s in _SYSTEMS] for i in range(max(map(len, cells.values())))]
    typer.echo()
    print_text(f"The same page by all five: {about}", italic=True)
    output.print_table([Column(system, spare="shorten") for system in _SYSTEMS], rows)


def _relevant(run: _Run, page: str, phrases: set[str]) -> set[str]:
    """Which phrases are right for a page in truth."""
    from broadmatch.data import Names
    from broadmatch.simulate import truth_matrix

    names = Names.of(sorted(phrases & _known_queries(run)))
    return set(_named(truth_matrix(run.market, Names.of([page]), names), names)[0]) if len(names) else set()


def _pages_to_show(run: _Run) -> list[tuple[str, bytes, str]]:
    """Three pages that were held back: two with text, of different trades, and one that is almost all images."""
    import pyarrow.parquet as pq

    from broadmatch.harvest import open_harvested

    held_back = set(open_harvested(run.out / "data").test.points or ())
    every = pq.read_table(run.market / "truth" / "pages.parquet").to_pylist()
    rows = [row for row in every if row["page"] in held_back]
    rows.sort(key=lambda row: str(row["page"]))
    chosen: list[dict[str, Any]] = []
    for wanted in (False, False, True):
        trades = {row["vertical"] for row in chosen}
        fitting = [r for r in rows if r["is_image_page"] == wanted and r["vertical"] not in trades and r not in chosen]
        chosen += (fitting or [r for r in rows if r not in chosen])[:1]
    named = {row["page"] for row in chosen}
    contents = _contents(run, named)
    return [(row["page"], contents[row["page"]], _about(row)) for row in chosen]


def _about(row: dict[str, Any]) -> str:
    """What the simulator knows of a page, in words."""
    where = f", {row['city']}" if row["city"] else ""
    products = f"; sells {', '.join(row['products'][:3])}" if row["products"] else ""
    images = "; almost all images" if row["is_image_page"] else ""
    return f"{row['brand']}, {row['vertical']}{where}{products}{images}"


def _explain(run: _Run, sample: _Sample) -> dict[str, Any]:
    import broadmatch
    from broadmatch.labels import Recommender

    phrase = next((phrase for phrase, _, right in sample.phrases if right), sample.phrases[0][0])
    with run.step("Explain one of them"):
        run.show("explain", run.out / "model", sample.file, phrase)
        why = broadmatch.load(run.out / "model", Recommender).explain(Path(sample.file).read_bytes(), phrase)
        print_explanation(why)
    found = why.to_dict()
    return {"page": sample.page, **{key: found[key] for key in ("label", "score", "contributions", "neighbours")}}
