"""People's judgements (MLRF §5.1, table 3): blind sheets of what models recommend, and what judges say of it."""

import hashlib
import json
import random
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from broadmatch.errors import BadArtifact, BadInput
from broadmatch.evaluate.bootstrap import Bootstrap, interval
from broadmatch.evaluate.ranking import EvaluatedPoints, PerPoint
from broadmatch.evaluate.report import Estimate, Report, aligned
from broadmatch.io.columns import ColumnMap
from broadmatch.io.files import PathLike, read_text, replacing_file
from broadmatch.io.tables import read_texts, write_texts
from broadmatch.params import Whole

_SHEET = {name: (name,) for name in ("page", "phrase", "relevant", "judge", "time")}
_YES, _NO = {"1", "1.0", "yes", "y", "true"}, {"0", "0.0", "no", "n", "false"}
_CONTROL = re.compile(r"[\x00-\x08\x0e-\x1b]")
Pair = tuple[str, str]
"""A page and a phrase, as they stand in a sheet."""
_F64 = NDArray[np.float64]


@dataclass(frozen=True)
class SheetKey:
    """Which model gave which phrases, best first, to each page: what judges must not see, and reports are made with.

    >>> key = SheetKey.of({"a": [("/", ["tea", "coffee"])], "b": [("/", ["tea"])]}, k=2)
    >>> sorted(key.pairs())
    [('/', 'coffee'), ('/', 'tea')]
    """

    k: int
    models: Mapping[str, Mapping[str, Sequence[str]]]

    @classmethod
    def of(cls, answers: Mapping[str, Iterable[tuple[str, Iterable[Any]]]], *, k: int = 10) -> "SheetKey":
        """The first k phrases of each page by each model; phrases may be with scores, as `Recommender` gives them."""
        Whole(1).check("k", k)
        models: dict[str, dict[str, list[str]]] = {}
        for model, pages in answers.items():
            given = models.setdefault(model, {})
            for page, phrases in pages:
                name = _cell(page)
                if name in given:
                    raise BadInput(f"{model} has two answers for the page {name!r}; give every page once.")
                texts = [_cell(one if isinstance(one, str) else one[0]) for one in phrases][:k]
                given[name] = list(dict.fromkeys(filter(None, texts)))
        key = cls(k, models)
        if not key.pairs():
            raise BadInput("There is nothing to judge: no model recommends a phrase for any page.")
        for model, pages_of in models.items():
            if set(pages_of) != set(key.pages):
                raise BadInput(
                    f"{model} has answers for {len(pages_of):,} of {len(key.pages):,} pages; ask all for all."
                )
        return key

    @property
    def pages(self) -> list[str]:
        """All pages, in the order of the models."""
        return list(dict.fromkeys(page for pages in self.models.values() for page in pages))

    def pairs(self) -> dict[Pair, int]:
        """The different pairs of page and phrase, with their numbers."""
        found = (
            (page, phrase) for page in self.pages for pages in self.models.values() for phrase in pages.get(page, ())
        )
        return {pair: i for i, pair in enumerate(dict.fromkeys(found))}

    def write_sheet(self, path: PathLike, *, seed: int = 0) -> int:
        """Write the sheet to fill in (.csv or .xlsx), and give its number of rows: every pair once, in random order.

        Phrases of a page stand together, so that a judge looks at a page once. Nothing tells the models apart.
        """
        rng = random.Random(seed)
        phrases: dict[str, list[str]] = {}
        for page, phrase in self.pairs():
            phrases.setdefault(page, []).append(phrase)
        rows = []
        for page in rng.sample(sorted(phrases), len(phrases)):
            rows += [(page, phrase, "") for phrase in rng.sample(sorted(phrases[page]), len(phrases[page]))]
        write_texts(path, ("page", "phrase", "relevant"), rows)
        return len(rows)

    def save(self, path: PathLike) -> None:
        """Write the key as JSON."""
        with replacing_file(Path(path)) as file:
            file.write(json.dumps(asdict(self), indent=1, ensure_ascii=False).encode("utf-8"))

    @classmethod
    def open(cls, path: PathLike) -> "SheetKey":
        """Read a key that `save` wrote."""
        try:
            found = json.loads(read_text(path))
            texts = [one for pages in found["models"].values() for phrases in pages.values() for one in ("", *phrases)]
            lists = (phrases for pages in found["models"].values() for phrases in pages.values())
            if not all(isinstance(of, list) for of in lists) or not all(isinstance(one, str) for one in texts):
                raise TypeError("phrases are lists of texts")
            key = cls.of({model: pages.items() for model, pages in found["models"].items()}, k=found["k"])
        except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
            raise BadArtifact(f"{path} is not the key of a sheet; take the one that was written beside it.") from error
        return key


