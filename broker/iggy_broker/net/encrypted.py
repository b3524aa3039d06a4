"""A client over TLS."""

from __future__ import annotations

import asyncio

from iggy_broker.net.connection import Connection
from iggy_broker.net.layer import acknowledge
from iggy_broker.net.outbox import Outbox
from iggy_broker.net.wrapped import WrappedOutbox


class TlsConnection(Connection):
    """Bytes go through the transport, and the connection stays with its shard."""

    __slots__ = ("_socket",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._socket = transport.get_extra_info("socket")
        super().connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        """Serve what is whole. Clients write a frame's head and body apart: two segments here."""
        super().buffer_updated(nbytes)
        if self._partial is not None:
            acknowledge(self._socket)

    def _outbox(self, transport: asyncio.Transport) -> Outbox:
        return WrappedOutbox(transport, self._edge.unsent)
