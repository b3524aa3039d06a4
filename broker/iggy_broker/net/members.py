"""Members of consumer groups, as one shard's sessions and partitions see them.

A session joins and leaves by request; when it ends in any other way, it leaves here. A partition
that waits to be handed over goes as soon as its owner has committed what it was handed; shard 0
sees to it that nobody waits for ever.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Coroutine
from typing import TYPE_CHECKING, Any, Final

from iggy_broker.errors import Reject
from iggy_broker.metadata.changes import CompleteHandover, EndSession, MoveSession, Result

if TYPE_CHECKING:
    from iggy_broker.metadata.assignment import Handover
    from iggy_broker.metadata.changes import JoinGroup
    from iggy_broker.metadata.memberships import GroupPlace
    from iggy_broker.metadata.model import Caller
    from iggy_broker.metadata.replica import Replica

RETRY_PAUSE_S: Final = 0.05  # when shard 0 has too many changes waiting
TIMEOUT_STEPS: Final = 5  # looks per rebalancing timeout, but at least one a second


class Members:
    """What this shard does for groups besides serving requests."""

    __slots__ = (
        "_completing", "_ending", "_is_closed", "_joining", "_moving", "_replica", "_tasks",
    )  # fmt: skip

    def __init__(self, replica: Replica) -> None:
        """Runs in the loop of the shard; holds a task for each session that is just ending."""
        self._replica = replica
        self._joining: Counter[int] = Counter()  # sessions with a join on its way
        self._ending: dict[int, asyncio.Task[None]] = {}
        self._moving: dict[int, asyncio.Task[None]] = {}  # by the new session
        self._completing: set[CompleteHandover] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._is_closed = False

    async def join(self, change: JoinGroup, caller: Caller) -> Result:
        """Submit a join so that an end of the session comes after it."""
        self._joining[change.session] += 1
        try:
            return await self._replica.submit(change, caller=caller)
        finally:
            self._joining[change.session] -= 1
            if not self._joining[change.session]:
                del self._joining[change.session]

    def end_session(self, session: int) -> None:
        """The session is over: it leaves all its groups, on every shard a moment later."""
        is_member = (
            session in self._joining
            or session in self._moving
            or self._replica.state.memberships.of_session(session)
        )
        if is_member and session not in self._ending and not self._is_closed:
            task = self._ending[session] = self._start(self._leave_all(session))
            task.add_done_callback(lambda done: self._ending.pop(session, None))

    async def session_ended(self, session: int) -> None:
        """Return when a session that was ended has left all its groups, on every shard."""
        task = self._ending.get(session)
        if task is not None:
            await asyncio.wait([task])

    async def move_session(self, before: int, after: int) -> None:
        """A client logged in again with its id: the new session is where the old one was."""
        if not self._replica.state.memberships.of_session(before) or self._is_closed:
            return
        task = self._moving[after] = self._start(self._insist(MoveSession(before, after)))
        task.add_done_callback(lambda done: self._moving.pop(after, None))
        await asyncio.wait([task])

    def release(self, place: GroupPlace, waiting: Handover) -> None:
        """Nothing is in flight to the owner: the partition need not wait any more."""
        change = CompleteHandover(*place, waiting.partition_id, waiting.since_us)
        if change in self._completing or self._is_closed:
            return
        self._completing.add(change)
        task = self._start(self._insist(change))
        task.add_done_callback(lambda done: self._completing.discard(change))

    def committed(self, place: GroupPlace, partition_id: int) -> None:
        """The owner of a partition has committed all that it was handed."""
        waiting = self._replica.state.memberships.of_group(place).handover(partition_id)
        if waiting is not None:
            self.release(place, waiting)

    async def run_timeouts(self, timeout_us: int) -> None:
        """Shard 0, for as long as it lives: hand over what waited for too long.

        By the loop's clock: a wall clock that is set must hold nobody up.
        """
        timeout_s = timeout_us / 1_000_000
        seen: dict[tuple[GroupPlace, int, int], float] = {}  # since when; as many as there wait
        loop = asyncio.get_running_loop()
        while True:
            await asyncio.sleep(min(1.0, timeout_s / TIMEOUT_STEPS))
            now_s = loop.time()
            before, seen = seen, {}
            for place, assignment in list(self._replica.state.memberships.groups.items()):
                for waiting in assignment.handovers:
                    key = (place, waiting.partition_id, waiting.since_us)
                    seen[key] = before.get(key, now_s)
                    if now_s - seen[key] >= timeout_s:
                        self.release(place, waiting)

    def close(self) -> None:
        """The shard stops, and all memberships with it."""
        self._is_closed = True
        for task in self._tasks:
            task.cancel()

    async def _leave_all(self, session: int) -> None:
        moving = self._moving.get(session)
        if moving is not None:
            await asyncio.wait([moving])
        await self._insist(EndSession(session))

    async def _insist(self, change: EndSession | MoveSession | CompleteHandover) -> None:
        while True:
            try:
                await self._replica.submit(change)
                return
            except Reject:
                await asyncio.sleep(RETRY_PAUSE_S)

    def _start(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._finished)
        return task

    def _finished(self, task: asyncio.Task[None]) -> None:
        self._tasks.discard(task)
        if not task.cancelled():
            task.result()  # an exception is a bug of ours: it reaches the loop's handler
