"""The link between two shards: answers in any order, frames of any size, back-pressure."""

from __future__ import annotations

import asyncio
import os
import socket
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field

import pytest
import uvloop

from iggy_broker.net import peers
from iggy_broker.net.intake import Landing
from iggy_broker.net.outbox import Part
from iggy_broker.net.peers import CHANGE, WISH, Link, Links
from iggy_broker.net.targets import Target

TARGET = Target(
    stream_id=0, topic_id=0, partition_id=3, incarnation=7, packed=3, owner=1, partition=None
)


@dataclass
class Owner:
    """Echoes frames; holds back those that a test wants late."""

    late: dict[bytes, asyncio.Future[bytes]] = field(default_factory=dict)
    seen: list[tuple[int, int]] = field(default_factory=list)
    changes: list[bytes] = field(default_factory=list)
    watches: dict[bytes, asyncio.Future[int]] = field(default_factory=dict)

    def watch(self, packed: int, incarnation: int, wish: bytes) -> asyncio.Future[int]:
        self.seen.append((packed, incarnation))
        return self.watches.setdefault(wish, asyncio.get_running_loop().create_future())

    def serve_frame(
        self, packed: int, incarnation: int, frame: memoryview
    ) -> Sequence[Part] | asyncio.Future[bytes]:
        self.seen.append((packed, incarnation))
        later = self.late.get(bytes(frame[:16]))
        return later if later is not None else (b"echo ", bytes(frame))

    async def serve_wish(self, request: bytes) -> bytes:
        return b"granted " + request

    async def apply_change(self, record: bytes) -> None:
        self.changes.append(record)

    async def answer_question(self, question: bytes) -> bytes:
        return b"told " + question


class Pair:
    """Two links of one process, connected to each other."""

    def __init__(self) -> None:
        self.owner = Owner()
        self.lost: list[int] = []
        self.first_loss = asyncio.Event()

    def on_lost(self, peer: int) -> None:
        self.lost.append(peer)
        self.first_loss.set()

    async def connect(self) -> tuple[Link, Link]:
        loop = asyncio.get_running_loop()
        links = []
        for peer, sock in enumerate(socket.socketpair()):
            sock.setblocking(False)
            link = Link(peer, self.owner, loop=loop, landing=Landing(), on_lost=self.on_lost)
            await loop.create_unix_connection(lambda link=link: link, sock=sock)  # type: ignore[misc]
            links.append(link)
        return links[1], links[0]


def run(work: Callable[[], Awaitable[None]]) -> None:
    loop = uvloop.new_event_loop()
    try:
        loop.run_until_complete(asyncio.wait_for(work(), 30))
    finally:
        loop.close()


def ask(link: Link, frame: bytes) -> asyncio.Future[bytes]:
    answer: asyncio.Future[bytes] = asyncio.get_running_loop().create_future()
    link.forward(TARGET, frame, lambda reply: answer.set_result(bytes(reply)))
    return answer


def test_frames_of_any_size_come_back_whole() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.connect()
        frames = [os.urandom(size) for size in (256, 5000, 300_000, 3_000_000, 256)]

        answers = await asyncio.gather(*(ask(near, frame) for frame in frames))

        assert answers == [b"echo " + frame for frame in frames]
        assert set(pair.owner.seen) == {(TARGET.packed, TARGET.incarnation)}
        assert near.in_flight_bytes == 0
        near.close()
        far.close()

    run(work)


def test_a_late_answer_holds_up_no_other() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.connect()
        late = pair.owner.late[b"the late frame.."] = asyncio.get_running_loop().create_future()

        slow = ask(near, b"the late frame..")
        assert await ask(near, b"another") == b"echo another"
        assert not slow.done()
        late.set_result(b"at last")

        assert await slow == b"at last"
        near.close()
        far.close()

    run(work)


def test_both_sides_may_send_more_than_the_socket_takes() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.connect()
        frame = os.urandom(2_000_000)

        answers = await asyncio.gather(
            *(ask(link, frame) for _ in range(8) for link in (near, far))
        )

        assert answers == [b"echo " + frame] * 16
        near.close()
        far.close()

    run(work)


def test_a_full_link_says_so_and_calls_back(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(peers, "IN_FLIGHT_BYTES_MAX", 3 * peers.POLL_COST_BYTES)
        pair = Pair()
        near, far = await pair.connect()
        late = pair.owner.late[b"the late frame.."] = asyncio.get_running_loop().create_future()
        waiting = [ask(near, b"the late frame..") for _ in range(3)]
        assert near.full
        free = asyncio.Event()
        near.when_free(free.set)
        near.when_free(free.set)

        late.set_result(b"done")
        await free.wait()

        assert not near.full
        assert await asyncio.gather(*waiting) == [b"done"] * 3
        near.close()
        far.close()

    run(work)


def test_polls_wait_while_much_is_queued(monkeypatch: pytest.MonkeyPatch) -> None:
    async def work() -> None:
        monkeypatch.setattr(peers, "QUEUED_BYTES_MAX", 0)
        pair = Pair()
        near, far = await pair.connect()
        large = os.urandom(4_000_000)

        answers = await asyncio.gather(ask(near, large), *(ask(near, b"poll") for _ in range(20)))

        assert answers == [b"echo " + large] + [b"echo poll"] * 20
        near.close()
        far.close()

    run(work)


def test_metadata_goes_to_all_in_order_and_wishes_to_shard_0() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.connect()
        assert await near.request(WISH, b"a stream") == b"granted a stream"
        links = Links()
        links.add(near)
        await asyncio.gather(*(links.broadcast_metadata(b"%d" % number) for number in range(5)))
        assert pair.owner.changes == [b"%d" % number for number in range(5)]
        assert await near.request(CHANGE, b"last") == b""
        links.close()
        far.close()

    run(work)


def test_a_lost_shard_is_reported_once_and_a_closed_link_not() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.connect()
        far.close()
        await pair.first_loss.wait()
        assert pair.lost == [1]
        near.close()

    run(work)


def test_a_watch_is_told_once_or_given_up_and_costs_no_room_meanwhile() -> None:
    async def work() -> None:
        pair = Pair()
        near, far = await pair.connect()

        told, given_up = near.watch(TARGET, b"one"), near.watch(TARGET, b"two")
        assert await ask(near, b"another") == b"echo another"
        assert near.in_flight_bytes == 0
        assert set(pair.owner.seen) == {(TARGET.packed, TARGET.incarnation)}
        pair.owner.watches[b"one"].set_result(7)
        given_up.cancel()

        assert await told == 7
        assert await ask(near, b"another") == b"echo another"
        assert pair.owner.watches[b"two"].cancelled()
        assert await ask(near, b"another") == b"echo another"
        assert not near._asked and not far._watches  # neither side remembers them
        near.close()
        far.close()

    run(work)
