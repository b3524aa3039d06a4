"""Connections of clients that came by QUIC: they answer on streams, through a `QuicLayer`."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from struct import Struct
from typing import TYPE_CHECKING, Final

from iggy_broker.net.connection import LOGIN_FRAME_BYTES_MAX, Connection
from iggy_broker.net.edge import Edge
from iggy_broker.net.outbox import Outbox, Part
from iggy_broker.net.p12_waiting import WAITING
from iggy_broker.net.session import Transport
from iggy_broker.net.v08.client import Replies, V08Client, V08Layer
from iggy_broker.net.wrapped import WrappedOutbox, size_of
from iggy_broker.storage.partition import FileRange
from iggy_wire.codes import Command, FrameKind, Operation
from iggy_wire.header import HEADER_BYTES, ZERO_16
from iggy_wire.v08 import frames

if TYPE_CHECKING:
    from iggy_broker.net.quic import QuicLayer

FRAMES_MAX: Final = 4  # of the largest size, that a client may be sending at once

_NUMBER: Final = Struct("<200xQ")  # of a reply: that of its request
_REQUEST: Final = Struct("<60xB67x16s24xQB19xI")  # command, client | number, operation, code


def waiting_of(frame: bytearray) -> tuple[int, int]:
    """Code and number of a request that is answered in its own time, or never; else 0 and 0."""
    command, client, request, operation, code = _REQUEST.unpack_from(frame)
    is_right = command == FrameKind.REQUEST and client != ZERO_16
    waits = operation == Operation.NON_REPLICATED and (
        code in WAITING or code == Command.CANCEL_DEFERRED
    )
    return (code, request) if is_right and waits else (0, 0)


def _answered(reply: Part) -> int:
    """The number of the request that a reply is for; -1 if it is none of those."""
    is_reply = not isinstance(reply, FileRange) and len(reply) >= HEADER_BYTES
    return _NUMBER.unpack_from(reply)[0] if is_reply else -1  # type: ignore[arg-type]


class QuicOutbox(WrappedOutbox):
    """Replies, each on the stream of its request."""

    __slots__ = ("_layer",)

    def __init__(self, layer: QuicLayer, above: asyncio.Transport, edge: Edge) -> None:
        """For one connection."""
        self._layer = layer
        super().__init__(above, edge.unsent)

    def send(self, data: bytes | memoryview) -> None:
        """Send one reply. `data` is only lent."""
        self._layer.begin_reply(len(data), _answered(data))
        super().send(data)

    def send_parts(self, parts: Sequence[Part]) -> None:
        """Send one reply that is in pieces."""
        self._layer.begin_reply(sum(map(size_of, parts)), _answered(parts[0]))
        super().send_parts(parts)


class V08QuicReplies(Replies, QuicOutbox):
    """To a client of servers up to 0.8: what its layer says, on streams."""

    __slots__ = ("layer",)


class _Streams(Connection):
    """What all these connections know of their streams."""

    __slots__ = ()
    reached_by = Transport.QUIC

    def count_unread(self, by_bytes: int) -> None:
        """The library keeps more or less of what the client has not acknowledged."""
        if self._out is not None and by_bytes:
            self._edge.unsent.changed(self._out, by_bytes)

    @property
    def receives_bytes_max(self) -> int:
        """Most that the open streams of this client may carry together."""
        is_known = self.session.user_id is not None
        return FRAMES_MAX * self._edge.frame_bytes_max if is_known else LOGIN_FRAME_BYTES_MAX


class QuicClient(_Streams):
    """A client that came by QUIC."""

    __slots__ = ("_layer",)
    head_bytes = HEADER_BYTES

    def __init__(self, layer: QuicLayer, edge: Edge) -> None:
        """Not connected yet."""
        super().__init__(edge)
        self._layer = layer

    def tell(self, frame: bytes) -> None:
        """Nothing: there is no stream for what nobody asked for (Iggy protocol 0.11)."""

    def frame_bytes(self, start: memoryview) -> int:
        """Length of the frame that starts so; 0 after closing a client that sends nonsense."""
        return self._frame_bytes(start, 0)

    def _outbox(self, transport: asyncio.Transport) -> Outbox:
        return QuicOutbox(self._layer, transport, self._edge)


class V08QuicClient(V08Client, _Streams):
    """A client of servers up to 0.8 that came by QUIC."""

    __slots__ = ("_streams",)
    head_bytes = frames.HEAD_BYTES

    def __init__(self, streams: QuicLayer, edge: Edge, layer: V08Layer) -> None:
        """Not connected yet."""
        super().__init__(edge, layer)
        self._streams = streams

    def frame_bytes(self, start: memoryview) -> int:
        """Length of the request that starts so; 0 after closing a client that sends nonsense."""
        return self._layer.request_bytes(start)

    def _outbox(self, transport: asyncio.Transport) -> Outbox:
        return self._answers(V08QuicReplies(self._streams, transport, self._edge))
