"""API keys: who may ask a server for what, and how often; a file holds their hashes, never the keys.

A key is `bm_` and 32 random bytes in base64url, shown once. Its first eight characters are its id, by which it is found
and listed; the rest, 208 random bits, is the secret. Such a key cannot be guessed from its hash, so that one fast
keyed hash with a salt of its own is enough, and a server checks a key in microseconds with each request.
"""

import contextlib
import fcntl
import hmac
import json
import logging
import os
import secrets
import time
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from hashlib import blake2b
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

from broadmatch.errors import BadArtifact, BadInput, BroadmatchError
from broadmatch.io.files import replacing_file
from broadmatch.params import Number, OneOf

log = logging.getLogger("broadmatch")

Role = Literal["read", "serve", "admin"]
"""What a key may do; each role may do what those before it may."""
ROLES: tuple[Role, ...] = get_args(Role)
_RANK = {role: rank for rank, role in enumerate(ROLES)}
_SCHEME, _PREFIX = b"bearer ", "bm_"
_ID, _KEY = 8, 43  # characters of the id, and of the whole base64 of 32 bytes
_KEY_STARTS = len(_SCHEME)
_ID_STARTS = _KEY_STARTS + len(_PREFIX)
_ID_ENDS, _LENGTH = _ID_STARTS + _ID, _ID_STARTS + _KEY
_SALT, _HASH = 16, 32
_MOST_KEYS, _MOST_BYTES, _LONGEST_NAME, _MOST_RATE = 10_000, 1 << 23, 64, 1e6
_LOOK_EVERY = 1.0
"""Seconds after which the file is looked at again."""


class Unauthorized(BroadmatchError):
    """A request has no API key, or none that is known: 401."""


class Forbidden(BroadmatchError):
    """The role of an API key does not reach so far: 403."""


class TooManyRequests(BroadmatchError):
    """An API key is used more often than its rate: 429; it may be used again `retry_after` seconds later."""

    def __init__(self, retry_after: float) -> None:
        super().__init__(f"This API key is used more often than its rate allows; retry in {retry_after:.3g} seconds.")
        self.retry_after = retry_after


class RateLimit:
    """A token bucket: `rate` requests a second, as many at once as come to a second, and one at least.

    It counts in its process: N workers let through up to N times the rate.

    >>> limit = RateLimit(2.0)
    >>> [limit.wait(now) for now in (10.0, 10.0, 10.0, 10.5)]
    [0.0, 0.0, 0.5, 0.0]
    """

    __slots__ = ("_full_at", "_room", "_step", "rate")

    def __init__(self, rate: float) -> None:
        self.rate = rate
        self._step = 1 / rate
        self._room = max(rate, 1.0) * self._step
        self._full_at = -float("inf")  # when the bucket is full again, if nothing is taken meanwhile

    def wait(self, now: float) -> float:
        """0.0 if a request may pass at `now` (seconds), which is then counted; else how long until one may."""
        full_at = (self._full_at if self._full_at > now else now) + self._step  # max() takes longer
        too_soon = full_at - now - self._room
        if too_soon > 1e-9:
            return too_soon
        self._full_at = full_at
        return 0.0


class KeyInfo(NamedTuple):
    """What is known of an API key: `id` is its public part, `created` a time in UTC, `rate` requests a second."""

    id: str
    name: str
    role: Role
    created: str
    rate: float | None


class _Entry:
    """A key of the file, ready to be compared."""

    __slots__ = ("hashed", "info", "limit", "rank", "start")

    def __init__(self, info: KeyInfo, salt: bytes, hashed: bytes, limit: RateLimit | None) -> None:
        self.info, self.hashed, self.limit = info, hashed, limit
        self.rank = _RANK[info.role]
        self.start = blake2b(key=salt, digest_size=_HASH)


@dataclass(frozen=True)
class _StoredKey:
    """A key as the file has it."""

    info: KeyInfo
    salt: bytes
    hashed: bytes


