"""A P12 client goes on with its session on another connection (Iggy protocol 0.12)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iggy_broker import __version__
from iggy_broker.errors import Deny
from iggy_broker.net.clients import Bind, Taken
from iggy_broker.net.context import Answer
from iggy_broker.net.detached import is_bound_by
from iggy_broker.net.session import ReplyMemory, Session
from iggy_wire.dialect import VERSION_MAX, VERSION_MIN, Dialect, dialect_of
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.header import EvictionReason, RequestHeader, encode_eviction
from iggy_wire.replies import LoginReply
from iggy_wire.requests import login_version
from iggy_wire.requests_p12 import BindSession

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.edge import Edge


def refused_version(edge: Edge, header: RequestHeader, body: bytes) -> bytes | None:
    """The eviction of a client whose protocol knows no binding; None if it does."""
    try:
        dialect = dialect_of(login_version(body))
    except WireError:
        reason = EvictionReason.MALFORMED_LOGIN
    else:
        if dialect is not None and dialect.is_p12:
            return None
        reason = EvictionReason.INCOMPATIBLE_PROTOCOL
    edge.services.counters.evicted(reason)
    if reason is EvictionReason.MALFORMED_LOGIN:
        return encode_eviction(header.client, reason)
    return encode_eviction(header.client, reason, version_min=VERSION_MIN, version_max=VERSION_MAX)


async def bind_session(edge: Edge, connection: Connection, body: bytes) -> Answer:
    """Move a session here, with its groups and the replies that it missed. Deny: UNAUTHENTICATED.

    The number of the session stays: to the rest of the broker it never went away.
    """
    request = BindSession.decode(body)
    dialect = dialect_of(request.version)
    assert dialect is not None, "versions are looked at before"
    here = connection.session
    if here.user_id is not None and here.client == request.client:
        if not is_bound_by(here, request.session, request.bind_secret):
            raise _not_bound()
        return _welcome(here, dialect)
    asked = Bind(request.client, request.session, request.bind_secret)
    taken = await edge.clients.bind(asked)
    if not taken.session:
        raise _not_bound()
    came = _session(connection, request, dialect, taken)
    if edge.clients.is_overtaken(came.client, came.number) or not edge.may_go_on(came):
        edge.on_session_ended(came.number)
        raise _not_bound()
    if not connection.is_connected:
        edge.detached.keep(came)
        raise _not_bound()
    user = edge.services.replica.state.users[taken.user_id]
    edge.bind(connection, came.client, user, came.number, dialect, came.bind_secret)
    connection.session.memory = came.memory
    return _welcome(connection.session, dialect)


def _not_bound() -> Deny:
    """Whatever is wrong: the client signs in again with its credentials."""
    return Deny(ErrorCode.UNAUTHENTICATED, "no such session of this client: log in again")


def _session(
    connection: Connection, request: BindSession, dialect: Dialect, taken: Taken
) -> Session:
    """The session on its way."""
    here = connection.session
    came = Session(client_number=here.client_number, address=here.address, transport=here.transport)
    came.bind(
        client=request.client,
        number=taken.session,
        user_id=taken.user_id,
        user_since_us=taken.user_since_us,
        dialect=dialect,
        bind_secret=request.bind_secret,
    )
    came.memory = ReplyMemory(taken.highest, taken.replies, taken.sends)
    return came


def _welcome(session: Session, dialect: Dialect) -> Answer:
    assert session.user_id is not None, "it is bound"
    return Answer(
        LoginReply(session.user_id, session.number, dialect.version, __version__).encode()
    )
