"""One TCP connection on an asyncio loop: frames out, one frame in. Knows nothing of sessions."""

import asyncio
import ssl
from collections.abc import Sequence
from typing import Final

from iggy_client.errors import LinkError, LinkTimeoutError
from iggy_client.session import REPLY_BYTES_MAX, split_address
from iggy_client.tls import Tls, refused
from iggy_wire.buffer import Buffer
from iggy_wire.errors import WireError
from iggy_wire.framing import BufferPool, FrameReader

_LANDING_BYTES: Final = 64 << 10


class AsyncLink(asyncio.BufferedProtocol):
    """An open connection. Every failure closes it and raises `LinkError`."""

    def __init__(self, address: str, timeout_s: float) -> None:
        """Made by `open`."""
        self.address = address
        self._timeout_s = timeout_s
        self._reader = FrameReader(REPLY_BYTES_MAX, BufferPool(REPLY_BYTES_MAX))
        self._landing = memoryview(bytearray(_LANDING_BYTES))
        self._transport: asyncio.Transport | None = None
        self._waiter: asyncio.Future[memoryview] | None = None
        self._closed: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._early: memoryview | None = None  # a frame that came unasked: an eviction

    @classmethod
    async def open(cls, address: str, timeout_s: float, tls: Tls | None = None) -> "AsyncLink":
        """Connect. `timeout_s`: for the connect, and for each request with its reply."""
        host, port = split_address(address)
        loop = asyncio.get_running_loop()
        context = None if tls is None else tls.context()
        name = None if tls is None else tls.server_name or host
        try:
            async with asyncio.timeout(timeout_s):
                _, link = await loop.create_connection(
                    lambda: cls(address, timeout_s), host, port, ssl=context, server_hostname=name
                )
        except TimeoutError:
            raise LinkTimeoutError(f"{address} did not answer within {timeout_s:g} s") from None
        except (ssl.SSLError, ConnectionResetError, ConnectionAbortedError) as error:
            raise refused(address, error) from error
        except OSError as error:
            raise LinkError(f"cannot connect to {address}: {error.strerror or error}") from error
        return link

    @property
    def is_open(self) -> bool:
        """Whether requests can be sent."""
        return self._transport is not None

    async def exchange(self, parts: Sequence[Buffer]) -> memoryview:
        """Send `parts`, wait for one frame, which has memory of its own. One at a time."""
        if self._transport is None:
            raise LinkError(f"the connection to {self.address} is closed: call reconnect()")
        if self._early is not None:
            frame, self._early = self._early, None
            return frame
        self._waiter = asyncio.get_running_loop().create_future()
        self._transport.writelines(parts)
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._waiter
        except TimeoutError:
            self.close()
            detail = f"{self.address} did not answer within {self._timeout_s:g} s"
            raise LinkTimeoutError(detail) from None
        except asyncio.CancelledError:
            self.close()  # the reply on its way would answer the next request
            raise
        finally:
            self._waiter = None

    def close(self) -> None:
        """Close the connection. May be repeated."""
        if self._transport is not None:
            self._transport.abort()
            self._transport = None

    async def wait_closed(self) -> None:
        """Until the loop has let go of the socket."""
        await asyncio.shield(self._closed)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Called by the loop."""
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport  # asyncio has set TCP_NODELAY

    def get_buffer(self, sizehint: int) -> memoryview:
        """Called by the loop: where to receive."""
        return self._reader.receive_buffer(self._landing)

    def buffer_updated(self, nbytes: int) -> None:
        """Called by the loop: `nbytes` have been received."""
        self._reader.received(nbytes)
        try:
            while (frame := self._reader.next_frame()) is not None:
                self._take(self._reader.keep(frame))
        except WireError as error:
            self._break(LinkError(f"{self.address}: {error.detail}"))

    def connection_lost(self, exc: Exception | None) -> None:
        """Called by the loop."""
        told = f"broke: {exc}" if exc else "was closed by the server"
        self._break(LinkError(f"the connection to {self.address} {told}"))
        if not self._closed.done():
            self._closed.set_result(None)

    def _take(self, frame: memoryview) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(frame)
        elif self._early is None:
            self._early = frame
        else:
            self._break(LinkError(f"{self.address} sends frames that nobody asked for"))

    def _break(self, error: LinkError) -> None:
        self.close()
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_exception(error)
