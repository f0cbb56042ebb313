"""`broadmatch clicks calibrate`: probabilities that are right on every slice of the traffic."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from broadmatch.cli import options, output
from broadmatch.cli.clicks.common import open_model, prepare
from broadmatch.cli.output import Column
from broadmatch.errors import BadInput

if TYPE_CHECKING:
    from broadmatch.clicks import ClickModel
    from broadmatch.clicks.calibration.recalibration import Recalibration


def command(
    model: Annotated[Path, typer.Argument(metavar="MODEL", help="A click model; it is given the calibration.")],
    predictions: Annotated[
        Path | None, typer.Argument(metavar="PREDICTIONS", help="Folder that train --predictions wrote for it.")
    ] = None,
    slicings: Annotated[
        list[str] | None,
        typer.Option("--by", metavar="SLICE,...", help="A map for each slice, the widest first; if not given, one."),
    ] = None,
    method: Annotated[
        Literal["poisson", "isotonic", "none"],
        typer.Option(help="A power of p, or any curve that rises; none takes a calibration away."),
    ] = "poisson",
    share: Annotated[
        float, typer.Option(help="Fit to this share of the predictions, the first ones, to measure on the rest.")
    ] = 0.8,
    plot: Annotated[
        Path | None, typer.Option("--plot", metavar="SVG", help="Draw predictions against click rates.")
    ] = None,
    json: options.Json = False,
) -> None:
    """Calibrate a model by what came of its predictions.

    The calibration is fitted to the earlier predictions and measured on the later ones, before and after. Unless
    LogLoss is higher after, it is then fitted to all of them and kept in MODEL, whose first model it calibrates from
    then on.

    \b
    Example:
      broadmatch clicks calibrate model/ predictions/ --by country
      broadmatch clicks calibrate model/ predictions/ --method isotonic --plot reliability.svg
    """
    prepare()
    from broadmatch.clicks.calibration.recalibration import recalibrate
    from broadmatch.evaluate import plot_reliability

    found = open_model(model)
    if method == "none":
        found.calibration = None
        found.save(model)
        output.log.info("%s has no calibration now.", model)
        return
    if predictions is None:
        raise BadInput("Name the folder of PREDICTIONS that `broadmatch clicks train --predictions` wrote.")
    slices = options.parse_names(slicings) or []
    _check_slices(found, slices, model)
    first = next(iter(found.models))
    result = recalibrate(predictions, first, by=slices, method=method, share=share)
    kept = result.after.log_loss <= result.before.log_loss
    if kept:
        found.calibration = result.calibration
        found.save(model)
    if plot is not None:
        plot_reliability({"before": result.before.reliability, "after": result.after.reliability}, plot)
    if json:
        facts = {"calibrated": first, "by": slices, "method": method, "kept": kept, **_facts(result)}
        output.print_json({"model": str(model), **facts})
    else:
        _print(result, slices)
    drawn = "" if plot is None else f"; the plot is {plot}"
    if not kept:
        output.log.warning(
            "On later traffic LogLoss is higher with the calibration than without, so %s stays as it was%s.",
            model,
            drawn,
        )
    elif not json:
        output.log.info("%s now has the calibration%s.", model, drawn)


def _check_slices(model: "ClickModel", slices: list[str], path: Path) -> None:
    """What calibrates by slice has to be known when predicting."""
    known = () if isinstance(model.description, str) else model.description.slices
    for name in slices:
        if name not in known:
            there = ", ".join(known) or "none"
            raise BadInput(
                f"{path} knows no slice {name!r}; the slices of its description are: {there}. Write "
                f'slices = ["{name}"] into the description and train again.'
            )


def _facts(result: "Recalibration") -> dict[str, object]:
    figures = {
        when: {"error": one.error, "log_loss": one.log_loss, "bias": one.reliability.bias, "worst": one.worst_slices}
        for when, one in (("before", result.before), ("after", result.after))
    }
    return {"fitted": result.n_fitted, "measured": result.n_judged, **figures}


def _print(result: "Recalibration", slices: list[str]) -> None:
    before, after = result.before, result.after
    rows = [("calibration error", f"{before.error:.5f}", f"{after.error:.5f}")]
    if before.worst_slices is not None and after.worst_slices is not None:
        worst = f"error of the worst tenth by {slices[-1]}"
        rows.append((worst, f"{before.worst_slices:.5f}", f"{after.worst_slices:.5f}"))
    rows.append(("LogLoss", f"{before.log_loss:.5f}", f"{after.log_loss:.5f}"))
    rows.append(("bias", f"{100 * before.reliability.bias:+.2f} %", f"{100 * after.reliability.bias:+.2f} %"))
    output.print_table([Column("on later traffic"), Column("before", right=True), Column("after", right=True)], rows)
    kept = "; what is kept is fitted to all" if result.after.log_loss <= before.log_loss else ""
    output.print_text(
        f"Fitted to the first {result.n_fitted:,} predictions, measured on the next {result.n_judged:,}{kept}.",
        dim=True,
    )
