"""A client over TLS."""

from __future__ import annotations

import asyncio
import socket
from typing import Final

from iggy_broker.net.connection import Connection
from iggy_broker.net.outbox import Outbox
from iggy_broker.net.wrapped import WrappedOutbox

_QUICK_ACK: Final = getattr(socket, "TCP_QUICKACK", None)  # Linux


class TlsConnection(Connection):
    """Bytes go through the transport, and the connection stays with its shard."""

    __slots__ = ("_socket",)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        self._socket = transport.get_extra_info("socket")
        super().connection_made(transport)

    def buffer_updated(self, nbytes: int) -> None:
        """Serve what is whole.

        Official clients write the head of a frame and its body one after the other, and over TLS
        each is a segment of its own. The second waits in their kernel for the acknowledgement of
        the first, which ours delays by 40 ms in hope of an answer: so say it at once.
        """
        super().buffer_updated(nbytes)
        if self._partial is not None and _QUICK_ACK is not None:
            self._socket.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)

    def _outbox(self, transport: asyncio.Transport) -> Outbox:
        return WrappedOutbox(transport, self._edge.unsent)
