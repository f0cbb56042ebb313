"""`studio/grids`: the grids that the server has, and the content of each, for the page GridViz."""

from broadmatch.serve.endpoints.endpoint import Endpoint
from broadmatch.serve.messages import Reply
from broadmatch.serve.problems import Problem
from broadmatch.serve.service import LiveService
from broadmatch.serve.studio.folder import StudioFolder
from broadmatch.serve.studio.work import StudioWork

_LARGEST = 256 << 20
_MEDIA = b"application/octet-stream"


class PublishedGrid(Reply, frozen=True):
    """A grid: its name, the size of its file, and when it was written, in seconds since 1970."""

    name: str
    bytes: int
    written: float


class GridsReply(Reply, frozen=True):
    """All grids by name."""

    grids: list[PublishedGrid]


class Grids:
    """Hands out grids as they are; browsers decode them."""

    def __init__(self, live: LiveService, folder: StudioFolder, work: StudioWork) -> None:
        self._folder, self._work = folder, work

    def endpoints(self) -> tuple[Endpoint, ...]:
        """The list, and one grid."""
        return (
            Endpoint(
                "studio_grids", "GET", "/v1/studio/grids", "read", "The grids that were published.",
                self.answer, None, GridsReply, problems=(503,),
            ),
            Endpoint(
                "studio_grid", "GET", "/v1/studio/grids/{name}", "read", "A grid's file, as GridViz reads it.",
                self.answer_one, None, bytes, media=_MEDIA, problems=(404, 413, 503),
            ),
        )  # fmt: skip

    async def answer(self) -> GridsReply:
        """All grids."""
        return await self._work.run(self._all)

    async def answer_one(self, name: str) -> bytes:
        """The content of a grid's file."""
        return await self._work.run(self._content, name)

    def _all(self) -> GridsReply:
        found = []
        for name in self._folder.grid_names():
            about = self._folder.grid(name).stat()
            found.append(PublishedGrid(name=name, bytes=about.st_size, written=about.st_mtime))
        return GridsReply(grids=found)

    def _content(self, name: str) -> bytes:
        file = self._folder.grid(name)
        if file.stat().st_size > _LARGEST:
            raise Problem(413, f"The grid {name} has more than {_LARGEST >> 20} MB; make it with fewer slices.")
        return file.read_bytes()
