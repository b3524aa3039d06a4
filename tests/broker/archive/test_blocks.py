"""Blocks of an archived log, several by one read, in memory that is used again."""

from __future__ import annotations

from itertools import pairwise

import pytest

from archived_topic import MemoryStore
from iggy_broker.archive.block_cache import AHEAD_S, BlockCache, BlockKey, LifeKey
from iggy_broker.archive.blocks import Block, BlockReader, Start
from iggy_broker.archive.memory import ROUND_BYTES, SPARE_MAX, Memory
from iggy_broker.storage.older import Steady
from iggy_wire import kernel
from iggy_wire.archive import Piece
from iggy_wire.archive_listing import Segment
from iggy_wire.batch import Message, build
from iggy_wire.errors import ErrorCode
from iggy_wire.sealing import Keyring

BATCHES = 40
CUT = 7  # bytes of a log that are in the first object, and not a whole batch


def batch(offset: int, *, keys: Keyring | None = None) -> bytes:
    message = Message(f"message {offset}".encode() * 500)
    data = build([message], origin_timestamp_us=1)
    assert kernel.admit(data, 1, offset, 1000 + offset) == 0
    return bytes(data if keys is None else keys.seal(data))


def log(keys: Keyring | None = None) -> tuple[bytes, list[int]]:
    """Of messages 0, 1, 2, …, and where each of them begins; at last the end."""
    data, positions = b"", [0]
    for offset in range(BATCHES):
        data += batch(offset, keys=keys)
        positions.append(len(data))
    return data, positions


class Archive:
    """One segment in a store: whole, or in two pieces."""

    def __init__(self, data: bytes, *, first_bytes: int | None = None) -> None:
        self.store = MemoryStore()
        pieces = None
        if first_bytes is not None:
            pieces = (Piece(0, first_bytes, ""), Piece(first_bytes, len(data) - first_bytes, ""))
        self.segment = Segment("f", 0, BATCHES, 0, 2000, len(data), 0, pieces=pieces)
        at = 0
        for span in self.segment.spans():
            self.store.objects[span.key] = data[at : at + span.size_bytes]
            at += span.size_bytes

    def damage(self, position: int) -> None:
        (span,) = self.segment.spans(position, 1)
        data = bytearray(self.store.objects[span.key])
        data[span.position] ^= 1
        self.store.objects[span.key] = bytes(data)


def places(positions: list[int], *numbers: int) -> list[tuple[Start, int]]:
    """Of blocks that begin with these messages, the last number is where they end."""
    return [
        (Start(first, 1000 + first, positions[first]), positions[stop])
        for first, stop in pairwise(numbers)
    ]


def test_blocks_that_follow_each_other_are_one_read() -> None:
    data, positions = log()
    archive = Archive(data)
    reader = BlockReader(Keyring(), Memory())

    found = reader.read(archive.store, archive.segment, places(positions, 3, 10, 30))

    assert archive.store.steps == 1
    assert [bytes(one.data) for one in found] == [
        data[positions[3] : positions[10]],
        data[positions[10] : positions[30]],
    ]
    assert [one.next_offset for one in found] == [10, 30]


@pytest.mark.parametrize("at", [0, 5, 10, 17, 39])
def test_they_may_lie_in_several_objects(at: int) -> None:
    data, positions = log()
    archive = Archive(data, first_bytes=positions[at] + CUT)
    reader = BlockReader(Keyring(), Memory())

    found = reader.read(archive.store, archive.segment, places(positions, 0, 10, 30, 40))

    assert b"".join(one.data for one in found) == data
    assert not any(one.damage for one in found)
    assert archive.store.steps == 2


def test_what_is_wrong_with_one_is_not_the_others_matter() -> None:
    data, positions = log()
    archive = Archive(data)
    archive.damage(positions[7])
    reader = BlockReader(Keyring(), Memory())

    first, second, third = reader.read(
        archive.store, archive.segment, places(positions, 0, 5, 10, 20)
    )

    assert archive.store.steps == 2, "it alone is read once more"
    assert (first.damage, third.damage) == ("", "")
    assert second.damage
    assert (second.next_offset, bytes(second.data)) == (7, data[positions[5] : positions[7]])
    assert bytes(third.data) == data[positions[10] : positions[20]]


def test_an_object_that_ends_too_soon_is_damage_behind_its_end() -> None:
    data, positions = log()
    archive = Archive(data)
    (key,) = archive.store.objects
    archive.store.objects[key] = data[: positions[12] + CUT]
    reader = BlockReader(Keyring(), Memory())

    first, second, third = reader.read(
        archive.store, archive.segment, places(positions, 0, 10, 20, 30)
    )

    assert bytes(first.data) == data[: positions[10]]
    assert (first.damage, second.next_offset, third.next_offset) == ("", 12, 20)
    assert "ends at byte" in second.damage
    assert "ends at byte" in third.damage


