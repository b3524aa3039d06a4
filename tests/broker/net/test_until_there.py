"""Waiting for messages of several partitions, without a network: partitions are numbers here."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from iggy_broker.net.waiting import Wish, share, until_there
from iggy_broker.storage.consumer_offsets import ConsumerKey
from iggy_wire.primitives import PollingStrategy
from in_loop import in_loop

FOREVER_S = 600.0


@dataclass
class Counted:
    """A partition that tells how much it has."""

    there: int = 0
    waiting: dict[asyncio.Future[int], int] = field(default_factory=dict)
    questions: int = 0

    def ask(self, above: int) -> asyncio.Future[int]:
        self.questions += 1
        answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()
        if self.there > above:
            answer.set_result(self.there)
        else:
            self.waiting[answer] = above
            answer.add_done_callback(lambda done: self.waiting.pop(done, None))
        return answer

    def append(self, count: int = 1) -> None:
        self.there += count
        for answer, above in list(self.waiting.items()):
            if self.there > above and not answer.done():
                answer.set_result(self.there)


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def begun(
    counted: list[Counted], least: int, wait_s: float = FOREVER_S
) -> tuple[asyncio.Task[list[int]], asyncio.Future[None]]:
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    asks = [one.ask for one in counted]
    return asyncio.create_task(until_there(asks, least, wait_s=wait_s, over=over)), over


@pytest.mark.parametrize(
    ("there", "least", "step"),
    [([0], 1, 1), ([0], 5, 5), ([3], 3, 0), ([9], 3, 0), ([1, 2, 0], 10, 3), ([0] * 4, 1, 1)],
)
def test_the_share_of_what_is_missing(there: list[int], least: int, step: int) -> None:
    assert share(there, least) == step


@in_loop
async def test_what_is_there_is_found_at_once() -> None:
    task, _ = begun([Counted(2), Counted(3)], 5)

    assert sum(await task) == 5


@in_loop
async def test_time_that_is_up_ends_it_and_leaves_nothing() -> None:
    counted = [Counted(2), Counted()]
    task, _ = begun(counted, 3, wait_s=0.001)

    assert sum(await task) < 3
    await turns()

    assert not counted[0].waiting and not counted[1].waiting


@in_loop
async def test_without_time_each_says_what_it_has() -> None:
    task, _ = begun([Counted(2), Counted(), Counted(5)], 1, wait_s=0)

    assert await task == [2, 0, 5]


@pytest.mark.parametrize("is_cancelled", [False, True], ids=["over", "task"])
@in_loop
async def test_who_ends_it_leaves_nothing(is_cancelled: bool) -> None:
    counted = [Counted() for _ in range(3)]
    task, over = begun(counted, 3)
    await turns()
    assert all(one.waiting for one in counted)

    if is_cancelled:
        task.cancel()
    else:
        over.set_result(None)
    await asyncio.wait([task])
    await turns()

    assert not any(one.waiting for one in counted)


@settings(max_examples=60, deadline=None)
@given(
    began=st.lists(st.integers(0, 5), min_size=1, max_size=6),
    least=st.integers(1, 40),
    appends=st.lists(st.tuples(st.integers(0, 5), st.integers(1, 4)), max_size=60),
)
def test_it_ends_with_the_append_that_makes_it_enough(
    began: list[int], least: int, appends: list[tuple[int, int]]
) -> None:
    @in_loop
    async def work() -> None:
        counted = [Counted(count) for count in began]
        task, over = begun(counted, least)
        await turns(200)
        for place, count in appends:
            assert task.done() == (sum(one.there for one in counted) >= least)
            counted[place % len(counted)].append(count)
            await turns(200)
        assert task.done() == (sum(one.there for one in counted) >= least)
        # Not one question for each message: a round for each time that the share is halved.
        assert counted[0].questions <= 2 + len(counted) * (least.bit_length() + 1)
        over.done() or over.set_result(None)
        await task

    work()


def test_a_wish_survives_the_way_to_another_shard() -> None:
    wish = Wish(PollingStrategy.timestamp(1 << 60), (1 << 32) - 1, ConsumerKey(2, (1 << 32) - 1))

    assert Wish.decode(wish.encode(-1)) == (wish, -1)
