"""What all client connections of one shard share."""

from __future__ import annotations

import asyncio
import itertools
import logging
from typing import TYPE_CHECKING, Final

from iggy_broker.net.context import Services
from iggy_broker.net.intake import Landing
from iggy_wire.codes import FrameKind
from iggy_wire.header import frame_kind

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.handover import Doors
    from iggy_broker.net.login import Logins
    from iggy_broker.net.peers import Links

logger = logging.getLogger(__name__)

STALL_CHECK_S: Final = 30.0  # a frame that does not grow for so long ends its connection
CONNECTIONS_MAX: Final = 16_384  # per shard; beyond, a new connection is closed at once


class Edge:
    """The connections of a shard and what they work with."""

    __slots__ = (
        "_numbers",
        "by_client",
        "connections",
        "connections_max",
        "doors",
        "frame_bytes_max",
        "landing",
        "last_session_us",
        "links",
        "logins",
        "loop",
        "services",
        "tasks",
    )

    def __init__(
        self,
        services: Services,
        *,
        loop: asyncio.AbstractEventLoop,
        landing: Landing,
        links: Links,
        logins: Logins,
        connections_max: int = CONNECTIONS_MAX,
    ) -> None:
        """No connection yet."""
        self.services = services
        self.loop = loop
        self.landing = landing
        self.links = links
        self.logins = logins
        self.connections_max = connections_max
        self.frame_bytes_max = services.config.message_bus.max_message_size_bytes
        self.connections: set[Connection] = set()
        self.doors: Doors | None = None  # `shard.py` opens them last
        self.last_session_us = 0
        self.by_client: dict[bytes, Connection] = {}  # logged in, by the client's own id
        self.tasks: set[asyncio.Task[bytes]] = set()  # requests that run as coroutines
        # Numbers of connections: unique over all shards, small, never 0.
        self._numbers = itertools.count(services.shard_id + 1, services.shards_count)

    def next_number(self) -> int:
        """The broker's own number for a new connection."""
        return next(self._numbers)

    def opened(self, connection: Connection) -> bool:
        """Count a new connection; False if there are too many and it must go."""
        counters = self.services.counters
        if len(self.connections) >= self.connections_max:
            counters.connections_refused_total += 1
            return False
        self.connections.add(connection)
        if connection.session.user_id is not None:  # moved here from another shard
            self.by_client[connection.session.client] = connection
            counters.sessions = len(self.by_client)
        counters.connections = len(self.connections)
        counters.publish()
        return True

    def closed(self, connection: Connection) -> None:
        """Forget a connection and its session."""
        self.connections.discard(connection)
        self.forget(connection)
        counters = self.services.counters
        counters.connections = len(self.connections)
        counters.publish()

    def forget(self, connection: Connection) -> None:
        """The connection is not logged in any more."""
        if self.by_client.get(connection.session.client) is connection:
            del self.by_client[connection.session.client]
        self.services.counters.sessions = len(self.by_client)

    def close_stalled(self) -> None:
        """Close clients that hold memory for a frame and send nothing more of it."""
        for connection in list(self.connections):
            if connection.is_stalled():
                logger.info(
                    "! half a frame and then silence: closed",
                    extra={"client": connection.session.client_number},
                )
                connection.abort()

    def count_refusal(self, frame: bytes) -> None:
        """Count a reply that is a refusal or an eviction."""
        counters = self.services.counters
        if frame_kind(frame) == FrameKind.EVICTION:
            counters.evictions_total += 1
        else:
            counters.refusals_total += 1
