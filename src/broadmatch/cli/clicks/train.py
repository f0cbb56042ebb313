"""`broadmatch clicks train`: from a stream of impressions to a click model, in one pass."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from broadmatch.cli import options
from broadmatch.cli import output as talk
from broadmatch.cli.clicks.learners import inclusion_of, learner_of, variants_of
from broadmatch.cli.clicks.models import prepare, source_of
from broadmatch.errors import BadParameter, CannotWrite
from broadmatch.io.formats import STANDARD_INPUT

if TYPE_CHECKING:
    from broadmatch.clicks import ClickModel, ClickTraining
    from broadmatch.signals import Description


def command(
    data: Annotated[
        list[str], typer.Argument(metavar="DATA...", help="Files, folders, patterns, or - for standard input.")
    ],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write; an older model is replaced.")],
    describe: Annotated[
        Path | None, typer.Option(metavar="TOML", help="What the columns are; vw text needs none.")
    ] = None,
    format: options.Format = None,
    clicks: Annotated[
        list[str] | None,
        typer.Option(
            metavar="FILES", help="Clicks by id and time, where DATA does not say what was clicked; repeatable."
        ),
    ] = None,
    window: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long after its impression a click may come.")
    ] = None,
    subsample: Annotated[
        float | None, typer.Option(metavar="R", help="Keep this share of the queries without a click, weighted by 1/R.")
    ] = None,
    predictions: Annotated[
        Path | None,
        typer.Option(
            metavar="FOLDER", help="Keep each prediction as it was before learning, for validate and calibrate."
        ),
    ] = None,
    calibrate_by: Annotated[
        str | None,
        typer.Option(metavar="SLICE,...", help="Calibrate while learning, by these slices, the widest first."),
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="Keep the names of the features, for show.")] = False,
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on after an interruption, or with data that came since.")
    ] = False,
    every: Annotated[
        float, typer.Option("--checkpoint-every", metavar="SECONDS", help="Time between two checkpoints.")
    ] = 60.0,
    follow: Annotated[
        bool, typer.Option("--follow", help="Wait for more data in DATA until Ctrl-C, then write the model.")
    ] = False,
    n_jobs: Annotated[
        int, typer.Option("--threads", help="With several, the result is not the same to the last bit every time.")
    ] = 1,
    learner: Annotated[Literal["ftrl", "rda", "fobos", "ogd"], typer.Option(help="FTRL is the one to use.")] = "ftrl",
    alpha: Annotated[float, typer.Option(help="Learning rates are alpha / (beta + root of n).")] = 0.1,
    beta: Annotated[float, typer.Option(help="See alpha.")] = 1.0,
    l1: Annotated[float, typer.Option("--l1", help="More leaves more coefficients at exactly 0.")] = 0.0,
    l2: Annotated[float, typer.Option("--l2", help="More keeps coefficients smaller.")] = 0.0,
    rates: Annotated[
        Literal["gradients", "counts", "global"],
        typer.Option(help="What n is: squared gradients or clicks of the feature, or all examples. Variants: counts."),
    ] = "gradients",
    encoding: Annotated[
        Literal["float64", "float32", "q2.13"], typer.Option(help="How numbers are held: 8, 4 or 2 bytes each.")
    ] = "float64",
    include: Annotated[
        str | None,
        typer.Option(metavar="RULE", help="Leave rare features out: poisson:0.1, or bloom:2 (seen more than twice)."),
    ] = None,
    variant: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT",
            help='One of several models in one pass: "small: alpha=0.05 l1=1 without=title"; repeatable.',
        ),
    ] = None,
    seed: options.Seed = 0,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    json: options.Json = False,
) -> None:
    """Learn to predict clicks, in one pass over a stream.

    Everything that the run knows is kept in MODEL.training. After Ctrl-C, a crash or a power cut, the same command with
    --resume goes on from the last checkpoint and ends with the same bits; when DATA has grown, it learns what is new.
    Of several variants, the first is the one that predicts unless another is named.

    \b
    Example:
      broadmatch clicks train log.parquet --describe clicks.toml --out model/ --predictions predictions/
      broadmatch clicks train 'logs/*.csv.gz' --describe clicks.toml --out model/ --l1 1 --names
      broadmatch clicks train train.vw --format vw --out model/ --variant "a: alpha=0.1" --variant "b: alpha=0.5"
    """
    checkpoints = out.with_name(f"{out.name}.training")
    _check_places(out, checkpoints, predictions, resume)
    prepare()
    from broadmatch.clicks import ClickTraining, SlicedCalibration
    from broadmatch.io import Rejects
    from broadmatch.params import Number

    Number(0, 1, above=True, none=True).check("subsample", subsample)
    described = _described(describe, format, data)
    settings: dict[str, Any] = {
        "alpha": alpha,
        "beta": beta,
        "l1": l1,
        "l2": l2,
        "rates": rates,
        "encoding": encoding,
        "seed": seed,
    }
    settings |= {"inclusion": inclusion_of(include)}
    models: Any = learner_of(learner, settings) if not variant else None
    if variant:
        models = variants_of(variant, learner, settings, lambda: _signals(described, data))
    by = options.parse_names(None if calibrate_by is None else [calibrate_by])
    started = time.monotonic()
    with Rejects(rejects, max_bad_rows=max_bad_rows) as own:
        training = ClickTraining(
            source_of(data),
            described,
            models,
            clicks=clicks or None,
            window=window,
            subsample=subsample,
            calibration=None if by is None else SlicedCalibration(by=tuple(by)),
            predictions=predictions,
            names=names,
            checkpoints=checkpoints,
            every=every,
            resume=resume,
            n_jobs=n_jobs,
            rejects=own,
            follow=follow,
        )
        before = training.n_learned
        with _interruptible(training, checkpoints):
            training.run()
            model = _with_calibration(training.model(), out, resume)
            model.save(out)
    seconds = time.monotonic() - started
    facts = {
        "model": str(out),
        **training.counts(),
        "learned_now": training.n_learned - before,
        "models": _measured(model, predictions),
        "seconds": round(seconds, 2),
        "per_second": round((training.n_learned - before) / seconds),
    }
    talk.print_json(facts) if json else typer.echo(_line(facts))


def _check_places(out: Path, checkpoints: Path, predictions: Path | None, resume: bool) -> None:
    """Refuse before the work what would fail after it."""
    from broadmatch.io.artifacts import MANIFEST

    if out.exists() and not (out / MANIFEST).exists() and not (out.is_dir() and not any(out.iterdir())):
        raise CannotWrite(f"{out} exists and is not a broadmatch folder; choose another name or remove it.")
    going_on = checkpoints.is_dir() and any(checkpoints.iterdir())
    if going_on and not resume:
        raise CannotWrite(
            f"{checkpoints} is left from an earlier run: pass --resume to go on with it and with data that came since, "
            "or remove it."
        )
    if resume and not going_on:
        talk.log.info("There is no %s to go on with; training starts from the beginning.", checkpoints)
    if predictions is not None and not resume and any(predictions.glob("part-*.parquet")):
        raise CannotWrite(f"{predictions} holds the predictions of another run: choose another folder or remove it.")


def _described(describe: Path | None, format: str | None, data: list[str]) -> "Description | str":
    """What the columns are, or the name of a format that needs no description."""
    from broadmatch.signals import Description

    if format == "vw":
        if describe is not None:
            raise BadParameter(f"--describe must be left out for {format}, whose lines are features already.")
        return str(format)
    if describe is None:
        raise BadParameter(
            "--describe must name a description of the columns, unless --format is vw; "
            "docs/signals.md shows some of five lines."
        )
    description = Description.read(describe)
    description.format = format or description.format or ("jsonl" if STANDARD_INPUT in data else None)
    return description


def _signals(described: "Description | str", data: list[str]) -> list[str]:
    """The names of the signals, patterns written out; the columns are looked up only where there are patterns."""
    if isinstance(described, str):
        raise BadParameter("--variant: without= needs a description, for vw text does not name signals.")
    names = [one.name for one in described.signals]
    if not any(mark in name for name in names for mark in "*?"):
        return names
    if STANDARD_INPUT in data:
        raise BadParameter("--variant: without= needs signals that are written out, not patterns, on standard input.")
    from broadmatch.io import RecordStream

    columns = RecordStream(source_of(data), format=described.format).columns
    return [one.name for one in described.resolve(columns).signals]


@contextlib.contextmanager
def _interruptible(training: "ClickTraining", checkpoints: Path) -> Iterator[None]:
    """The first Ctrl-C ends a run that follows its data; any other leaves the last checkpoint, and says so."""

    def stop(number: int, frame: Any) -> None:
        talk.log.info("Stopping: what was read is learned and kept; Ctrl-C again ends at once.")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        training.stop()

    before = signal.signal(signal.SIGINT, stop) if training.follow else None
    try:
        yield
    except KeyboardInterrupt:
        if checkpoints.is_dir() and any(checkpoints.iterdir()):
            talk.log.info("What was learned is in %s: the same command with --resume goes on.", checkpoints)
        raise
    finally:
        if before is not None:
            signal.signal(signal.SIGINT, before)


def _with_calibration(model: "ClickModel", out: Path, resume: bool) -> "ClickModel":
    """The model with the calibration that `calibrate` gave to the one before, if this run does not learn its own."""
    from broadmatch.clicks import ClickModel
    from broadmatch.io.artifacts import MANIFEST

    if resume and model.calibration is None and (out / MANIFEST).exists():
        import broadmatch

        before = broadmatch.load(out)
        if isinstance(before, ClickModel) and before.calibration is not None:
            model.calibration = before.calibration
            talk.log.info("%s keeps its calibration; `broadmatch clicks calibrate` makes it anew.", out)
    return model


def _measured(model: "ClickModel", predictions: Path | None) -> dict[str, dict[str, float | None]]:
    """Of each model how large it is and, where predictions were kept, how well it did."""
    import numpy as np

    found: dict[str, dict[str, float | None]] = {}
    for name, served in model.models.items():
        weights = served.items()[1]
        found[name] = {"features": len(weights), "non_zero": int(np.count_nonzero(weights))}
    if predictions is not None:
        from broadmatch.evaluate import progressive_report

        for row in progressive_report(predictions, slices=[]).summary():
            found.setdefault(row["model"], {})[row["metric"]] = row["value"]
    return found


def _line(facts: dict[str, Any]) -> str:
    first = next(iter(facts["models"].values()))
    told = f"{facts['learned']:,} impressions learned"
    if facts["learned_now"] != facts["learned"]:
        told += f", {facts['learned_now']:,} of them now"
    told += f"; {first['features']:,} features, {first['non_zero']:,} not 0"
    if len(facts["models"]) > 1:
        told += f" in {next(iter(facts['models']))}"
    if first.get("LogLoss") is not None:
        told += f"; progressive LogLoss {first['LogLoss']:.5f}"
    if first.get("AucLoss") is not None:
        told += f", AucLoss {first['AucLoss']:.5f}"
    return f"{facts['model']}: {told}; {facts['seconds']:.1f} s, {facts['per_second']:,} impressions/s."
