"""What is fetched before anybody asks for it: enough for who reads on, nothing for who does not."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest

from cold_topic import ColdTopic, joined
from iggy_broker.archive import blocks, library
from iggy_broker.archive.block_cache import LifeKey
from iggy_broker.archive.readers import ACTIVE_S, PLACES_MAX, Readers
from iggy_broker.storage.older import NotHere
from iggy_wire.archive import parse_key
from iggy_wire.batch import Message, messages
from iggy_wire.primitives import PollingStrategy

BLOCK_BYTES = 200_000
CACHE_BYTES = 20 * BLOCK_BYTES


@dataclass
class Watched:
    """A topic whose reads of logs in the archive are noted: key, position, bytes."""

    topic: ColdTopic
    reads: list[tuple[str, int, int]] = field(default_factory=list)
    waits: int = 0

    @property
    def read_bytes(self) -> int:
        return sum(size_bytes for _, _, size_bytes in self.reads)

    async def poll(self, offset: int, count: int) -> list[Message]:
        """As a client that waits; what was begun meanwhile is done when this returns."""
        while True:
            try:
                found = self.topic.partition().poll(
                    PollingStrategy.offset(offset), count, bytes_max=1 << 20
                )
                break
            except NotHere as missing:
                self.waits += 1
                await missing.ready
        for _ in range(10):
            await asyncio.sleep(0)
        return list(messages(joined(found.parts)))

    async def read_on(self, offset: int = 0, count: int = 3) -> list[int]:
        """All from an offset on: how often each poll waited."""
        waits = []
        while offset < len(self.topic.sent):
            before = self.waits
            got = await self.poll(offset, count)
            assert got == self.topic.sent[offset : offset + len(got)]
            offset += len(got)
            waits.append(self.waits - before)
        return waits


@pytest.fixture(params=[240, 243, 246])
def watched(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Watched:
    """Of many segments of several blocks, all but the last in the archive alone."""
    monkeypatch.setattr(blocks, "READ_BYTES", BLOCK_BYTES)
    monkeypatch.setattr(library, "TOGETHER_BYTES_MAX", 3 * BLOCK_BYTES)
    topic = ColdTopic(cache_bytes=CACHE_BYTES)
    topic.grow(request.param)
    topic.forget()
    watched = Watched(topic)
    read = topic.store.read

    def note(key: str, size_bytes: int, position: int) -> bytes:
        data = read(key, size_bytes, position)
        if key.endswith(".log"):
            watched.reads.append((key, position, len(data)))
        return data

    monkeypatch.setattr(topic.store, "read", note)
    return watched


def archived_bytes(topic: ColdTopic) -> int:
    """Of segments that the log has no more."""
    named = {key: parse_key(key) for key in topic.store.objects}
    end = topic.partition().log.first_offset
    return sum(
        len(topic.store.objects[key])
        for key, one in named.items()
        if one is not None and one.kind == "log" and one.first_offset < end
    )


def test_who_reads_on_waits_no_more_and_nothing_is_fetched_twice(watched: Watched) -> None:
    waits = asyncio.run(watched.read_on())

    assert len(waits) > 60
    assert not any(waits[20:])
    assert watched.read_bytes == archived_bytes(watched.topic), "and nothing that the log has"
    assert max(size_bytes for _, _, size_bytes in watched.reads) > 3 * BLOCK_BYTES // 2, "together"


def test_who_jumps_about_fetches_what_it_asked_for(watched: Watched) -> None:
    async def jump() -> None:
        for offset in (90, 10, 50, 130, 30):
            await watched.poll(offset, 1)

    asyncio.run(jump())

    assert len(watched.reads) == 5
    assert max(size_bytes for _, _, size_bytes in watched.reads) <= 2 * BLOCK_BYTES


def test_no_more_is_fetched_ahead_than_twice_what_was_read(watched: Watched) -> None:
    async def read() -> None:
        offset, read_bytes = 0, 0
        while offset < watched.topic.partition().log.first_offset:
            got = await watched.poll(offset, 2)
            offset += len(got)
            read_bytes += sum(len(one.payload) for one in got)
            slack_bytes = 4 * BLOCK_BYTES  # whole blocks, the one that is read, headers
            ahead_bytes = min(2 * read_bytes, CACHE_BYTES // 2)
            assert watched.read_bytes <= read_bytes + ahead_bytes + slack_bytes

    asyncio.run(read())


def test_who_reads_the_same_side_by_side_is_served_by_the_same_reads(watched: Watched) -> None:
    async def read() -> None:
        offset = 0
        while offset < watched.topic.partition().log.first_offset:
            for got in [await watched.poll(offset, 3) for _ in range(3)]:
                assert got == watched.topic.sent[offset : offset + len(got)]
            offset += len(got)

    asyncio.run(read())

    assert watched.read_bytes == archived_bytes(watched.topic)


def test_an_archive_that_is_away_is_not_asked_ahead(watched: Watched) -> None:
    async def read() -> int:
        offset = 0
        while offset < 60:
            offset += len(await watched.poll(offset, 3))
        watched.topic.store.is_down = True
        failures = watched.topic.read_counters.archive_reads_failures_total
        for _ in range(3):
            await watched.poll(offset, 1)
        return watched.topic.read_counters.archive_reads_failures_total - failures

    assert asyncio.run(read()) <= 4, "those that were begun at once"


def life(number: int) -> LifeKey:
    return LifeKey(f"folder {number}", 1, 0)


def test_a_reader_gets_more_ahead_the_longer_it_goes_on() -> None:
    readers = Readers(100, 10)
    given = []
    for offset in range(10):
        given.append(readers.ahead_bytes(life(1), offset, now_s=0.0))
        readers.went_on(life(1), (offset, offset + 1), 6, now_s=0.0)

    assert given == [0, 12, 24, 36, 48, 60, 72, 84, 96, 100]
    assert readers.ahead_bytes(life(1), 77, now_s=0.0) == 0, "somebody else"
    assert readers.ahead_bytes(life(2), 10, now_s=0.0) == 0


def test_partitions_that_are_read_on_share_until_they_are_not() -> None:
    readers = Readers(100, 30)
    readers.went_on(life(1), (0, 1), 1000, now_s=0.0)
    assert readers.ahead_bytes(life(1), 1, now_s=0.0) == 100
    for number in range(2, 9):
        readers.went_on(life(number), (0, 1), 1000, now_s=1.0)
    assert readers.ahead_bytes(life(1), 1, now_s=1.0) == 100, "they have looked once"
    readers.went_on(life(2), (1, 2), 1000, now_s=1.0)
    assert readers.ahead_bytes(life(1), 1, now_s=1.0) == 50
    assert readers.ahead_bytes(life(2), 2, now_s=1.0) == 100, "the first has not gone on yet"
    for number in range(3, 9):
        readers.went_on(life(number), (1, 2), 1000, now_s=2.0)
    assert readers.ahead_bytes(life(1), 1, now_s=2.0) == 30
    readers.went_on(life(1), (1, 2), 1000, now_s=3.0 + ACTIVE_S)
    assert readers.ahead_bytes(life(1), 2, now_s=3.0 + ACTIVE_S) == 100


def test_the_oldest_places_are_forgotten() -> None:
    readers = Readers(100, 10)
    for offset in range(PLACES_MAX + 1):
        readers.went_on(life(1), (2 * offset, 2 * offset + 1), 10, now_s=0.0)
    assert readers.ahead_bytes(life(1), 1, now_s=0.0) == 0
    assert readers.ahead_bytes(life(1), 3, now_s=0.0) == 20
