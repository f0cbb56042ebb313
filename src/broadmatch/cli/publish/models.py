"""`broadmatch publish clicks`, `recommender` and `list`: models into a server's folder, and what it has."""

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from broadmatch.cli import options, output

if TYPE_CHECKING:
    from broadmatch.serve import PublishedModels
    from broadmatch.serve.publishing import ModelKind

Folder = Annotated[Path, typer.Argument(metavar="FOLDER", help="The folder of the server.")]
Arm = Annotated[str, typer.Option(help="The arm that serves it.")]
_Model = Annotated[Path, typer.Argument(metavar="MODEL", help="The folder of the model.")]
_Version = Annotated[str | None, typer.Option("--version", metavar="NAME", help="If not given, the time.")]


def clicks_command(
    folder: Folder,
    model: _Model,
    arm: Arm = "main",
    share: Annotated[
        float | None, typer.Option(min=0, max=1, help="Give the arm this share of the traffic; it is made if need be.")
    ] = None,
    version: _Version = None,
    json: options.Json = False,
) -> None:
    """Put a click model in service.

    A server that runs takes it up within a second; no request is dropped. With --share, an arm gets that share of the
    traffic and the others share the rest as before.

    \b
    Example:
      broadmatch publish clicks server/ model/
      broadmatch publish clicks server/ new-model/ --arm b --share 0.1
    """
    from broadmatch.serve import PublishedModels

    models = PublishedModels(folder)
    if share is not None:
        models.set_share(arm, share)
    _publish(models, "clicks", model, arm, version, json)


def recommender_command(folder: Folder, model: _Model, version: _Version = None, json: options.Json = False) -> None:
    """Put a phrase model in service.

    A server that runs takes it up within a second; no request is dropped.

    \b
    Example:
      broadmatch publish recommender server/ model/
    """
    from broadmatch.serve import PublishedModels

    _publish(PublishedModels(folder), "recommender", model, "main", version, json)


def _publish(
    models: "PublishedModels", kind: "ModelKind", model: Path, arm: str, version: str | None, json: bool
) -> None:
    import broadmatch

    name = models.publish(kind, broadmatch.load(model), version=version, arm=arm)
    served = models.arm(kind, arm)
    in_service = served.version == name
    if json:
        output.print_json({"kind": kind, "version": name, "arm": arm, "in_service": in_service})
        return
    why = "" if in_service else f", but {arm} stays with {served.version}"
    why += "; `broadmatch publish release` lets it take up new models" if served.pinned and not in_service else ""
    output.print_text(f"{models.folder}: {kind} {name} is published{why}.")


def list_command(folder: Folder, json: options.Json = False) -> None:
    """List all models that were published, the newest first, and which of them are in service.

    \b
    Example:
      broadmatch publish list server/
    """
    from broadmatch.serve import PublishedModels
    from broadmatch.serve.publishing import MODEL_KINDS

    models = PublishedModels(folder)
    serving, rows = models.serving(), list[dict[str, Any]]()
    for kind in MODEL_KINDS:
        for version in reversed(models.versions(kind)):
            arms = [one for one in serving.of(kind) if one.version == version.name]
            guard = version.facts.get("guard")
            held = guard.get("reason") if isinstance(guard, dict) and guard.get("decision") == "hold" else None
            when = datetime.fromtimestamp(version.published_at, UTC).isoformat(timespec="seconds")
            in_service = {one.name: {"share": one.share, "pinned": one.pinned} for one in arms}
            row = {"kind": kind, "version": version.name, "published": when, "in_service": in_service}
            rows.append(row | {"held_back": held, "facts": version.facts})
    if json:
        arms_now = {kind: {one.name: one.version for one in serving.of(kind)} for kind in MODEL_KINDS}
        output.print_json({"serving": arms_now, "versions": rows})
        return
    heads = ("kind", "version", "published", "in service")
    columns = [*(output.Column(head) for head in heads), output.Column("held back", spare="shorten")]
    shown = [(*(row[head] for head in heads[:3]), _arms(row["in_service"]), row["held_back"] or "") for row in rows]
    initial = [(kind, one.version, "", _arms({one.name: {"share": one.share, "pinned": one.pinned}}), "")
               for kind in MODEL_KINDS for one in serving.of(kind) if one.version == "initial"]  # fmt: skip
    output.print_table(columns, [*shown, *initial])


def _arms(arms: dict[str, dict[str, Any]]) -> str:
    return ", ".join(f"{name} {one['share']:.0%}{' pinned' if one['pinned'] else ''}" for name, one in arms.items())
