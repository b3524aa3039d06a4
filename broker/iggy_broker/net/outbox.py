"""Bytes out to one socket, in order: written directly while nothing is queued, else queued.

Memory goes straight to the descriptor, ranges of log files by `sendfile`. When the socket would
block, one chunk is given to the transport, and its `resume_writing` brings us back: so a slow
reader costs one chunk of memory, not a whole reply.

The transport's write limit is 0: it tells us at once when anything is queued in it, and again when
nothing is. Direct writes happen only in between, else replies would overtake each other.
"""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Sequence
from typing import ClassVar, Final, Protocol

from iggy_broker.net.unsent import Unsent
from iggy_broker.storage.disk import File
from iggy_broker.storage.older import Steady
from iggy_broker.storage.partition import FileRange

CHUNK_BYTES: Final = 4 * 1024  # given to the transport when the socket is full: what wakes us costs

Part = bytes | bytearray | memoryview | FileRange


class HeldRange:
    """The unsent rest of a file range, with a descriptor of our own.

    The log may be closed or deleted while a slow client reads; this is still the old one. All who
    wait for one file share the descriptor: slow readers are many, and descriptors few.
    """

    __slots__ = ("_file", "descriptor", "position", "size_bytes")
    _held: ClassVar[dict[File, tuple[int, int]]] = {}  # descriptor, and how many hold it

    def __init__(self, part: FileRange) -> None:
        """Hold the file of `part`; `close` lets it go. OSError if there is no descriptor left."""
        descriptor, holders = self._held.get(part.file) or (os.dup(part.file.fileno()), 0)
        self._held[part.file] = descriptor, holders + 1
        self._file = part.file
        self.descriptor = descriptor
        self.position = part.position
        self.size_bytes = part.size_bytes

    def advance(self, sent_bytes: int) -> None:
        """So much is gone."""
        self.position += sent_bytes
        self.size_bytes -= sent_bytes

    def close(self) -> None:
        """Give the descriptor back; the last one closes it."""
        descriptor, holders = self._held.pop(self._file)
        if holders > 1:
            self._held[self._file] = descriptor, holders - 1
        else:
            os.close(descriptor)


_Waiting = memoryview | HeldRange


class Direct(Protocol):
    """What is written to without the transport: a socket, or what a transport has in its place."""

    def send(self, data: bytes | bytearray | memoryview, flags: int = 0, /) -> int:
        """How many bytes were taken. BlockingIOError if none could be."""
        ...

    def fileno(self) -> int:
        """The descriptor, for `sendfile`."""
        ...

    def detach(self) -> int:
        """Use it no more; the transport closes it."""
        ...


def _held(data: bytes | bytearray | memoryview) -> memoryview:
    """The same to be kept: a copy of what is only lent, or keeps much more in memory."""
    view = memoryview(data)
    if isinstance(view.obj, bytes | Steady) and 2 * len(view) >= len(view.obj):
        return view
    return memoryview(bytes(view))


