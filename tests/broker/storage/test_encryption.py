"""An encrypted log is read as one in the clear, and by nobody without its keys."""

from __future__ import annotations

import random
from struct import Struct

import pytest

from iggy_broker.errors import Reject
from iggy_broker.logs import Note
from iggy_broker.storage.checking import check_now
from iggy_broker.storage.copying import copy_partition
from iggy_broker.storage.deduplication import WindowOptions
from iggy_broker.storage.layout import INDEX_SUFFIX, LOG_SUFFIX
from iggy_broker.storage.partition import NOTHING_NEW, FileRange
from iggy_wire import kernel, sealing
from iggy_wire.batch import Message, build
from iggy_wire.errors import ErrorCode
from iggy_wire.sealing import NO_KEYS, Keyring
from storage_cases import (
    LAST,
    Strategy,
    World,
    disk_of,
    from_offset,
    from_time,
    killed,
    simulated_world,
)

ONE, TWO = b"1" * 32, b"2" * 32
ID_1, ID_2 = sealing.id_of(ONE), sealing.id_of(TWO)
PAYLOAD = b"00000001"


def encrypted(key: bytes = ONE, *old: bytes) -> Keyring:
    return Keyring(old, key=key)


def filled(keys: Keyring) -> World:
    world = simulated_world(keys=keys)
    chance = random.Random(1)
    for _ in range(120):
        world.clock.time_us += 10
        world.append(chance.randrange(1, 30), chance.choice([8, 50, 900]))
    world.append(3, 100_000)
    world.append(2, 9)
    return world


def bytes_of(world: World, strategy: Strategy, count: int, bytes_max: int) -> tuple[bytes, ...]:
    polled = world.partition.poll(strategy, count, bytes_max=bytes_max)
    region = b"".join(p.read() if isinstance(p, FileRange) else p for p in polled.parts)
    assert len(region) == polled.size_bytes
    head = (polled.count, polled.last_offset, polled.current_offset)
    return (str(head).encode(), region)


@pytest.mark.parametrize("restarted", [False, True])
def test_polls_give_the_same_bytes_as_of_a_log_in_the_clear(*, restarted: bool) -> None:
    worlds = filled(NO_KEYS), filled(encrypted())
    if restarted:
        for world in worlds:
            world.restart(killed(world))
    plain, other = worlds
    assert other.partition.log.size_bytes == plain.partition.log.size_bytes
    assert len(other.partition.log.segments) == len(plain.partition.log.segments) > 3
    chance = random.Random(2)
    end, begin_us = plain.partition.next_offset, plain.stored[0].timestamp_us
    strategies = [from_offset(chance.randrange(end)) for _ in range(150)]
    strategies += [from_time(begin_us + chance.randrange(1400)) for _ in range(50)]
    for strategy in [*strategies, LAST, from_offset(0), from_offset(end - 1)]:
        count = chance.choice([1, 7, 100, 1 << 30])
        bytes_max = chance.choice([1, 5000, 100_000, 1 << 30])
        asked = (strategy, count, bytes_max)
        assert bytes_of(plain, *asked) == bytes_of(other, *asked), asked


def test_the_files_have_nothing_in_the_clear() -> None:
    plain, other = filled(NO_KEYS), filled(encrypted())
    logs = [
        {
            path: bytes(node.data)
            for path, node in disk_of(world).entries.items()
            if path.endswith((LOG_SUFFIX, INDEX_SUFFIX))
        }
        for world in (plain, other)
    ]
    for path, data in logs[0].items():
        if path.endswith(INDEX_SUFFIX):
            assert logs[1][path] == data, "offsets and times are no secrets"
    assert any(PAYLOAD in data for data in logs[0].values())
    assert not any(PAYLOAD in data for data in logs[1].values())


def test_each_segment_has_one_key_or_none() -> None:
    world = simulated_world()
    world.append(5)
    for keys in (encrypted(ONE), encrypted(ONE), encrypted(TWO, ONE), Keyring([ONE, TWO])):
        world.keys = keys
        world.reopen()
        world.append(5)
        world.append(5)
    segments = world.partition.log.segments
    assert [segment.key_id for segment in segments] == ["", ID_1, ID_2, ""]
    assert [segment.first_offset for segment in segments] == [0, 5, 25, 35]
    assert world.everything() == world.stored
    world.restart(killed(world))
    assert world.everything() == world.stored
    assert world.poll(from_offset(3), 30) == world.stored[3:33]


