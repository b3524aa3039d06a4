"""One blocking TCP connection: frames out, one frame in. Knows nothing of sessions.

Time limits are the socket's own (`SO_RCVTIMEO`, `SO_SNDTIMEO`), so that a call costs one system
call each way and not two.
"""

import socket
import struct
import time
from collections.abc import Sequence
from typing import Final

from iggy_client.errors import LinkError, LinkTimeoutError
from iggy_client.session import REPLY_BYTES_MAX, REQUEST_BYTES_USUAL, split_address
from iggy_client.tls import Tls, refused
from iggy_wire.buffer import Buffer
from iggy_wire.errors import WireError
from iggy_wire.framing import BufferPool, FrameReader

_LANDING_BYTES: Final = 64 << 10


class Link:
    """An open connection. Every failure closes it and raises `LinkError`."""

    def __init__(self, address: str, timeout_s: float, tls: Tls | None = None) -> None:
        """Connect. `timeout_s`: for the connect, and for each send and each reply."""
        self.address = address
        self._is_encrypted = tls is not None
        self._timeout_s = timeout_s
        host, port = split_address(address)
        try:
            self._socket = socket.create_connection((host, port), timeout_s)
        except TimeoutError:
            raise LinkTimeoutError(f"{address} did not answer within {timeout_s:g} s") from None
        except OSError as error:
            raise LinkError(f"cannot connect to {address}: {error.strerror or error}") from error
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        if tls is not None:
            self._socket = _encrypted(self._socket, address, tls)
        else:
            self._socket.settimeout(None)
            limit = _timeval(timeout_s)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_RCVTIMEO, limit)
            self._socket.setsockopt(socket.SOL_SOCKET, socket.SO_SNDTIMEO, limit)
        self._reader = FrameReader(REPLY_BYTES_MAX, BufferPool(REPLY_BYTES_MAX))
        self._landing = memoryview(bytearray(_LANDING_BYTES))
        self.is_open = True

    def exchange(self, parts: Sequence[Buffer]) -> memoryview:
        """Send `parts`, wait for one frame: valid until the next call, `keep` makes it last."""
        self._check_open()
        try:
            self._send(parts)
            return self._receive()
        except BaseException as error:
            self._fail(error, parts)
            raise

    def send(self, parts: Sequence[Buffer]) -> None:
        """The first half of an exchange; `receive` is the other."""
        self._check_open()
        try:
            self._send(parts)
        except BaseException as error:
            self._fail(error, parts)
            raise

    def receive(self) -> memoryview:
        """The second half of an exchange."""
        self._check_open()
        try:
            return self._receive()
        except BaseException as error:
            self._fail(error, ())
            raise

    def keep(self, frame: memoryview) -> memoryview:
        """The frame of the last exchange, in memory that no later one writes to."""
        return self._reader.keep(frame)

    def close(self) -> None:
        """Close the connection. May be repeated."""
        self.is_open = False
        self._socket.close()

    def _check_open(self) -> None:
        if not self.is_open:
            raise LinkError(f"the connection to {self.address} is closed: call reconnect()")

    def _fail(self, error: BaseException, parts: Sequence[Buffer]) -> None:
        # Even when merely interrupted: the reply on its way would answer the next request.
        self.close()
        explained = self._explained(error, sum(len(part) for part in parts))
        if explained is not error:
            raise explained from error

    def _send(self, parts: Sequence[Buffer]) -> None:
        if self._is_encrypted:
            for part in parts:
                self._socket.sendall(part)
            return
        left = sum(len(part) for part in parts)
        sent = self._socket.sendmsg(parts)
        while sent < left:  # large batches may go out in pieces
            parts = _behind(parts, sent)
            left -= sent
            sent = self._socket.sendmsg(parts)

    def _receive(self) -> memoryview:
        deadline = time.monotonic() + self._timeout_s
        while (frame := self._reader.next_frame()) is None:
            buffer = self._reader.receive_buffer(self._landing)
            is_short = self._is_encrypted or buffer.obj is self._landing.obj
            flags = 0 if is_short else socket.MSG_WAITALL
            received = self._socket.recv_into(buffer, 0, flags)
            if received == 0:
                raise LinkError(f"{self.address} closed the connection")
            self._reader.received(received)
            if time.monotonic() > deadline:
                raise BlockingIOError
        return frame

    def _explained(self, error: BaseException, sent_bytes: int) -> BaseException:
        if isinstance(error, BlockingIOError | TimeoutError):
            detail = f"{self.address} did not answer within {self._timeout_s:g} s"
            return LinkTimeoutError(detail)
        if isinstance(error, WireError):
            return LinkError(f"{self.address}: {error.detail}")
        if isinstance(error, OSError) and not isinstance(error, LinkError):
            detail = f"the connection to {self.address} broke: {error.strerror or error}"
            if sent_bytes > REQUEST_BYTES_USUAL:
                detail += f": the request has {sent_bytes} bytes, most servers take 64 MiB"
            return LinkError(detail)
        return error


def _encrypted(plain: socket.socket, address: str, tls: Tls) -> socket.socket:
    """The socket after the handshake. It keeps time itself: what the kernel hands over is no
    whole record yet.
    """
    host, _ = split_address(address)
    try:
        return tls.context().wrap_socket(plain, server_hostname=tls.server_name or host)
    except BaseException as error:
        plain.close()
        if isinstance(error, TimeoutError):
            raise LinkTimeoutError(f"{address} did not answer in time, by TLS") from None
        if isinstance(error, OSError) and not isinstance(error, LinkError):
            raise refused(address, error) from error
        raise


def _behind(parts: Sequence[Buffer], sent: int) -> list[Buffer]:
    """What is left of `parts` after `sent` bytes of them."""
    rest: list[Buffer] = []
    for part in parts:
        if sent >= len(part):
            sent -= len(part)
        else:
            rest.append(memoryview(part)[sent:] if sent else part)
            sent = 0
    return rest


def _timeval(seconds: float) -> bytes:
    """The C structure that the time limits of a socket take."""
    whole = int(seconds)
    return struct.pack("@ll", whole, int((seconds - whole) * 1_000_000))
