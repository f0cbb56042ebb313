"""All endpoints of the studio, `/v1/studio/…`; one entry for each page's part."""

from collections.abc import Sequence
from concurrent.futures import Executor

from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.endpoints.matching import Matching
from broadmatch.serve.endpoints.signals import Signals
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.grids import Grids
from broadmatch.serve.studio.judging import Judging
from broadmatch.serve.studio.market import Market
from broadmatch.serve.studio.model_pages import ModelPages
from broadmatch.serve.studio.parts import StudioParts
from broadmatch.serve.studio.planner.exports import Exporting
from broadmatch.serve.studio.planner.planning import Planning
from broadmatch.serve.studio.signal_pages import SignalPages
from broadmatch.serve.studio.tracing import Tracing
from broadmatch.serve.studio.work import StudioWork
from broadmatch.serve.studio.xray import Xray


def studio_endpoints(
    live: LiveService, pool: Executor, matching: Matching, events: str | None, signals: Signals
) -> Sequence[Endpoint]:
    """What the studio's pages ask: each part gets the service, the studio's folder, and what runs longer work."""
    folder, work = StudioFolder(live.folder.path), StudioWork(pool)
    return (
        *StudioParts(live, folder, work).endpoints(),
        *Planning(live, folder, work).endpoints(),
        *Exporting(work).endpoints(),
        *Judging(live, folder, work).endpoints(),
        *ModelPages(live, work, events).endpoints(),
        *Market(folder, work).endpoints(),
        *Tracing(live, work).endpoints(),
        *Xray(matching, work).endpoints(),
        *Grids(live, folder, work).endpoints(),
        *SignalPages(signals).endpoints(),
        # A page's part adds a line here.
    )
