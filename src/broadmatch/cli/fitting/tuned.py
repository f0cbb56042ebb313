"""`--tune`: what is refused beside it, and the path of a search as a table."""

from typing import TYPE_CHECKING, Any

import typer

from broadmatch.cli import output
from broadmatch.cli.output import Column

if TYPE_CHECKING:
    from broadmatch.data import Dataset
    from broadmatch.labels import Tuned


def check_tune(metric: str | None, budget: float | None, *, resume: bool, cluster: str | None) -> None:
    """Refuse what does not go with a search, and a metric that there is none of."""
    if metric is None:
        if budget is not None:
            raise typer.BadParameter("--budget is how long --tune may take; say what to tune, such as --tune P@5.")
        return
    if resume or cluster is not None:
        other = "--resume" if resume else "--cluster"
        raise typer.BadParameter(f"{other} does not go with --tune, which trains many models and keeps one.")
    from broadmatch.labels.choosing.held_out import Metric

    Metric.of(metric)


def tune_learner(
    learner: Any,
    points: "Dataset",
    metric: str,
    budget: float | None,
    fixed: list[str],
    seed: int,
    more: dict[str, Any],
) -> "Tuned":
    """Search, and train the best on all points."""
    from broadmatch.labels import tune

    return tune(learner, points.X, points.Y, metric=metric, budget=budget, fixed=fixed, seed=seed, **more)


def print_path(tuned: "Tuned") -> None:
    """All trials in their order, and what was chosen."""
    from broadmatch.labels.choosing.trials import in_words

    columns = [Column("tried", spare="shorten"), Column("size", spare="drop"), Column(f"{tuned.metric} %", right=True),
               Column("to the default", right=True), Column("s", right=True)]  # fmt: skip
    rows: list[tuple[Any, ...]] = []
    for trial in tuned.trials:
        d = trial.difference
        low, high = 100 * d.low, 100 * d.high
        gain = f"{100 * d.value:+.2f} [{low:+.2f}, {high:+.2f}]" if trial.settings else ""
        size = "small" if trial.small else "full"
        rows.append((in_words(trial.settings), size, f"{100 * trial.score.value:.2f}", gain, f"{trial.seconds:.1f}"))
    output.print_table(columns, rows)
    output.print_text(f"{tuned}.")
