"""A new client on the port of TCP: its first bytes tell which protocol it speaks."""

from __future__ import annotations

from typing import ClassVar

from iggy_broker.net.connection import Connection
from iggy_broker.net.encrypted import TlsConnection
from iggy_broker.net.v08.client import V08Layer
from iggy_wire.v08 import frames


class FirstContact(Connection):
    """A connection until its first bytes; then a `Connection`, or that of a client up to 0.8."""

    __slots__ = ()
    _header_bytes = frames.FIRST_BYTES
    _then: ClassVar[type[Connection]] = Connection

    def _arrived(self, view: memoryview) -> None:
        if len(view) < frames.FIRST_BYTES:
            self._keep(view)
        elif frames.is_v08(view):
            self._hand_on(bytes(view))
        else:
            # Its class from now on: no frame is to pay for a question that only the first one has.
            self.__class__ = self._then  # type: ignore[assignment]
            self._arrived(view)

    def _hand_on(self, data: bytes) -> None:
        """The transport is another's from now on: this connection is over, without a word."""
        transport = self._transport
        assert transport is not None, "bytes came by it"
        self.connection_lost(None)
        layer = V08Layer(self._edge, transport)
        transport.set_protocol(layer)
        layer.feed(memoryview(data))


class FirstTlsContact(TlsConnection):
    """The same over TLS."""

    __slots__ = ()
    _header_bytes = frames.FIRST_BYTES
    _then: ClassVar[type[Connection]] = TlsConnection
    _arrived = FirstContact._arrived
    _hand_on = FirstContact._hand_on
