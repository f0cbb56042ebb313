"""`broadmatch warmup`: compile what commands use, before anybody waits for it."""

import contextlib
import io
import logging
import tempfile
import time
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING

from broadmatch import progress
from broadmatch.cli import options, output
from broadmatch.cli.common import run_command

if TYPE_CHECKING:
    from broadmatch.io import Event

_LABEL_MODELS = ("mlrf", "one-vs-rest", "fastxml", "pfastrexml", "swiftxml", "adaboost-lc")
_DESCRIPTION = """
label = "clicked"
slices = ["country"]
[signals]
country = "categorical"
query = "text"
price = { kind = "number", buckets = "log" }
"""
_IMPRESSIONS = [f"{n % 7 == 0:d},{'AT' if n % 3 else 'DE'},pizza {n % 5} near me,{n % 11}.5\n" for n in range(400)]


def command(json: options.Json = False) -> None:
    """Compile what commands use, so that no first command waits.

    Runs the commands on a few rows each: a few minutes where nothing is compiled yet, some seconds where all is.
    Machine code is kept for one version of broadmatch, of Python and of numba, and one kind of processor.

    \b
    Example:
      broadmatch warmup
    """
    from broadmatch.kernels import cache

    cache.waiting.announced = True
    started = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        steps = list(_steps(Path(folder)))
        output.log.info("Compiling what %d commands use; a few minutes where nothing is compiled yet.", len(steps))
        with progress.task("Compiling", total=len(steps), unit="commands") as compiling, progress.hidden():
            for step in steps:
                with contextlib.redirect_stdout(io.StringIO()), output.at_least(logging.ERROR):
                    run_command(*step)
                compiling.advance()
        _warm_serving(Path(folder) / "engine")
    seconds, kept = time.monotonic() - started, cache.places(Path(cache.__file__).parent).write
    if json:
        facts = {"seconds": round(seconds, 1), "compiling": round(cache.waiting.seconds, 1)}
        output.print_json(facts | {"folder": None if kept is None else str(kept.parent)})
        return
    where = "is not kept" if kept is None else f"is kept in {kept.parent}"
    output.print_text(f"Done in {seconds:.0f} s, {cache.waiting.seconds:.0f} of them compiling; machine code {where}.")


def _steps(folder: Path) -> Iterator[list[object]]:
    """The commands in turn, each on what those before it wrote."""
    market, data, page = folder / "market", folder / "data", folder / "page.html"
    page.write_text("<title>Pizza</title> <p>stone oven pizza, delivery")
    yield ["simulate", market, "--pages", 100, "--sessions", 6000]
    log = ["--clicks", market / "clicks.parquet", "--pages", market / "pages.parquet"]
    yield ["harvest", *log, "--out", data, "--labels", "beliefs", "--min-test-queries", 1]
    for model in _LABEL_MODELS:
        rounds = ["--set", "rounds=2"] if model == "adaboost-lc" else []
        trees = ["--trees", 2] if model in ("mlrf", "fastxml", "pfastrexml", "swiftxml") else []
        yield ["train", data, "--out", folder / model, "--model", model, *trees, *rounds]
        yield ["evaluate", folder / model, data]
        yield ["recommend", folder / model, page, "--out", folder / f"{model}.csv"]
    yield ["explain", folder / "mlrf", page, "pizza"]
    kex, ksp, searches = folder / "kex", folder / "ksp", market / "impressions.parquet"
    yield ["extract", page, "--out", folder / "extracted.csv"]
    yield ["train", data, "--out", kex, "--model", "kex", "--pages", market / "pages.parquet"]
    logs = ["--clicks", searches, "--bids", market / "bids.parquet", "--seeds", folder / "mlrf"]
    yield ["train", data, "--out", ksp, "--model", "ksp", *logs]
    yield ["recommend", folder / "mlrf", page, "--with", kex, "--expand", ksp, "--out", folder / "expanded.csv"]
    yield ["expand", ksp, "pizza"]
    described, impressions = folder / "clicks.toml", folder / "impressions.csv"
    described.write_text(_DESCRIPTION)
    impressions.write_text("clicked,country,query,price\n" + "".join(_IMPRESSIONS))
    clicks, seen = folder / "clicks", folder / "predictions"
    yield ["clicks", "train", impressions, "--describe", described, "--out", clicks, "--predictions", seen, "--names"]
    given = ["--out", folder / "given", "--set", "alpha=0.1"]  # what learns when the race is over
    yield ["clicks", "train", impressions, "--describe", described, *given]
    yield ["clicks", "validate", seen, "--by", "country"]
    yield ["gridviz", seen, "--out", folder / "grid.html"]
    yield ["clicks", "calibrate", clicks, seen]
    yield ["clicks", "predict", clicks, impressions, "--out", folder / "probabilities.csv"]
    yield ["clicks", "show", clicks]
    _write_events(folder / "events")
    yield ["events", "tail", folder / "events", "--kind", "clicks"]
    yield ["events", "export", folder / "events", "--out", folder / "events.parquet"]
    if find_spec("lmdb") is not None:
        (folder / "ads.csv").write_text("page,phrase,match,bid\npizza.html,pizza,broad,1\n")
        yield ["ads", "index", folder / "ads.csv", "--out", folder / "index"]
        yield ["ads", "match", folder / "index", "pizza near me"]
        yield ["ads", "index", folder / "ads.csv", "--clicks", clicks, "--out", folder / "engine"]
        yield ["ads", "match", folder / "engine", "pizza near me", "--with", "country=AT"]
        yield ["ads", "why", folder / "engine", "pizza near me", "pizza.html"]
        yield ["clicks", "follow", folder / "events", "--publish", folder / "engine", "--once"]
        if find_spec("lightgbm") is not None:
            yield ["simulate", market, "--arms", "own,swiftxml+ucb", "--days", 2, "--traffic", 400]


def _warm_serving(engine: Path) -> None:
    if engine.is_dir() and all(find_spec(name) is not None for name in ("uvicorn", "msgspec", "prometheus_client")):
        from broadmatch.serve.studio.planner.page_text import text_blocks
        from broadmatch.serve.supervisor import warm_up

        warm_up(engine)
        text_blocks("<title>Pizza</title> <p>stone oven pizza")


def _write_events(folder: Path) -> None:
    from broadmatch.io import EmbeddedEventLog

    for _ in range(2):  # the second time what is there is read, and a second segment begun
        with EmbeddedEventLog(folder, write=True, max_bytes=1 << 20) as log:
            log.append([_event(n) for n in range(5000)])


def _event(number: int) -> "Event":
    """An impression every other time, and a click on each third of them, for some hours."""
    from broadmatch.io import Event

    shown = number - number % 2
    time = 2_000_000 * number
    if number == shown:
        return Event(f"i{shown}", time, "impressions", b'{"country":"AT","query":"pizza","price":1.5}')
    return Event(str(number), time, "clicks" if number % 3 else "bounces", f'{{"impression":"i{shown}"}}'.encode())
