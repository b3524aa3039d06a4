"""A client whose partitions another shard owns moves there, connection and session.

Forwarding costs a copy and two wake-ups for each request; moving costs some 75 µs once. So a
connection moves after `FOREIGN_RUN` data requests in a row for one and the same other shard, or
after `FOREIGN_BYTES` in such a row; at most once in `PAUSE_S` (a producer that goes round all
partitions would only travel), and only at a frame border: nothing half received, no answer
outstanding, nothing queued.

The descriptor and the session travel in one message over a socket pair of their own, made before
the fork: whole or not at all.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Final

import msgspec

from iggy_broker.logs import event
from iggy_broker.net.session import ReplyMemory, Session

if TYPE_CHECKING:
    from iggy_broker.net.connection import Connection
    from iggy_broker.net.edge import Edge

logger = logging.getLogger(__name__)

FOREIGN_RUN: Final = 12
FOREIGN_BYTES: Final = 4 * 1024 * 1024  # sent or polled
PAUSE_S: Final = 1.0
SESSION_BYTES_MAX: Final = 64 * 1024  # with larger remembered replies, the connection stays


class _Moved(msgspec.Struct, frozen=True, array_like=True):
    """A session on its way."""

    client: bytes
    client_number: int
    address: str
    number: int
    user_id: int
    user_since_us: int
    highest: int
    replies: dict[int, tuple[bytes, bytes]]


_ENCODER: Final = msgspec.msgpack.Encoder()
_DECODER: Final = msgspec.msgpack.Decoder(_Moved)


class Doors:
    """The ways for connections to the other shards. Closed doors are no fault: they stay here."""

    __slots__ = ("_doors", "_edge", "_make", "_tasks")

    def __init__(
        self,
        edge: Edge,
        doors: dict[int, socket.socket],
        make: Callable[[Session], Connection],
    ) -> None:
        """`doors`: by shard, one end of a connected pair that keeps messages whole.

        `make` is what a connection is made with for a session that arrives.
        """
        self._edge = edge
        self._doors = doors
        self._make = make
        self._tasks: set[asyncio.Task[object]] = set()

    def open(self) -> None:
        """Take what comes from now on."""
        for door in self._doors.values():
            self._edge.loop.add_reader(door.fileno(), partial(self._arrived, door))

    def close(self) -> None:
        """Take no more. What is still on its way is closed with the door."""
        for door in self._doors.values():
            self._edge.loop.remove_reader(door.fileno())
            door.close()
        self._doors = {}

    def send(self, owner: int, session: Session, transport: asyncio.Transport) -> bool:
        """Move a session with (the kernel's copy of) its descriptor; False if it must stay."""
        door = self._doors.get(owner)
        user_id = session.user_id
        if door is None or user_id is None or session.memory.serving:
            return False
        memory = session.memory
        moved = _ENCODER.encode(
            _Moved(
                session.client,
                session.client_number,
                session.address,
                session.number,
                user_id,
                session.user_since_us,
                memory.highest,
                memory.replies,
            )
        )
        if len(moved) > SESSION_BYTES_MAX:
            return False
        if not self._pass(door, moved, transport):
            return False
        self._edge.services.counters.handovers_total += 1
        return True

    def _pass(self, door: socket.socket, moved: bytes, transport: asyncio.Transport) -> bool:
        try:
            socket.send_fds(door, [moved], [transport.get_extra_info("socket").fileno()])
        except OSError:
            return False  # the other shard is slow to take them, or the door is closed
        return True

    def _arrived(self, door: socket.socket) -> None:
        try:
            data, descriptors, _, _ = socket.recv_fds(door, SESSION_BYTES_MAX, 1)
        except BlockingIOError:
            return
        if not data:
            self._edge.loop.remove_reader(door.fileno())
            return
        session = self._session(data)
        if not descriptors:
            # This process has no room for one more: the kernel has dropped the connection.
            logger.warning(
                "! no descriptor left for a connection that came here: it is closed",
                extra=event("connection_refused", client=session.client_number),
            )
            self._edge.on_session_ended(session.number)
            return
        sock = socket.socket(fileno=descriptors[0])
        sock.setblocking(False)
        task: asyncio.Task[object] = self._edge.loop.create_task(
            self._edge.loop.connect_accepted_socket(partial(self._make, session), sock)
        )
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def _session(self, data: bytes) -> Session:
        moved = _DECODER.decode(data)
        session = Session(client_number=moved.client_number, address=moved.address)
        session.bind(
            client=moved.client,
            number=moved.number,
            user_id=moved.user_id,
            user_since_us=moved.user_since_us,
        )
        session.memory = ReplyMemory(moved.highest, moved.replies)
        return session


def hand_over(connection: Connection, doors: Doors, owner: int) -> bool:
    """Move an idle connection to `owner`; False if it stays and goes on as before."""
    transport = connection.stop_reading()
    if transport is None:
        return False
    if doors.send(owner, connection.session, transport):
        connection.give_away()  # before the close, which would end the session
        connection.abort()  # closes our descriptor only: the other shard has its own
    else:
        connection.go_on_reading()
        return False
    return True
