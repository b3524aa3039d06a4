"""One topic whose older messages are in an archive only, and polls that get them from there."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from dataclasses import replace

from archived_topic import CONTINUOUS, ArchivedTopic, HereLane
from iggy_broker.archive.fetching import READS_AT_ONCE, Fetches
from iggy_broker.archive.library import Library
from iggy_broker.archive.reading import ArchiveReads
from iggy_broker.metrics import Counters
from iggy_broker.storage.older import NotHere, Older
from iggy_broker.storage.partition import ConsumerKey
from iggy_broker.storage.segment import FileRange
from iggy_wire.batch import Message, build, messages
from iggy_wire.primitives import PollingStrategy
from iggy_wire.sealing import NO_KEYS, Keyring
from simulated_disk import SimulatedDisk

BATCH_SIZES = (1, 3, 2, 1, 5)
FETCHES_OF_ONE_POLL_MAX = 1000


class ColdTopic(ArchivedTopic):
    """All messages are in `sent`, by offset, with the time the broker gave them."""

    def __init__(
        self,
        *,
        cache_bytes: int = 1 << 20,
        keys: Keyring = NO_KEYS,
        settings: dict[str, str] | None = None,
    ) -> None:
        self.cache_bytes = cache_bytes
        self.keys = keys
        self.sent: list[Message] = []
        super().__init__(settings={**CONTINUOUS, **(settings or {})})

    def _begin(self, disk: SimulatedDisk) -> None:
        self.parts = replace(self.parts, keys=self.keys)
        super()._begin(disk)

    def older(self, disk: SimulatedDisk) -> Older:
        lanes = [HereLane(self.store, disk) for _ in range(READS_AT_ONCE)]
        counters = Counters(self.counters, 0)
        library = Library(
            Fetches(lanes),
            keys=self.parts.keys,
            cache_bytes=self.cache_bytes,
            clock=self.clock,
            counters=counters,
        )
        self.read_counters = counters
        return ArchiveReads(library, counters)

    def payload(self, offset: int) -> bytes:
        """Of a message that is sent."""
        return payload(offset)

    def grow(self, batches: int) -> None:
        """Send batches of several sizes, and note what they became."""
        partition = self.partition()
        for number in range(batches):
            first = partition.next_offset
            size = BATCH_SIZES[number % len(BATCH_SIZES)]
            new = [Message(self.payload(offset)) for offset in range(first, first + size)]
            self.clock.pass_s(1)
            partition.append(memoryview(build(new, origin_timestamp_us=1)))
            polled = partition.poll(PollingStrategy.offset(first), size, bytes_max=1 << 30)
            self.sent += messages(joined(polled.parts))

    def forget(self, *, segments: int = 1 << 30) -> None:
        """Archive all, and remove sealed segments of the log."""
        self.sync()
        self.archive()
        self.partition().drop_oldest(segments)

    def polled(
        self,
        strategy: PollingStrategy,
        count: int = 1000,
        *,
        bytes_max: int = 1 << 20,
        consumer: ConsumerKey | None = None,
        auto_commit: bool = False,
    ) -> list[Message]:
        """What a client gets that waits."""

        async def poll() -> list[Message]:
            for _ in range(FETCHES_OF_ONE_POLL_MAX):
                try:
                    found = self.partition().poll(
                        strategy,
                        count,
                        bytes_max=bytes_max,
                        consumer=consumer,
                        auto_commit=auto_commit,
                    )
                except NotHere as missing:
                    await missing.ready
                    continue
                data = joined(found.parts)
                assert len(data) == found.size_bytes
                got = list(messages(data))
                assert len(got) == found.count
                return got
            raise AssertionError("the poll never ends")

        return asyncio.run(poll())

    def read_on(
        self, offset: int = 0, count: int = 7, *, bytes_max: int = 1 << 20
    ) -> list[Message]:
        """All from an offset on, as a consumer reads that remembers where it is."""
        found: list[Message] = []
        while more := self.polled(PollingStrategy.offset(offset), count, bytes_max=bytes_max):
            found += more
            offset = more[-1].offset + 1
        return found


def payload(offset: int) -> bytes:
    """Of some length up to 60 kB, and no other one's."""
    return f"message {offset};".encode() * (1 + offset * 7919 % 4000)


def joined(parts: Iterable[bytes | memoryview | FileRange]) -> bytes:
    """The bytes of a poll."""
    return b"".join(part.read() if isinstance(part, FileRange) else part for part in parts)
