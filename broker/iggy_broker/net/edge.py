"""What all client connections of one shard share."""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections.abc import Awaitable, Callable
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from iggy_broker.logs import event
from iggy_broker.net.clients import Clients
from iggy_broker.net.context import Services
from iggy_broker.net.detached import Detached
from iggy_broker.net.intake import Landing
from iggy_broker.net.session import Session, Transport
from iggy_broker.net.unsent import Unsent
from iggy_broker.net.waits import Waits
from iggy_wire.codes import FrameKind
from iggy_wire.dialect import P11, Dialect
from iggy_wire.errors import ErrorCode
from iggy_wire.header import (
    HEADER_BYTES,
    EvictionReason,
    ReplyHeader,
    encode_eviction,
    frame_kind,
)

if TYPE_CHECKING:
    from iggy_broker.metadata.model import State, User
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.handover import Doors
    from iggy_broker.net.peers import Links

logger = logging.getLogger(__name__)

ROOM_PAUSE_S: Final = 1.0  # how often clients are looked through when memory is short
STRANGER_S: Final = 10.0  # who has not logged in for so long makes room for a new connection
STALL_CHECK_S: Final = 30.0  # a frame or reply that does not move for so long ends its connection
HEARTBEAT_STEP: Final = 0.2  # of the interval: how often it is looked who is silent
SILENT_STEPS_MAX: Final = 6  # whole steps without a frame; then 1.2 intervals are over
CONNECTIONS_MAX: Final = 16_384  # per shard; beyond, a new connection is closed at once

_CLOSED: Final = "connections_closed_total"
_OPEN: Final = "transport_connections"


