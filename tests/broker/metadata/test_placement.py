"""Vectors of the placement rule: packed names, hashes and shards."""

from __future__ import annotations

import pytest

from iggy_broker.metadata.placement import pack, shard_of

# stream, topic, partition, packed, shard of 2, 3, 4, 8, 16
VECTORS = [
    (0, 0, 0, 0x0, 1, 1, 1, 5, 5),
    (0, 0, 1, 0x1, 1, 0, 3, 7, 7),
    (0, 0, 2, 0x2, 1, 1, 3, 7, 15),
    (0, 0, 3, 0x3, 1, 0, 3, 3, 11),
    (0, 1, 0, 0x100000, 1, 1, 1, 1, 9),
    (0, 1, 1, 0x100001, 1, 2, 3, 3, 11),
    (1, 0, 0, 0x100000000, 0, 1, 0, 0, 8),
    (1, 0, 1, 0x100000001, 1, 0, 1, 1, 9),
    (1, 1, 0, 0x100100000, 0, 2, 2, 2, 10),
    (2, 3, 4, 0x200300004, 1, 0, 3, 7, 7),
    (5, 2, 7, 0x500200007, 0, 2, 0, 0, 0),
    (7, 0, 15, 0x70000000F, 0, 1, 2, 6, 6),
    (10, 10, 10, 0xA00A0000A, 0, 1, 2, 2, 10),
    (42, 17, 99, 0x2A01100063, 1, 2, 3, 7, 7),
    (100, 200, 300, 0x640C80012C, 1, 0, 1, 1, 9),
    (1023, 4095, 999, 0x3FFFFF003E7, 1, 2, 3, 3, 3),
    (4095, 4095, 999999, 0xFFFFFFF423F, 0, 1, 2, 2, 2),
    (4096, 0, 0, 0x100000000000, 0, 2, 0, 4, 12),
    (65535, 1, 31, 0xFFFF0010001F, 0, 1, 2, 6, 14),
    (1048575, 4095, 999999, 0xFFFFFFFFF423F, 0, 1, 2, 6, 14),
]


@pytest.mark.parametrize("vector", VECTORS)
def test_names_and_shards_are_those_of_the_original(vector: tuple[int, ...]) -> None:
    stream, topic, partition, packed, *shards = vector

    assert pack(stream, topic, partition) == packed
    assert [shard_of(packed, count) for count in (2, 3, 4, 8, 16)] == shards
    assert shard_of(packed, 1) == 0


@pytest.mark.parametrize("ids", [(1 << 20, 0, 0), (0, 1 << 12, 0), (0, 0, 1 << 20), (-1, 0, 0)])
def test_ids_beyond_their_bits_are_a_bug(ids: tuple[int, int, int]) -> None:
    with pytest.raises(AssertionError):
        pack(*ids)
