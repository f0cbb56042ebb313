"""`broadmatch clicks train`: from a stream of impressions to a click model, in one pass."""

import contextlib
import signal
import time
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.clicks.common import prepare, source_of
from broadmatch.cli.clicks.tuning import check_tuning, kept_predictions, print_tuned, tuning_models
from broadmatch.cli.clicks.variants import variants_of
from broadmatch.cli.consumption import consumption, reports_signals
from broadmatch.cli.settings import parse_values, rules_of, split_settings
from broadmatch.errors import BadParameter, CannotWrite
from broadmatch.io.formats import STANDARD_INPUT, format_of

if TYPE_CHECKING:
    from broadmatch.clicks import ClickModel, ClickTraining, TunedClicks
    from broadmatch.signals import Description


@reports_signals
def command(
    data: Annotated[list[str], typer.Argument(metavar="DATA...", help="Files, folders, patterns, or -.")],
    out: Annotated[Path, typer.Option("--out", metavar="MODEL", help="Folder to write.")],
    describe: Annotated[Path | None, typer.Option(metavar="TOML", help="What the columns are; else guessed.")] = None,
    format: options.Format = None,
    clicks: Annotated[list[str] | None, typer.Option(metavar="FILES", help="Clicks by id, time; repeatable.")] = None,
    window: Annotated[float | None, typer.Option(metavar="S", help="How long clicks count after it was shown.")] = None,
    subsample: Annotated[float | None, typer.Option(metavar="R", help="Share of unclicked queries to keep.")] = None,
    predictions: Annotated[
        Path | None, typer.Option(metavar="FOLDER", help="Keep predictions made before learning.")
    ] = None,
    calibrate_by: Annotated[
        str | None, typer.Option(metavar="SLICE", help="Calibrate by slices, the widest first.")
    ] = None,
    names: Annotated[bool, typer.Option("--names", help="Keep the names of the features, for show.")] = False,
    resume: Annotated[bool, typer.Option("--resume", help="Go on, also with data that came since.")] = False,
    overwrite: Annotated[bool, typer.Option("--overwrite", help="Start anew, over an earlier run.")] = False,
    every: Annotated[float, typer.Option("--checkpoint-every", metavar="S", help="Seconds between two.")] = 60.0,
    follow: Annotated[bool, typer.Option("--follow", help="Wait for more data until Ctrl-C.")] = False,
    n_jobs: Annotated[int, typer.Option("--n-jobs", help="Threads; with several, last bits vary.")] = 1,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="NAME=VALUE", help="Any parameter; see `broadmatch models ftrl`."),
    ] = None,
    variant: Annotated[list[str] | None, typer.Option(metavar="TEXT", help="One of several models, as above.")] = None,
    tune: Annotated[bool, typer.Option("--tune", help="Try settings side by side, keep the best.")] = False,
    rejects: options.RejectsFile = None,
    max_bad_rows: options.MaxBadRows = None,
    json: options.Json = False,
) -> None:
    """Learn to predict clicks, in one pass over a stream.

    Everything that the run knows is kept in MODEL.training. After Ctrl-C, a crash or a power cut, the same command with
    --resume goes on from the last checkpoint and ends with the same bits; with new DATA, it learns that.
    Of several variants, the first predicts unless another is named.

    \b
    Example:
      broadmatch clicks train log.parquet --describe clicks.toml --out model/ --predictions predictions/
      broadmatch clicks train 'logs/*.csv.gz' --describe clicks.toml --out model/ --set l1=1 --names
      broadmatch clicks train train.vw --out model/ --variant "a: alpha=0.1" --variant "b: l1=1"
    """
    checkpoints = out.with_name(f"{out.name}.training")
    _check_places(out, checkpoints, predictions, resume, overwrite)
    prepare()
    import broadmatch.clicks
    from broadmatch.clicks import FTRL, ClickTraining, TunedClicks
    from broadmatch.io import Rejects
    from broadmatch.params import Number

    Number(0, 1, above=True, none=True).check("subsample", subsample)
    described = _described(describe, format, data, out)
    consumption().check(described, out)
    given = parse_values(split_settings(settings)[""], rules_of(FTRL), "ftrl")
    if tune:
        check_tuning(variant, resume, follow, n_jobs, calibrate_by)
    several = tuning_models(given) if tune else variants_of(variant, given, described, data) if variant else None
    learner = FTRL(**given) if several is None else several
    by = options.parse_names(None if calibrate_by is None else [calibrate_by])
    started = time.monotonic()
    with Rejects(rejects, max_bad_rows=max_bad_rows) as own, kept_predictions(predictions, tune) as place:
        training = ClickTraining(
            source_of(data),
            described,
            learner,
            clicks=clicks or None,
            window=window,
            subsample=subsample,
            calibration=None if by is None else broadmatch.clicks.SlicedCalibration(by=tuple(by)),
            predictions=place,
            names=names,
            checkpoints=None if tune else checkpoints,
            every=every,
            resume=resume,
            overwrite=overwrite,
            n_jobs=n_jobs,
            rejects=own,
            follow=follow,
        )
        _keep_description(described if describe is None else "given", out)
        before = training.n_learned
        consumption().check(training.described, out)
        consumption().report(training.consumed())
        with _interruptible(training, checkpoints):
            training.run()
            tuned = TunedClicks.of(place, several.named) if tune and several is not None else None
            model = _with_calibration(training.model(tuned and tuned.name), out, resume)
            model.save(out)
            if tuned is not None:
                tuned.write(out)
        consumption().report(training.consumed())
    facts = {"model": str(out), "models": _measured(model, None if tune else predictions)}
    _print_facts(facts | _facts(training, before, time.monotonic() - started), tuned, json)


