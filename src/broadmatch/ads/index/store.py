"""The truth of the ad index: ads and campaigns in lmdb, with a log of what changed, by number of change.

One process writes at a time, any number read. A change is there as a whole or not at all, and once it is acknowledged
it survives SIGKILL and a power cut. The map grows while others have it open.
"""

import contextlib
import json
import threading
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar, TypeVar

from broadmatch.errors import BadArtifact, CannotWrite, MissingExtra, MissingFile

FORMAT = 4
"""Of the store and of the postings; an index of another format is refused."""
FOLDER = "store"
_FIRST_SIZE, _MOST_READERS, _TABLES = 1 << 26, 1024, ("ads", "ad_names", "campaigns", "campaign_names", "changes")
_META = b"meta"
LONGEST_NAME = 511
"""Bytes of a name, as lmdb has it."""
Result = TypeVar("Result")


class AdStore:
    """The lmdb environment in the folder of an index; of one folder, a process has one."""

    _open: ClassVar["weakref.WeakValueDictionary[str, AdStore]"] = weakref.WeakValueDictionary()
    _opening: ClassVar[threading.Lock] = threading.Lock()

    def __init__(self, index: Path, *, new: bool = False) -> None:
        self.lmdb: Any = _lmdb()
        self.path = index / FOLDER
        self._lock = threading.Lock()  # a map cannot grow while this process reads
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            self._env = self.lmdb.open(
                str(self.path), map_size=_FIRST_SIZE, max_dbs=len(_TABLES), max_readers=_MOST_READERS, sync=not new
            )
            self._env.reader_check()
            self.tables: dict[str, Any] = {}
            with self._begin(write=True) as txn:  # else lmdb forgets the tables
                for name in _TABLES:
                    self.tables[name] = self._env.open_db(name.encode(), txn, create=new)
        except (self.lmdb.InvalidError, self.lmdb.NotFoundError, self.lmdb.CorruptedError) as error:
            raise BadArtifact(f"{self.path} is damaged: it is not an lmdb store; build the index again.") from error
        except (self.lmdb.Error, OSError) as error:
            raise CannotWrite(
                f"Cannot open {self.path} ({error}); an index needs a folder that can be written."
            ) from error
        self._inode = (self.path / "data.mdb").stat().st_ino
        weakref.finalize(self, self._env.close)

    @classmethod
    def of(cls, index: Path) -> "AdStore":
        """The store of an index that is there, checked."""
        if not index.is_dir():
            raise MissingFile(f"There is no ad index at {index}.")
        if not (index / FOLDER / "data.mdb").is_file():
            raise BadArtifact(f"{index} is not an ad index: it has no {FOLDER}/data.mdb.")
        with cls._opening:
            known = cls._open.get(str(index.resolve()))
            if known is None or not known.is_same():
                known = cls(index)
                cls._open[str(index.resolve())] = known
        meta = known.read(known.meta)
        if meta.get("format") != FORMAT:
            version, older = meta.get("format", 0), meta.get("format", 0) < FORMAT
            what = "build the index again from the inventory" if older else "upgrade broadmatch"
            raise BadArtifact(
                f"{index} was written by {'an older' if older else 'a newer'} broadmatch (format {version}, "
                f"this one reads {FORMAT}): {what}."
            )
        return known

    def is_same(self) -> bool:
        """Whether the folder is still the one that was opened; an index can be replaced by another."""
        with contextlib.suppress(OSError):
            return self._inode == (self.path / "data.mdb").stat().st_ino
        return False

    def close(self) -> None:
        """Close it, with everything on disk."""
        self._env.sync(True)
        self._env.close()

    def meta(self, txn: Any) -> dict[str, Any]:
        """What is known of the index as a whole: format, number of the last change, postings, next numbers."""
        found: dict[str, Any] = json.loads(bytes(txn.get(_META) or b"{}"))
        return found

    def read(self, look: Callable[[Any], Result], *, buffers: bool = False) -> Result:
        """What `look` finds in a transaction that sees one moment."""
        with self._lock, self._begin(buffers=buffers) as txn:
            return look(txn)

    def write(self, change: Callable[[Any, dict[str, Any]], None]) -> None:
        """Make a change, given the transaction and what is known of the index, which it may alter; all or nothing."""
        with self._lock:
            self._env.reader_check()  # what dead readers held is free again
            while True:
                try:
                    with self._begin(write=True) as txn:
                        meta = self.meta(txn)
                        change(txn, meta)
                        txn.put(_META, json.dumps(meta).encode())
                    return
                except self.lmdb.MapFullError:
                    self._env.set_mapsize(2 * self._env.info()["map_size"])
                except (self.lmdb.Error, OSError) as error:
                    raise CannotWrite(
                        f"Cannot write {self.path} ({error}); nothing of this change was kept: make room and try again."
                    ) from error

    def changes(self, txn: Any, after: int) -> Iterator[bytes]:
        """What changed after the change of this number: numbers of ads, and −1 − number of campaigns."""
        cursor = txn.cursor(self.tables["changes"])
        if cursor.set_range(key_of(after + 1)):
            for value in cursor.iternext(keys=False, values=True):
                yield bytes(value)

    def _begin(self, **how: Any) -> Any:
        try:
            return self._env.begin(**how)
        except self.lmdb.MapResizedError:  # another process made it larger
            self._env.set_mapsize(0)
            return self._env.begin(**how)


def key_of(number: int) -> bytes:
    """A number as a key, in the order of numbers."""
    return number.to_bytes(8, "big")


def _lmdb() -> Any:
    try:
        import lmdb
    except ImportError as error:
        raise MissingExtra("The ad index needs lmdb; pip install 'broadmatch[ads]' brings it.") from error
    return lmdb