class Judgements(NamedTuple):
    """What judges said: a row for each pair of the key, a column for each judge; 1 yes, 0 no, NaN not filled in."""

    judges: list[str]
    relevant: _F64

    @classmethod
    def read(cls, key: SheetKey, sheets: Sequence[PathLike]) -> "Judgements":
        """Read filled-in sheets: one file for each judge, or files with a column `judge`.

        Relevant is 1, yes, y or true; not relevant 0, no, n or false; empty is not filled in. A pair that is not in the
        key, any other word, and two different answers of one judge are refused. Rows with a `time` are what judges said
        one after the other, as the studio writes it: the last answer of a judge counts, and an empty one takes it back.
        """
        if not sheets:
            raise BadInput("There are no sheets to read; name at least one that was filled in.")
        pairs = key.pairs()
        said: dict[str, _F64] = {}
        for sheet, name in zip(sheets, _names(sheets), strict=True):
            for line, row in read_texts(sheet, ColumnMap(_SHEET, optional=("judge", "time"))):
                page, phrase, answer = (_cell(row[column]) for column in ("page", "phrase", "relevant"))
                if not page and not phrase:
                    continue
                place = pairs.get((page, phrase))
                if place is None:
                    raise BadInput(
                        f"{sheet}, line {line}: {phrase!r} for {page!r} is not in the key; take its own sheet."
                    )
                votes = said.setdefault(_cell(row["judge"]) or name, np.full(len(pairs), np.nan))
                later = bool(row["time"])
                if not answer:
                    votes[place] = np.nan if later else votes[place]
                    continue
                if answer.lower() not in _YES | _NO:
                    raise BadInput(f"{sheet}, line {line}: relevant is {answer!r}; write 1 or 0, yes or no.")
                vote = float(answer.lower() in _YES)
                if votes[place] == 1 - vote and not later:
                    raise BadInput(f"{sheet}, line {line}: {phrase!r} for {page!r} is judged twice, once 1 and once 0.")
                votes[place] = vote
        return cls(list(said), np.column_stack(list(said.values())) if said else np.zeros((len(pairs), 0)))


@dataclass(frozen=True)
class JudgementReport:
    """P@k of each model by people: `report.models["model/"]["P@10"]` is an `Estimate`; `print(report)` is a table.

    `agreement` is the share of pairs of judges who agree, over pairs of page and phrase that two or more judged;
    `kappa` corrects it for chance (Cohen's for two judges, Fleiss' for more). None is for what is not defined.
    """

    models: Mapping[str, Report]
    judges: Mapping[str, int]
    """How many rows each judge filled in."""
    n_pairs: int
    n_unjudged: int
    """Pairs that nobody judged."""
    agreement: Estimate | None
    kappa: Estimate | None

    @property
    def kappa_name(self) -> str:
        """Whose kappa it is."""
        return "Cohen's kappa" if len(self.judges) == 2 else "Fleiss' kappa"

    def to_dict(self) -> dict[str, Any]:
        """Everything, ready for JSON."""
        plain = {name: getattr(self, name) for name in ("judges", "n_pairs", "n_unjudged")}
        for name in ("agreement", "kappa"):
            plain[name] = None if (value := getattr(self, name)) is None else asdict(value)
        return {"models": {name: report.to_dict() for name, report in self.models.items()}} | plain

    def __str__(self) -> str:
        rows = [["model", "metric", "value", "from", "to"]]
        for model, report in self.models.items():
            for metric, e in report.metrics.items():
                rows.append([model, metric, *(f"{100 * v:.1f}" for v in (e.value, e.low, e.high))])
        lines = aligned(rows, left=2)
        for name, value in (("Agreement", self.agreement), (self.kappa_name, self.kappa)):
            lines += [] if value is None else [f"{name}: {value.value:.3f} ({value.low:.3f} to {value.high:.3f})"]
        filled = ", ".join(f"{judge} {n:,}" for judge, n in self.judges.items())
        first = next(iter(self.models.values()))
        lines.append(
            f"{first.n_points:,} pages; of {self.n_pairs:,} phrases to judge, filled in: {filled}; nobody judged "
            f"{self.n_unjudged:,}, which are left out. Values in %; {first.level:.0%} intervals from "
            f"{first.n_bootstrap:,} bootstrap samples of the pages."
        )
        return "\n".join(lines)


