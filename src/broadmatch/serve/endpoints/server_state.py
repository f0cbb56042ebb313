"""`health`, `ready`, `models` and `metrics`: how the server is, and what it serves."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from concurrent.futures import Executor

from broadmatch.errors import BroadmatchError
from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.endpoints.predicting import predict
from broadmatch.serve.messages import HealthReply, ModelsReply, ReloadReply, ServedModel
from broadmatch.serve.metrics import MEDIA_TYPE, Metrics
from broadmatch.serve.problems import Problem
from broadmatch.serve.quality_hours import quality_page
from broadmatch.serve.service import LiveService, Service, ServiceArm

log = logging.getLogger("broadmatch")


class ServerState:
    """Says how a server is, and takes up what is published."""

    def __init__(
        self, live: LiveService, metrics: Metrics, pool: Executor, consumed: Callable[[Service], None]
    ) -> None:
        self._live, self._metrics, self._pool, self._consumed = live, metrics, pool, consumed
        self._ready = False
        self._count(live.current)

    def endpoints(self) -> tuple[Endpoint, ...]:
        """What is answered about the server."""
        return (
            Endpoint("health", "GET", "/v1/health", None, "Whether the server runs.", self.health, None, HealthReply),
            Endpoint(
                "ready", "GET", "/v1/ready", None, "Whether the server has answered a first query, and takes more.",
                self.ready, None, HealthReply, problems=(503,),
            ),
            Endpoint(
                "models", "GET", "/v1/models", "read", "What is served, since when, and what it was trained on.",
                self.models, None, ModelsReply,
            ),
            Endpoint(
                "reload", "POST", "/v1/models/reload", "admin", "Take up what was published; answers when it is done.",
                self.reload, None, ReloadReply,
            ),
            Endpoint(
                "metrics", "GET", "/v1/metrics", "read", "What is counted, as Prometheus reads it.",
                self.metrics, media=MEDIA_TYPE,
            ),
        )  # fmt: skip

    async def warm_up(self) -> None:
        """Answer a first query in each arm, so that no client waits for what is made once."""
        for arm in self._live.current.arms:
            await asyncio.get_running_loop().run_in_executor(self._pool, warm_arm, arm)
        self._ready = True

    async def health(self) -> HealthReply:
        """The server runs."""
        return HealthReply(status="ok")

    async def ready(self) -> HealthReply:
        """The server answers."""
        if not self._ready:
            raise Problem(503, "The server is warming up; try again in a second.", [(b"retry-after", b"1")])
        return HealthReply(status="ok")

    async def metrics(self) -> bytes:
        """All metrics."""
        return self._metrics.page() + quality_page(self._live.folder.path)

    async def reload(self) -> ReloadReply:
        """Take up what the folder holds now."""
        changed = await asyncio.get_running_loop().run_in_executor(self._pool, self._live.reload)
        if changed:
            self._count(self._live.current)
        return ReloadReply(changed=changed, models=await self.models())

    async def models(self) -> ModelsReply:
        """What is served."""
        service = self._live.current
        arms = [
            ServedModel(
                kind="clicks", arm=arm.name, share=arm.share, version=arm.version, training=arm.engine.clicks.training
            )
            for arm in service.arms
        ]
        others = []
        if service.recommender is not None:
            name = type(getattr(service.recommender, "model", service.recommender)).__name__
            others.append(
                ServedModel(kind="recommender", version=str(service.recommender_version), training={"model": name})
            )
        index = service.arms[0].engine.index
        view = index.view()
        about = {"bids": index.n_bids, "ads": view.n_ads}
        others.append(ServedModel(kind="index", version=f"{view.postings}.{view.change}", training=about))
        return ModelsReply(since=service.since, models=[*arms, *others])

    def _count(self, service: Service) -> None:
        names = {("clicks", arm.name, arm.version) for arm in service.arms}
        if service.recommender_version is not None:
            names.add(("recommender", "main", service.recommender_version))
        self._metrics.serve(names, service.since)
        self._consumed(service)


def warm_arm(arm: ServiceArm) -> None:
    """Whatever an arm makes once is made: one query singly, and two together."""
    context = dict.fromkeys(arm.context_columns)
    arm.engine.answer_few(["warm up"], [context])
    arm.engine.answer_few(["warm", "up"], [context, context])
    arm.engine.answer("warm up", context, explain=True)
    for value in (None, "1", 1, 1.5):  # each kind of a column has kernels of its own
        with contextlib.suppress(BroadmatchError):
            predict(arm, [dict.fromkeys(arm.encoder.description.columns_needed, value)])
