"""The two pictures of the page."""

from pathlib import Path
from typing import Any

TITLES = {"reddit": "reddit", "log": "click log"}
_COLOURS = {"FTRL": "#1f77b4", "RDA": "#2ca02c", "FOBOS": "#d62728", "OGD-Count": "#ff7f0e"}


def sparsity_figure(known: dict[str, Any], file: Path) -> None:
    """Non-zeros against AucLoss of the learners of table 1, a point for each l1 or k."""
    figure, panels = _panels(len(known))
    from matplotlib.ticker import NullFormatter

    for axes, (name, found) in zip(panels, known.items(), strict=True):
        for learner, points in found["table_1"]["curves"].items():
            kept = [(n, loss) for _, n, loss in points if n]
            axes.plot(*zip(*kept, strict=True), "o-", ms=3, lw=1, color=_COLOURS[learner], label=learner)
        best = min(loss for points in found["table_1"]["curves"].values() for _, _, loss in points)
        axes.set(xscale="log", xlabel="coefficients that are not 0", ylabel="AucLoss", title=TITLES[name])
        axes.set_ylim(best * 0.995, best * 1.06)
        axes.xaxis.set_minor_formatter(NullFormatter())  # the axes are too short for labels between the powers of ten
    panels[0].legend(frameon=False, fontsize=8)
    _save(figure, panels, file)


def uncertainty_figure(known: dict[str, Any], file: Path) -> None:
    """Figure 3 of the paper: percentiles of the log-odds error by quantile of u(x), and of the bootstrap's spread."""
    panes = [(name, what, facts) for name, found in known.items() for what, facts in found["uncertainty"].items()]
    figure, panels = _panels(len(panes))
    for axes, (name, what, facts) in zip(panels, panes, strict=True):
        for score, colour in (("u", "#1f77b4"), ("bootstrap", "#999999")):
            points = facts["figure"][score]
            x = [(i + 0.5) / len(points) for i in range(len(points))]
            for k, style in enumerate((":", "-", ":")):
                label = {"u": "u(x)", "bootstrap": "bootstrap of 32"}[score] if k == 1 else None
                axes.plot(x, [point[k] for point in points], style, color=colour, label=label, lw=1.4)
        axes.set(xlabel="quantile of the uncertainty", title=f"{TITLES[name]}, {what}", ylim=(0, None))
    panels[0].set_ylabel("error of the log-odds: 25 %, 50 %, 75 %")
    panels[0].legend(frameon=False, fontsize=8)
    _save(figure, panels, file)


def _panels(n: int) -> tuple[Any, list[Any]]:
    import matplotlib

    matplotlib.use("agg")
    matplotlib.rcParams["svg.hashsalt"] = "broadmatch"  # the same picture is the same file
    import matplotlib.pyplot as plt

    figure, panels = plt.subplots(1, n, figsize=(4.5 * n, 3.4), layout="constrained", squeeze=False)
    return figure, list(panels[0])


def _save(figure: Any, panels: list[Any], file: Path) -> None:
    for axes in panels:
        axes.grid(alpha=0.3)
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(file, metadata={"Date": None})
