"""`predict`: rows to click probabilities, by the model in service."""

import asyncio
from concurrent.futures import Executor
from typing import Any

import numpy as np
import pyarrow as pa

from broadmatch.io.values import texts_to_arrow
from broadmatch.serve.messages import PredictReply, PredictRequest
from broadmatch.serve.service import LiveService, ServiceArm

_FEW = 200
"""Rows that are predicted at once in the event loop; more of them go to a thread."""


class Predicting:
    """Predicts clicks for rows."""

    def __init__(self, live: LiveService, pool: Executor) -> None:
        self._live, self._pool = live, pool

    async def answer(self, request: PredictRequest) -> PredictReply:
        """The click probability of each row."""
        service = self._live.current
        arm = service.arms[service.arm_of(request.session or "")]
        if len(request.rows) <= _FEW:
            return predict(arm, request.rows)
        return await asyncio.get_running_loop().run_in_executor(self._pool, predict, arm, request.rows)


def predict(arm: ServiceArm, rows: list[dict[str, Any]]) -> PredictReply:
    """The click probability and u(x) of each row; what a row says is independent of the rows beside it."""
    names = arm.encoder.description.columns_needed
    groups: dict[tuple[type, ...], list[int]] = {}
    for i, row in enumerate(rows):
        kinds = tuple(str if row.get(name) is None else type(row[name]) for name in names)
        groups.setdefault(kinds, []).append(i)
    probability, uncertainty = np.empty(len(rows)), np.empty(len(rows))
    for kinds, where in groups.items():
        columns = [_column([rows[i].get(name) for i in where], kind) for name, kind in zip(names, kinds, strict=True)]
        batch = arm.encoder.encode(pa.RecordBatch.from_arrays(columns, names=list(names)), labelled=False)
        probability[where], uncertainty[where] = arm.engine.clicks.serve_many(batch.impressions, batch.slices)
    versions = {"arm": arm.name, "clicks": arm.version}
    return PredictReply(versions=versions, probability=probability.tolist(), uncertainty=uncertainty.tolist())


def _column(values: list[Any], kind: type) -> Any:
    return texts_to_arrow(values) if kind is str else pa.array(values)
