"""`broadmatch clicks train --tune`: candidates side by side in one pass, the best of which is the model."""

import contextlib
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from broadmatch.cli import output
from broadmatch.cli.clicks.variants import OWN
from broadmatch.cli.output import Column
from broadmatch.errors import BadParameter

if TYPE_CHECKING:
    from broadmatch.clicks import ManyModels, TunedClicks

_SHOWN = 10


def check_tuning(
    variant: Sequence[str] | None, resume: bool, follow: bool, n_jobs: int, calibrate_by: str | None
) -> None:
    """Refuse what does not go with a tuning."""
    given = {"--variant": variant, "--resume": resume, "--follow": follow, "--n-jobs": n_jobs > 1,
             "--calibrate-by": calibrate_by}  # fmt: skip
    for option, value in given.items():
        if value:
            raise BadParameter(f"{option} must be left out with --tune, which ends with one model of many.")


def tuning_models(settings: Mapping[str, Any]) -> "ManyModels":
    """All candidates for one pass; what was set stays as it is."""
    from broadmatch.clicks import ManyModels, tuning_candidates

    fixed = {name: value for name, value in settings.items() if name in OWN and value is not None}
    shared = {name: value for name, value in settings.items() if name not in OWN}
    return ManyModels(tuning_candidates(fixed), **shared)


@contextlib.contextmanager
def kept_predictions(folder: Path | None, tune: bool) -> Iterator[Path | None]:
    """Where predictions go: a tuning needs them, and keeps them only where it is told to."""
    if folder is not None or not tune:
        yield folder
        return
    with tempfile.TemporaryDirectory(prefix="broadmatch-tune-") as place:
        yield Path(place) / "predictions"


def print_tuned(tuned: "TunedClicks") -> None:
    """The best candidates by rising log loss, and who won."""
    columns = [Column("tried", spare="shorten"), Column("LogLoss", right=True), Column("behind in %", right=True)]
    columns.append(Column("95 % interval", right=True, spare="drop"))
    rows = []
    for place, row in enumerate(tuned.ranking[:_SHOWN]):
        ends = f"{row['relative_low']:+.2f} – {row['relative_high']:+.2f}"
        rows.append((row["model"], f"{row['value']:.5f}", *((f"{row['relative']:+.2f}", ends) if place else ("", ""))))
    output.print_table(columns, rows)
    output.print_text(f"{tuned}.")
