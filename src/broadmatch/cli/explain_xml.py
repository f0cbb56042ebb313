"""An explanation of FastXML, PfastreXML or SwiftXML as something to print."""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from broadmatch.labels import XMLExplanation
    from broadmatch.labels.ranking_trees.explain import Near, Rerank, Turn

_WORDS, _LEAVES, _TURNS, _PUSHES, _POINTS = 12, 3, 4, 3, 5


def shown_xml(why: "XMLExplanation", of_pages: bool = True) -> list[Any]:
    """What pushed the point to the leaves that vote for the label, those leaves, points nearby, the re-ranker."""
    from rich.table import Table
    from rich.text import Text

    n_trees, agreeing = len(why.leaves), sum(leaf.value > 0 for leaf in why.leaves)
    head = Text.assemble(
        (why.label, "bold"),
        f": score {why.score:.3g}; {agreeing} of the {n_trees} trees vote for it, {why.p_trees:.3g} on average.",
    )
    word = "Words" if of_pages else "Features"
    parts: list[Any] = [head]
    if why.near is not None:
        parts.append(Text(_nearby(why.near)))
    if why.rerank is not None:
        parts.append(Text(_reranked(why.rerank, of_pages)))
    parts.append(Text(f"{word} that pushed it there: {_listed(why.words())}"))
    if why.revealed():
        parts.append(Text(f"Revealed labels that pushed it there: {_listed(why.revealed())}"))
    leaves = Table(box=None, pad_edge=False, title="Leaves that say most for it", title_justify="left")
    leaves.add_column("tree", justify="right")
    leaves.add_column("vote", justify="right")
    leaves.add_column("the way there, the last turns")
    for leaf in sorted(why.leaves, key=lambda one: -one.value)[:_LEAVES]:
        leaves.add_row(str(leaf.tree), f"{leaf.value:.2f}", Text(_way(leaf.path)))
    return [*parts, Text(), leaves]


def _reranked(rerank: "Rerank", of_pages: bool) -> str:
    what = "words" if of_pages else "features"
    revealed = f", {rerank.distance_revealed:.2f} by revealed labels" if rerank.distance_revealed else ""
    return (
        f"The re-ranker: its distance to the mean of the label's training points is {rerank.distance_words:.2f} by "
        f"{what}{revealed}; the votes are multiplied with {rerank.factor:.3g}."
    )


def _nearby(near: "Near") -> str:
    if not near.n_points:
        return "No training point has any of the revealed labels."
    head = (
        f"Of the {near.n_points} training points most like it by revealed labels {len(near.points)} have it, "
        f"{near.p_near:.3g} by their weights; this counts {near.share:.0%}, and the trees {1 - near.share:.0%}"
    )
    told = [f"{one.point} ({one.likeness:.2f}, with {', '.join(one.shared)})" for one in near.points[:_POINTS]]
    return f"{head}. The nearest that have it: {'; '.join(told)}." if told else f"{head}."


def _listed(pushes: list[tuple[str, float]]) -> str:
    """The strongest first, those that pushed the other way last."""
    some = pushes[:_WORDS]
    return ", ".join(f"{name} ({amount:+.2f})" for name, amount in some if round(amount, 2)) or "none"


def _way(path: "list[Turn]") -> str:
    told = [_turn(turn) for turn in path[-_TURNS:]]
    return " → ".join([*(["…"] if len(path) > _TURNS else []), *told]) or "the root"


def _turn(turn: "Turn") -> str:
    strongest = sorted(turn.words + turn.revealed, key=lambda push: -abs(push.amount))[:_PUSHES]
    names = ", ".join(push.name for push in strongest if (push.amount > 0) == turn.went_left)
    side = "left" if turn.went_left else "right"
    return f"{side} for {names}" if names else side
