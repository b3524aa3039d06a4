"""Login: version, credentials, session. Iggy protocol 0.11, chapter on the life of a connection.

A password is verified in a thread, and few at a time: each takes tens of milliseconds and
megabytes. Whoever gave the right one lately is known by a keyed hash of it, so that a storm of
reconnects costs nothing; a wrong password always takes the slow road.
"""

from __future__ import annotations

import asyncio
import hashlib
import hmac
import logging
import secrets
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from iggy_broker import __version__
from iggy_broker.metadata import credentials
from iggy_broker.metadata.model import User
from iggy_wire.dialect import P11
from iggy_wire.errors import WireError
from iggy_wire.header import EvictionReason, RequestHeader, encode_eviction, encode_reply
from iggy_wire.replies import LoginReply
from iggy_wire.requests import LoginWithToken, decode_login, login_version

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.edge import Edge

logger = logging.getLogger(__name__)

VERIFYING_MAX: Final = 2  # password hashes at a time; the others queue in the executor
LOGINS_WAITING_MAX: Final = 1024  # per shard; beyond, a login fails as if the password were wrong
KNOWN_MAX: Final = 4096  # good passwords remembered, as keyed hashes; then all are forgotten

USERNAME_BYTES: Final = range(3, 51)
PASSWORD_BYTES: Final = range(3, 101)


class Logins:
    """Verifies passwords off the loop."""

    __slots__ = ("_executor", "_key", "_known", "_waiting")

    def __init__(self) -> None:
        """Threads start with the first login, so this may be made before a fork."""
        self._executor = ThreadPoolExecutor(VERIFYING_MAX, thread_name_prefix="login")
        self._key = secrets.token_bytes(32)
        self._known: set[bytes] = set()
        self._waiting = 0

    async def verify(self, user: User | None, password: str) -> bool:
        """Whether this is an active user's password. As slow for nobody as for somebody."""
        stored = credentials.NOBODY if user is None else user.password_hash
        mark = self._mark(stored, password)
        if user is not None and mark in self._known:
            return user.active
        if self._waiting >= LOGINS_WAITING_MAX:
            return False
        self._waiting += 1
        try:
            loop = asyncio.get_running_loop()
            good = await loop.run_in_executor(self._executor, credentials.verify, stored, password)
        finally:
            self._waiting -= 1
        if not good or user is None or not user.active:
            return False
        if len(self._known) >= KNOWN_MAX:
            self._known.clear()
        self._known.add(mark)
        return True

    def close(self) -> None:
        """Let the threads end."""
        self._executor.shutdown(wait=False, cancel_futures=True)

    def _mark(self, stored: str, password: str) -> bytes:
        # A changed password has another stored hash (and salt), so its old mark never matches.
        return hmac.digest(self._key, f"{stored}\0{password}".encode(), hashlib.sha256)


async def log_in(edge: Edge, connection: Connection, header: RequestHeader, body: bytes) -> bytes:
    """Serve Register: the login reply, or an eviction that says why not."""
    reason, user = await _identify(edge, body)
    counters = edge.services.counters
    if reason is EvictionReason.INCOMPATIBLE_PROTOCOL:
        counters.evictions_total += 1
        low, high = min(P11.versions), max(P11.versions)
        return encode_eviction(header.client, reason, version_min=low, version_max=high)
    holder = edge.by_client.get(header.client)
    if reason is None and user is not None and holder is not None:
        reason = _take_over(edge, connection, holder, user.id)
    if reason is not None or user is None:
        counters.evictions_total += 1
        counters.logins_failed_total += 1
        logger.info("login refused", extra={"client": connection.session.client_number})
        return encode_eviction(header.client, reason or EvictionReason.INVALID_CREDENTIALS)
    session = connection.session
    if session.user_id is None or session.client != header.client:
        edge.forget(connection)
        session.bind(client=header.client, number=_session_number(edge), user_id=user.id)
        edge.by_client[header.client] = connection
        counters.sessions = len(edge.by_client)
    counters.logins_total += 1
    return _welcome(header, user_id=user.id, number=session.number)


async def _identify(edge: Edge, body: bytes) -> tuple[EvictionReason | None, User | None]:
    try:
        if login_version(body) not in P11.versions:
            return EvictionReason.INCOMPATIBLE_PROTOCOL, None
        login = decode_login(body)
    except WireError:
        return EvictionReason.MALFORMED_LOGIN, None
    if isinstance(login, LoginWithToken):
        return EvictionReason.INVALID_TOKEN, None  # there are no tokens yet
    user = edge.services.replica.state.find_user(login.username)
    plausible = (
        len(login.username.encode()) in USERNAME_BYTES
        and len(login.password.encode()) in PASSWORD_BYTES
    )
    if not await edge.logins.verify(user if plausible else None, login.password):
        return EvictionReason.INVALID_CREDENTIALS, None
    return None, user


def _take_over(
    edge: Edge, connection: Connection, holder: Connection, user_id: int
) -> EvictionReason | None:
    """Move a client id from the connection that holds it; refused if it is another user's."""
    if holder.session.user_id != user_id:
        return EvictionReason.SESSION_ERROR
    if holder is not connection:
        memory = holder.session.memory
        edge.forget(holder)
        holder.session.unbind()
        connection.session.memory = memory
    return None


def _session_number(edge: Edge) -> int:
    """Nonzero, different on every shard, and rising from login to login."""
    services = edge.services
    moment = max(services.clock.now_us(), edge.last_session_us + 1)
    edge.last_session_us = moment
    return moment * services.shards_count + services.shard_id


def _welcome(header: RequestHeader, *, user_id: int, number: int) -> bytes:
    body = bytes(4) + LoginReply(user_id, number, P11.version, __version__).encode()
    return encode_reply(header, body, op=number, commit=number)
