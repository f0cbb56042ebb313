"""The page on variants, subsampling, uncertainty, calibration and threads."""

from typing import Any

from benchmarks.clicks_tables.calibrated import LEAST
from benchmarks.clicks_tables.figures import TITLES
from benchmarks.clicks_tables.page_parts import bullets, change, met, percent, prose, relative, signed, table
from benchmarks.clicks_tables.variants import N_VARIANTS


def variants(known: dict[str, Any]) -> list[str]:
    """§4.3 and §4.4."""
    lines, said = [], []
    for name, found in known.items():
        for what, f in found["variants"].items():
            ratio = f["many"]["nbytes"] / f["single"]["nbytes"]
            lines.append(
                [
                    f"{TITLES[name]}, {what}",
                    f"{f['alpha']:g}",
                    f"{f['rank_correlation']:.3f}",
                    f"{f['in_order']} of {f['pairs']}",
                    f"{f['sure_in_order']} of {f['sure_pairs']}",
                    *(f"{n / 1e6:,.0f} MB" for n in (f["separate_nbytes"], f["many"]["nbytes"], f["single"]["nbytes"])),
                    f"{ratio:.1f}",
                    *(f"{s:.0f} s" for s in (f["separate_seconds"], f["many"]["seconds"], f["single"]["seconds"])),
                ]
            )
            said.append(
                f"{TITLES[name]}, {what}: at least 5 times less memory than exact variants {met(ratio >= 5)}; the "
                f"same order of the sure pairs {met(f['sure_in_order'] == f['sure_pairs'])}{_turned(f)}."
            )
    header = ["", "α", "rank correlation", "pairs in order", "sure pairs in order"]
    header += ["memory: 32 learners", "`ManyModels`", "`SingleValue`", "times less"]
    header += ["time: 32 learners", "`ManyModels`", "`SingleValue`"]
    return [
        "## Many variants, and the single value (§4.3, §4.4)",
        prose(f"""
            The paper: variants trained together share keys and counts; with one value for all that include a feature,
            the relative performance of variants is nearly identical, and memory falls by an order of magnitude. Here
            {N_VARIANTS} variants leave out nothing, one signal, or two; on reddit the signals include the weekday and
            three crosses. “Small groups” leaves out nothing, or one of 31 groups into which the words of the titles
            and the domains fall at random: the paper's variants differ by small groups of features. α was tuned for
            the variant with all signals. `ManyModels` gives each variant what it would learn alone, bit for bit. A
            pair of variants is sure if the paired difference of their log losses is beyond 1.96 of its deviations.
        """),
        table(header, lines),
        bullets(said),
        prose("""
            Where the order is turned around: on reddit subreddit and its crosses say nearly the same; likely, a
            variant without one of them wants larger values of the others than the variants with all of them, and the
            mean of the two suits neither.
        """),
        prose("""
            The times are CPU seconds; that of 32 learners is 32 times that of one that has all the signals, with the
            impressions in memory already; reading and encoding, which `ManyModels` does once and 32 runs would do 32
            times, is not in it.
        """),
    ]


def _turned(f: dict[str, Any]) -> str:
    if f["sure_in_order"] == f["sure_pairs"]:
        return ""
    return f", and the largest difference that is turned around is {100 * f['least_wrong']:.2f} % of the log loss"


def subsampling(known: dict[str, Any]) -> list[str]:
    """§4.6."""
    parts = [
        "## Subsampling (§4.6)",
        prose("""
            The paper: even fairly aggressive subsampling of queries without a click, with importance weights, has a
            very mild impact on accuracy, and r matters little. Here every impression is its own query, and all
            impressions of the stream are predicted with what the subsample before them has taught. “β tuned” is the
            same with β tuned too. “Log-odds moved” learns the subsample with weight 1 and moves the log-odds of what
            it predicts by log r. “At random” learns as many impressions, clicked or not. α was tuned for each, for log
            loss. The goal: log loss at most 0.5 % above that of all rows at equal data seen, and a mean prediction
            within 0.5 % of the click rate.
        """),
    ]
    header = ["", "learned", "α", "β", "LogLoss", "AucLoss", "mean prediction / click rate − 1"]
    for name, found in known.items():
        rows = found["subsampling"]["rows"]
        lines = [
            [
                row["model"],
                f"{100 * row['learned']:.1f} %",
                f"{row['alpha']:g}",
                f"{row['beta']:g}",
                change(row, "LogLoss"),
                change(row),
                percent(100 * row["Bias"]["value"]),
            ]
            for row in rows
        ]
        parts += [f"**{TITLES[name]}**", table(header, lines), _sampled(rows)]
    return [
        *parts,
        prose("""
            If “equal data seen” means the same stream, no way reaches the goal for the log loss: what is lost is
            information. At r = 0.1 nine tenths of the unclicked impressions are gone and at r = 0.01 nearly all, and
            in a stream of two million most values are not seen so often that they could be spared; the paper's streams
            are thousands of times longer. If it means as many impressions learned, “at random” is what to compare
            with. At a small r the weights themselves cost accuracy, for the same impressions without weights do
            better: likely, because one unclicked impression of weight 100 is a very large step, whose square then
            slows the coordinate down. What helps: a larger β for a small r, and, better, no weights but log-odds moved
            by log r, which would be exact if the model were; on reddit its mean prediction is off by a few percent,
            which is left to calibration.
        """),
    ]


