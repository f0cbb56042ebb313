"""What is in service: engines by arm, the phrase model and the pages, exchanged as one while requests are answered."""

import contextlib
import itertools
import threading
import time
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import broadmatch
from broadmatch.ads import KSP, AdEngine
from broadmatch.clicks import ClickModel
from broadmatch.errors import BadInput, BroadmatchError, MissingFile
from broadmatch.io.pages import USUAL, Page
from broadmatch.kernels.hashing import seed_of
from broadmatch.labels import KEX, Recommender
from broadmatch.serve.config import ServeFolder
from broadmatch.serve.excluded import ExcludedPhrase, ExcludedPhrases
from broadmatch.serve.publishing import PublishedModels
from broadmatch.serve.serving import INITIAL
from broadmatch.signals import Encoder

if TYPE_CHECKING:
    import pyarrow.parquet as pq

_HASHES = 2.0**64


@dataclass(frozen=True)
class ServiceArm:
    """One of the click models in service, with the engine that answers by it; `upto` is its cumulative share."""

    name: str
    share: float
    upto: float
    version: str
    engine: AdEngine

    @cached_property
    def context_columns(self) -> tuple[str, ...]:
        """The columns of the context that its model reads."""
        return self.engine.context_columns

    @cached_property
    def encoder(self) -> Encoder:
        """What makes features of rows for its model."""
        description = self.engine.clicks.description_to_predict()
        if isinstance(description, str):
            raise BadInput("The click model was trained on vw text; serve one that was trained on columns.")
        return Encoder(description)


@dataclass(frozen=True)
class Service:
    """What answers requests at a moment; a request takes it once, so no answer mixes versions."""

    arms: tuple[ServiceArm, ...]
    recommender: Recommender | KEX | None
    recommender_version: str | None
    expansion: KSP | None
    pages: "KnownPages | None"
    excluded: tuple[ExcludedPhrase, ...]
    """Phrases that are not recommended."""
    since: float
    """When it was put in service, in seconds since 1970."""

    def arm_of(self, name: str) -> int:
        """The number of the arm of a session, or of a key: by a hash of it, so that it stays the same."""
        if len(self.arms) == 1:
            return 0
        at = int(seed_of(f"arm {name}")) / _HASHES
        return next((i for i, arm in enumerate(self.arms) if at < arm.upto), 0)


class KnownPages:
    """The pages of a Parquet file by their address; of a page that is asked for, its row group is read."""

    def __init__(self, path: Path) -> None:
        self.path = path
        file = self._open()
        lower = {name.lower(): name for name in file.schema_arrow.names}
        name, html = (next((lower[one] for one in USUAL[what] if one in lower), None) for what in ("name", "html"))
        if name is None or html is None:
            raise BadInput(f"{path} has no columns of pages; write it with broadmatch.io.write_pages.")
        self._html, self._at = html, dict[str, tuple[int, int]]()
        for group in range(file.num_row_groups):
            names = file.read_row_group(group, columns=[name]).column(0).to_pylist()
            self._at.update((str(one), (group, row)) for row, one in enumerate(names))

    def __len__(self) -> int:
        return len(self._at)

    def __contains__(self, address: str) -> bool:
        return address in self._at

    def some(self, n: int) -> list[str]:
        """The addresses of a few pages, from all over the file."""
        return list(itertools.islice(self._at, 0, None, max(1, len(self._at) // n)))[:n]

    def get(self, address: str) -> Page:
        """The page of an address; `MissingFile` if it is not known."""
        if address not in self._at:
            raise MissingFile(f"No page of the address {address[:200]!r} is known; send its html.")
        group, row = self._at[address]
        html = self._open().read_row_group(group, columns=[self._html]).column(0)[row].as_py()
        return Page(address, html if isinstance(html, bytes) else str(html).encode())

    def _open(self) -> "pq.ParquetFile":
        import pyarrow.parquet as pq

        return pq.ParquetFile(self.path)


class LiveService:
    """The service of a folder, which follows what is published there; `reload` builds beside, and exchanges."""

    def __init__(self, folder: Path) -> None:
        self.folder = ServeFolder(folder)
        self._building = threading.Lock()
        self._seen = self._signs()
        self._parts: dict[str, tuple[Any, Any]] = {}
        self._current = self._build()

    @property
    def current(self) -> Service:
        """What answers now."""
        return self._current

    def changed(self) -> bool:
        """Whether the folder differs from what was read of it, by a look at a few inodes."""
        return bool(self._signs() != self._seen)

    def reload(self) -> bool:
        """Take up what the folder holds now; whether that is something else. What cannot be read changes nothing."""
        with self._building:
            signs = self._signs()
            if signs == self._seen:
                return False
            self._current, self._seen = self._build(), signs
            return True

    def _build(self) -> Service:
        """The service of the folder; parts that did not change are those of before."""
        folder, kept = self.folder, dict[str, tuple[Any, Any]]()

        def part(name: str, path: Path, sign: Any, make: Any) -> Any:
            known = self._parts.get(name)
            kept[name] = known if known is not None and known[0] == (path, sign) else ((path, sign), make())
            return kept[name][1]

        base: AdEngine = part("engine", folder.path, _engine_signs(folder.path), lambda: AdEngine(folder.path))
        published = PublishedModels(folder.path)
        serving, arms, upto = published.serving(), list[ServiceArm](), 0.0
        for one in serving.clicks:
            upto, engine = upto + one.share, base
            if one.version != INITIAL:
                where = published.path("clicks", one.version)
                engine = part(f"arm {one.version}", where, id(base), lambda p=where: base.with_clicks(_clicks(p)))
            arms.append(ServiceArm(one.name, one.share, upto, one.version, engine))
        recommender = expansion = pages = version = None
        where = published.path("recommender", serving.recommender)
        if (at_model := _inode(where)) is not None:
            version = serving.recommender
            recommender = part("recommender", where, at_model, lambda: _recommender(where))
        if (at_ksp := _inode(folder.expansion)) is not None:
            expansion = part("ksp", folder.expansion, at_ksp, lambda: broadmatch.load(folder.expansion, KSP))
        if (at_pages := _inode(folder.pages)) is not None:
            pages = part("pages", folder.pages, at_pages, lambda: KnownPages(folder.pages))
        self._parts = kept
        excluded = tuple(ExcludedPhrases(folder.excluded).read())
        return Service(tuple(arms), recommender, version, expansion, pages, excluded, time.time())

    def _signs(self) -> Any:
        """What changes when the folder does."""
        folder = self.folder
        others = (folder.serving, folder.recommender, folder.expansion, folder.pages, folder.excluded)
        return _engine_signs(folder.path), tuple(map(_inode, others))


def _clicks(path: Path) -> ClickModel:
    found: ClickModel = broadmatch.load(path, ClickModel)
    return found


def _recommender(path: Path) -> Recommender | KEX:
    found = broadmatch.load(path)
    if not isinstance(found, Recommender | KEX):
        raise BroadmatchError(f"{path} holds no recommender of phrases for pages; train one with broadmatch train.")
    return found


def _engine_signs(folder: Path) -> tuple[Any, ...]:
    return tuple(_inode(folder / name) for name in ("", "index", "clicks", "auction"))


def _inode(path: Path) -> tuple[int, int, int] | None:
    """What is at a path now; None if nothing is."""
    with contextlib.suppress(OSError):
        found = path.stat()
        return found.st_dev, found.st_ino, found.st_mtime_ns if not path.is_dir() else 0
    return None
