"""Which shard owns a partition. Pure arithmetic, the same on every shard and after every start."""

from __future__ import annotations

from typing import Final

import mmh3

STREAM_ID_BITS: Final = 20
TOPIC_ID_BITS: Final = 12
PARTITION_ID_BITS: Final = 20


def pack(stream_id: int, topic_id: int, partition_id: int) -> int:
    """The 64-bit name of a partition: stream, topic and partition id from the high bits down."""
    assert stream_id >> STREAM_ID_BITS == 0, "stream id fits its bits"
    assert topic_id >> TOPIC_ID_BITS == 0, "topic id fits its bits"
    assert partition_id >> PARTITION_ID_BITS == 0, "partition id fits its bits"
    upper = stream_id << TOPIC_ID_BITS | topic_id
    return upper << PARTITION_ID_BITS | partition_id


def unpack(packed: int) -> tuple[int, int, int]:
    """Stream, topic and partition id of a packed name."""
    upper, partition_id = divmod(packed, 1 << PARTITION_ID_BITS)
    stream_id, topic_id = divmod(upper, 1 << TOPIC_ID_BITS)
    return stream_id, topic_id, partition_id


def shard_of(packed: int, shards_count: int) -> int:
    """The shard that owns the partition with this packed name.

    The rule of the original's sharding: 32-bit MurmurHash3 (x86, seed 0) over the eight bytes of
    the name, least significant first, and of it only the upper 16 bits.
    """
    digest: int = mmh3.hash(packed.to_bytes(8, "little"), 0, signed=False)
    return (digest >> 16) % shards_count
