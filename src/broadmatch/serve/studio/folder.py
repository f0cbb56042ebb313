"""Where the studio's parts are in the folder of a server; each of them is optional."""

import re
from dataclasses import dataclass
from pathlib import Path

from broadmatch.errors import MissingFile

_NAME = re.compile(r"[0-9A-Za-z_-][0-9A-Za-z._-]{0,63}")


@dataclass(frozen=True)
class StudioFolder:
    """The folder `studio/` of a server, which `broadmatch publish studio` fills.

    >>> StudioFolder(Path("server")).queries
    PosixPath('server/studio/queries.parquet')
    """

    server: Path
    """The folder of the server."""

    @property
    def path(self) -> Path:
        """The folder that holds all parts."""
        return self.server / "studio"

    @property
    def queries(self) -> Path:
        """What is known of queries: searches, competition, bids, prices, clicks."""
        return self.path / "queries.parquet"

    @property
    def extractor(self) -> Path:
        """A trained KEX that extracts phrases from pages; without it, one that was not trained does."""
        return self.path / "kex"

    @property
    def grids(self) -> Path:
        """The grids, NAME.grid each."""
        return self.path / "grids"

    @property
    def loop(self) -> Path:
        """What `broadmatch simulate --arms` wrote."""
        return self.path / "loop"

    @property
    def judgements(self) -> Path:
        """Sheets of pages and phrases, and the grades that people gave."""
        return self.path / "judgements"

    def grid(self, name: str) -> Path:
        """The file of a grid; `MissingFile` if there is none of that name, whatever the name tries to be."""
        file = self.grids / f"{name}.grid"
        if not _NAME.fullmatch(name) or not file.is_file():
            raise MissingFile(f"No grid {name[:64]!r} is here; make it with `broadmatch publish studio --grid`.")
        return file

    def grid_names(self) -> list[str]:
        """The names of all grids, in order."""
        return sorted(file.stem for file in self.grids.glob("*.grid") if _NAME.fullmatch(file.stem))
