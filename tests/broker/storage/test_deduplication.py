"""Messages that were sent before are left out: by id, count and age, also after a restart."""

from __future__ import annotations

import pytest

from iggy_broker.errors import Reject
from iggy_broker.storage.deduplication import WindowOptions
from iggy_broker.storage.partition import NOTHING_NEW
from iggy_wire.batch import Message, build, messages
from storage_cases import World, from_offset, killed, simulated_world

FOREVER = WindowOptions(1000, None)


def new_world(window: WindowOptions = FOREVER, **options: object) -> World:
    return simulated_world(window=window, **options)


def send(world: World, *ids: int) -> int:
    """One batch; what each message has tells it from all others sent."""
    made = []
    for id_ in ids:
        world.counter += 1
        headers = bytes(8) if id_ % 2 else b""
        made.append(Message(f"{id_} {world.counter}".encode(), id=id_, headers=headers))
    return world.partition.append(memoryview(build(made, origin_timestamp_us=7)))


def ids(world: World) -> list[int]:
    """Of everything that is stored; offsets are dense and checksums right."""
    polled = world.partition.poll(from_offset(0), 1000, bytes_max=1 << 20)
    region = b"".join(part if isinstance(part, bytes) else part.read() for part in polled.parts)
    found = list(messages(region))
    assert [message.offset for message in found] == list(range(len(found)))
    for message in found:
        assert message.payload.startswith(f"{message.id} ".encode())
        assert message.headers == (bytes(8) if message.id % 2 else b"")
    return [message.id for message in found]


def test_what_was_sent_is_left_out_and_the_rest_is_dense() -> None:
    world = new_world()
    assert send(world, 1, 2, 3) == 0
    assert send(world, 1, 2, 3) == NOTHING_NEW
    assert send(world, 3, 4, 2, 5) == 3
    assert send(world, 6) == 5
    assert ids(world) == [1, 2, 3, 4, 5, 6]


def test_a_batch_that_repeats_itself_is_stored_once() -> None:
    world = new_world()
    assert send(world, 1, 1, 2, 1) == 0
    assert ids(world) == [1, 2]


def test_messages_without_an_id_are_all_new() -> None:
    world = new_world()
    assert send(world, 0, 0) == 0
    assert send(world, 0, 1, 0, 1) == 2
    assert ids(world) == [0, 0, 0, 1, 0]


def test_without_a_window_everything_is_stored() -> None:
    world = simulated_world()
    send(world, 1)
    send(world, 1)
    assert ids(world) == [1, 1]


def test_the_newest_are_known_by_count() -> None:
    world = new_world(WindowOptions(3, None))
    send(world, 1, 2, 3, 4)
    assert send(world, 2, 3, 4) == NOTHING_NEW
    assert send(world, 1) == 4, "long ago"
    assert send(world, 2) == 5, "1 has taken its place"


def test_and_by_age() -> None:
    world = new_world(WindowOptions(1000, 5_000_000))
    send(world, 1)
    world.clock.time_us += 4_000_000
    assert send(world, 1, 2) == 1
    world.clock.time_us += 2_000_000
    assert send(world, 1, 2) == 2, "1 is too old, 2 is not"
    assert ids(world) == [1, 2, 1]


@pytest.mark.parametrize("stop", ["clean", "kill"])
def test_a_restart_lets_nothing_through(stop: str) -> None:
    world = new_world(WindowOptions(5, 60_000_000), segment_bytes=4096)
    for number in range(1, 51):
        send(world, number)
    if stop == "clean":
        world.reopen()
    else:
        world.restart(killed(world))
    assert send(world, 46, 47, 48, 49, 50) == NOTHING_NEW
    assert send(world, 45, 50) == 50
    world.clock.time_us += 61_000_000
    world.reopen()
    assert send(world, 50) == 51


def test_a_purge_forgets_all() -> None:
    world = new_world()
    send(world, 1, 2)
    world.partition.purge(1)
    assert send(world, 1, 2) == 0


def test_what_was_refused_is_not_known() -> None:
    world = new_world()
    send(world, 1)
    disk = world.disk
    disk.capacity_bytes = disk.used_bytes()  # type: ignore[attr-defined]
    with pytest.raises(Reject):
        send(world, 2)
    disk.capacity_bytes = None  # type: ignore[attr-defined]
    assert send(world, 1, 2) == 1
    assert ids(world) == [1, 2]


def test_a_broken_batch_is_refused_and_not_known() -> None:
    world = new_world()
    batch = build([Message(b"x", id=1)], origin_timestamp_us=7)
    batch[-1] ^= 1
    with pytest.raises(Reject):
        world.partition.append(memoryview(batch))
    assert send(world, 1) == 0


def test_a_persisted_topic_answers_a_repetition_when_the_first_is_on_the_disk() -> None:
    world = new_world(persisted=True)
    send(world, 1)
    assert world.partition.must_wait
    assert send(world, 1) == NOTHING_NEW
    assert world.partition.must_wait
    world.partition.sync_now()
    assert ids(world) == [1]
