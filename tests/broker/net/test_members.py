"""What a shard does for groups besides requests: sessions that end, partitions that wait."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata import changes
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.changes import AnyChange, Entry, Result, Volatile
from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.metadata.model import BROKER, Caller, State
from iggy_broker.net.members import Members
from iggy_wire.errors import ErrorCode

G = GroupPlace(0, 0, 0)


class Metadata:
    """Applies at once what is submitted; refuses as often as told before."""

    def __init__(self, *, refusals: int = 0) -> None:
        self.state = State()
        self.refusals = 0
        for change in (
            changes.CreateStream("s"),
            changes.CreateTopic("s", "t", 4),
            changes.CreateGroup("s", "t", "g"),
        ):
            self._apply(change)
        self.refusals = refusals
        self.slow: asyncio.Event | None = None
        self.turn = asyncio.Lock()

    async def submit(self, change: AnyChange, *, caller: Caller = BROKER) -> Result:
        del caller
        async with self.turn:  # changes keep the order in which they were submitted
            if self.slow is not None:
                await self.slow.wait()
            await asyncio.sleep(0)
            if self.refusals:
                self.refusals -= 1
                raise Deny(ErrorCode.TRANSIENT_NOT_ACCEPTED, "too many changes wait")
            return self._apply(change)

    def _apply(self, change: AnyChange) -> Result:
        op = self.state.op + (not isinstance(change, Volatile))
        applied = apply(self.state, Entry(op, 5, 0, change))
        self.state = applied.state
        return applied.result

    @property
    def sessions(self) -> list[int]:
        return [member.session for member in self.state.memberships.of_group(G).members]


def with_members(
    work: Callable[[Metadata, Members], Awaitable[None]], *, refusals: int = 0
) -> None:
    async def main() -> None:
        metadata = Metadata(refusals=refusals)
        await work(metadata, Members(metadata))  # type: ignore[arg-type]

    asyncio.run(main())


def join(session: int, *busy: int) -> changes.JoinGroup:
    return changes.JoinGroup("s", "t", "g", session, busy)


def test_an_ended_session_leaves_however_often_it_is_refused() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        metadata.refusals = 0
        await members.join(join(7), BROKER)
        metadata.refusals = 2
        members.end_session(7)
        members.end_session(7)
        await members.session_ended(7)
        assert metadata.sessions == []
        assert metadata.refusals == 0
        await members.session_ended(7)  # nothing to wait for

    with_members(work)


def test_a_session_without_groups_asks_nobody() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        members.end_session(7)
        await members.session_ended(7)
        assert metadata.refusals == 1

    with_members(work, refusals=1)


def test_a_session_that_ends_while_it_joins_does_not_stay() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        metadata.slow = asyncio.Event()
        joining = asyncio.ensure_future(members.join(join(7), BROKER))
        await asyncio.sleep(0)
        members.end_session(7)  # not a member yet, but soon
        metadata.slow.set()
        await joining
        await members.session_ended(7)
        assert metadata.sessions == []

    with_members(work)


def test_a_session_that_goes_on_as_another_one_takes_its_place() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        await members.move_session(6, 7)  # is in no group
        assert not members._tasks
        await members.join(join(7), BROKER)
        metadata.refusals = 2
        await members.move_session(7, 8)
        assert metadata.sessions == [8]

    with_members(work)


def test_a_session_that_ends_before_it_has_its_place_does_not_stay() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        await members.join(join(7), BROKER)
        metadata.refusals = 1  # the move is tried twice, and the end must not come in between
        moving = asyncio.ensure_future(members.move_session(7, 8))
        await asyncio.sleep(0)
        members.end_session(8)
        await moving
        await members.session_ended(8)
        assert metadata.sessions == []

    with_members(work)


def test_a_refused_join_is_forgotten() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        try:
            await members.join(join(7), BROKER)
        except Reject as refusal:
            assert refusal.code == ErrorCode.TRANSIENT_NOT_ACCEPTED
        assert metadata.sessions == []
        members.end_session(7)
        assert not members._tasks

    with_members(work, refusals=1)


def test_a_commit_lets_the_partition_go() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        await members.join(join(7), BROKER)
        await members.join(join(8, 3), BROKER)
        members.committed(G, 2)
        assert not members._tasks, "2 went at once"
        for _ in range(3):
            members.committed(G, 3)
        assert len(members._tasks) == 1
        await asyncio.gather(*members._tasks)
        owner = metadata.state.memberships.of_group(G).owner(3)
        assert owner is not None
        assert owner.session == 8

    with_members(work)


def test_time_runs_out_by_the_clock_of_the_loop() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        await members.join(join(7), BROKER)
        await members.join(join(8, 3), BROKER)
        started = asyncio.get_running_loop().time()
        timeouts = asyncio.ensure_future(members.run_timeouts(200_000))
        while metadata.state.memberships.of_group(G).handovers:  # noqa: ASYNC110 -- it is a value
            await asyncio.sleep(0.001)
        assert asyncio.get_running_loop().time() - started >= 0.2
        timeouts.cancel()

    with_members(work)


def test_a_stopping_shard_starts_nothing() -> None:
    async def work(metadata: Metadata, members: Members) -> None:
        await members.join(join(7), BROKER)
        members.close()
        members.end_session(7)
        members.committed(G, 0)
        assert not members._tasks
        assert metadata.sessions == [7]

    with_members(work)
