"""Login: version, credentials, session. Iggy protocol 0.11, chapter on the life of a connection."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Final, NamedTuple

from iggy_broker import __version__
from iggy_broker.logs import event
from iggy_broker.metadata import credentials
from iggy_broker.metadata.model import User
from iggy_broker.net.clients import ForeignClientError, LateLoginError, Taken
from iggy_broker.net.p12 import settled
from iggy_broker.net.passwords import PASSWORD_BYTES, USERNAME_BYTES
from iggy_broker.net.session import ReplyMemory
from iggy_wire import requests_p12
from iggy_wire.dialect import P11, VERSION_MAX, VERSION_MIN, Dialect, dialect_of
from iggy_wire.errors import WireError
from iggy_wire.header import EvictionReason, RequestHeader, encode_eviction, encode_reply
from iggy_wire.replies import LoginReply
from iggy_wire.requests import Login, decode_login, login_version

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.context import Services
    from iggy_broker.net.edge import Edge

logger = logging.getLogger(__name__)


# How the client tried to log in, as far as the reason tells.
_METHODS: Final = {
    EvictionReason.INVALID_CREDENTIALS: "password",
    EvictionReason.INVALID_TOKEN: "token",
    EvictionReason.USER_INACTIVE: "token",
}


class Proven(NamedTuple):
    """A user, and how the client showed to be that one."""

    user: User
    by_password: bool  # then a change of the password meanwhile counts; a token outlives it
    dialect: Dialect = P11
    bind_secret: bytes = b""


class Refused(Exception):
    """Why a login fails."""

    def __init__(self, reason: EvictionReason) -> None:
        """`reason` is for the client."""
        super().__init__(reason.name)
        self.reason = reason


async def log_in(edge: Edge, connection: Connection, header: RequestHeader, body: bytes) -> bytes:
    """Serve Register: the login reply, or an eviction that says why not."""
    counters = edge.services.counters
    try:
        proven = await _identify(edge, body)
        session, dialect = connection.session, proven.dialect
        if session.user_id is not None and session.client == header.client:
            # Iggy protocol 0.11: a second login changes nothing, and is told whose session it is.
            user_id, number = session.user_id, session.number
            return _welcome(edge, header, session.dialect, user_id=user_id, number=number)
        number = await _bind(edge, connection, header.client, proven)
    except Refused as refused:
        counters.evicted(refused.reason)
        counters.count("logins_failed_total", _METHODS.get(refused.reason, "unknown"))
        session = connection.session
        told = event("login_refused", client=session.client_number, address=session.address)
        logger.info("! login refused: %s", refused.reason.name.lower(), extra=told)
        if refused.reason is EvictionReason.INCOMPATIBLE_PROTOCOL:
            low, high = VERSION_MIN, VERSION_MAX
            return encode_eviction(header.client, refused.reason, version_min=low, version_max=high)
        return encode_eviction(header.client, refused.reason)
    counters.logins_total += 1
    return _welcome(edge, header, dialect, user_id=proven.user.id, number=number)


async def _identify(edge: Edge, body: bytes) -> Proven:
    try:
        dialect = dialect_of(login_version(body))
        if dialect is None:
            raise Refused(EvictionReason.INCOMPATIBLE_PROTOCOL)
        login = decode_login(body)
    except WireError:
        raise Refused(EvictionReason.MALFORMED_LOGIN) from None
    services, secret = edge.services, b""
    if isinstance(login, requests_p12.Login | requests_p12.LoginWithToken):
        secret = login.bind_secret
    if isinstance(login, Login | requests_p12.Login):
        user = await user_of_password(services, login.username, login.password)
        return Proven(user, True, dialect, secret)
    return Proven(owner_of_token(services, login.token), False, dialect, secret)


def owner_of_token(services: Services, token: str) -> User:
    """Whose personal access token this is; Refused."""
    found = services.replica.state.find_token(credentials.hash_token(token))
    if found is None or found[1].is_over(services.clock.now_us()):
        raise Refused(EvictionReason.INVALID_TOKEN)
    if not found[0].active:
        raise Refused(EvictionReason.USER_INACTIVE)
    return found[0]


async def user_of_password(services: Services, username: str, password: str) -> User:
    """The active user with this name and password; Refused, whichever is wrong."""
    user = services.replica.state.find_user(username)
    plausible = (
        len(username.encode()) in USERNAME_BYTES and len(password.encode()) in PASSWORD_BYTES
    )
    fits = await services.passwords.logs_in(user if plausible else None, password)
    if not fits or user is None or not _is_current(services, Proven(user, True)):
        raise Refused(EvictionReason.INVALID_CREDENTIALS)
    return user


def _is_current(services: Services, proven: Proven) -> bool:
    """Whether a user that was read before a pause may still log in with the same proof."""
    user = proven.user
    now = services.replica.state.users.get(user.id)
    return (
        now is not None
        and now.active
        and now.created_at_us == user.created_at_us
        and (now.password_hash == user.password_hash or not proven.by_password)
    )


async def _bind(edge: Edge, connection: Connection, client: bytes, proven: Proven) -> int:
    """Give the connection its session; its number."""
    number = edge.session_number()
    try:
        taken = await edge.clients.take_over(client, proven.user.id, number)
    except ForeignClientError:
        raise Refused(EvictionReason.SESSION_ERROR) from None
    except LateLoginError:
        return number  # as if the later login had come right after this one
    return await _bind_alone(edge, connection, client, proven=proven, number=number, taken=taken)


async def _bind_alone(
    edge: Edge, connection: Connection, client: bytes, *, proven: Proven, number: int, taken: Taken
) -> int:
    """The same, when nobody else holds the client id any more."""
    if not _is_current(edge.services, proven):
        if taken.session:
            edge.on_session_ended(taken.session)
        raise Refused(EvictionReason.INVALID_CREDENTIALS)
    if taken.session:
        number = edge.session_number(above=taken.session)
    if not connection.is_connected:
        if taken.session:
            edge.on_session_ended(taken.session)
        return number
    edge.bind(connection, client, proven.user, number, proven.dialect, proven.bind_secret)
    memory = connection.session.memory = ReplyMemory(taken.highest, taken.replies, taken.sends)
    if taken.session:
        # Bound before this pause: who logs in or is deleted meanwhile finds the session.
        memory.serving = True
        await edge.on_session_moved(taken.session, number)
        memory.settle()
    return number


def _welcome(
    edge: Edge, header: RequestHeader, dialect: Dialect, *, user_id: int, number: int
) -> bytes:
    body = bytes(4) + LoginReply(user_id, number, dialect.version, __version__).encode()
    if not dialect.is_p12:
        return encode_reply(header, body, op=number, commit=number)
    # A P12 client asks of every later read that it knows as much as the position here.
    op = edge.services.replica.state.op
    return settled(encode_reply(header, body, op=op, commit=op), header)
