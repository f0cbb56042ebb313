"""Vetting a signal on a log: one pass, and a verdict."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from broadmatch import progress
from broadmatch.clicks import ClickModel
from broadmatch.clicks.training.batches import BatchStream
from broadmatch.errors import BadInput
from broadmatch.io import RecordStream, Rejects
from broadmatch.io.files import Source
from broadmatch.io.formats import STANDARD_INPUT
from broadmatch.io.streams import Records
from broadmatch.io.values import compact, is_text
from broadmatch.registry.rules import AlertRule
from broadmatch.registry.vetting.profile import SignalProfile
from broadmatch.registry.vetting.report import VettingReport
from broadmatch.registry.vetting.verdict import judge, read_vetting_rules
from broadmatch.registry.vetting.worth import SignalWorth, only_fields
from broadmatch.signals import Categorical, Cross, Description, Numeric
from broadmatch.signals.signal import Signal

_FRACTION = r"^\s*-?[0-9]*\.[0-9]*[1-9][0-9]*(?:[eE][+-]?[0-9]+)?\s*$"


def vet_signal(
    name: str,
    source: Source,
    description: Description,
    *,
    rules: Sequence[AlertRule] | None = None,
    prior: ClickModel | None = None,
    settings: Mapping[str, Any] | None = None,
    rejects: Rejects | None = None,
) -> VettingReport:
    """Measure a signal of a description on a log, in one pass, and judge it by rules.

    What it adds is told against the other signals of the description. With a `prior`, a model without the signal, it
    learns on the residual of that fixed model only, which is the cheapest test (§4.3 of KDD 2013). `settings` are those
    of the learners: alpha, beta, l1, l2. Memory does not grow with the log, but for the values that come again.
    """
    rejects = Rejects() if rejects is None else rejects
    stream = BatchStream(source, _with_twin(name, _written_out(description, source)), rejects=rejects)
    described = stream.encoder.description
    places = {one: i for i, one in enumerate(stream.encoder.signal_names)}
    signal = next(one for one in described.signals if one.name == name)
    crosses = [one.name for one in described.signals if isinstance(one, Cross) and name in one.parts]
    twin = _twin_name(name)
    with_it = [places[one] for one in (name, *crosses)]
    base = [i for one, i in places.items() if i not in with_it and one != twin]
    if prior is not None:
        _check_prior(prior, described, {name, *crosses})
    measured = twin if twin in places else name
    clocked = described.without_times([name])[0] == ""
    profile = SignalProfile(measured, clocked=clocked)
    worth = SignalWorth(with_it, base, prior=prior, **(settings or {}))
    wrong = n_values = 0
    with progress.task("Vetting", unit="impressions") as task:
        for chunk in stream.chunks():
            for rows in chunk.read():
                if not isinstance(rows, Records):  # never: vw text has no description
                    continue
                batch = stream.encoder.encode(rows.table, file=rows.file, line=rows.line, rejects=rejects)
                if not len(batch):
                    continue
                profile.add(batch, only_fields(batch.impressions, [places[measured]]))
                worth.add(batch)
                if isinstance(signal, Categorical):
                    wrong += fractions_of(rows.table.column(signal.column))
                n_values += len(batch)
                task.advance(len(batch))
    rejects.tell_recoded()
    if not n_values:
        raise BadInput(f"There was no impression to vet {name!r} on: the files hold no good rows.")
    if isinstance(signal, Signal):
        unread = sum(n for reason, n in rejects.reasons.items() if _is_about(reason, signal))
        wrong, n_values = wrong + unread, n_values + unread
    figures = {"signal": name, "WrongType": wrong / n_values, "Rejected": rejects.count, **profile.figures()}
    figures |= worth.figures(figures["Cardinality"])
    return judge(figures, read_vetting_rules() if rules is None else rules)


def fractions_of(column: Any) -> int:
    """How many values of a column of categories are numbers with a fraction, which hardly ever come twice.

    >>> fractions_of(pa.array(["3.25", "7.0", "imgur.com", None])), fractions_of(pa.array([1.5, 2.0]))
    (1, 1)
    """
    column = compact(column)
    if pa.types.is_dictionary(column.type):
        if not is_text(column.dictionary.type):
            return 0
        flags = np.asarray(pc.fill_null(pc.match_substring_regex(column.dictionary, _FRACTION), False))
        codes = np.asarray(column.indices.drop_null())
        return int(flags[codes].sum())
    if pa.types.is_floating(column.type):
        numbers = np.asarray(column.drop_null())
        return int((numbers != np.floor(numbers)).sum())
    if is_text(column.type):
        return int(pc.sum(pc.match_substring_regex(column, _FRACTION)).as_py() or 0)
    return 0


def _written_out(description: Description, source: Source) -> Description:
    """The description without patterns, if it has any: a signal is asked for by the name that its column gives it."""
    patterns = [s.name for s in description.signals if isinstance(s, Signal) and any(c in s.column for c in "*?")]
    if not patterns:
        return description
    if source == STANDARD_INPUT:
        raise BadInput(f"The pattern {patterns[0]!r} cannot be looked up on standard input; write the signals out.")
    return description.resolve(RecordStream(source, format=description.format).columns)


def _with_twin(name: str, description: Description) -> Description:
    """The description; a number that is taken as it is gets a twin in buckets, by which its values are counted."""
    signal = next((one for one in description.signals if one.name == name), None)
    if signal is None:
        known = ", ".join(repr(one.name) for one in description.signals)
        raise BadInput(
            f"The description has no signal {name!r}, but {known}; add it there, or name an index that has it."
        )
    if not isinstance(signal, Numeric) or signal.buckets is not None:
        return description
    plain = description.to_dict()
    twin = {"kind": "number", "column": signal.column, "buckets": "log"}
    return Description.from_dict(plain | {"signals": plain["signals"] | {_twin_name(name): twin}})


def _twin_name(name: str) -> str:
    return f"{name} (in buckets)"


def _is_about(reason: str, signal: Signal) -> bool:
    """Whether rows were rejected because of this signal's values."""
    return reason.startswith((f"{signal.column} is not a finite number", f"the time in {signal.column} cannot be read"))


def _check_prior(prior: ClickModel, description: Description, left_out: set[str]) -> None:
    """Refuse a fixed model that knows the signal already, or that needs signals which the description does not have."""
    if not isinstance(prior.description, Description):
        raise BadInput("The fixed model was trained on vw text; take one that has a description.")
    if known := [one.name for one in prior.description.signals if one.name in left_out]:
        raise BadInput(f"The fixed model knows {known[0]!r} already: train one without it.")
    there = {one.name: one.to_dict() for one in description.signals}
    if other := [one.name for one in prior.description.signals if there.get(one.name) != one.to_dict()]:
        raise BadInput(
            f"The fixed model has a signal {other[0]!r} that the description has not: use that of the model."
        )
