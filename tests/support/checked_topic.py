"""A topic whose every message says what it must be, so that each answer can be judged by itself."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field

PAYLOAD_BYTES_MAX = 4000
FILLING = bytes(range(97, 123)) * 160


def payload(epoch: int, partition: int, offset: int) -> bytes:
    """The one right payload of a message."""
    head = b"%d/%d/%d/" % (epoch, partition, offset)
    return head + FILLING[: (offset * 37 + epoch) % PAYLOAD_BYTES_MAX]


@dataclass
class CheckedPartition:
    """One partition. Who holds `turn` knows exactly what is stored."""

    id: int
    turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    epoch: int = 0  # how often it was purged
    next_offset: int = 0
    oldest: int = 0  # or higher by now, if old segments were to be deleted
    is_trimmed: bool = False
    read_to: int = 0  # where the consumer that commits goes on

    def batch(self, count: int) -> list[bytes]:
        """What the next messages must be."""
        offsets = range(self.next_offset, self.next_offset + count)
        return [payload(self.epoch, self.id, offset) for offset in offsets]

    def judge(self, found: Sequence[tuple[int, bytes]], *, first: int, count: int) -> None:
        """Messages that a poll for `count` returned, which must begin with `first`.

        If that was trimmed meanwhile, they begin with the oldest that is left.
        """
        if found and found[0][0] > first:
            assert self.is_trimmed and found[0][0] >= self.oldest
            first = self.oldest = found[0][0]
        expected = range(first, min(first + count, self.next_offset))
        assert [offset for offset, _ in found] == list(expected)
        for offset, data in found:
            assert data == payload(self.epoch, self.id, offset), f"partition {self.id}, {offset}"

    def judge_any(self, found: Iterable[tuple[int, bytes]], *, epoch: int) -> None:
        """Messages that were polled without the turn, when `epoch` was the oldest possible."""
        for offset, data in found:
            known = {payload(at, self.id, offset) for at in range(epoch, self.epoch + 1)}
            assert data in known, f"partition {self.id}, {offset}: {data[:40]!r}"


class CheckedTopic:
    """All partitions of a topic."""

    def __init__(self, name: str, partitions: int) -> None:
        self.name = name
        self.partitions = [CheckedPartition(number) for number in range(partitions)]
        self.messages = 0  # acknowledged, ever
        self.bytes = 0  # the same since the last purge

    def sent(self, partition: CheckedPartition, base_offset: int, batch: Sequence[bytes]) -> None:
        """A batch was acknowledged."""
        assert base_offset == partition.next_offset, "offsets are dense"
        partition.next_offset += len(batch)
        self.messages += len(batch)
        self.bytes += sum(map(len, batch))

    @asynccontextmanager
    async def all_turns(self) -> AsyncIterator[None]:
        """Nobody sends or reads meanwhile, except members of groups."""
        async with AsyncExitStack() as stack:
            for partition in self.partitions:
                await stack.enter_async_context(partition.turn)
            yield

    def purged(self) -> None:
        """Everything is gone; offsets begin at 0 again."""
        for partition in self.partitions:
            partition.epoch += 1
            partition.next_offset = partition.oldest = partition.read_to = 0
            partition.is_trimmed = False
        self.bytes = 0
