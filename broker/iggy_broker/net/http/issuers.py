"""Tokens of other issuers (Iggy 0.9 HTTP API, trusted issuers): whom they act as.

They are signed with a key of the issuer's, which publishes the public halves as a JSON Web Key Set
(RFC 7517). Keys are fetched when a token needs them and kept; a token that names a key which is
not there makes us fetch again, at most once in `AGAIN_S`.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Awaitable, Callable, Mapping, Sequence
from http import HTTPStatus
from typing import TYPE_CHECKING, Annotated, Any, Final

import jwt
import msgspec
from aiohttp.client_exceptions import ClientError

from iggy_broker.config_issuers import TrustedIssuer
from iggy_broker.logs import event
from iggy_broker.net.http.jwts import TOKEN_CHARACTERS_MAX, UNCHECKED, UNREADABLE

if TYPE_CHECKING:
    from iggy_broker.clock import Clock

logger = logging.getLogger(__name__)

KEYS_S: Final = 3600.0  # then keys are fetched anew, while those that we have are used on
KEPT_S: Final = 86_400.0  # then they are good no more: the issuer may have withdrawn them
AGAIN_S: Final = 30.0  # between two fetches from one issuer
FETCH_S: Final = 5.0  # that a fetch may take
KEYS_BYTES_MAX: Final = 256 * 1024
KEYS_MAX: Final = 64  # of one issuer
KEY_NAME_CHARACTERS_MAX: Final = 255

# What a key must be for an algorithm: `kty` and `crv`.
_FITS: Final = {
    "RS256": ("RSA", None),
    "RS384": ("RSA", None),
    "RS512": ("RSA", None),
    "ES256": ("EC", "P-256"),
    "ES384": ("EC", "P-384"),
}

Fetch = Callable[[str], Awaitable[bytes]]


class _Head(msgspec.Struct, frozen=True):
    alg: str
    kid: str


_Time = Annotated[float, msgspec.Meta(ge=0, le=1 << 53)]  # unix seconds


class _Claims(msgspec.Struct, frozen=True):
    iss: str
    aud: str | list[str]
    exp: _Time
    nbf: _Time = 0.0


class Good(msgspec.Struct, frozen=True):
    """What a good token says."""

    user_id: int
    expires_at_s: int


class Issuers:
    """Those that are trusted, and their keys, on one shard."""

    def __init__(
        self, trusted: Sequence[TrustedIssuer], *, skew_us: int, clock: Clock, fetch: Fetch
    ) -> None:
        """`skew_us`: how much their clocks may differ from ours."""
        self._skew_s = skew_us / 1_000_000
        self._clock = clock
        self._trusted = [(one, _Keys(one.jwks_url, fetch)) for one in trusted]

    async def check(self, token: str) -> Good | None:
        """What a token says, if one of them made it and it is good now."""
        if not self._trusted or len(token) > TOKEN_CHARACTERS_MAX:
            return None
        try:
            head = msgspec.convert(jwt.get_unverified_header(token), _Head)
            said = jwt.decode(token, options={"verify_signature": False})
            claims = msgspec.convert(said, _Claims)
        except UNREADABLE:
            return None
        audiences = [claims.aud] if isinstance(claims.aud, str) else claims.aud
        for one, keys in self._trusted:
            if one.issuer == claims.iss and one.audience in audiences and self._is_now(claims):
                is_good = await _is_signed(token, head, keys)
                return Good(one.user_id, int(claims.exp)) if is_good else None
        return None

    def _is_now(self, claims: _Claims) -> bool:
        now_s = self._clock.now_us() / 1_000_000
        return claims.nbf - self._skew_s <= now_s <= claims.exp + self._skew_s


async def _is_signed(token: str, head: _Head, keys: _Keys) -> bool:
    if head.alg not in _FITS or len(head.kid) > KEY_NAME_CHARACTERS_MAX:
        return False
    found = await keys.find(head.kid)
    if found is None or found.kind != _FITS[head.alg]:
        return False
    try:
        jwt.decode(token, found.key, algorithms=[head.alg], options=UNCHECKED)
    except jwt.PyJWTError:
        return False
    return True


class Key(msgspec.Struct, frozen=True):
    """A public key. `kind`: its `kty` and `crv`."""

    kind: tuple[str, str | None]
    key: Any


class _Keys:
    """Of one issuer."""

    def __init__(self, url: str, fetch: Fetch) -> None:
        self._url = url
        self._fetch = fetch
        self._known: Mapping[str, Key] = {}
        self._fetched_s = self._tried_s = float("-inf")
        self._fetching: asyncio.Task[None] | None = None

    async def find(self, name: str) -> Key | None:
        """The key of that name; None: the issuer has none, or cannot be asked."""
        now_s = asyncio.get_running_loop().time()
        if now_s > self._fetched_s + KEPT_S:
            self._known = {}
        found = self._known.get(name)
        is_old = now_s > self._fetched_s + KEYS_S
        if self._fetching is None and (found is None or is_old) and now_s > self._tried_s + AGAIN_S:
            self._tried_s = now_s
            self._fetching = asyncio.create_task(self._look())
        if found is None and self._fetching is not None:
            await asyncio.shield(self._fetching)
            found = self._known.get(name)
        return found

    async def _look(self) -> None:
        try:
            self._known = keys_of(await self._fetch(self._url))
            self._fetched_s = asyncio.get_running_loop().time()
        except (ClientError, TimeoutError, OSError, ValueError) as error:
            told = event("keys_not_fetched", url=self._url)
            what = str(error) or type(error).__name__
            logger.warning("! keys of an issuer of tokens: %s", what, extra=told)
        finally:
            self._fetching = None


def keys_of(data: bytes) -> dict[str, Key]:
    """The public keys of a key set, by name; those that we cannot use are left out. ValueError."""
    try:
        found = msgspec.json.decode(data, type=dict[str, Any]).get("keys")
    except msgspec.MsgspecError as error:
        raise ValueError(f"no JSON Web Key Set: {error}") from None
    if not isinstance(found, list):
        raise ValueError("no JSON Web Key Set: it has no list of keys")
    usable: dict[str, Key] = {}
    for one in found[:KEYS_MAX]:
        name = one.get("kid") if isinstance(one, dict) else None
        if not isinstance(name, str) or one.get("use", "sig") != "sig":
            continue
        kind = (one.get("kty"), one.get("crv"))
        if kind in _FITS.values() and "d" not in one:
            with contextlib.suppress(jwt.PyJWTError, ValueError, TypeError):  # no such point, ...
                usable[name] = Key(kind, jwt.PyJWK(one).key)
    return usable


async def fetch(url: str) -> bytes:
    """What is at a URL. aiohttp.ClientError, TimeoutError, ValueError: it cannot be had."""
    import aiohttp  # its client: few brokers need it

    timeout = aiohttp.ClientTimeout(total=FETCH_S)
    async with (
        aiohttp.ClientSession(timeout=timeout) as session,
        session.get(url, allow_redirects=False) as answer,
    ):
        if answer.status != HTTPStatus.OK:
            raise ValueError(f"status {answer.status}")
        data = b""
        async for piece in answer.content.iter_chunked(64 * 1024):
            data += piece
            if len(data) > KEYS_BYTES_MAX:
                raise ValueError(f"more than {KEYS_BYTES_MAX} bytes")
        return data
