"""Both lanes of an archiver, a producer and a cleaner at once, in an order that is drawn by lot."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

import pytest

from archived_topic import CONTINUOUS, ArchivedTopic
from iggy_broker.archive.archiver import Archiver
from iggy_broker.archive.store import ArchiveError, ArchiveStore
from iggy_broker.storage.disk import Disk

T = TypeVar("T")
HOUR_US = 3_600_000_000


class TurnsLane:
    """Does the work after some turns of the loop, tells of it after some more, or fails."""

    def __init__(self, topic: ArchivedTopic, chance: random.Random) -> None:
        self._topic, self._chance = topic, chance

    async def run(self, work: Callable[[ArchiveStore, Disk], T]) -> T:
        await self._turns()
        if self._chance.random() < 0.1:
            raise ArchiveError("not now")
        try:
            return work(self._topic.store, self._topic.disk)
        finally:
            await self._turns()

    async def _turns(self) -> None:
        for _ in range(self._chance.randrange(8)):
            await asyncio.sleep(0)


def with_turns(topic: ArchivedTopic, chance: random.Random) -> Archiver:
    return Archiver(
        topic.config,
        state=lambda: topic.state,
        partitions=topic.host.open,
        parts=topic.parts,
        lanes=(TurnsLane(topic, chance), [TurnsLane(topic, chance) for _ in range(3)]),
        counters=topic.counters_of,
    )


async def live_together(topic: ArchivedTopic, chance: random.Random) -> None:
    archiver, over = with_turns(topic, chance), asyncio.Event()

    async def repeat(step: Callable[[], Awaitable[object]]) -> None:
        while not over.is_set():
            await step()
            await asyncio.sleep(0)

    steps = (archiver.sealed_pass, archiver.tails_pass, topic.cleaners[0].clean)
    others = [asyncio.create_task(repeat(step)) for step in steps]
    for _ in range(60):
        topic.send(chance.choice((100, 50_000, 400_000)))
        topic.clock.pass_s(chance.choice((0.0, 1.0, 1000.0)))
        for _ in range(chance.randrange(20)):
            await asyncio.sleep(0)
        topic.whole()  # whenever one looks, manifests name what is there
    over.set()
    await asyncio.gather(*others)


@pytest.mark.parametrize("seed", range(25))
def test_nothing_is_lost_whoever_comes_first(seed: int) -> None:
    topic = ArchivedTopic(message_expiry=HOUR_US, settings=CONTINUOUS)
    asyncio.run(live_together(topic, random.Random(seed)))
    topic.clock.pass_s(1000)
    topic.archive()

    reached = 0
    for first, end in topic.whole():
        assert first == reached
        reached = end
    assert reached == topic.partition().next_offset == 60
    *sealed, _ = topic.manifests()
    assert all(manifest.sealed for manifest in sealed), "only the last one may have pieces"