def test_without_its_key_nothing_is_read_and_nothing_is_skipped() -> None:
    world = simulated_world()
    world.append(5)
    world.keys = encrypted(ONE)
    world.reopen()
    world.append(5)
    world.keys = encrypted(TWO)
    world.reopen()
    world.append(5)
    assert world.poll(from_offset(0), 100) == world.stored[:5], "what can be read"
    for strategy in (from_offset(5), from_offset(7), from_time(world.stored[6].timestamp_us)):
        with pytest.raises(Reject, match=ID_1) as refused:
            world.poll(strategy, 100)
        assert refused.value.code == ErrorCode.CANNOT_DECRYPT_DATA
        assert "system.encryption.old_keys" in refused.value.detail
    told = world.warnings[0]
    assert isinstance(told, Note)
    assert (told.event, told.fields["key_id"], told.fields["offset"]) == ("not_decrypted", ID_1, 5)
    assert world.place.folder in told
    assert world.poll(from_offset(10), 100) == world.stored[10:]
    world.keys = encrypted(TWO, ONE)
    world.reopen()
    assert world.everything() == world.stored


def test_damage_is_found_without_a_key() -> None:
    world = filled(encrypted())
    world.keys = NO_KEYS
    world.reopen()
    assert check_now(world.partition) == []
    segment = world.partition.log.segments[1]
    node = disk_of(world).entries[segment.path]
    node.data[segment.size_bytes // 2] ^= 1
    (note,) = check_now(world.partition)
    assert "checksum error at offset" in note


def test_what_was_changed_with_a_right_checksum_is_refused_and_not_skipped() -> None:
    world = simulated_world(keys=encrypted())
    world.append(1, 40)
    data = disk_of(world).entries[world.partition.log.segments[0].path].data
    data[300] ^= 1
    body = Struct("<Q").pack(kernel.xxh3_64(data[256:]))
    data[40:48] = Struct("<Q").pack(kernel.xxh3_64(data[:40] + data[48:256] + body))
    world.restart(killed(world))
    assert world.partition.next_offset == 1
    with pytest.raises(Reject, match="it was changed since") as refused:
        world.poll(from_offset(0), 1)
    assert refused.value.code == ErrorCode.CANNOT_DECRYPT_DATA
    assert "old_keys" not in refused.value.detail


@pytest.mark.parametrize("is_torn", [False, True])
def test_a_torn_or_rotten_tail_is_cut_without_a_key(*, is_torn: bool) -> None:
    world = simulated_world(keys=encrypted())
    world.append(3)
    end = world.partition.log.size_bytes
    world.append(3)
    disk = killed(world)
    data = disk.entries[world.partition.log.segments[0].path].data
    if is_torn:
        del data[end + 300 :]
    else:
        data[end + 300] ^= 1
    world.keys = NO_KEYS
    assert world.restart(disk).next_offset == 3
    world.keys = encrypted()
    world.reopen()
    assert world.everything() == world.stored[:3]


def test_known_ids_are_read_back_from_an_encrypted_log() -> None:
    world = simulated_world(keys=encrypted(), window=WindowOptions(100, None))
    sent = build([Message(b"one", id=1), Message(b"two", id=2)], origin_timestamp_us=7)
    again = bytearray(sent)
    more = build([Message(b"two", id=2), Message(b"three", id=3)], origin_timestamp_us=7)
    assert world.partition.append(memoryview(sent)) == 0
    world.keys = encrypted(TWO, ONE)
    world.reopen()
    assert world.partition.append(memoryview(again)) == NOTHING_NEW
    assert world.partition.append(memoryview(more)) == 2
    assert [one.payload for one in world.everything()] == [b"one", b"two", b"three"]


def test_known_ids_that_cannot_be_read_back_let_nothing_in() -> None:
    world = simulated_world(keys=encrypted(), window=WindowOptions(100, None))
    world.append(1)
    world.keys = encrypted(TWO)
    world.reopen()
    with pytest.raises(Reject, match=ID_1):
        world.append(1)
    assert world.partition.next_offset == 1


def test_a_copy_is_made_and_cut_without_a_key() -> None:
    world = filled(encrypted())
    disk = disk_of(world)
    disk.entries[world.partition.log.segments[-1].path].data += b"half of a batch" * 20
    target = "/data/copy"
    made = copy_partition(disk, world.place.folder, target, incarnation=1)
    assert made is not None
    assert (made.next_offset, made.damage) == (world.partition.next_offset, "")
