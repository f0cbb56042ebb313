"""An explanation in print, in the words for pages or for rows of a matrix."""

from typing import TYPE_CHECKING

from broadmatch.cli.output import Column, print_table, print_text

if TYPE_CHECKING:
    from broadmatch.labels import Contribution, Explanation, Step

_WORDS, _LEAVES, _STEPS, _PUSHES, _POINTS = 12, 3, 4, 3, 5


def print_explanation(why: "Explanation", of_pages: bool = True) -> None:
    """What speaks for the label: words, revealed labels, training points, leaves, the re-ranker."""
    word, point = ("word", "page") if of_pages else ("feature", "point")
    for line in (f"{why.label}{_head(why)}", *_amounts(why, word.capitalize())):
        print_text(line)
    for step in why.path:
        print_text(f"On the way: {step}")
    if "p_near" in why.factors:
        print_text(_nearby(why))
    elif why.neighbours:
        columns = [Column("leaves shared", right=True), Column("vote", right=True), Column(point)]
        rows = [(f"{one.likeness:.0%}", f"{one.value:.2f}", one.point) for one in why.neighbours]
        print_table(columns, rows, f"\nNearest training {point}s")
    if "p_tail" in why.factors:
        print_text(_reranked(why.factors, word))
    if why.leaves:
        best = sorted(why.leaves, key=lambda one: -one.value)[:_LEAVES]
        columns = [Column("tree", right=True), Column("vote", right=True), Column("the way there", spare="shorten")]
        rows = [(str(leaf.tree), f"{leaf.value:.2f}", _way(leaf.path, word)) for leaf in best]
        print_table(columns, rows, "\nLeaves that say most for it")


def _head(why: "Explanation") -> str:
    if not why.leaves:
        return f": score {why.score:+.3f}, which is {'above' if why.score > 0 else 'not above'} 0."
    agreeing = sum(leaf.value > 0 for leaf in why.leaves)
    return f": score {why.score:.3g}; {agreeing} of the {len(why.leaves)} trees vote for it, at least a little."


def _amounts(why: "Explanation", word: str) -> list[str]:
    """The strongest contributions, by what they are of."""
    if not why.leaves:
        pairs = (
            (side, [c for c in why.contributions if c.amount * sign > 0])
            for side, sign in (("for", 1), ("against", -1))
        )
        return [f"{word}s that speak {side} it: {_listed(some)}" for side, some in pairs]
    counts = all(float(one.amount).is_integer() for one in why.contributions)
    lines = [f"{word}s that decided{' (in trees)' if counts else ''}: {_listed(why.of('feature'), counts)}"]
    if why.of("revealed"):
        lines.append(f"Revealed labels that decided: {_listed(why.of('revealed'))}")
    return lines


def _listed(contributions: "list[Contribution]", counts: bool = False) -> str:
    amounts = [(c.feature, f"{c.amount:.0f}" if counts else f"{c.amount:+.2f}") for c in contributions[:_WORDS]]
    return ", ".join(f"{name} ({text})" for name, text in amounts if float(text)) or "none"


def _nearby(why: "Explanation") -> str:
    share, n_points = why.factors["near_share"], int(why.factors["n_near"])
    if not n_points:
        return "No training point has any of the revealed labels."
    head = (
        f"Of the {n_points} training points most like it by revealed labels {len(why.neighbours)} have it, "
        f"{why.factors['p_near']:.3g} by their weights; this counts {share:.0%}, and the trees {1 - share:.0%}"
    )
    some = [f"{one.point} ({one.likeness:.2f}, with {', '.join(one.shared)})" for one in why.neighbours[:_POINTS]]
    return f"{head}. The nearest that have it: {'; '.join(some)}." if some else f"{head}."


def _reranked(factors: dict[str, float], word: str) -> str:
    by_labels = factors["distance_revealed"]
    revealed = f", {by_labels:.2f} by revealed labels" if by_labels else ""
    return (
        f"The re-ranker: its distance to the mean of the label's training points is "
        f"{factors['distance_features']:.2f} by {word}s{revealed}; the votes are multiplied with "
        f"{factors['tail_factor']:.3g}."
    )


def _way(path: "list[Step]", word: str) -> str:
    """The last steps to a leaf; those for what the point lacks are only counted, as they are most."""
    there = [step for step in path if step.value]
    steps = [_step(step) for step in there[-_STEPS:]]
    lacks = len(path) - len(there)
    counted = [f"{lacks} {word}s that it lacks"] if lacks else []
    return " → ".join([*counted, *(["…"] if len(there) > _STEPS else []), *steps]) or "the root"


def _step(step: "Step") -> str:
    if len(step.contributions) == 1 and step.contributions[0].kind == "feature":
        return str(step)
    strongest = sorted((c for c in step.contributions if c.kind != "bias"), key=lambda one: -abs(one.amount))[:_PUSHES]
    names = ", ".join(one.feature for one in strongest if (one.amount > 0) == step.went_left)
    side = "left" if step.went_left else "right"
    return f"{side} for {names}" if names else side