def test_what_is_encrypted_gives_its_memory_back() -> None:
    keys = Keyring(key=bytes(32))
    data, positions = log(keys)
    archive = Archive(data)
    memory = Memory()
    reader = BlockReader(keys, memory)

    first, second = reader.read(archive.store, archive.segment, places(positions, 0, 10, 20))

    plain, plain_positions = log()
    assert bytes(first.data) + bytes(second.data) == plain[: plain_positions[20]]
    given = memory.take(len(first.data))
    assert given.obj is not first.data.obj
    assert bytes(given[: positions[1]]) in data, "what it was read into"


def test_memory_is_taken_again_when_nobody_reads_it() -> None:
    memory = Memory()
    data = memory.take(1000)
    whole = data.obj
    part = data[10:20].toreadonly()
    assert isinstance(whole, Steady)
    assert len(whole) == ROUND_BYTES

    memory.give(data)
    del data
    other = memory.take(1000)
    assert other.obj is not whole, "a part of it is on its way to a client"
    del part
    larger = memory.take(ROUND_BYTES + 1)
    assert larger.obj is not whole, "it does not fit"
    again = memory.take(ROUND_BYTES)
    assert again.obj is whole


def test_little_memory_is_kept_for_the_next_block() -> None:
    memory = Memory()
    pieces = [memory.take(1) for _ in range(2 * SPARE_MAX)]
    given = {id(piece.obj) for piece in pieces}
    for piece in pieces:
        memory.give(piece)
    kept = pieces[-SPARE_MAX:]
    ids = {id(piece.obj) for piece in kept}
    del piece, pieces, kept

    taken = [memory.take(1) for _ in range(2 * SPARE_MAX)]

    assert len(given) == 2 * SPARE_MAX
    assert len(ids & {id(piece.obj) for piece in taken}) == SPARE_MAX


# -- the cache ---------------------------------------------------------------------------------

SIZE = ROUND_BYTES


def key(number: int) -> BlockKey:
    return BlockKey(LifeKey("f", 1, 0), "f/0.json", number)


def block(memory: Memory) -> Block:
    data = memory.take(SIZE).toreadonly()
    return Block(data, 1, 1, "", ErrorCode.CANNOT_READ_MESSAGE, [0], [0])


def there(cache: BlockCache) -> list[int]:
    return [number for number in range(20) if key(number) in cache]


def test_what_was_used_goes_before_what_was_fetched_ahead() -> None:
    memory = Memory()
    cache = BlockCache(5 * SIZE, 2 * SIZE, memory)
    for number in range(3):
        cache.put(key(number), block(memory))
    for number in range(3, 6):
        cache.put(key(number), block(memory), ahead_s=1.0)
    assert there(cache) == [1, 2, 3, 4, 5]
    assert cache.ahead_bytes == 3 * SIZE

    cache.put(key(6), block(memory))
    assert there(cache) == [2, 3, 4, 5, 6]
    assert cache.get(key(3)) is not None
    assert cache.ahead_bytes == 2 * SIZE
    cache.put(key(7), block(memory))
    assert there(cache) == [3, 4, 5, 6, 7]
    assert cache.blocks_bytes == 5 * SIZE


def test_what_a_poll_needs_is_not_given_up_for_what_was_fetched_ahead() -> None:
    memory = Memory()
    cache = BlockCache(4 * SIZE, 3 * SIZE, memory)
    for number in range(3):
        cache.put(key(number), block(memory))
    for number in range(3, 6):
        cache.put(key(number), block(memory), ahead_s=1.0)
    assert there(cache) == [0, 1, 2, 5]


def test_what_is_on_its_way_has_room() -> None:
    memory = Memory()
    cache = BlockCache(4 * SIZE, 2 * SIZE, memory)
    for number in range(4):
        cache.put(key(number), block(memory))
    with cache.room(2 * SIZE):
        assert there(cache) == [2, 3]
        with cache.room(9 * SIZE):
            assert there(cache) == [2, 3], "the last two in any case"
    assert cache.blocks_bytes == 2 * SIZE
    cache.put(key(4), block(memory))
    assert there(cache) == [2, 3, 4]


def test_who_does_not_come_is_not_waited_for() -> None:
    memory = Memory()
    cache = BlockCache(3 * SIZE, 2 * SIZE, memory)
    cache.put(key(1), block(memory), ahead_s=10.0)
    cache.put(key(2), block(memory), ahead_s=20.0)
    cache.expire(10.0 + AHEAD_S)
    assert cache.ahead_bytes == SIZE
    for number in range(3, 6):
        cache.put(key(number), block(memory))
    assert there(cache) == [2, 4, 5]


def test_a_block_that_is_replaced_or_dropped_counts_no_more() -> None:
    memory = Memory()
    cache = BlockCache(3 * SIZE, 2 * SIZE, memory)
    cache.put(key(1), block(memory), ahead_s=1.0)
    cache.put(key(1), block(memory))
    assert (cache.blocks_bytes, cache.ahead_bytes) == (SIZE, 0)
    cache.put(key(2), block(memory), ahead_s=1.0)
    for number in (1, 2, 3):
        cache.drop(key(number))
    assert (cache.blocks_bytes, cache.ahead_bytes, there(cache)) == (0, 0, [])
