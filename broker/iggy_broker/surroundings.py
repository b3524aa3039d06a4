"""Everything that a shard does to the world: disk, clock, threads, sockets, signals.

`shard.py` takes one of these, so that tests run the same shard, wired the same way, in a world
where time, disk and network are simulated.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import ssl
import time
from collections.abc import Callable
from concurrent.futures import Executor, ThreadPoolExecutor
from functools import partial
from typing import Final, Protocol

from iggy_broker.archive.lanes import EndingLane, ThreadLane
from iggy_broker.archive.store import ArchiveStore
from iggy_broker.clock import Clock, SystemClock
from iggy_broker.heap import unmap_code
from iggy_broker.metrics import Counters
from iggy_broker.net.connection import Connection
from iggy_broker.net.edge import Edge
from iggy_broker.net.handover import Doors
from iggy_broker.net.listener import listen, raise_file_limit
from iggy_broker.net.peers import Link
from iggy_broker.net.session import Session
from iggy_broker.storage.disk import Disk, RealDisk, StorageFailed
from iggy_broker.storage.syncer import Lane, Syncer

# Blocked from the first step of a start on: the supervisor waits for them, a shard from `watch` on.
SIGNALS: Final = frozenset({signal.SIGTERM, signal.SIGINT, signal.SIGCHLD})


READING_FILES_MAX: Final = 8  # that the thread of an archiver keeps open


class Closeable(Protocol):
    """What ends with the shard."""

    def close(self) -> None:
        """End it."""
        ...


class Surroundings:
    """The machine. Made in the shard's process, after the fork."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        """`loop` is the shard's."""
        self.loop = loop
        self._files = raise_file_limit()
        self.disk: Disk = RealDisk(open_files_max=self._files.logs)
        self.clock: Clock = SystemClock()

    def syncer(self, on_failed: Callable[[StorageFailed], None], counters: Counters) -> Syncer:
        """The threads that sync, started."""
        return MeasuredSyncer(self.disk, on_failed, counters)

    def archive_lane(self, name: str, opened: Callable[[], ArchiveStore]) -> EndingLane:
        """A thread with an archive and the same disk, to read only."""
        return ThreadLane(name, opened, RealDisk(open_files_max=READING_FILES_MAX))

    def threads(self, count: int) -> Executor:
        """Threads for a clean stop."""
        return ThreadPoolExecutor(count, thread_name_prefix="close")

    def connections_max(self) -> int:
        """How many clients the operating system lets us have."""
        return self._files.connections

    async def connect(self, link: Link, sock: socket.socket) -> None:
        """Give a link to another shard its socket."""
        await self.loop.create_unix_connection(partial(_same, link), sock=sock)

    async def listen(
        self,
        listener: socket.socket,
        protocol: Callable[[], asyncio.BaseProtocol],
        context: ssl.SSLContext | None,
    ) -> Closeable:
        """Accept clients from now on; with TLS if there is a context."""
        return await listen(listener, protocol, context)

    async def listen_to_datagrams(
        self, listener: socket.socket, protocol: asyncio.DatagramProtocol
    ) -> None:
        """Take datagrams from now on; the protocol closes its transport."""
        await self.loop.create_datagram_endpoint(lambda: protocol, sock=listener)

    def doors(self, edge: Edge, doors: dict[int, socket.socket]) -> Doors:
        """The ways for connections to other shards, closed yet."""
        return Doors(edge, doors, partial(connection_of, edge))

    def watch(
        self, lifeline: int, *, on_stop: Callable[[], None], on_orphaned: Callable[[], None]
    ) -> None:
        """Call `on_stop` when asked to stop, `on_orphaned` when the supervisor is gone."""
        self.loop.add_signal_handler(signal.SIGTERM, on_stop)
        self.loop.add_signal_handler(signal.SIGINT, lambda: None)  # the supervisor passes it on
        self.loop.add_reader(lifeline, on_orphaned)
        signal.pthread_sigmask(signal.SIG_UNBLOCK, SIGNALS)

    def started(self) -> None:
        """Let go of what only the start needed."""
        unmap_code()

    def die(self, code: int) -> None:
        """End the process now, and nothing else."""
        os._exit(code)


class MeasuredSyncer(Syncer):
    """A syncer that tells the metrics how long clients had to wait for the disk."""

    __slots__ = ("_counters",)

    def __init__(
        self, disk: Disk, on_failed: Callable[[StorageFailed], None], counters: Counters
    ) -> None:
        """As a `Syncer`; `counters` get the durations."""
        super().__init__(disk, on_failed)
        self._counters = counters

    def submit(
        self, lane: Lane, work: Callable[[], None], done: Callable[[OSError | None], None]
    ) -> None:
        """As in a `Syncer`, measured where clients wait."""
        if lane is not Lane.COMMIT:
            super().submit(lane, work, done)
            return
        took_s = 0.0

        def measured() -> None:
            nonlocal took_s
            began = time.perf_counter()
            work()
            took_s = time.perf_counter() - began

        def finished(error: OSError | None) -> None:
            self._counters.synced(took_s)  # in the loop: counters belong to its thread
            done(error)

        super().submit(lane, measured, finished)


def connection_of(edge: Edge, session: Session) -> Connection:
    """What a connection is made with that arrives from another shard."""
    return Connection(edge, session)


def _same(link: Link) -> Link:
    return link
