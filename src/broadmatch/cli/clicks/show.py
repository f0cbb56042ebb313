"""`broadmatch clicks show`: what is in a click model."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output
from broadmatch.cli.clicks.common import open_model, prepare
from broadmatch.cli.output import Column

if TYPE_CHECKING:
    from broadmatch.clicks import ClickModel
    from broadmatch.clicks.model import Feature


def command(
    path: Annotated[Path, typer.Argument(metavar="MODEL", help="A click model.")],
    signal: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME,...", help="Only the features of these signals; if not given, of all."),
    ] = None,
    top: Annotated[int, typer.Option(help="Features of each signal, those with the largest coefficients.")] = 10,
    model: options.ModelName = None,
    json: options.Json = False,
) -> None:
    """Show what is in a model: how it was made, top weights.

    The features can be read if the model was trained with --names. A coefficient adds to the log-odds of a click; the
    rate says how far one more example could move it.

    \b
    Example:
      broadmatch clicks show model/
      broadmatch clicks show model/ --signal title --top 20
    """
    prepare()
    from broadmatch.errors import BadParameter
    from broadmatch.params import Whole

    Whole(1).check("--top", top)
    found = open_model(path)
    chosen = options.parse_names(signal)
    found.variant(model)
    if chosen is not None and found.names is not None:
        there = sorted({f.signal for f in found.top_features(top=1, model=model)})
        if strange := [one for one in chosen if one not in there]:
            raise BadParameter(f"--signal must be one of {', '.join(there)}, but it is {strange[0]!r}.")
    features = found.top_features(top=top, signals=chosen, model=model) if found.names is not None or chosen else []
    facts = _facts(found, path)
    if json:
        output.print_json({**facts, "features": [vars(feature) for feature in features]})
        return
    _print_facts(facts)
    if found.names is None:
        typer.echo("\nThe names of the features were not kept: train with --names to see them here.")
    else:
        _print_features(features)


def _facts(model: "ClickModel", path: Path) -> dict[str, Any]:
    models = {
        name: {"features": served.n_features, "non_zero": served.n_nonzero, "bytes": served.nbytes}
        for name, served in model.models.items()
    }
    calibration = None
    if model.calibration is not None:
        calibration = {"kind": type(model.calibration).__name__, "by": list(getattr(model.calibration, "by", ()))}
    described = model.description if isinstance(model.description, str) else model.description.to_dict()
    size = sum(file.stat().st_size for file in path.iterdir())
    return {
        "model": str(path),
        "bytes": size,
        "description": described,
        "training": model.training,
        "models": models,
        "calibration": calibration,
    }


def _print_facts(facts: dict[str, Any]) -> None:
    training, described = facts["training"], facts["description"]
    lines = [f"{facts['model']}: {_size(facts['bytes'])} on disk"]
    if training:
        lines.append(f"trained on    {training['impressions']:,} impressions")
        settings = [f"{name}={value}" for name, value in training["parameters"].items() if value != "None"]
        lines.append(f"learner       {training['learner']}: {', '.join(settings)}")
        if "chosen" in training:
            lines.append(f"rates         {training['chosen']}")
        if "subsample" in training:
            lines.append(f"subsample     {training['subsample']} of the queries without a click")
        if "window" in training:
            lines.append(f"clicks        joined within {training['window']:g} s")
    if isinstance(described, str):
        lines.append(f"reads         {described} text")
    else:
        lines += [f"{key:<13} {_plain(value)}" for key, value in described.items() if key != "signals"]
        lines.append(f"signals       {', '.join(_signal(*one) for one in described['signals'].items())}")
    if facts["calibration"]:
        by = ", ".join(facts["calibration"]["by"])
        lines.append(f"calibration   {facts['calibration']['kind']}{f' by {by}' if by else ''}")
    for name, one in facts["models"].items():
        text = f"{one['features']:,} features, {one['non_zero']:,} not 0, {_size(one['bytes'])} in memory"
        variant = training.get("variants", {}).get(name)
        lines.append(f"{name:<13} {text}{'' if variant is None else f'; {_variant(variant, described)}'}")
    typer.echo("\n".join(lines))


def _variant(settings: dict[str, Any], described: Any) -> str:
    """The settings of a variant, and what it leaves out."""
    numbers = (f"{name}={value}" for name, value in settings.items() if name not in ("learner", "fields"))
    text = f"{settings['learner']}: {', '.join(numbers)}"
    if settings["fields"] is None or isinstance(described, str):
        return text
    left_out = [name for i, name in enumerate(described["signals"]) if i not in settings["fields"]]
    return f"{text}, without {', '.join(left_out)}"


def _plain(value: Any) -> str:
    return (
        ", ".join(map(str, value.values() if isinstance(value, dict) else value))
        if not isinstance(value, str)
        else value
    )


def _signal(name: str, text: Any) -> str:
    if isinstance(text, str):
        return f"{name} ({text})"
    kind = " × ".join(text["cross"]) if "cross" in text else text["kind"]
    return f"{name} ({kind}{' in buckets' if text.get('buckets') else ''})"


def _print_features(features: "list[Feature]") -> None:
    typer.echo()
    right = [Column("coefficient", right=True), Column("rate", right=True, spare="drop")]
    rows = [(one.signal, one.value, f"{one.weight:+.3f}", f"{one.rate:.2g}") for one in features]
    output.print_table([Column("signal"), Column("value"), *right], rows)


def _size(n: float) -> str:
    for unit in ("B", "KB", "MB"):
        if n < 1000:
            return f"{n:.3g} {unit}"
        n /= 1000
    return f"{n:.3g} GB"