def _sampled(rows: list[dict[str, Any]]) -> str:
    of = {row["model"]: row for row in rows}
    said = []
    for name, row in of.items():
        if name.startswith("r = "):
            rate = name.split(",")[0]
            loss, bias = relative(row, "LogLoss"), 100 * row["Bias"]["value"]
            random = row["LogLoss"]["value"] < of[f"at random, as many as {rate}"]["LogLoss"]["value"]
            said.append(
                f"{name}: log loss {met(loss <= 0.5)} against the same stream, "
                f"{'better' if random else '**worse**'} than as many at random, bias {met(abs(bias) < 0.5)}"
            )
    return bullets(f"{what}." for what in said)


def uncertainty(known: dict[str, Any]) -> list[str]:
    """§6."""
    lines, said = [], []
    for name, found in known.items():
        for what, f in found["uncertainty"].items():
            lower, upper = f["figure"]["u"][0][1], f["figure"]["u"][-1][1]
            lines.append(
                [
                    f"{TITLES[name]}, {what}",
                    f"{f['rows']:,}",
                    signed(f["u"], 3),
                    signed(f["bootstrap"], 3),
                    f"{f['ratio']:.2f}" if f["bootstrap"] > 0 else "–",
                    f"{lower:.2f}",
                    f"{upper:.2f}",
                ]
            )
            said.append(f"{met(f['u'] >= 0.8 * f['bootstrap'])} on {TITLES[name]}, {what}")
    header = ["", "impressions", "u(x)", "bootstrap", "ratio", "median error, least u", "median error, most u"]
    return [
        "## Uncertainty (§6, figure 3)",
        prose("""
            The paper: u(x) is well correlated with the error of the log-odds, and does about as well as a bootstrap of
            32 models. As there, a true model is trained with slightly different signals (on reddit without the hour,
            with the weekday and a cross; on the click log without two fields, with two crosses), its probabilities
            draw new clicks, and FTRL learns those. The click log is measured with its own clicks as well, whose truth
            is known. u(x) and the predictions come from the serving model, refreshed after each tenth of the stream;
            so do those of the 32 models, each trained with Poisson(1) weights. The figures are rank correlations with
            |log-odds error|; the goal is 0.8 of the bootstrap's. “Least” and “most u” are the lowest and the highest 4
            % of u(x).
        """),
        table(header, lines),
        prose(f"""
            At least 0.8 of the bootstrap: {"; ".join(said)}. The correlations are weaker than the paper's word
            suggests; the truth has signals that the learner lacks, and of that part of the error no learner can know.
            Likely, the bootstrap does so poorly because it sees what differs between samples and not what all samples
            lack: of a value that was hardly seen, all 32 models know as little, and agree. u(x) is large there, which
            is right if rare values have weights of their own, as in the click log's own truth. A true model that was
            itself learned from the click log has hardly learned its rare values and leaves them near 0: there u(x)
            warns of errors that do not come.
        """),
        "![Error of the log-odds by quantile of the uncertainty](clicks_uncertainty.svg)",
    ]


def calibration(known: dict[str, Any]) -> list[str]:
    """§7."""
    parts = ["## Calibration by slice (§7)"]
    header = ["", "worst tenth", "worst tenth, later", "by chance", "all subreddits", "overall", "bias", "LogLoss"]
    for name, found in known.items():
        f = found["calibration"]
        before = f["rows"][0]
        lines = [
            [
                row["map"],
                f"{row['worst_earlier']:.4f}",
                f"{row['worst_later']:.4f}",
                f"{row['by_chance']:.4f}",
                f"{row['all_slices']:.4f}",
                f"{row['calibration_error']:.4f}",
                percent(100 * row["bias"], 1),
                f"{row['log_loss']:.4f}",
            ]
            for row in f["rows"]
        ]
        reached = [
            row["worst_earlier"] <= before["worst_earlier"] / 2 and row["worst_later"] <= before["worst_later"] / 2
            for row in f["rows"]
            if "by " in row["map"]
        ]
        parts += [
            prose(f"""
                The paper: corrections by slice of the data make up for signals that the model does not have. Here the
                model of {TITLES[name]} is not told the subreddit. The maps are learned on the middle third of the
                stream and measured on the last. The error of a subreddit is |mean prediction − click rate|; those with
                at least {LEAST} impressions in both thirds count ({f["subreddits"]:,}), each alike. The worst tenth
                ({f["worst"]}) is chosen by the error in the middle third, before any calibration; “later”, by that in
                the last third itself. “By chance” is what that tenth would be off if the map were exactly right.
                “Overall” is the calibration error over 20 bins of the prediction. The goal is half the error of the
                worst tenth.
            """),
            table(header, lines),
            prose(f"""
                At most half the error of the worst tenth, with both kinds of maps: {met(all(reached))}. A global map
                cannot do it: the predictions are right on average, and wrong in every subreddit in its own way.
            """),
        ]
    return parts


def threads(known: dict[str, Any]) -> list[str]:
    """Two threads without locks."""
    lines, said = [], []
    for name, found in known.items():
        rows = found["threads"]["rows"]
        lines += [[f"{TITLES[name]}, {row['model']}", change(row, digits=3), change(row, "LogLoss", 3)] for row in rows]
        mean = sum(relative(row, "LogLoss") for row in rows[1:]) / len(rows[1:])
        said.append(f"{percent(mean, 3)} on {TITLES[name]}")
    return [
        "## Two threads without locks",
        prose("""
            `learn_shared` from two threads, each with one half of every batch of 65,536 impressions; updates that meet
            may be lost, and half of each batch is learned before what comes ahead of it in time. Common features are
            learned on copies that are brought together now and then. Not in the paper.
        """),
        table(["", "AucLoss", "LogLoss"], lines),
        prose(f"Mean change of the log loss: {', '.join(said)}."),
    ]
