"""Blocks of archived logs in memory: those that were used least lately go first.

What was fetched ahead of a reader goes last, until it is read: else readers that are many would
take each other's blocks away, and fetch all of them twice.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Final, NamedTuple

from iggy_broker.archive.blocks import Block
from iggy_broker.archive.memory import Memory
from iggy_broker.storage.gate import Place

AHEAD_S: Final = 30.0
"""What was fetched ahead and not read for so long is like any other block."""
_KEPT: Final = 2  # blocks that were used last, in any case: a poll needs both


class LifeKey(NamedTuple):
    """One life of a partition."""

    folder: str
    incarnation: int
    purges: int


class BlockKey(NamedTuple):
    """A block of a life of a partition."""

    life: LifeKey
    segment: str
    """Key of its manifest."""
    position: int


def key_of(place: Place) -> LifeKey:
    """As a key."""
    return LifeKey(place.folder, place.incarnation, place.purges)


class BlockCache:
    """Of one shard. Times are seconds of one clock."""

    __slots__ = (
        "_ahead", "_blocks", "_coming_bytes", "_kept_bytes", "_memory", "_used_bytes",
        "ahead_bytes", "bytes_max",
    )  # fmt: skip

    def __init__(self, bytes_max: int, kept_bytes: int, memory: Memory) -> None:
        """Holds so many bytes at most, with what is on its way; but two blocks in any case.

        `kept_bytes` of what was used are not given up for what was fetched ahead. `memory` gets
        what is freed.
        """
        self.bytes_max = bytes_max
        self.ahead_bytes = 0
        """Of what nobody has read yet."""
        self._kept_bytes = kept_bytes
        self._memory = memory
        self._coming_bytes = 0
        self._used_bytes = 0
        self._blocks: dict[BlockKey, Block] = {}  # those that were used last behind
        self._ahead: dict[BlockKey, tuple[float, Block]] = {}  # with when they came, in that order

    @property
    def blocks_bytes(self) -> int:
        """Memory of the blocks."""
        return self._used_bytes + self.ahead_bytes

    def __contains__(self, key: BlockKey) -> bool:
        """Whether it is there."""
        return key in self._blocks or key in self._ahead

    def get(self, key: BlockKey) -> Block | None:
        """A block, if it is there; it is used now."""
        if key in self._ahead:
            self._use(key)
        block = self._blocks.pop(key, None)
        if block is not None:
            self._blocks[key] = block
        return block

    @contextmanager
    def room(self, size_bytes: int) -> Iterator[None]:
        """For what is on its way."""
        self._coming_bytes += size_bytes
        self._evict()
        try:
            yield
        finally:
            self._coming_bytes -= size_bytes

    def put(self, key: BlockKey, block: Block, *, ahead_s: float | None = None) -> None:
        """Keep a block. `ahead_s`: it was fetched ahead, and that is the time."""
        self.drop(key)
        self._ahead[key] = ahead_s or 0.0, block
        self.ahead_bytes += block.memory_bytes
        if ahead_s is None:
            self._use(key)
        self._evict()

    def expire(self, now_s: float) -> None:
        """Wait no longer for readers of what came too long ago."""
        while self._ahead:
            key, (came_s, _) = next(iter(self._ahead.items()))
            if now_s - came_s < AHEAD_S:
                return
            self._use(key)

    def drop(self, key: BlockKey) -> None:
        """Forget a block, if it is there."""
        if key in self._ahead:
            self._use(key)
        block = self._blocks.pop(key, None)
        if block is not None:
            self._used_bytes -= block.memory_bytes
            self._memory.give(block.data)

    def _use(self, key: BlockKey) -> None:
        """From now on it is like any block that was used."""
        _, block = self._ahead.pop(key)
        self.ahead_bytes -= block.memory_bytes
        self._blocks[key] = block
        self._used_bytes += block.memory_bytes

    def _evict(self) -> None:
        while self.blocks_bytes + self._coming_bytes > self.bytes_max:
            if self._ahead and self._used_bytes <= self._kept_bytes:
                self.drop(next(iter(self._ahead)))
            elif len(self._blocks) > _KEPT:
                self.drop(next(iter(self._blocks)))
            else:
                return
