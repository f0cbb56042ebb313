"""A training run: impressions in, progressive predictions and a model out, and a crash costs nothing.

One pass over the stream: read, encode, join with clicks, subsample, predict and learn, calibrate, log the prediction.
Everything that the run knows goes into its checkpoints, with the positions in its files: a run that goes on from one
ends with the same bits as a run that was never interrupted, and no impression is lost or learned twice. The last
checkpoint stands before the first of the streams ends, where nothing is closed yet that later files could still change.
"""

import contextlib
import json
import logging
import os
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from broadmatch import progress
from broadmatch.clicks.ftrl import FTRL
from broadmatch.clicks.inclusion import Bloom, Poisson
from broadmatch.clicks.learner import ClickLearner
from broadmatch.clicks.model import MODEL, ClickModel
from broadmatch.clicks.training.batches import BatchStream, checked_position
from broadmatch.data import Batch
from broadmatch.errors import BadArtifact, BadInput, BadParameter, BroadmatchError, CannotWrite, TooManyBadRows
from broadmatch.evaluate.prediction_log import PredictionLog
from broadmatch.io import Position, Rejects
from broadmatch.io.artifacts import opening
from broadmatch.io.checkpoints import KIND, Checkpoints
from broadmatch.parallel import map_threads, n_workers
from broadmatch.params import Flag, Number, Whole
from broadmatch.signals import Categorical, Description, FeatureNames
from broadmatch.state import State, restore

if TYPE_CHECKING:
    from broadmatch.clicks.calibration.base import WholeCalibration
    from broadmatch.clicks.calibration.sliced import SlicedCalibration
    from broadmatch.clicks.training.join import ClickJoin
    from broadmatch.clicks.training.subsample import Subsampler
    from broadmatch.clicks.variants.many_models import ManyModels
    from broadmatch.signals.tables import SourceOrTable

log = logging.getLogger("broadmatch")

CALIBRATED = "calibrated"
"""The name of the calibrated predictions of the first model in the log."""
_CHUNKS_A_ROUND = 32
"""Chunks that threads take between two moments at which a checkpoint can be written."""
_ONE_THREAD = "n_jobs must be 1 for many models, whose updates are not made for several threads."
_NO_TIME = int(np.iinfo(np.int64).min)
_HELD = {
    "learner": "learner",
    "join": "_join",
    "sampler": "_sampler",
    "calibration": "calibration",
    "names": "_names",
}
"""The parts of a checkpoint, and where a run has them."""


