"""Who asks: login, bearer tokens, logout. Iggy 0.9 HTTP API, chapter on authentication.

Where the original is lax we are not: a token is bound to the user whom it was given to, is good
only while that user is there and active, and not after it was logged out. `http.strict_compat`
brings the laxness back.
"""

from __future__ import annotations

import logging
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from iggy_broker.errors import Reject
from iggy_broker.logs import event
from iggy_broker.metadata import credentials
from iggy_broker.net import login
from iggy_broker.net.http.issuers import Issuers
from iggy_broker.net.http.jwts import Jwts
from iggy_broker.net.http.revocations import JTI_CHARACTERS_MAX, Revocations, Revoked
from iggy_broker.net.http.shapes import AccessToken, Identity
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionReason

if TYPE_CHECKING:
    from iggy_broker.metadata.model import User
    from iggy_broker.net.context import Services
    from iggy_broker.net.peers import Links

logger = logging.getLogger(__name__)

_SCHEME: Final = "Bearer "
_QUESTION: Final = b"revoked:"  # before what other shards are told
_PAT_CHARACTERS_MAX: Final = 255
_REFUSED: Final = {
    EvictionReason.INVALID_CREDENTIALS: ErrorCode.INVALID_CREDENTIALS,
    EvictionReason.INVALID_TOKEN: ErrorCode.INVALID_PERSONAL_ACCESS_TOKEN,
    EvictionReason.USER_INACTIVE: ErrorCode.USER_INACTIVE,
}


@dataclass(frozen=True, slots=True)
class Asker:
    """Who sent a request, and with which token."""

    user_id: int
    since_us: int  # when the user was made
    token: str  # the `jti` of a JWT of ours, or the hash of another token
    expires_at_s: int = 0  # of a JWT


