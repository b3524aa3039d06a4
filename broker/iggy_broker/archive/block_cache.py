"""Blocks of archived logs in memory: those that were used least lately go first."""

from __future__ import annotations

from typing import NamedTuple

from iggy_broker.archive.blocks import Block
from iggy_broker.storage.gate import Place


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
    """Of one shard."""

    __slots__ = ("_blocks", "bytes_max", "size_bytes")

    def __init__(self, bytes_max: int) -> None:
        """Holds so many bytes at most, but the last two blocks in any case: a poll needs both."""
        self.bytes_max = bytes_max
        self.size_bytes = 0
        self._blocks: dict[BlockKey, Block] = {}  # those that were used last behind

    def __contains__(self, key: BlockKey) -> bool:
        """Whether it is there."""
        return key in self._blocks

    def get(self, key: BlockKey) -> Block | None:
        """A block, if it is there; it is used now."""
        block = self._blocks.pop(key, None)
        if block is not None:
            self._blocks[key] = block
        return block

    def put(self, key: BlockKey, block: Block) -> None:
        """Keep a block."""
        self.drop(key)
        self._blocks[key] = block
        self.size_bytes += len(block.data)
        while self.size_bytes > self.bytes_max and len(self._blocks) > 2:  # noqa: PLR2004
            self.drop(next(iter(self._blocks)))

    def drop(self, key: BlockKey) -> None:
        """Forget a block, if it is there."""
        block = self._blocks.pop(key, None)
        if block is not None:
            self.size_bytes -= len(block.data)
