"""Links between the shards of one broker: one Unix stream for every pair, made before the fork.

What travels: a client's frame to the shard that owns its partition, and the reply back; changes of
metadata from shard 0 to all, and the acknowledgement; wishes for changes to shard 0, and answers.
A question is about the sessions of the other shard (`clients`), and its answer. A watch is told
when a partition has messages enough, or when it is given up.
Each has a small envelope with a number, so that answers may overtake each other: one slow fsync
holds up nobody else.

Back-pressure: `Link.full` counts what was asked and is not answered. The receiving side always
reads (two sides that both stop would wait forever), and serves no poll while much is queued.
"""

from __future__ import annotations

import asyncio
import itertools
import logging
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from struct import Struct
from typing import Final, Protocol, cast

from iggy_broker.net.intake import Intake, Landing
from iggy_broker.net.outbox import Outbox, Part
from iggy_broker.net.targets import Target
from iggy_broker.storage.partition import FileRange

logger = logging.getLogger(__name__)

IN_FLIGHT_BYTES_MAX: Final = (
    32 * 1024 * 1024
)  # per link and direction; one larger frame is let through
POLL_COST_BYTES: Final = (
    1024 * 1024
)  # what a forwarded poll is counted as: its reply is larger than it
QUEUED_BYTES_MAX: Final = 8 * 1024 * 1024  # replies waiting to go out; beyond, polls are not served
ENVELOPE_BYTES_MAX: Final = 512 * 1024 * 1024  # the largest thing that may stand in an envelope
POLL_REPLY_BYTES_MAX: Final = 32 * 1024 * 1024  # of a forwarded poll; a client asks for the rest
SMALL_FRAME_BYTES: Final = 4096  # what is not larger may be a poll, whose reply is

# length of what follows, kind, number, partition (packed), its incarnation
_ENVELOPE: Final = Struct("<IBxxxQQQ")
ENVELOPE_BYTES: Final = _ENVELOPE.size

FRAME, REPLY, WISH, ANSWER, CHANGE, APPLIED, QUESTION, TOLD = 1, 2, 3, 4, 5, 6, 7, 8
WATCH, WATCHED, GIVE_UP = 9, 10, 11  # the last two with the number of the first

_COUNT: Final = Struct("<Q")

Answered = Callable[[memoryview], object]  # gets the reply, which is only lent


class Owner(Protocol):
    """The side that serves what other shards ask. `shard.py` gives one to every link."""

    def serve_frame(
        self, packed: int, incarnation: int, frame: memoryview
    ) -> Sequence[Part] | asyncio.Future[bytes]:
        """Serve a client's frame, which is only lent: the pieces of the reply now, or later."""
        ...

    async def serve_wish(self, request: bytes) -> bytes:
        """Shard 0: a change of metadata that another shard was asked for."""
        ...

    async def apply_change(self, record: bytes) -> None:
        """Other shards: apply a change that shard 0 has made durable."""
        ...

    async def answer_question(self, question: bytes) -> bytes:
        """Tell another shard about the sessions of this one."""
        ...

    def watch(self, packed: int, incarnation: int, wish: bytes) -> asyncio.Future[int]:
        """How many messages a partition has for a poll, once they are enough. May be cancelled."""
        ...


