"""Phrases for a page from all that can tell some: learned from clicks, extracted from the page, expanded by logs."""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any, Literal

from broadmatch.ads import KSP
from broadmatch.ads.expansion.phrases import Negatives
from broadmatch.harvest import normalise_query
from broadmatch.io import Page
from broadmatch.labels import KEX
from broadmatch.labels.recommender import Phrase
from broadmatch.serve.excluded import excluded_on
from broadmatch.serve.service import Service

Source = Literal["learned", "extracted", "expanded"]
_SEEDS = 20
"""Phrases that are expanded: more cost time, and bring little."""
_SOURCES = 3
"""Seeds that are named of an expanded phrase."""
_LEAST = 0.01
"""Phrases below this score are not worth a look."""


@dataclass
class FoundPhrase:
    """A phrase with its score, what found it, whether a model has it in its own set, and the seeds it came from."""

    phrase: str
    score: float
    sources: list[Source]
    in_set: bool = False
    seeds: list[tuple[str, str, float]] = field(default_factory=list)


@dataclass(frozen=True)
class PhrasesFound:
    """The phrases of a page, best first, and what is to be said of them."""

    phrases: list[FoundPhrase]
    has_set: bool
    ruled_out: int
    """How many the negatives took away."""


def find_phrases(
    service: Service, extractor: KEX, page: Page | None, revealed: list[str], negatives: Iterable[str], k: int
) -> PhrasesFound:
    """The best phrases of a page, or with no page of the revealed phrases alone; none that is revealed.

    A phrase that two models find has 1 − Π (1 − p). Expanded phrases are scaled so that the best of the list scores as
    the best of its seeds.
    """
    found: dict[str, FoundPhrase] = {}
    learned, chosen = _learned(service, page, revealed, k)
    extracted, cut = _extracted(extractor, page, k)
    for phrase, score in learned:
        found[phrase] = FoundPhrase(phrase, min(max(score, 0.0), 1.0), ["learned"], phrase in chosen)
    for phrase, score in extracted:
        add = found.setdefault(phrase, FoundPhrase(phrase, 0.0, []))
        add.score = 1.0 - (1.0 - add.score) * (1.0 - score)
        add.sources.append("extracted")
        add.in_set = add.in_set or (phrase in cut and not chosen)
    if service.expansion is not None:
        _expand(service.expansion, found, revealed, k)
    kept, rules = set(map(normalise_query, revealed)), Negatives(negatives)
    kept |= set(map(normalise_query, excluded_on(service.excluded, None if page is None else page.name)))
    phrases = [one for one in found.values() if one.score >= _LEAST and normalise_query(one.phrase) not in kept]
    wanted = [one for one in phrases if not rules.rule_out(normalise_query(one.phrase))]
    wanted.sort(key=lambda one: (-one.score, one.phrase))
    return PhrasesFound(wanted[:k], bool(chosen or cut), len(phrases) - len(wanted))


def _learned(service: Service, page: Page | None, revealed: list[str], k: int) -> tuple[list[Phrase], set[str]]:
    """The phrases of the model in service, and those of its own set if it makes sets."""
    model: Any = service.recommender
    if model is None or page is None or isinstance(model, KEX):
        return [], set()
    how: dict[str, Any] = {"revealed": [revealed]} if revealed else {}
    (found,) = model.recommend([page], k, **how)
    if not (model.model.sized and model.model.pointwise) or revealed:
        return found.phrases, set()
    (chosen,) = model.recommend([page], None)
    return found.phrases, {one.phrase for one in chosen.phrases}


def _extracted(extractor: KEX, page: Page | None, k: int) -> tuple[list[Phrase], set[str]]:
    """The phrases that stand on the page, and those of its set."""
    if page is None:
        return [], set()
    (found,), (chosen,) = extractor.recommend([page], k), extractor.recommend([page], None)
    return found.phrases, {one.phrase for one in chosen.phrases}


def _expand(expansion: KSP, found: dict[str, FoundPhrase], revealed: list[str], k: int) -> None:
    """Add what goes with the best phrases, and with those that one has."""
    best = sorted(found.values(), key=lambda one: (-one.score, one.phrase))[:_SEEDS]
    seeds = [*((one, 1.0) for one in revealed[:_SEEDS]), *((one.phrase, one.score) for one in best)]
    if not seeds:
        return
    expanded = expansion.expand(seeds, k)
    if not expanded:
        return
    scale = max(score for _, score in seeds) / expanded[0].score
    for one in expanded:
        origins = [(seed, arm, share) for seed, arm, share in one.sources if arm != "seeds"][:_SOURCES]
        if origins and one.phrase not in found:
            found[one.phrase] = FoundPhrase(one.phrase, min(one.score * scale, 1.0), ["expanded"], seeds=origins)
