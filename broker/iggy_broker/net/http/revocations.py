"""Tokens that somebody logged out, on every shard and over restarts, until they end by themselves.

A logout appends to a file in the data directory and tells all other shards before it is answered.
The file is read, and written anew without what has ended, before the shards are forked.
"""

from __future__ import annotations

import base64
import contextlib
import os
import secrets
from pathlib import Path
from typing import TYPE_CHECKING, Final

import msgspec

if TYPE_CHECKING:
    from iggy_broker.clock import Clock
    from iggy_broker.config_http import Jwt

REVOKED_MAX: Final = 100_000  # tokens remembered; beyond, a logout is asked to try again later
SECRET_BYTES: Final = 64
JTI_CHARACTERS_MAX: Final = 128  # of tokens that we issue: 36

_FOLDER: Final = "runtime"
_SECRET_NAME: Final = "jwt.key"
_REVOKED_NAME: Final = "revoked_tokens"


class Revoked(msgspec.Struct, frozen=True, array_like=True, tag="revoked"):
    """A token that is not good any more, though it lasts until `exp` (unix seconds)."""

    jti: str
    exp: int


_ENCODER: Final = msgspec.json.Encoder()
_DECODER: Final = msgspec.json.Decoder(Revoked)


def configured_secret(settings: Jwt) -> bytes:
    """What tokens are signed with by the settings; empty: nothing is configured."""
    text = settings.encoding_secret or settings.decoding_secret
    return base64.b64decode(text) if settings.use_base64_secret else text.encode()


def kept_secret(root: Path) -> bytes:
    """The secret that tokens are signed with where none is configured: made once, then kept.

    OSError if there is none and it cannot be written.
    """
    path = root / _FOLDER / _SECRET_NAME
    with contextlib.suppress(FileNotFoundError):
        found = path.read_bytes()
        if len(found) == SECRET_BYTES:
            return found
    path.parent.mkdir(exist_ok=True)
    made = secrets.token_bytes(SECRET_BYTES)
    _put(path, made)
    return made


def kept_revocations(root: Path, *, now_s: int) -> dict[str, int]:
    """What was revoked and has not ended, by `jti`; the file then has nothing else, if it can."""
    path = root / _FOLDER / _REVOKED_NAME
    try:
        lines = path.read_bytes().splitlines()
    except FileNotFoundError:
        return {}
    found = {one.jti: one.exp for line in lines if (one := _decoded(line)) and one.exp > now_s}
    if len(found) < len(lines):
        with contextlib.suppress(OSError):  # no room: what has ended stays a while longer
            _put(path, b"".join(_line(Revoked(jti, exp)) for jti, exp in found.items()))
    return found


class Revocations:
    """Of one shard."""

    def __init__(self, root: Path, found: dict[str, int], clock: Clock) -> None:
        """`found`: those of earlier lives."""
        self._path = root / _FOLDER / _REVOKED_NAME
        self._ends = dict(found)
        self._clock = clock

    def __contains__(self, jti: str) -> bool:
        """Whether the token with this `jti` was logged out."""
        return jti in self._ends

    def has_room(self) -> bool:
        """Whether one more can be remembered, after those that have ended are forgotten."""
        if len(self._ends) >= REVOKED_MAX:
            now_s = self._clock.now_us() // 1_000_000
            self._ends = {jti: exp for jti, exp in self._ends.items() if exp > now_s}
        return len(self._ends) < REVOKED_MAX

    def add(self, one: Revoked) -> None:
        """From now on the token is not good here."""
        if self.has_room():
            self._ends[one.jti] = one.exp

    def keep(self, one: Revoked) -> None:
        """Write it down for the next life. Blocking, and short: a line at the end of a file."""
        _write(self._path, _line(one))


def _put(path: Path, data: bytes) -> None:
    """The whole file, or what was there before."""
    fresh = path.with_suffix(".new")
    fresh.unlink(missing_ok=True)
    _write(fresh, data)
    fresh.replace(path)


def _write(path: Path, data: bytes) -> None:
    """Append to a file that only the broker's user can read."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    try:
        os.write(descriptor, data)
    finally:
        os.close(descriptor)


def _line(one: Revoked) -> bytes:
    return _ENCODER.encode(one) + b"\n"


def _decoded(line: bytes) -> Revoked | None:
    """None for a line that a crash has cut."""
    try:
        return _DECODER.decode(line)
    except (msgspec.DecodeError, UnicodeDecodeError):
        return None