def _print_facts(facts: dict[str, Any], tuned: "TunedClicks | None", json: bool) -> None:
    if json:
        output.print_json(_plain(facts | ({} if tuned is None else {"tuning": tuned.to_dict()})))
        return
    if tuned is not None:
        print_tuned(tuned)
    output.print_text(_line(facts))


def _check_places(out: Path, checkpoints: Path, predictions: Path | None, resume: bool, overwrite: bool) -> None:
    """Refuse before the work what would fail after it."""
    options.check_free(out)
    if overwrite and not resume:
        return
    going_on = checkpoints.is_dir() and any(checkpoints.iterdir())
    if going_on and not resume:
        raise CannotWrite(
            f"{checkpoints} is left from an earlier run: pass --resume to go on with it and with data that came since, "
            "or --overwrite to start anew."
        )
    if resume and not going_on:
        output.log.info("There is no %s to go on with; training starts from the beginning.", checkpoints)
    if predictions is not None and not resume and any(predictions.glob("part-*.parquet")):
        raise CannotWrite(
            f"{predictions} holds the predictions of another run: choose another folder, or pass --overwrite."
        )


def _beside(out: Path) -> Path:
    """Where a guess of what the columns are is kept."""
    return out.with_name(f"{out.name}.toml")


def _described(describe: Path | None, format: str | None, data: list[str], out: Path) -> "Description | str":
    """What the columns are, or the name of a format that needs no description; an earlier guess is taken again."""
    from broadmatch.signals import Description

    lines = format == "vw" or (format is None and all(format_of(Path(one)) == "vw" for one in data))
    if lines:
        if describe is not None:
            raise BadParameter("--describe must be left out for vw, whose lines are features already.")
        return "vw"
    if describe is None and not _beside(out).exists():
        return _guessed(data, format, out)
    description = Description.read(_beside(out) if describe is None else describe)
    description.format = format or description.format or ("jsonl" if STANDARD_INPUT in data else None)
    return description


