"""Who waits for messages of a partition is told when they are there, once, and leaves nothing."""

from __future__ import annotations

import asyncio

import pytest

from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_broker.storage.partition import Strategy
from iggy_broker.storage.watches import ENOUGH, more_than
from in_loop import in_loop
from storage_cases import FIRST, LAST, NEXT, World, from_offset, from_time, simulated_world

READER = ConsumerKey(1, 7)
COUNT = 10


def watched(
    world: World, strategy: Strategy = FIRST, above: int = 0, count: int = COUNT
) -> asyncio.Future[int]:
    return more_than(world.partition, strategy, count, READER, above)


async def settled(answer: asyncio.Future[int]) -> int | None:
    """What was told, after all callbacks that are due."""
    for _ in range(3):
        await asyncio.sleep(0)
    return answer.result() if answer.done() else None


@in_loop
async def test_what_is_there_is_told_at_once() -> None:
    world = simulated_world()
    world.append(3)

    assert await settled(watched(world)) == 3
    assert await settled(watched(world, from_offset(1))) == 2
    assert await settled(watched(world, LAST, count=2)) == 2
    assert await settled(watched(world, NEXT, above=-1)) == 3
    assert not world.partition.watches


@pytest.mark.parametrize(
    ("strategy", "above", "told"),
    [(FIRST, 4, 6), (from_offset(3), 1, 3), (from_offset(5), 0, 1), (LAST, 4, 6), (NEXT, 2, 4)],
)
@in_loop
async def test_it_is_told_when_enough_is_there(strategy: Strategy, above: int, told: int) -> None:
    world = simulated_world()
    world.append(3)
    world.partition.store_offset(READER, 1)
    answer = watched(world, strategy, above)
    assert await settled(answer) is None

    world.append(1)
    assert await settled(answer) is None
    world.append(2)

    assert await settled(answer) == told
    assert not world.partition.watches


@in_loop
async def test_messages_before_the_time_do_not_count() -> None:
    world = simulated_world()
    answer = watched(world, from_time(world.clock.time_us + 1_000))

    world.append(2)
    assert await settled(answer) is None
    world.clock.time_us += 2_000
    world.append(1)

    assert await settled(answer) == 1


@in_loop
async def test_of_a_persisted_topic_only_what_is_synced_is_told() -> None:
    world = simulated_world(persisted=True)
    answer = watched(world)

    world.append(1)
    assert await settled(answer) is None
    await world.partition.wait_durable()

    assert await settled(answer) == 1


@in_loop
async def test_who_asked_first_is_told_first_and_nobody_twice() -> None:
    world = simulated_world()
    order: list[int] = []
    for number in range(5):
        watched(world).add_done_callback(lambda done, number=number: order.append(number))
    far = watched(world, above=1)

    world.append(1)
    assert await settled(far) is None
    world.append(1)

    assert await settled(far) == 2
    assert order == [0, 1, 2, 3, 4]


@in_loop
async def test_who_waits_no_more_leaves_nothing() -> None:
    world = simulated_world()
    answers = [watched(world, above=number % 3) for number in range(30)]
    assert len(world.partition.watches) == 30

    for answer in answers[::2]:
        answer.cancel()
    await asyncio.sleep(0)
    assert len(world.partition.watches) == 15
    world.append(3)

    assert [await settled(answer) for answer in answers[1::2]] == [3] * 15
    assert not world.partition.watches


@in_loop
async def test_a_purge_begins_anew_and_a_deleted_partition_tells_to_look() -> None:
    world = simulated_world()
    world.append(3)
    answer = watched(world, from_offset(3))
    world.partition.purge(1)
    world.append(3)
    assert await settled(answer) is None
    world.append(1)
    assert await settled(answer) == 1
    other = watched(world, from_offset(4))

    world.partition.delete()

    assert await settled(other) == ENOUGH
    assert await settled(watched(world)) == ENOUGH
