"""Waiting until partitions, on whatever shards, have enough messages together.

Nobody counts on behalf of all: each partition is asked to tell when it has its share of what is
missing, and the shares are set anew when one has told. When enough is there, at least one has its
share; so a wait costs few questions however many partitions it has, and none for each message.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from struct import Struct
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_broker.storage.watches import ENOUGH, more_than
from iggy_wire.primitives import PollingStrategy, StrategyKind

if TYPE_CHECKING:
    from iggy_broker.net.context import Services
    from iggy_broker.net.peers import Links
    from iggy_broker.net.targets import ReadTarget, Target

# How many messages a partition has, as soon as it has more than so many. May be cancelled.
MoreThan = Callable[[int], asyncio.Future[int]]

_WISH: Final = Struct("<BQIBIq")


class Wish(NamedTuple):
    """A poll whose messages are counted."""

    strategy: PollingStrategy
    most: int  # how many messages; matters to "the last so many"
    consumer: ConsumerKey

    def encode(self, above: int) -> bytes:
        """For another shard, with the number that must be exceeded."""
        return _WISH.pack(*self.strategy_fields, self.most, *self.consumer, above)

    @property
    def strategy_fields(self) -> tuple[int, int]:
        """Kind and value."""
        return self.strategy.kind, self.strategy.value

    @classmethod
    def decode(cls, wish: bytes) -> tuple[Wish, int]:
        """As another shard encoded it."""
        kind, value, most, consumer_kind, consumer_id, above = _WISH.unpack(wish)
        strategy = PollingStrategy(StrategyKind(kind), value)
        return cls(strategy, most, ConsumerKey(consumer_kind, consumer_id)), above


def share(there: Sequence[int], least: int) -> int:
    """What at least one partition must get more until all together have `least`; 0: they have."""
    missing = least - sum(there)
    return max(-(-missing // len(there)), 0)


async def until_there(
    asks: Sequence[MoreThan], least: int, *, wait_s: float, over: asyncio.Future[Any]
) -> list[int]:
    """How many messages each partition is known to have when all have `least`, or time is up.

    What is told is at most what is there. Returns at once when `over` is done. With no time to
    wait, each says what it has.
    """
    if not wait_s:
        return await asyncio.gather(*(ask(-1) for ask in asks))
    loop = asyncio.get_running_loop()
    until_s = loop.time() + wait_s
    there = [0] * len(asks)
    while (step := share(there, least)) and not over.done():
        told = {ask(there[n] + step - 1): n for n, ask in enumerate(asks)}
        try:
            left_s = max(until_s - loop.time(), 0.0)
            done, _ = await asyncio.wait(
                {*told, over}, timeout=left_s, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            for one in told:
                one.cancel()  # nothing, where it is done
        for one in done - {over}:
            there[told[one]] = one.result()
        if not done:
            break
    return there


def asker(services: Services, links: Links, read: ReadTarget, wish: Wish) -> MoreThan:
    """How to ask the partition of `read`, wherever it is."""
    target = read.target
    assert target is not None, "somebody may read it"

    def ask(above: int) -> asyncio.Future[int]:
        if target.partition is None:
            return links.to(target.owner).watch(target, wish.encode(above))
        return more_than(target.partition, *wish, above)

    return ask


def answer(target: Target | None, wish: bytes) -> asyncio.Future[int]:
    """What the owner of a partition, which may be gone, tells another shard."""
    if target is None or target.partition is None:
        gone: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        gone.set_result(ENOUGH)
        return gone
    asked, above = Wish.decode(wish)
    return more_than(target.partition, *asked, above)