class Auth:
    """Logins and tokens, on one shard."""

    def __init__(
        self,
        services: Services,
        links: Links,
        jwts: Jwts,
        issuers: Issuers,
        revocations: Revocations,
    ) -> None:
        """`links`: the other shards, which hear of logouts. `issuers`: others who make tokens."""
        self._services = services
        self._links = links
        self._jwts = jwts
        self._issuers = issuers
        self._revocations = revocations
        self._is_strict = services.config.http.strict_compat

    async def log_in(self, username: str, password: str, address: str) -> Identity:
        """By password; INVALID_CREDENTIALS, whatever is wrong."""
        try:
            user = await login.user_of_password(self._services, username, password)
        except login.Refused as refused:
            raise self._refused(refused, "password", address) from None
        return self._welcome(user)

    def log_in_with_token(self, token: str, address: str) -> Identity:
        """By personal access token; INVALID_PERSONAL_ACCESS_TOKEN, USER_INACTIVE."""
        try:
            user = login.owner_of_token(self._services, token)
        except login.Refused as refused:
            raise self._refused(refused, "token", address) from None
        return self._welcome(user)

    async def refresh(self, token: str) -> Identity:
        """Another token for who has a good one, which stays good.

        UNAUTHENTICATED; INVALID_ACCESS_TOKEN: another issuer made it.
        """
        asker = self._asker_of_jwt(token)
        if asker is None and await self._issuers.check(token) is not None:
            detail = "another issuer made the token; ask there for a new one"
            raise Reject(ErrorCode.INVALID_ACCESS_TOKEN, detail)
        user = None if asker is None else self._services.replica.state.users.get(asker.user_id)
        if user is None:
            raise Reject(ErrorCode.UNAUTHENTICATED, "the token is not good; log in again")
        return self._welcome(user)

    async def asker(self, header: str | None) -> Asker:
        """Who sends this `Authorization`; ACCESS_TOKEN_MISSING, UNAUTHENTICATED."""
        if header is None or not header.startswith(_SCHEME):
            detail = "send the header Authorization: Bearer, and a token"
            raise Reject(ErrorCode.ACCESS_TOKEN_MISSING, detail)
        token = header.removeprefix(_SCHEME)
        found = self._asker_of_jwt(token) or self._asker_of_token(token)
        if found is None:
            found = await self._asker_of_others(token)
        if found is None:
            raise Reject(ErrorCode.UNAUTHENTICATED, "the token is not good; log in again")
        return found

    async def log_out(self, asker: Asker) -> None:
        """End the token everywhere, before this returns. A personal access token stays."""
        if self._is_strict or not asker.expires_at_s or len(asker.token) > JTI_CHARACTERS_MAX:
            return
        if not self._revocations.has_room():
            detail = "too many tokens were logged out lately; try again later"
            raise Reject(ErrorCode.TRANSIENT_NOT_ACCEPTED, detail)
        revoked = Revoked(asker.token, asker.expires_at_s)
        self._revocations.add(revoked)
        try:
            self._revocations.keep(revoked)
        except OSError as error:
            detail = f"the logout cannot be written down: {error.strerror}; free some space"
            raise Reject(ErrorCode.TRANSIENT_NOT_ACCEPTED, detail) from None
        finally:
            await self._links.ask_all(encode_revoked(revoked))

    def hear(self, question: bytes) -> bool:
        """Another shard tells something: whether it was that it logged a token out."""
        revoked = decode_revoked(question)
        if revoked is not None:
            self._revocations.add(revoked)
        return revoked is not None

    def _asker_of_jwt(self, token: str) -> Asker | None:
        claims = self._jwts.check(token)
        user_id = None if claims is None else claims.user_id
        if claims is None or user_id is None:
            return None
        user = self._services.replica.state.users.get(user_id)
        is_another = (
            claims.uct is not None and user is not None and claims.uct != user.created_at_us
        )
        if is_another and not self._is_strict:
            return None
        return self._acting_as(user_id, claims.jti, claims.exp)

    async def _asker_of_others(self, token: str) -> Asker | None:
        good = await self._issuers.check(token)
        if good is None:
            return None
        # Their `jti` may be the same as one of ours, or missing.
        return self._acting_as(good.user_id, credentials.hash_token(token), good.expires_at_s)

    def _acting_as(self, user_id: int, token: str, expires_at_s: int) -> Asker | None:
        """Whoever has a token for this user; None: the user is gone, or the token was ended."""
        user = self._services.replica.state.users.get(user_id)
        if self._is_strict:
            return Asker(user_id, 0 if user is None else user.created_at_us, token, expires_at_s)
        if user is None or not user.active or token in self._revocations:
            return None
        return Asker(user_id, user.created_at_us, token, expires_at_s)

    def _asker_of_token(self, token: str) -> Asker | None:
        if not token.isascii() or len(token) > _PAT_CHARACTERS_MAX:
            return None
        hashed = credentials.hash_token(token)
        found = self._services.replica.state.find_token(hashed)
        if found is None or found[1].is_over(self._services.clock.now_us()):
            return None
        user = found[0]
        return Asker(user.id, user.created_at_us, hashed) if user.active else None

    def _welcome(self, user: User) -> Identity:
        self._services.counters.logins_total += 1
        return Identity(user.id, AccessToken(*self._jwts.issue(user)))

    def _refused(self, refused: login.Refused, method: str, address: str) -> Reject:
        self._services.counters.count("logins_failed_total", method)
        reason = refused.reason.name.lower()
        told = event("login_refused", address=address)
        logger.info("! login refused: %s", reason, extra=told)
        return Reject(_REFUSED[refused.reason])


def encode_revoked(one: Revoked) -> bytes:
    """As a question to other shards; see `decode_revoked`."""
    return _QUESTION + one.exp.to_bytes(8, "little") + one.jti.encode()


def decode_revoked(question: bytes) -> Revoked | None:
    """A logout that another shard tells of; None if it asks something else."""
    if not question.startswith(_QUESTION):
        return None
    rest = question[len(_QUESTION) :]
    return Revoked(rest[8:].decode(), int.from_bytes(rest[:8], "little"))
