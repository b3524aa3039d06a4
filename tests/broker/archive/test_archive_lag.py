"""How far a continuous archive is behind, and what keeps that short."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import TypeVar

import pytest

from archived_topic import CONTINUOUS, ArchivedTopic
from iggy_broker.archive.archiver import Archiver, Lane
from iggy_broker.archive.store import ArchiveStore
from iggy_broker.storage.disk import Disk
from iggy_broker.storage.partition import Partition

T = TypeVar("T")
LANES = 3
INTERVAL_S = 5


def with_lanes(topic: ArchivedTopic, make: Callable[[], Lane]) -> Archiver:
    return Archiver(
        topic.config,
        state=lambda: topic.state,
        partitions=topic.host.open,
        parts=topic.parts,
        lanes=(make(), [make() for _ in range(LANES)]),
        counters=topic.counters_of,
    )


def behind_s(topic: ArchivedTopic) -> float:
    """As a scrape finds it."""
    topic.counters_of.publish()
    return topic.counters_of.archiver_behind_seconds / 1e6


class SlowLane:
    """Takes a second for each piece of work."""

    def __init__(self, topic: ArchivedTopic) -> None:
        self._topic = topic
        self.seen_s: list[float] = []

    async def run(self, work: Callable[[ArchiveStore, Disk], T]) -> T:
        self._topic.clock.pass_s(1)
        self.seen_s.append(behind_s(self._topic))
        return work(self._topic.store, self._topic.disk)


def test_it_is_behind_by_the_interval_and_one_copy_at_most() -> None:
    topic = ArchivedTopic(partitions=4, settings=CONTINUOUS)
    lane = SlowLane(topic)
    archiver = with_lanes(topic, lambda: lane)
    for _ in range(3):
        for number in range(4):
            topic.send(100, number)
        lane.seen_s.clear()
        asyncio.run(archiver.tails_pass())

        pass_s = topic.counters_of.archiver_pass_seconds / 1e6
        assert pass_s == len(lane.seen_s)
        assert behind_s(topic) == pass_s, "what came after its begin is not in it"
        topic.clock.pass_s(INTERVAL_S - pass_s % INTERVAL_S)
    assert lane.seen_s == [INTERVAL_S + 1.0 + one for one in range(4)], "it tells while it copies"


class MeetingLane:
    """Does its work when all others have some, too."""

    def __init__(self, topic: ArchivedTopic, meeting: asyncio.Barrier) -> None:
        self._topic, self._meeting = topic, meeting

    async def run(self, work: Callable[[ArchiveStore, Disk], T]) -> T:
        await self._meeting.wait()
        return work(self._topic.store, self._topic.disk)


def test_several_partitions_are_copied_at_once() -> None:
    topic = ArchivedTopic(partitions=LANES, settings=CONTINUOUS)

    async def copy() -> None:
        meeting = asyncio.Barrier(LANES)
        archiver = with_lanes(topic, lambda: MeetingLane(topic, meeting))
        await asyncio.wait_for(archiver.tails_pass(), 30)

    for number in range(LANES):
        topic.send(100, number)
    asyncio.run(copy())
    assert topic.whole() == [(0, 1)] * LANES


def test_a_sync_that_runs_already_does_not_count_for_what_came_later(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    topic.send(100)
    monkeypatch.setattr(Partition, "save", lambda partition: None)  # as while one runs
    topic.archive()
    assert topic.whole() == [(0, 1)]
    assert topic.counters_of.archiver_behind_seconds == 0


def test_until_the_first_copy_it_is_behind_since_the_start() -> None:
    topic = ArchivedTopic(settings=CONTINUOUS)
    topic.send(100)
    topic.clock.pass_s(100)
    assert behind_s(topic) == 100
    topic.archive()
    assert behind_s(topic) == 0