def _guessed(data: list[str], format: str | None, out: Path) -> "Description":
    """What the columns probably are, by the first rows; said, for it may be wrong."""
    from broadmatch.signals.guess import guess_from

    if STANDARD_INPUT in data:
        raise BadParameter(
            "--describe must name a description of what comes on standard input; "
            "docs/signals.md shows some of five lines."
        )
    found = guess_from(source_of(data), format=format)
    kinds = ", ".join(f"{signal.name} ({signal.kind})" for signal in found.description.signals)
    output.log.info("The first rows say: label %s; %s.", found.description.label, kinds)
    for name, why in found.left_out.items():
        output.log.info("Column %s is left out: %s.", name, why)
    output.log.info("That is a guess: %s will hold it; correct it there, and the next run takes it.", _beside(out))
    return found.description


def _keep_description(description: "Description | str", out: Path) -> None:
    """Keep a guess, now that all else is right with the run."""
    from broadmatch.io.files import replacing_file

    if not isinstance(description, str) and not _beside(out).exists():
        with replacing_file(_beside(out)) as file:
            file.write(description.to_toml().encode())


@contextlib.contextmanager
def _interruptible(training: "ClickTraining", checkpoints: Path) -> Iterator[None]:
    """The first Ctrl-C ends a run that follows its data; any other leaves the last checkpoint, and says so."""

    def stop(number: int, frame: Any) -> None:
        output.log.info("Stopping: what was read is learned and kept; Ctrl-C again ends at once.")
        signal.signal(signal.SIGINT, signal.default_int_handler)
        training.stop()

    before = signal.signal(signal.SIGINT, stop) if training.follow else None
    try:
        yield
    except KeyboardInterrupt:
        if checkpoints.is_dir() and any(checkpoints.iterdir()):
            output.log.info("What was learned is in %s: the same command with --resume goes on.", checkpoints)
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
            output.log.info("%s keeps its calibration; `broadmatch clicks calibrate` makes it anew.", out)
    return model


def _facts(training: "ClickTraining", before: int, seconds: float) -> dict[str, Any]:
    """What a run did, and how fast."""
    from broadmatch.clicks import FTRL

    learned = training.n_learned - before
    facts: dict[str, Any] = {**training.counts(), "learned_now": learned, "seconds": round(seconds, 2)}
    facts |= {"chosen": training.learner.chosen} if isinstance(training.learner, FTRL) else {}
    return facts | {"per_second": round(learned / seconds)}


def _measured(model: "ClickModel", predictions: Path | None) -> dict[str, dict[str, float | None]]:
    """Of each model how large it is and, where predictions were kept, how well it did."""
    found: dict[str, dict[str, float | None]] = {}
    for name, served in model.models.items():
        found[name] = {"features": served.n_features, "non_zero": served.n_nonzero}
    if predictions is not None:
        from broadmatch.evaluate import progressive_report

        for row in progressive_report(predictions, slices=[]).summary():
            found.setdefault(row["model"], {})[row["metric"]] = row["value"]
    return found


def _plain(facts: dict[str, Any]) -> dict[str, Any]:
    return facts | ({"chosen": facts["chosen"]._asdict()} if "chosen" in facts else {})


def _line(facts: dict[str, Any]) -> str:
    first = next(iter(facts["models"].values()))
    text = f"{facts['learned']:,} impressions learned"
    if facts["learned_now"] != facts["learned"]:
        text += f", {facts['learned_now']:,} of them now"
    text += f"; {first['features']:,} features, {first['non_zero']:,} not 0"
    if len(facts["models"]) > 1:
        text += f" in {next(iter(facts['models']))}"
    if first.get("LogLoss") is not None:
        text += f"; progressive LogLoss {first['LogLoss']:.5f}"
    if first.get("AucLoss") is not None:
        text += f", AucLoss {first['AucLoss']:.5f}"
    if "chosen" in facts:
        text += f"; {facts['chosen']}"
    return f"{facts['model']}: {text}; {facts['seconds']:.1f} s, {facts['per_second']:,} impressions/s."