class Link(Intake):
    """The stream to one other shard."""

    __slots__ = ("_asked", "_cost", "_deferred", "_numbers", "_on_lost", "_out", "_owner",
                 "_tasks", "_watches", "_when_free", "in_flight_bytes", "peer")  # fmt: skip
    _header_bytes = ENVELOPE_BYTES

    def __init__(
        self,
        peer: int,
        owner: Owner,
        *,
        loop: asyncio.AbstractEventLoop,
        landing: Landing,
        on_lost: Callable[[int], None],
    ) -> None:
        """To shard `peer`. `on_lost` is called when the stream breaks: that shard is dead."""
        super().__init__(loop, landing)
        self.peer = peer
        self.in_flight_bytes = 0
        self._owner = owner
        self._on_lost = on_lost
        self._out: Outbox | None = None
        self._numbers = itertools.count(1)
        self._asked: dict[int, tuple[Answered, int]] = {}  # number → who waits, and its cost
        self._when_free: dict[Callable[[], object], None] = {}
        self._deferred: deque[tuple[int, int, int, bytes]] = deque()  # polls while much is queued
        self._tasks: set[asyncio.Future[bytes]] = set()
        self._watches: dict[int, asyncio.Future[int]] = {}  # of the other shard

    # -- asyncio -------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Take the transport."""
        # uvloop's transports have the methods of asyncio's, but not the class.
        transport = cast(asyncio.Transport, transport)
        self._transport = transport
        self._out = Outbox(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        """The other shard is gone, or we are closing."""
        self._transport = None
        if self._out is not None:
            self._out.close()
        self._release()
        for watch in list(self._watches.values()):
            watch.cancel()
        self._on_lost(self.peer)

    def pause_writing(self) -> None:
        """The other shard does not read fast enough."""
        assert self._out is not None
        self._out.on_clogged()

    def resume_writing(self) -> None:
        """There is room again."""
        assert self._out is not None
        self._out.on_drained()
        while self._deferred and not self._is_choked():
            number, packed, incarnation, frame = self._deferred.popleft()
            self._serve(number, packed, incarnation, memoryview(bytearray(frame)))

    def close(self) -> None:
        """Close without calling it a loss."""
        self._on_lost = lambda peer: None
        if self._transport is not None:
            self._transport.close()

    # -- asking --------------------------------------------------------------------------------

    @property
    def full(self) -> bool:
        """Whether so much is unanswered that nothing more may be asked now."""
        return self.in_flight_bytes >= IN_FLIGHT_BYTES_MAX

    @property
    def queued_bytes(self) -> int:
        """What waits to go out."""
        return 0 if self._out is None else self._out.queued_bytes

    def when_free(self, callback: Callable[[], object]) -> None:
        """Call back once when the link is not full any more."""
        self._when_free[callback] = None

    def forward(self, target: Target, frame: memoryview | bytes, answered: Answered) -> None:
        """Have the owner serve a client's frame, which is only lent."""
        cost = len(frame) + (POLL_COST_BYTES if len(frame) <= SMALL_FRAME_BYTES else 0)
        self._ask(FRAME, target.packed, target.incarnation, frame, answered, cost)

    def request(self, kind: int, payload: bytes) -> asyncio.Future[bytes]:
        """Ask for a wish or hand over a change: the answer."""
        future: asyncio.Future[bytes] = self._loop.create_future()

        def answered(reply: memoryview) -> None:
            if not future.done():
                future.set_result(bytes(reply))

        self._ask(kind, 0, 0, payload, answered, len(payload))
        return future

    def watch(self, target: Target, wish: bytes) -> asyncio.Future[int]:
        """Have the owner tell when a partition has messages enough: how many. May be cancelled."""
        future: asyncio.Future[int] = self._loop.create_future()

        def told(count: memoryview) -> None:
            if not future.done():
                future.set_result(_COUNT.unpack(count)[0])

        number = self._ask(WATCH, target.packed, target.incarnation, wish, told, 0)

        def done(future: asyncio.Future[int]) -> None:
            if future.cancelled():
                self._write(GIVE_UP, number, ())

        future.add_done_callback(done)
        return future

    def _ask(
        self,
        kind: int,
        packed: int,
        incarnation: int,
        payload: memoryview | bytes,
        answered: Answered,
        cost: int,
    ) -> int:
        number = next(self._numbers)
        self._asked[number] = (answered, cost)
        self.in_flight_bytes += cost
        self._write(kind, number, (payload,), packed=packed, incarnation=incarnation)
        return number

    def _write(
        self,
        kind: int,
        number: int,
        parts: Sequence[Part],
        *,
        packed: int = 0,
        incarnation: int = 0,
    ) -> None:
        if self._out is None or self._transport is None:
            return
        length = sum(
            part.size_bytes if isinstance(part, FileRange) else len(part) for part in parts
        )
        envelope = _ENVELOPE.pack(length, kind, number, packed, incarnation)
        self._out.send_parts((envelope, *parts))

    # -- frames --------------------------------------------------------------------------------

    def _frame_bytes(self, view: memoryview, at: int) -> int:
        length: int = _ENVELOPE.unpack_from(view, at)[0]
        assert length <= ENVELOPE_BYTES_MAX, "our own shards know the limit"
        return ENVELOPE_BYTES + length

    def _take_buffer(
        self, length_bytes: int, instead_of: bytearray | None = None
    ) -> bytearray | None:
        return self._landing.pool.take_anyway(length_bytes)

    def _serve_frame(self, frame: memoryview) -> bool:
        _, kind, number, packed, incarnation = _ENVELOPE.unpack_from(frame)
        payload = frame[ENVELOPE_BYTES:]
        if kind in (REPLY, ANSWER, APPLIED, TOLD, WATCHED):
            self._answered(number, payload)
        elif kind == FRAME:
            if len(payload) <= SMALL_FRAME_BYTES and self._is_choked():
                self._deferred.append((number, packed, incarnation, bytes(payload)))
            else:
                self._serve(number, packed, incarnation, payload)
        else:
            self._serve_other(kind, number, packed, incarnation, bytes(payload))
        return True

    def _serve_other(
        self, kind: int, number: int, packed: int, incarnation: int, payload: bytes
    ) -> None:
        if kind == WISH:
            self._later(ANSWER, number, self._owner.serve_wish(payload))
        elif kind == QUESTION:
            self._later(TOLD, number, self._owner.answer_question(payload))
        elif kind == WATCH:
            self._watch(number, self._owner.watch(packed, incarnation, payload))
        elif kind == GIVE_UP:
            if number in self._watches:
                self._watches[number].cancel()
        else:
            self._later(APPLIED, number, self._applied(payload))

    def _answered(self, number: int, payload: memoryview) -> None:
        answered, cost = self._asked.pop(number)
        self.in_flight_bytes -= cost
        answered(payload)
        while self._when_free and not self.full:
            callback = next(iter(self._when_free))
            del self._when_free[callback]
            callback()

    def _serve(self, number: int, packed: int, incarnation: int, frame: memoryview) -> None:
        served = self._owner.serve_frame(packed, incarnation, frame)
        if isinstance(served, asyncio.Future):
            self._later(REPLY, number, served)
        else:
            self._write(REPLY, number, served)

    def _later(self, kind: int, number: int, work: Awaitable[bytes]) -> None:
        task = asyncio.ensure_future(work)
        self._tasks.add(task)

        def done(task: asyncio.Future[bytes]) -> None:
            self._tasks.discard(task)
            if not task.cancelled():
                self._write(kind, number, (task.result(),))  # a bug of ours reaches the loop

        task.add_done_callback(done)

    def _watch(self, number: int, watch: asyncio.Future[int]) -> None:
        self._watches[number] = watch

        def done(watch: asyncio.Future[int]) -> None:
            del self._watches[number]
            count = 0 if watch.cancelled() else watch.result()
            self._write(WATCHED, number, (_COUNT.pack(count),))

        watch.add_done_callback(done)

    async def _applied(self, record: bytes) -> bytes:
        await self._owner.apply_change(record)
        return b""

    def _is_choked(self) -> bool:
        return self._out is not None and self._out.queued_bytes > QUEUED_BYTES_MAX


class Links:
    """All links of one shard, and the metadata transport over them."""

    __slots__ = ("_links", "_turn")

    def __init__(self) -> None:
        """None yet; a broker with one shard has none."""
        self._links: dict[int, Link] = {}
        self._turn = asyncio.Lock()  # records reach every shard in the order of the calls

    def add(self, link: Link) -> None:
        """A connected link."""
        self._links[link.peer] = link

    def to(self, shard_id: int) -> Link:
        """The link to another shard."""
        return self._links[shard_id]

    def all(self) -> list[Link]:
        """The links to all other shards."""
        return list(self._links.values())

    async def broadcast_metadata(self, record: bytes) -> None:
        """Hand a record to every other shard; return when all have applied it."""
        async with self._turn:
            waiting = [link.request(CHANGE, record) for link in self._links.values()]
        await asyncio.gather(*waiting)

    async def request_metadata(self, request: bytes) -> bytes:
        """Hand a wish for a change to shard 0 and return its answer."""
        return await self._links[0].request(WISH, request)

    async def ask(self, shard_id: int, question: bytes) -> bytes:
        """Ask one shard about its sessions."""
        return await self._links[shard_id].request(QUESTION, question)

    async def ask_all(self, question: bytes) -> list[bytes]:
        """Ask all other shards about their sessions."""
        waiting = [link.request(QUESTION, question) for link in self._links.values()]
        return list(await asyncio.gather(*waiting))

    def close(self) -> None:
        """Close all."""
        for link in self._links.values():
            link.close()