class ApiKeys:
    """The keys of a file, which is read again within a second after it changed.

    >>> import tempfile
    >>> path = Path(tempfile.mkdtemp()) / "keys.json"
    >>> key = add_key(path, "shop", "serve")
    >>> ApiKeys.at(path).check(b"Bearer " + key.encode(), "read").name
    'shop'
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._entries: dict[bytes, _Entry] = {}
        self._seen: object = None
        self._next_look = 0.0
        self._unknown = blake2b(key=b"no key", digest_size=_HASH)
        self._read(self._mark())

    @classmethod
    def at(cls, path: Path) -> "ApiKeys | None":
        """The keys of a file; None if there is none. `BadArtifact` if it is damaged."""
        return cls(path) if path.exists() else None

    def check(self, header: bytes | None, role: Role) -> KeyInfo:
        """Whose key the value of the header `Authorization` is, if it may do what `role` may, and now."""
        now = time.monotonic()
        if now >= self._next_look:
            self._look(now)
        if header is None or len(header) != _LENGTH or header[:_KEY_STARTS].lower() != _SCHEME:
            raise Unauthorized(
                "This needs an API key; send the header Authorization: Bearer and the key, which begins with bm_."
            )
        entry = self._entries.get(header[_ID_STARTS:_ID_ENDS])
        hasher = (self._unknown if entry is None else entry.start).copy()
        hasher.update(header[_KEY_STARTS:])
        # An unknown id is compared too: how long the answer takes does not say which ids there are.
        same = hmac.compare_digest(hasher.digest(), _NO_HASH if entry is None else entry.hashed)
        if entry is None or not same:
            raise Unauthorized("This API key is not known here; ask whoever runs the server for one.")
        if entry.rank < _RANK[role]:
            raise Forbidden(f"The role of this API key is {entry.info.role}, and this needs {role}.")
        if entry.limit is not None and (wait := entry.limit.wait(now)):
            raise TooManyRequests(wait)
        return entry.info

    def __len__(self) -> int:
        return len(self._entries)

    def _look(self, now: float) -> None:
        self._next_look = now + _LOOK_EVERY
        mark = self._mark()
        if mark == self._seen:
            return
        try:
            self._read(mark)
        except (BadArtifact, OSError) as error:
            self._seen = mark
            log.error("%s The keys of before stay in force.", error)

    def _mark(self) -> object:
        """What changes when the file does; None if it is gone."""
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return found.st_ino, found.st_mtime_ns, found.st_size

    def _read(self, mark: object) -> None:
        """Take up the keys of the file; none are left if it is gone."""
        limits = {entry.info.id: entry.limit for entry in self._entries.values()}
        entries = {}
        for key in read_keys(self._path) if mark is not None else ():
            info, limit = key.info, limits.get(key.info.id)
            if limit is None or limit.rate != info.rate:
                limit = None if info.rate is None else RateLimit(info.rate)
            entries[info.id.encode()] = _Entry(info, key.salt, key.hashed, limit)
        self._entries, self._seen = entries, mark


_NO_HASH = bytes(_HASH)


def add_key(path: Path, name: str, role: Role, rate: float | None = None) -> str:
    """Make a key and put its hash into the file; the key itself is nowhere but in the answer."""
    OneOf(ROLES).check("role", role)
    if rate is not None:
        Number(0, _MOST_RATE, above=True).check("rate", rate)
    if not _is_name(name):
        raise BadInput(f"A name of a key has 1 to {_LONGEST_NAME} letters that can be printed, but it is {name!r}.")
    with _editing(path) as keys:
        if any(known.info.name == name for known in keys):
            raise BadInput(f"{path} has a key of the name {name} already; remove that one, or choose another name.")
        if len(keys) >= _MOST_KEYS:
            raise BadInput(f"{path} has {_MOST_KEYS:,} keys already, which is as many as there can be; remove some.")
        secret = secrets.token_urlsafe(32)
        while any(known.info.id == secret[:_ID] for known in keys):
            secret = secrets.token_urlsafe(32)
        created = datetime.now(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
        info = KeyInfo(secret[:_ID], name, role, created, None if rate is None else float(rate))
        salt = os.urandom(_SALT)
        key = _PREFIX + secret
        keys.append(_StoredKey(info, salt, blake2b(key.encode(), key=salt, digest_size=_HASH).digest()))
    return key


def remove_key(path: Path, name: str) -> None:
    """Take the key of a name, or of an id, out of the file."""
    with _editing(path) as keys:
        found = next((key for key in keys if name in (key.info.name, key.info.id)), None)
        if found is None:
            there = ", ".join(key.info.name for key in keys[:20]) or "none"
            raise BadInput(f"{path} has no key of the name {name}; it has {there}.")
        keys.remove(found)


def read_keys(path: Path) -> list[_StoredKey]:
    """The keys of a file, in the order in which they were added; `BadArtifact` if it is damaged."""
    try:
        with path.open("rb") as file:
            content = file.read(_MOST_BYTES + 1)
        plain = json.loads(content) if len(content) <= _MOST_BYTES else None
    except (ValueError, RecursionError):
        plain = None
    if not isinstance(plain, dict) or set(plain) != {"keys"} or not isinstance(plain["keys"], list):
        raise _damaged(path, "it is no JSON object with a list of keys")
    if len(plain["keys"]) > _MOST_KEYS:
        raise _damaged(path, f"it has more than {_MOST_KEYS:,} keys")
    found = [_stored(item, f"key {number}", path) for number, item in enumerate(plain["keys"], 1)]
    for what in ("id", "name"):
        if len({getattr(key.info, what) for key in found}) < len(found):
            raise _damaged(path, f"two keys have one {what}")
    return found


@contextlib.contextmanager
def _editing(path: Path) -> Iterator[list[_StoredKey]]:
    """The keys of a file to change, by one process at a time; written if the block ends well."""
    if not path.parent.is_dir():
        raise BadInput(f"There is no folder {path.parent}; give that of a server.")
    with (path.parent / f".{path.name}.lock").open("wb") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        keys = read_keys(path) if path.exists() else []
        yield keys
        plain = [{**k.info._asdict(), "salt": k.salt.hex(), "hash": k.hashed.hex()} for k in keys]
        with replacing_file(path) as out:
            out.write(json.dumps({"keys": plain}, indent=1).encode() + b"\n")


def _stored(item: Any, where: str, path: Path) -> _StoredKey:
    """One key as JSON has it, checked."""
    if not isinstance(item, dict) or set(item) != {*KeyInfo._fields, "salt", "hash"}:
        raise _damaged(path, f"{where} has not {', '.join(KeyInfo._fields)}, salt and hash")
    name, rate, created = item["name"], item["rate"], item["created"]
    try:
        salt, hashed = bytes.fromhex(item["salt"]), bytes.fromhex(item["hash"])
    except (TypeError, ValueError) as error:
        raise _damaged(path, f"salt or hash of {where} is no hexadecimal number") from error
    whole = {
        "id": isinstance(item["id"], str) and len(item["id"]) == _ID and item["id"].isascii(),
        "name": _is_name(name),
        "role": item["role"] in ROLES,
        "created": isinstance(created, str) and len(created) <= _LONGEST_NAME and created.isprintable(),
        "rate": rate is None
        or (isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate <= _MOST_RATE),
        "salt": len(salt) == _SALT,
        "hash": len(hashed) == _HASH,
    }
    for what, fits in whole.items():
        if not fits:
            raise _damaged(path, f"the {what} of {where} cannot be one")
    info = KeyInfo(item["id"], name, item["role"], created, None if rate is None else float(rate))
    return _StoredKey(info, salt, hashed)


def _is_name(name: object) -> bool:
    return isinstance(name, str) and 0 < len(name) <= _LONGEST_NAME and name.isprintable() and name == name.strip()


def _damaged(path: Path, reason: str) -> BadArtifact:
    return BadArtifact(f"{path} is damaged: {reason}; bring an old copy back, or remove it and add the keys anew.")