class Edge:
    """The connections of a shard and what they work with."""

    __slots__ = (
        "_last_session_us",
        "_numbers",
        "_room_made_s",
        "_strangers",
        "by_client",
        "clients",
        "connections",
        "connections_max",
        "detached",
        "doors",
        "frame_bytes_max",
        "landing",
        "links",
        "loop",
        "on_session_ended",
        "on_session_moved",
        "services",
        "tasks",
        "unsent",
        "waits",
    )

    def __init__(
        self,
        services: Services,
        *,
        loop: asyncio.AbstractEventLoop,
        landing: Landing,
        links: Links,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        """No connection yet."""
        self.services = services
        self.loop = loop
        self.landing = landing
        self.links = links
        self.connections_max = connections_max
        self.frame_bytes_max = services.config.message_bus.max_message_size_bytes
        self.connections: dict[Connection, None] = {}  # in the order in which they came
        self.doors: Doors | None = None  # `shard.py` opens them last
        self.by_client: dict[bytes, Connection] = {}  # logged in, by the client's own id
        self.detached = Detached(
            steps_max=SILENT_STEPS_MAX, on_ended=lambda one: self.on_session_ended(one.number)
        )
        self.clients = Clients(self, links)
        self.waits = Waits(self)  # requests that wait for messages
        services.clients = self.clients
        # For the groups: a session number is over, or goes on as another one.
        self.on_session_ended: Callable[[int], None] = services.members.end_session
        self.on_session_moved: Callable[[int, int], Awaitable[None]] = services.members.move_session
        self.unsent = Unsent(on_closed=partial(services.counters.count, _CLOSED, "unread"))
        self._strangers: dict[Connection, float] = {}  # not logged in, since when; oldest first
        self._room_made_s = 0.0  # when slow clients were looked for last
        self._last_session_us = 0
        self.tasks: set[asyncio.Task[Any]] = set()  # requests that run as coroutines
        # Numbers of connections: unique over all shards, small, never 0.
        self._numbers = itertools.count(services.shard_id + 1, services.shards_count)
        services.replica.watch(self._revoke)

    def new_session(self, reached_by: Transport) -> Session:
        """For a new connection; its number is the broker's own."""
        return Session(client_number=next(self._numbers), address="", transport=reached_by)

    def opened(self, connection: Connection) -> bool:
        """Count a new connection; False if there are too many and it must go."""
        counters = self.services.counters
        is_full = len(self.connections) >= self.connections_max
        if is_full and not self._close_stranger():
            counters.connections_refused_total += 1
            logger.warning(
                "! %d connections are open: a new one is closed",
                len(self.connections),
                extra=event("connection_refused", connections_max=self.connections_max),
            )
            return False
        self.connections[connection] = None
        counters.count(_OPEN, connection.reached_by.name.lower())
        if connection.session.user_id is not None:  # moved here from another shard
            self._arrived(connection)
        else:
            self._strangers[connection] = self.loop.time()
        counters.connections = len(self.connections)
        counters.publish()
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection and its session."""
        counters = self.services.counters
        if connection in self.connections:
            del self.connections[connection]
            counters.count(_OPEN, connection.reached_by.name.lower(), -1)
        self.waits.end(connection)
        session = connection.session
        if self._outlives(session) and self.by_client.get(session.client) is connection:
            del self.by_client[session.client]
            counters.sessions = len(self.by_client)
            self.detached.keep(session)
        else:
            self.end_session(connection)
        self._strangers.pop(connection, None)
        counters.connections = len(self.connections)
        counters.publish()

    def _outlives(self, session: Session) -> bool:
        """Iggy protocol 0.12: a session goes on without its connection; not if nobody ends it."""
        return session.dialect.is_p12 and self.services.config.heartbeat.enabled

    def _close_stranger(self) -> bool:
        """Make room for a new connection; False if nobody has stayed outside for too long."""
        until_s = self.loop.time() - STRANGER_S
        old = itertools.takewhile(lambda one: one[1] <= until_s, self._strangers.items())
        oldest = next((one for one, _ in old if one.idle), None)
        if oldest is None:
            return False
        del self._strangers[oldest]
        logger.info(
            "! a client that does not log in makes room for a new one: closed",
            extra=event("connection_closed", client=oldest.session.client_number),
        )
        self.services.counters.count(_CLOSED, "stranger")
        oldest.abort()
        return True

    # -- sessions ------------------------------------------------------------------------------

    def bind(
        self,
        connection: Connection,
        client: bytes,
        user: User,
        number: int,
        dialect: Dialect = P11,
        bind_secret: bytes = b"",
    ) -> None:
        """Log a connection in. What it was before is over."""
        self.end_session(connection)
        connection.session.bind(
            client=client,
            number=number,
            user_id=user.id,
            user_since_us=user.created_at_us,
            dialect=dialect,
            bind_secret=bind_secret,
        )
        self._strangers.pop(connection, None)
        connection.resolver.forget()
        self.by_client[client] = connection
        self.services.counters.sessions = len(self.by_client)

    def end_session(self, connection: Connection) -> None:
        """The connection is not logged in any more, and its session is over."""
        number = connection.session.number
        was_bound = connection.session.user_id is not None
        self.release(connection)
        if was_bound:
            self.on_session_ended(number)

    def release(self, connection: Connection) -> None:
        """The connection is not logged in any more; its session goes on elsewhere."""
        session = connection.session
        if self.by_client.get(session.client) is connection:
            del self.by_client[session.client]
        session.unbind()
        self.waits.end(connection)
        if connection in self.connections:
            self._strangers[connection] = self.loop.time()
        self.services.counters.sessions = len(self.by_client)

    def session_number(self, *, above: int = 0) -> int:
        """Nonzero, different on every shard, and rising from login to login."""
        services = self.services
        floor_us = max(self._last_session_us, above // services.shards_count) + 1
        self._last_session_us = max(services.clock.now_us(), floor_us)
        return self._last_session_us * services.shards_count + services.shard_id

    def _arrived(self, connection: Connection) -> None:
        session = connection.session
        is_overtaken = self.clients.is_overtaken(session.client, session.number)
        if is_overtaken or not self.may_go_on(session):
            self.end_session(connection)
            return
        self.by_client[session.client] = connection
        self.services.counters.sessions = len(self.by_client)

    def may_go_on(self, session: Session) -> bool:
        """Whether the user of a session is still there and active."""
        user = self.services.replica.state.users.get(session.user_id or 0)
        return user is not None and user.active and user.created_at_us == session.user_since_us

    def _revoke(self, before: State, after: State) -> None:
        """End the sessions of users that were deleted or made inactive, as soon as they are."""
        if before.users is after.users:
            return
        self.detached.end_where(lambda session: not self.may_go_on(session))
        for connection in list(self.by_client.values()):
            session = connection.session
            if not self.may_go_on(session):
                told = event("session_revoked", client=session.client_number, user=session.user_id)
                logger.info("! the user was deleted or made inactive: session ended", extra=told)
                self.end_session(connection)

    def send_away_silent(self) -> None:
        """One heartbeat step: send away members of groups that were silent for too many."""
        self.detached.step()
        memberships = self.services.replica.state.memberships
        for connection in list(self.by_client.values()):
            session = connection.session
            if not connection.is_silent() or not memberships.of_session(session.number):
                continue
            logger.info(
                "! a silent member of a group was sent away",
                extra=event("member_sent_away", client=session.client_number),
            )
            frame = encode_eviction(session.client, EvictionReason.STALE_CLIENT)
            self.services.counters.evicted(EvictionReason.STALE_CLIENT)
            self.end_session(connection)
            connection.tell(frame)

    # -- frames --------------------------------------------------------------------------------

    def close_stalled(self) -> None:
        """Close clients that hold memory for a frame and neither send nor take more of it."""
        for connection in list(self.connections):
            if connection.is_stalled():
                logger.info(
                    "! a frame that did not move: closed",
                    extra=event("connection_closed", client=connection.session.client_number),
                )
                self.services.counters.count(_CLOSED, "stalled")
                connection.abort()

    def close_slow(self) -> None:
        """Somebody waits for memory: close clients who keep much longer than they need it."""
        now_s = self.loop.time()
        if now_s < self._room_made_s + ROOM_PAUSE_S:
            return
        self._room_made_s = now_s
        for connection in [one for one in self.connections if one.is_slow(now_s)]:
            logger.info(
                "! memory for half frames is short, and this one came too slowly: closed",
                extra=event("connection_closed", client=connection.session.client_number),
            )
            self.services.counters.count(_CLOSED, "slow")
            connection.abort()

    def count_bad_length(self, connection: Connection, size_bytes: int) -> None:
        """Count and log what ends a connection: a frame that cannot be so long."""
        self.services.counters.count(_CLOSED, "bad_length")
        logger.info(
            "! a frame of %d bytes, which cannot be: closed",
            size_bytes,
            extra=event("connection_closed", client=connection.session.client_number),
        )

    def count_refusal(self, connection: Connection, frame: bytes) -> None:
        """Count a reply that is a refusal or an eviction."""
        counters = self.services.counters
        if frame_kind(frame) == FrameKind.EVICTION:
            reason = EvictionReason(frame[HEADER_BYTES - 1])
            counters.evicted(reason)
            told = event("evicted", client=connection.session.client_number)
            logger.info("! a client was evicted: %s", reason.name.lower(), extra=told)
        else:
            counters.refused(ErrorCode(ReplyHeader.decode(frame).status))