class Outbox:
    """The writing half of one socket."""

    __slots__ = (
        "_descriptor", "_is_over", "_seen_turns", "_socket", "_transport", "_turns", "_unsent",
        "_waiting", "clogged", "queued_bytes",
    )  # fmt: skip
    _queue_bytes = 0  # that the transport may have queued before it says that it is clogged

    def __init__(self, transport: asyncio.Transport, unsent: Unsent | None = None) -> None:
        """Take over the writing half of a connected transport. `unsent` counts what waits."""
        transport.set_write_buffer_limits(high=self._queue_bytes)
        self._transport = transport
        self._unsent = unsent
        self._is_over = False  # nothing waits any more: it would wait for ever
        self._socket = self._direct(transport)
        self._descriptor: int = self._socket.fileno()
        self._waiting: list[_Waiting] = []  # short, and an empty one is small: clients are many
        self.clogged = False  # the transport has bytes queued
        self.queued_bytes = 0  # waiting here, not counting what the transport has
        self._turns = 0  # how often it clogged or drained
        self._seen_turns = 0  # what `is_stalled` saw last

    def close(self) -> None:
        """The transport is gone; drop what waits."""
        self._drop_all()
        self._socket.detach()

    def give_up(self) -> None:
        """End the connection, and drop what waits at once."""
        self._transport.abort()
        self._drop_all()

    def send(self, data: bytes | memoryview) -> None:
        """Send one piece. `data` is only lent."""
        if self.clogged:
            self._wait(data)
            return
        try:
            sent = self._socket.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._transport.abort()
            return
        if sent != len(data):
            self._wait(memoryview(data)[sent:])
            self._push()

    def send_parts(self, parts: Sequence[Part]) -> None:
        """Send several pieces back to back. Buffers are only lent."""
        for place, part in enumerate(parts):
            if self.clogged:
                self._wait(part)
            elif isinstance(part, FileRange):
                self._send_range(part)
            else:
                self._send_bytes(part, more=place + 1 < len(parts))

    def on_clogged(self) -> None:
        """From the transport's `pause_writing`."""
        self.clogged = True
        self._turns += 1

    def on_drained(self) -> None:
        """From the transport's `resume_writing`: send on what waits."""
        if self._is_over:
            return
        self.clogged = False
        self._turns += 1
        while self._waiting and not self.clogged:
            part = self._waiting[0]
            if self._resend(part):
                self._push()

    def is_stalled(self) -> bool:
        """Whether something waits of which nothing went out since this was asked last."""
        before, self._seen_turns = self._seen_turns, self._turns
        return self.clogged and bool(self._waiting) and before == self._turns

    @property
    def is_movable(self) -> bool:
        """Whether the descriptor is all that another process needs to go on."""
        return True

    # -- inside --------------------------------------------------------------------------------

    def _direct(self, transport: asyncio.Transport) -> Direct:
        given: Direct | None = transport.get_extra_info("direct")  # transports that have no socket
        if given is not None:
            return given
        sock = transport.get_extra_info("socket")
        # A second object on the same descriptor; `close` detaches it, so it never closes anything.
        return socket.socket(sock.family, sock.type, sock.proto, sock.fileno())

    def _drop_all(self) -> None:
        self._is_over = self.clogged = True
        while self._waiting:
            self._drop_first()
        self.queued_bytes = 0

    def _wait(self, part: Part) -> None:
        if self._is_over:
            return
        if isinstance(part, FileRange) and part.file.fileno() < 0:
            part = part.read()  # the disk is none of the operating system's
        if isinstance(part, FileRange):
            try:
                self._waiting.append(HeldRange(part))
            except OSError:  # no descriptor is left
                self.give_up()
                return
            self.queued_bytes += part.size_bytes
        else:
            held = _held(part)
            self._waiting.append(held)
            self.queued_bytes += len(held)
            if self._unsent is not None:
                self._unsent.changed(self, memoryview(held.obj).nbytes)

    def _send_bytes(self, data: bytes | bytearray | memoryview, *, more: bool) -> None:
        """Send now; what does not fit waits, and the transport gets the first chunk of it."""
        try:
            # "More follows" keeps the kernel from sending a small segment and waiting for its echo.
            sent = self._socket.send(data, socket.MSG_MORE if more else 0)
        except BlockingIOError:
            sent = 0
        except OSError:
            self._transport.abort()
            return
        if sent != len(data):
            self._wait(memoryview(data)[sent:])
            self._push()

    def _send_range(self, part: FileRange) -> None:
        try:
            if part.file.fileno() < 0:  # the disk is none of the operating system's
                self._send_bytes(part.read(), more=False)
                return
            left = self._sendfile(part.file.fileno(), part.position, part.size_bytes)
        except OSError:
            self._transport.abort()
            return
        if left:
            sent = part.size_bytes - left
            self._wait(FileRange(part.file, part.position + sent, left))
            self._push()

    def _sendfile(self, descriptor: int, position: int, left: int) -> int:
        """How many bytes could not be sent now."""
        while left:
            try:
                sent = os.sendfile(self._descriptor, descriptor, position, left)
            except BlockingIOError:
                return left
            if not sent:
                raise OSError("the log file ends before the range that was to be sent")
            position += sent
            left -= sent
        return 0

    def _resend(self, part: _Waiting) -> int:
        """Send the first waiting piece; how many bytes of it are left. It is gone when none are."""
        try:
            if isinstance(part, HeldRange):
                left = self._sendfile(part.descriptor, part.position, part.size_bytes)
                self.queued_bytes -= part.size_bytes - left
                part.advance(part.size_bytes - left)
            else:
                sent = self._socket.send(part)
                left = len(part) - sent
                self.queued_bytes -= sent
                self._waiting[0] = part[sent:]
        except BlockingIOError:
            return part.size_bytes if isinstance(part, HeldRange) else len(part)
        except OSError:
            self.give_up()
            return 0
        if not left:
            self._drop_first()
        return left

    def _push(self) -> None:
        """Give the transport chunks of what waits until one is queued: it tells when to go on."""
        while self._waiting and not self.clogged and not self._transport.is_closing():
            self._transport.write(self._next_chunk())

    def _next_chunk(self) -> bytes | memoryview:
        part = self._waiting[0]
        chunk: bytes | memoryview
        if isinstance(part, HeldRange):
            try:
                chunk = os.pread(part.descriptor, min(part.size_bytes, CHUNK_BYTES), part.position)
            except OSError:
                chunk = b""
            if not chunk:  # the disk cannot read it, or the log file ends before the range does
                self.give_up()
                return chunk
            part.advance(len(chunk))
            left = part.size_bytes
        else:
            chunk = part[:CHUNK_BYTES]
            self._waiting[0] = part[CHUNK_BYTES:]
            left = len(part) - len(chunk)
        self.queued_bytes -= len(chunk)
        if not left:
            self._drop_first()
        return chunk

    def _drop_first(self) -> None:
        part = self._waiting.pop(0)
        if isinstance(part, HeldRange):
            part.close()
        elif self._unsent is not None:
            # A slice keeps all of its bytes.
            self._unsent.changed(self, -memoryview(part.obj).nbytes)
