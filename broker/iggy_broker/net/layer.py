"""Between a socket and a `Connection`: to the one the protocol, to the other the transport."""

from __future__ import annotations

import asyncio
import socket
from abc import abstractmethod
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection

_QUICK_ACK: Final = getattr(socket, "TCP_QUICKACK", None)  # Linux


def acknowledge(sock: socket.socket) -> None:
    """Acknowledge what came of a request now.

    Clients that write a request in two parts have the second one wait in their kernel for the
    acknowledgement of the first, which ours delays by 40 ms in hope of an answer.
    """
    if _QUICK_ACK is not None:
        sock.setsockopt(socket.IPPROTO_TCP, _QUICK_ACK, 1)


class Layer(asyncio.BufferedProtocol):
    """Passes on all that it has no words of its own for. `_client` is the connection above."""

    __slots__ = ("_client", "below", "is_paused")

    def __init__(self, client: Connection) -> None:
        """Not connected yet."""
        self._client = client
        self.below: asyncio.Transport | None = None
        self.is_paused = False  # the connection reads nothing now

    @abstractmethod
    def go_on(self) -> None:
        """The connection reads again."""

    @abstractmethod
    def say_goodbye(self) -> None:
        """The broker ends the connection, in peace."""

    @property
    def is_open(self) -> bool:
        """Whether the socket is there, and not about to go."""
        return self.below is not None and not self.below.is_closing()

    def pause_writing(self) -> None:
        """The client does not read."""
        self._client.pause_writing()

    def resume_writing(self) -> None:
        """The socket has room again."""
        self._client.resume_writing()


class Above(asyncio.Transport):
    """What the connection takes for its transport."""

    __slots__ = ("_layer",)

    def __init__(self, layer: Layer) -> None:
        """Of this layer."""
        super().__init__()
        self._layer = layer

    @property
    def _below(self) -> asyncio.Transport:
        assert self._layer.below is not None, "the connection forgets us when it is lost"
        return self._layer.below

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        """Of the socket's transport, as most of the rest."""
        return self._below.get_extra_info(name, default)

    def is_closing(self) -> bool:
        """Whether it is, or is gone."""
        return not self._layer.is_open

    def close(self) -> None:
        """As the layer does it."""
        self._layer.say_goodbye()

    def abort(self) -> None:
        """At once."""
        self._below.abort()

    def write(self, data: bytes | bytearray | memoryview) -> None:
        """As it is."""
        self._below.write(data)

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        """Of the socket's transport."""
        self._below.set_write_buffer_limits(high, low)

    def pause_reading(self) -> None:
        """No more from the socket, until `resume_reading`."""
        self._layer.is_paused = True
        self._below.pause_reading()

    def resume_reading(self) -> None:
        """Have the layer go on."""
        self._layer.is_paused = False
        # Not from inside the connection, which is in the middle of something.
        asyncio.get_running_loop().call_soon(self._layer.go_on)
