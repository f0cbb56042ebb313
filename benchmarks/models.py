"""The figures of `broadmatch models`: python -m benchmarks.models [NAME …] [--small]

Every label model as `broadmatch train --model NAME` makes it, with its defaults, on EURLex-4K in its own split: P@1,
PSP@5, seconds of training, milliseconds (p50) of one point. They go into src/broadmatch/cli/models.toml, where the
figures of tuned settings name the benchmark that they are of. adaboost-lc, made for a few hundred labels, takes long.
"""

import argparse

import numpy as np

from benchmarks.common import need_data, tell
from benchmarks.ranking_trees import data, latency, rankings, timed_fit
from broadmatch.cli.settings import catalog, class_of


def main() -> None:
    """Measure the named models, or all."""
    names = list(catalog()["label"])
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", choices=[*names, []], metavar="NAME", help=f"some of: {', '.join(names)}")
    parser.add_argument("--small", action="store_true", help="the first 2,000 points only")
    asked = parser.parse_args()
    need_data()
    train, test = data("eurlex-4k", asked.small)
    few = train.take(np.arange(100))
    for name in asked.names or names:
        timed_fit(class_of("label", name)(), few)  # compiles
        model = class_of("label", name)()
        seconds = timed_fit(model, train)
        found = rankings(model, train, test)
        figures = {
            "p1": found["P"][0],
            "psp5": found["PSP"][-1],
            "seconds": seconds,
            "ms": latency(model, test)["p50_ms"],
        }
        tell(
            benchmark="models", model=name, small=asked.small, published=catalog()["label"][name]["figures"], **figures
        )


if __name__ == "__main__":
    main()