@dataclass
class ClickTraining:
    """One run over a stream of impressions; set it up, `run()` it, take its `model()`.

    `source` is files, or a table in memory: Arrow's, or a data frame of pandas (2.2 on) or polars. `learner` is a click
    learner, or `ManyModels` to train several in the same pass. `clicks` are files of clicks to be joined within
    `window` seconds, where the impressions do not say themselves whether they were clicked. `subsample` keeps only a
    share of the queries without clicks (§4.6). `calibration` learns from the predictions as they are made, and is
    refreshed every `refresh` impressions. `predictions` is a folder for the progressive predictions, which
    `progressive_report` reads. `names` keeps the names of the features. `checkpoints` is a folder; `every` seconds one
    is written, and with `resume` the run goes on from the last one, also with files that came since; with `overwrite`
    the checkpoints and predictions of an earlier run are replaced. With `n_jobs` above 1, threads learn side by side
    without locks: faster, but not the same bits every time. `follow` waits for more files, also for the first, until
    `stop()`.
    """

    source: "SourceOrTable"
    description: Description | str
    learner: "ClickLearner | ManyModels"
    clicks: "SourceOrTable | None" = None
    window: float | None = None
    subsample: float | None = None
    calibration: "SlicedCalibration | None" = None
    refresh: int = 100_000
    predictions: str | os.PathLike[str] | None = None
    names: bool = False
    checkpoints: str | os.PathLike[str] | None = None
    every: float = 60.0
    resume: bool = False
    overwrite: bool = False
    n_jobs: int = 1
    rejects: Rejects | None = None
    follow: bool = False

    def __post_init__(self) -> None:
        self._check()
        self._rejects = Rejects() if self.rejects is None else self.rejects
        self._kept = None if self.checkpoints is None else Checkpoints(self.checkpoints)
        self._join, self._sampler = self._parts()
        self._names = FeatureNames() if self.names else None
        self._positions: dict[str, Any] = {}
        self._n_read, self._refreshed = 0, 0
        self._latest, self._backwards = _NO_TIME, 0
        self._ending = self._resumed = False
        token = 0 if self.overwrite else self._take_up()
        self._stream = self._open(self.source, self.description, "impressions", names=self._names)
        self._click_stream = None if self.clicks is None else self._open(self.clicks, self._of_clicks(), "clicks")
        self._check_signals()
        if self.overwrite and self._kept is not None:
            self._kept.clear()
        self._log = None if self.predictions is None else self._open_log(token)
        self._written = time.monotonic()

    def _parts(self) -> "tuple[ClickJoin | None, Subsampler | None]":
        """What stands between the stream and the learner, imported where it is used."""
        join, sampler = None, None
        if self.window is not None:
            from broadmatch.clicks.training.join import ClickJoin

            join = ClickJoin(window=self.window)
            join.check_params()
        if self.subsample is not None:
            from broadmatch.clicks.training.subsample import Subsampler

            sampler = Subsampler(rate=self.subsample)
            sampler.check_params()
        return join, sampler

    @property
    def _several(self) -> "ManyModels | None":
        """The learner, if it is one of several models."""
        return None if isinstance(self.learner, ClickLearner) else self.learner

    @property
    def models(self) -> tuple[str, ...]:
        """The names of the models that are trained."""
        return (MODEL,) if self._several is None else self._several.names

    @property
    def n_learned(self) -> int:
        """Impressions learned so far, in this run and those that it goes on from."""
        return self.learner.n_learned

    def run(self) -> None:
        """Learn from everything there is (or, with `follow`, until `stop()` is called).

        A run that fails before it learned anything of worth leaves nothing behind.
        """
        try:
            self._run()
        except BaseException as error:
            self._end_badly(error)
            raise

    def _run(self) -> None:
        with progress.task("Learning", unit="impressions") as task:
            for learned in self._one_by_one() if n_workers(self.n_jobs) == 1 else self._rounds():
                task.advance(learned)
                if time.monotonic() - self._written >= self.every:
                    self._write()
        if self._sampler is not None:
            self._learn(self._sampler.finish())
        self._rejects.finish(self._n_read)
        if not self._n_read:
            raise BadInput("There was no impression to learn from: the files hold no rows.")
        if self._log is not None:
            self._log.finish()
        if self.calibration is not None:
            self.calibration.refresh()
        if self._backwards:
            log.warning("%s impressions come before an earlier one in time.", f"{self._backwards:,}")

    def _end_badly(self, error: BaseException) -> None:
        """Remove what a run left that learned nothing or mostly met bad rows; of any other, say that it failed."""
        rubbish = isinstance(error, TooManyBadRows) and self._rejects.max_bad_rows is None
        if not self._resumed and (rubbish or not self.n_learned):
            if self._log is not None:
                self._log.remove()
            if self._kept is not None:
                self._kept.clear()
        elif self._log is not None and isinstance(error, BroadmatchError):
            with contextlib.suppress(CannotWrite):  # the first error is the one to tell
                self._log.mark_unfinished(str(error))

    def stop(self) -> None:
        """End a run that follows a growing folder, from any thread: what was read is learned and kept."""
        for stream in (self._stream, self._click_stream):
            if stream is not None:
                stream.stop()

    def model(self, variant: str | None = None) -> ClickModel:
        """The model as it stands now, ready to serve; of many models, all or one `variant`."""
        if self._several is not None and variant is not None:
            served = {MODEL: self._several.variant(variant)}
        elif isinstance(self.learner, ClickLearner):
            served = {MODEL: self.learner.to_serving()}
        else:
            served = {name: self.learner.variant(name) for name in self.models}
        made, names = self._made_by(variant), self._names
        return ClickModel(self._stream.description, served, calibration=self.calibration, names=names, training=made)

    @property
    def described(self) -> Description | str:
        """The description of the files, patterns written out once a file is there; or "vw"."""
        return self._stream.description

    def consumed(self) -> dict[str, float | None]:
        """The signals that the run consumes, each with the share of the impressions read that had it, if known."""
        return self._stream.coverage()

    def counts(self) -> dict[str, int]:
        """What happened to the impressions: learned, rejected, out of order; with a join, late, doubled and so on."""
        joined_counts = {} if self._join is None else self._join.counts
        counts = {"learned": self.n_learned, "rejected": self._rejects.count, "out_of_order": self._backwards}
        return counts | joined_counts

    def _made_by(self, only: str | None = None) -> dict[str, Any]:
        """How the model was made, to be kept beside it."""
        facts = self._run_facts()
        made = {name: facts[name] for name in ("learner", "parameters", "window", "subsample")}
        if self._several is not None:
            made["parameters"] = {k: v for k, v in made["parameters"].items() if k != "variants"}
            kept = {only: self._several.named[only]} if only is not None else self._several.named
            made["variants"] = {name: asdict(variant) for name, variant in kept.items()}
        if isinstance(self.learner, FTRL):
            made["chosen"] = str(self.learner.chosen)
        return {"impressions": self.n_learned, **{name: value for name, value in made.items() if value is not None}}

    def _one_by_one(self) -> Iterator[int]:
        """Learn batch by batch; after each everything stands at the same place. Gives the size of the batch."""
        shown = self._reading(self._stream, "impressions")
        batches = (batch for batch, _ in shown)
        if self._join is not None and self._click_stream is not None:
            from broadmatch.clicks.training.join import joined

            clicks = (((batch.id, batch.time), end) for batch, end in self._reading(self._click_stream, "clicks"))
            batches = (batch for batch, _, _ in joined(shown, clicks, self._join))
        for batch in batches:
            self._notice(batch)
            self._learn(batch if self._sampler is None else self._sampler.take(batch))
            yield len(batch)

    def _reading(self, stream: Iterable[tuple[Batch, Position]], what: str) -> Iterator[tuple[Batch, Position]]:
        """The batches of a stream; what it gave has been taken in when the next is wanted."""
        for batch, end in stream:
            self._positions[what] = end
            self._n_read += len(batch)
            yield batch, end
        self._come_to_end()

    def _come_to_end(self) -> None:
        """A stream has ended: from here on impressions are closed and queries decided that more files might change."""
        self._write()
        self._ending = True

    def _of_clicks(self) -> Description:
        """Clicks have columns for the id and the time that are called as those of the impressions."""
        shown = self.description
        if isinstance(shown, str) or shown.id is None:
            raise BadParameter("Joining clicks needs the description to say which columns are `id` and `time`.")
        return Description(signals=[Categorical(shown.id)], id=shown.id, time=shown.to_dict()["time"])

    def _open(
        self, source: "SourceOrTable", description: Description | str, what: str, *, names: FeatureNames | None = None
    ) -> BatchStream:
        return BatchStream(
            source,
            description,
            rejects=self._rejects,
            start=self._positions.get(what),
            follow=self.follow,
            joins=self.clicks is not None,
            names=names,
            fields=self._several is not None,
        )

    def _rounds(self) -> Iterator[int]:
        """Learn with several threads, a few chunks at a time; between rounds everything stands at the same place."""
        learner = self.learner
        if not isinstance(learner, ClickLearner):
            raise BadParameter(_ONE_THREAD)

        def learned(chunk: Any) -> list[tuple[Batch, NDArray[np.float64], Any]]:
            found = self._stream.batches(chunk)
            return [(batch, learner.learn_shared(batch.impressions, encoded=True), end) for batch, end in found]

        chunks = self._stream.chunks()
        for first in chunks:
            done = 0
            # Taken one by one: a chunk of a text file holds its text.
            for batches in map_threads(learned, chain([first], islice(chunks, _CHUNKS_A_ROUND - 1)), self.n_jobs):
                for batch, probabilities, end in batches:
                    self._notice(batch)
                    self._record(batch, probabilities)
                    self._positions["impressions"] = end
                    done += len(batch)
            self._n_read += done
            yield done
        self._come_to_end()

    def _notice(self, batch: Batch) -> None:
        """Count the impressions that come before an earlier one in time."""
        if len(batch.time):
            highest = np.maximum.accumulate(np.append(self._latest, batch.time))
            self._backwards += int(np.count_nonzero(batch.time < highest[:-1]))
            self._latest = int(highest[-1])

    def _learn(self, batch: Batch) -> None:
        if len(batch):
            self._record(batch, self.learner.learn_many(batch.impressions, encoded=True))

    def _record(self, batch: Batch, probabilities: NDArray[np.float64]) -> None:
        """Give the predictions to the calibration and to the log."""
        if not len(batch):
            return
        clicked, weight = batch.impressions.clicked, batch.impressions.weight
        columns = probabilities.reshape(len(batch), -1)
        if self.calibration is not None:
            calibrated = self.calibration.apply(columns[:, 0], batch.slices)
            self.calibration.learn_many(columns[:, 0], clicked, batch.slices, weight)
            self._refreshed += len(batch)
            if self._refreshed >= self.refresh:
                self._refreshed = 0
                self.calibration.refresh()
            columns = np.column_stack([columns, calibrated])
        if self._log is not None:
            self._log.append(clicked, weight, batch.time, batch.slices, columns, batch.id)

    def _check(self) -> None:
        self.learner.check_params()
        if self.calibration is not None:
            self.calibration.check_params()
        Number(0, above=True).check("every", self.every)
        Whole(1).check("refresh", self.refresh)
        for name in ("names", "resume", "overwrite", "follow"):
            Flag().check(name, getattr(self, name))
        if (self.clicks is None) != (self.window is None):
            raise BadParameter("clicks and window must be given together: the files of clicks, and how long to wait.")
        if isinstance(self.description, str):
            if self.calibration is not None or self.names or self.clicks is not None:
                raise BadParameter("vw text has no columns: no calibration by slice, names or clicks.")
        else:
            if self.clicks is not None and not (self.description.id and self.description.time):
                raise BadParameter("Joining clicks needs the description to say which columns are `id` and `time`.")
            missing = [c for c in (self.calibration.by if self.calibration else ()) if c not in self.description.slices]
            if missing:
                raise BadParameter(f"The calibration is by {missing[0]!r}: name it in the description's slices.")
        if self.resume and (self.checkpoints is None or self.overwrite):
            raise BadParameter("resume needs the folder of the checkpoints to go on from, and no overwrite.")
        if n_workers(self.n_jobs) > 1:
            if self.clicks is not None or self.subsample is not None or self.follow:
                raise BadParameter("n_jobs must be 1 with clicks, subsample or follow, which take the rows in order.")
            if not isinstance(self.learner, ClickLearner):
                raise BadParameter(_ONE_THREAD)

    def _check_signals(self) -> None:
        if self._several is None or isinstance(self.description, Description):
            return
        if any(variant.fields is not None for variant in self._several.named.values()):
            raise BadParameter("Variants by signal need a description: vw text does not name its signals.")

    def _run_facts(self) -> dict[str, Any]:
        """What must be the same when a run is taken up again."""
        described = self.description if isinstance(self.description, str) else self.description.to_dict()
        facts = {
            "description": described,
            "learner": type(self.learner).__name__,
            "parameters": parameters_of(self.learner),
            "window": self.window,
            "subsample": self.subsample,
            "calibration": None if self.calibration is None else parameters_of(self.calibration),
            "refresh": self.refresh,
            "names": self.names,
            "predictions": self.predictions is not None,
        }
        return dict(json.loads(json.dumps(facts)))  # as a checkpoint has them

    def _take_up(self) -> int | None:
        """Go on from the last checkpoint, if there is one and that is wanted; gives the token of the predictions."""
        last = None if self._kept is None else self._kept.last()
        if last is None:
            return 0 if self.resume else None
        if not self.resume:
            raise CannotWrite(
                f"{self.checkpoints} is left from an earlier run: go on with it by resume=True, or start anew by "
                "overwrite=True."
            )
        self._resumed = True
        run = last.facts.get("run")
        if not isinstance(run, dict):
            raise BadArtifact(
                f"{self.checkpoints} is not a folder of checkpoints of a training run: it has no 'run'; choose another."
            )
        compare_runs(run, self._run_facts())
        with opening(self.checkpoints or ""):
            return self._restore(last)

    def _restore(self, last: State) -> int | None:
        facts = last.facts
        for name, attribute in _HELD.items():
            if (fresh := getattr(self, attribute)) is not None:
                part = restore(last.parts[name])
                if type(part) is not type(fresh):
                    raise KeyError(name)
                setattr(self, attribute, part)
        self._positions = dict(facts["positions"])
        for at in self._positions.values():
            checked_position(self.description, at)
        self._n_read, self._refreshed = int(facts["read"]), int(facts["refreshed"])
        self._latest, self._backwards = int(facts["latest"]), int(facts["backwards"])
        self._rejects.resume(facts["rejects"])
        token = facts["predictions"]
        Whole(0, none=True).check("the number of its predictions", token)
        return None if token is None else int(token)

    def _open_log(self, token: int | None) -> PredictionLog:
        models = (*self.models, *((CALIBRATED,) if self.calibration is not None else ()))
        slices = () if isinstance(self.description, str) else self.description.slices
        folder = self.predictions if self.predictions is not None else ""
        ids = isinstance(self.description, Description) and self.description.id is not None
        return PredictionLog(folder, models=models, slices=slices, ids=ids, resume_after=token)

    def _write(self) -> None:
        """Write a checkpoint; first the predictions, which it counts."""
        if self._kept is None or self._ending:
            return
        at = {what: end.to_json() if isinstance(end, Position) else end for what, end in self._positions.items()}
        facts = {
            "run": self._run_facts(),
            "positions": at,
            "predictions": None if self._log is None else self._log.flush(),
            "rejects": self._rejects.checkpoint(),
            "read": self._n_read,
            "refreshed": self._refreshed,
            "latest": self._latest,
            "backwards": self._backwards,
        }
        held = {name: getattr(self, attribute) for name, attribute in _HELD.items()}
        parts = {name: thing.to_state() for name, thing in held.items() if thing is not None}
        self._kept.write(State(KIND, {}, {}, facts, parts))
        self._written = time.monotonic()


def parameters_of(of: "ClickLearner | ManyModels | SlicedCalibration | WholeCalibration") -> dict[str, str]:
    """Every parameter by name, as text."""
    values = {name: (getattr(of, name), rule) for name, rule in of.rules.items()}
    return {
        name: repr(value if isinstance(value, Poisson | Bloom) else rule.to_plain(value))
        for name, (value, rule) in values.items()
    }


def compare_runs(then: Mapping[str, Any], now: Mapping[str, Any], anew: str = "by overwrite=True") -> None:
    """Refuse to go on with other settings than before; `anew` says how to start anew."""
    if changed := list(_differences(then, now)):
        raise BadInput(
            f"The checkpoint is of a run with other settings: {'; '.join(changed)}: go on with those of then, or start "
            f"anew {anew}."
        )


def _differences(then: Mapping[str, Any], now: Mapping[str, Any], of: str = "") -> Iterator[str]:
    for name in {**then, **now}:
        before, value = then.get(name), now.get(name)
        if isinstance(before, dict) and isinstance(value, dict):
            yield from _differences(before, value, f"{of}{name}: ")
        elif before != value:
            yield f"{of}{name} was {before!r} and is {value!r}"
