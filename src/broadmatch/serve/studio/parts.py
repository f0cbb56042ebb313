"""`studio`: which parts the server has, so that a page whose part is absent says what brings it."""

from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import Reply
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.work import StudioWork

_EXAMPLES = 3


class StudioPartsReply(Reply, frozen=True):
    """What the server has for the studio, beside ads and click models."""

    recommender: str | None
    """The class of the phrase model, if one is served."""
    revealed: bool
    """Whether the phrase model takes phrases that the page has."""
    sets: bool
    """Whether the phrase model says how many phrases it finds right."""
    expansion: bool
    pages: int
    examples: list[str]
    """Addresses of some pages that are known."""
    queries: bool
    grids: list[str]
    loop: bool
    judgements: bool


class StudioParts:
    """Says which parts there are."""

    def __init__(self, live: LiveService, folder: StudioFolder, work: StudioWork) -> None:
        self._live, self._folder, self._work = live, folder, work

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The one endpoint."""
        about = "What this server has for the studio."
        return (Endpoint("studio", "GET", "/v1/studio", "read", about, self.answer, None, StudioPartsReply),)

    async def answer(self) -> StudioPartsReply:
        """The parts."""
        return await self._work.run(self._parts)

    def _parts(self) -> StudioPartsReply:
        service, folder = self._live.current, self._folder
        model = getattr(service.recommender, "model", None)
        return StudioPartsReply(
            recommender=None if service.recommender is None else type(model or service.recommender).__name__,
            revealed=model is not None,
            sets=bool(getattr(model, "sized", False)),
            expansion=service.expansion is not None,
            pages=0 if service.pages is None else len(service.pages),
            examples=[] if service.pages is None else service.pages.some(_EXAMPLES),
            queries=folder.queries.is_file(),
            grids=folder.grid_names(),
            loop=folder.loop.is_dir(),
            judgements=folder.judgements.is_dir(),
        )