def judgement_report(
    key: SheetKey, judgements: Judgements, *, n_bootstrap: int = 1000, seed: int = 0, level: float = 0.95
) -> JudgementReport:
    """P@k of each model over judges, and how far they agree, with bootstrap intervals over pages (MLRF §5.3, table 3).

    A phrase counts the share of its judges who found it relevant, a place without a phrase 0; phrases that nobody
    judged are left out, with their places.
    """
    bootstrap, votes = Bootstrap(n_bootstrap, seed, level), judgements.relevant
    pairs, pages = key.pairs(), key.pages
    filled = ~np.isnan(votes)
    n = filled.sum(axis=1)
    if not n.any():
        raise BadInput("There is nothing to report: no row of the sheets was filled in.")
    yes = np.where(filled, votes, 0).sum(axis=1)
    digest = hashlib.sha256(json.dumps([pages, list(pairs)]).encode() + votes.tobytes()).hexdigest()
    number = {page: i for i, page in enumerate(pages)}
    models = {}
    for model, given in key.models.items():
        right, places = np.zeros(len(pages)), np.full(len(pages), float(key.k))
        for page, phrases in given.items():
            of = np.array([pairs[page, phrase] for phrase in phrases], np.int64)
            right[number[page]] = (yes[of] / np.maximum(n[of], 1)).sum()
            places[number[page]] -= (n[of] == 0).sum()
        if not places.any():
            raise BadInput(f"Nobody judged a phrase of {model}; have more of the sheet filled in.")
        without = sum(not phrases for phrases in given.values())
        points = EvaluatedPoints(len(pages), len({phrase for _, phrase in pairs}), 0, without, digest)
        models[model] = Report.of(points, {f"P@{key.k}": PerPoint(right[:, None], places[:, None])}, bootstrap)
    agreement, kappa = _agreement(votes, np.array([number[page] for page, _ in pairs]), len(pages), bootstrap)
    counts = dict(zip(judgements.judges, filled.sum(axis=0).tolist(), strict=True))
    return JudgementReport(models, counts, len(pairs), int((n == 0).sum()), agreement, kappa)


def _agreement(
    votes: _F64, page: NDArray[np.int64], n_pages: int, bootstrap: Bootstrap
) -> tuple[Estimate | None, Estimate | None]:
    """Observed agreement and kappa = (observed − by chance) / (1 − by chance).

    Fleiss (Psychological Bulletin 1971), with as many judges of each pair as there are: pairs agree by
    (y(y − 1) + z(z − 1)) / (n(n − 1)) for y yes and z no of n; by chance, by the squared shares of yes and no in all.
    Cohen (Educational and Psychological Measurement 1960), for two judges: by chance with each judge's own shares.
    """
    filled = ~np.isnan(votes)
    n = filled.sum(axis=1).astype(np.float64)
    shared = n >= 2
    if not shared.any():
        return None, None
    judged = np.where(filled, votes, 0.0)[shared]
    n, yes = n[shared], judged.sum(axis=1)
    same = (yes * (yes - 1) + (n - yes) * (n - yes - 1)) / (n * (n - 1))
    columns = [np.ones(len(n)), same, n, yes, *judged.T[:2]]
    sums = np.column_stack([np.bincount(page[shared], column, n_pages) for column in columns])
    drawn = np.concatenate([counts @ sums for counts in bootstrap.drawn_counts(n_pages)])
    both = [_kappa(table, cohen=votes.shape[1] == 2) for table in (sums.sum(axis=0)[None], drawn)]
    return tuple(_estimate(value[0], draws, bootstrap) for value, draws in zip(*both, strict=True))  # type: ignore[return-value]


def _kappa(sums: _F64, *, cohen: bool) -> tuple[_F64, _F64]:
    """Agreement and kappa from sums over pairs: of 1, of agreement, of judges, of yes, and of yes of the first two."""
    with np.errstate(invalid="ignore", divide="ignore"):
        pairs, same, n, yes, first, second = sums.T
        observed = same / pairs
        one, two = (first / pairs, second / pairs) if cohen else (yes / n, yes / n)
        chance = one * two + (1 - one) * (1 - two)
        return observed, (observed - chance) / (1 - chance)


def _estimate(value: float, draws: _F64, bootstrap: Bootstrap) -> Estimate | None:
    draws = draws[np.isfinite(draws)]
    return Estimate(float(value), *interval(draws, bootstrap.level)) if np.isfinite(value) and len(draws) else None


def _cell(text: str) -> str:
    """A text as every program that a judge may use keeps it: no control characters, single blanks."""
    return " ".join(_CONTROL.sub("", text.encode("utf-8", "replace").decode()).split())


def _names(sheets: Sequence[PathLike]) -> list[str]:
    """The judge of each file: its name, or its path where two have the same name."""
    stems = [Path(sheet).name.partition(".")[0] for sheet in sheets]
    return stems if len(set(stems)) == len(stems) else [str(sheet) for sheet in sheets]
