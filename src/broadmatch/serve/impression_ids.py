"""Ids of impressions that carry what a click costs, signed: a click needs no look-up, and nobody can make one up."""

import hashlib
import hmac
import os
import struct
from base64 import urlsafe_b64decode, urlsafe_b64encode
from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from broadmatch.errors import BadArtifact
from broadmatch.kernels.hashing import seed_of

_PLAIN = struct.Struct(">QBQd")
_SIGNED = 8
_LENGTH = 44
"""Characters of an id: base64 of the 33 bytes."""
_SECRET = 32


class Charge(NamedTuple):
    """What the id of an impression says: the auction's key, the place, the campaign (as `campaign_key`), the price."""

    key: int
    place: int
    campaign: int
    price: float


def campaign_key(name: str) -> int:
    """The campaign as ids name it; 0 for none."""
    return int(seed_of(f"campaign {name}")) if name else 0


class ImpressionIds:
    """Makes ids with a secret, and reads those that were made with it.

    >>> ids = ImpressionIds(b"0" * 32)
    >>> made = ids.make(Charge(7, 1, campaign_key("shoes"), 0.25))
    >>> len(made), ids.read(made).price, ids.read(made[:-1] + "A")
    (44, 0.25, None)
    """

    def __init__(self, secret: bytes) -> None:
        self._start = hashlib.blake2s(key=secret, digest_size=_SIGNED)

    @classmethod
    def at(cls, path: Path) -> "ImpressionIds":
        """Those of the secret in a file, which is made if it is not there."""
        try:
            handle = os.open(path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600)
        except FileExistsError:
            pass
        else:
            with os.fdopen(handle, "wb") as file:
                file.write(os.urandom(_SECRET))
                file.flush()
                os.fsync(file.fileno())
        secret = path.read_bytes()
        if len(secret) != _SECRET:
            raise BadArtifact(
                f"{path} is not a secret of {_SECRET} bytes; remove it, and ids are signed with a new one."
            )
        return cls(secret)

    def make(self, charge: Charge) -> str:
        """The id of an impression."""
        return self.make_many([charge])[0]

    def make_many(self, charges: Iterable[tuple[int, int, int, float]]) -> list[str]:
        """The ids of impressions, whose fields are those of a `Charge`."""
        parts: list[bytes] = []
        pack, start = _PLAIN.pack, self._start.copy
        for charge in charges:
            plain, signer = pack(*charge), start()
            signer.update(plain)
            parts += (plain, signer.digest())
        text = urlsafe_b64encode(b"".join(parts)).decode()
        return [text[at : at + _LENGTH] for at in range(0, len(text), _LENGTH)]

    def read(self, name: str) -> Charge | None:
        """What an id says; None if it is not one of ours."""
        if len(name) != _LENGTH:
            return None
        try:
            data = urlsafe_b64decode(name)
        except ValueError:
            return None
        plain, signed = data[: _PLAIN.size], data[_PLAIN.size :]
        return Charge(*_PLAIN.unpack(plain)) if hmac.compare_digest(signed, self._sign(plain)) else None

    def _sign(self, plain: bytes) -> bytes:
        signer = self._start.copy()
        signer.update(plain)
        return signer.digest()
