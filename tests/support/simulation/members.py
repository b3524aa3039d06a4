"""Members of consumer groups: what a client does as one, and who owned which partition when.

The oracle of groups looks into the shards for one thing only: the assignment that each of them had
at each moment. With it, every answer to a member can be judged: who commits, or is handed messages,
owned the partition, on the partition's own shard, between the request and the answer.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from iggy_broker.metadata.memberships import GroupPlace
from iggy_broker.metadata.model import State
from iggy_broker.metadata.placement import pack, shard_of
from iggy_broker.net.edge import Edge
from iggy_client import calls
from iggy_client.errors import ClientError, LinkError
from iggy_client.session import Call
from iggy_wire.batch import messages
from iggy_wire.primitives import PARTITION_NOT_OWNED, Consumer, PollingStrategy
from iggy_wire.replies import Polled
from simulation.loop import Schedule
from simulation.oracle import Key, ViolationError

if TYPE_CHECKING:
    from simulation.workload import Worker

STATES_KEPT = 400  # by shard; more change in one request's time only if it hangs
LOST = (LinkError, ConnectionError)


class Ownership:
    """The metadata that each shard of one life had, and since when."""

    def __init__(self, schedule: Schedule) -> None:
        self._schedule = schedule
        self._states: dict[int, deque[tuple[float, State]]] = {}

    @property
    def now_s(self) -> float:
        """Virtual time."""
        return self._schedule.now_s

    def watch(self, edge: Edge) -> None:
        """A shard is up."""
        states: deque[tuple[float, State]] = deque(maxlen=STATES_KEPT)
        self._states[edge.services.shard_id] = states
        states.append((self.now_s, edge.services.replica.state))

        def changed(before: State, after: State) -> None:
            states.append((self.now_s, after))
            if before.memberships is not after.memberships:
                _check_owners(after)

        edge.services.replica.watch(changed)

    def might(self, session: int, key: Key, group: str, *, since_s: float) -> bool:
        """Whether the session might read the partition since then, in the eyes of any shard."""
        shards = range(len(self._states))
        return any(
            self._may(session, key, group, state=state, read=True)
            for shard in shards
            for state in self._since(shard, since_s)
        )

    def may(self, session: int, key: Key, group: str, *, since_s: float, read: bool) -> bool:
        """Whether the session could commit (or read) as the partition's owner since then."""
        return any(
            self._may(session, key, group, state=state, read=read)
            for state in self._since(self._shard_of(key), since_s)
        )

    def _may(self, session: int, key: Key, group: str, *, state: State, read: bool) -> bool:
        found = state.find_topic(*key[:2])
        one = None if found is None else found[1].find_group(group)
        if found is None or one is None:
            return False
        place = GroupPlace(found[0].id, found[1].id, one.id)
        assignment = state.memberships.of_group(place)
        allowed = assignment.may_read if read else assignment.may_commit
        return allowed(session, key[2])

    def _shard_of(self, key: Key) -> int:
        state = self._states[0][-1][1]
        stream, topic = state.topic(*key[:2])
        return shard_of(pack(stream.id, topic.id, key[2]), len(self._states))

    def _since(self, shard: int, since_s: float) -> list[State]:
        """What the shard knew since then, at the beginning included."""
        states = self._states[shard]
        later = [state for at_s, state in states if at_s >= since_s]
        before = [state for at_s, state in states if at_s < since_s]
        return [*before[-1:], *later]


def _check_owners(state: State) -> None:
    """With members, every partition of a group has exactly one owner."""
    for place, assignment in state.memberships.groups.items():
        if not assignment.members:
            continue
        topic = state.streams[place.stream_id].topics[place.topic_id]
        owned = sorted(number for one in assignment.members for number in one.partitions)
        if owned != list(range(len(topic.partitions))):
            raise ViolationError(f"group {place}: partitions {owned} are owned")


class Member:
    """What one worker does for groups: it joins one, syncs, reads, commits, and leaves."""

    ownership: Ownership  # set by the scenario

    def __init__(self, worker: Worker) -> None:
        self._worker = worker
        self._oracle = worker.oracle
        self._group: tuple[str, str, int] | None = None  # topic, name, session
        self._partitions: tuple[int, ...] = ()
        self._read: dict[int, int] = {}  # by partition: the last offset that was handed to us

    async def act(self) -> None:
        """The next thing a member does."""
        chance = self._worker.chance
        if self._group is None or not self.is_in_group:
            await self._join()
            return
        (action,) = chance.choices(
            (self._sync, self._poll, self._commit, self._peek, self._leave), (12, 45, 34, 5, 4)
        )
        await action(*self._group[:2])

    @property
    def is_in_group(self) -> bool:
        """Whether we joined one in this session."""
        return self._group is not None and self._group[2] == self._session

    @property
    def _session(self) -> int:
        return self._worker.client.session.number

    async def _join(self) -> None:
        there = [place for place, known in self._oracle.groups.items() if known]
        if not there:
            return
        topic, name = self._worker.chance.choice(there[:2] if len(there) > 2 else there)
        await self._worker.client.call(calls.join_group("s", topic, name))
        self._oracle.count("joins")
        self._group = (topic, name, self._session)
        self._partitions, self._read = (), {}
        await self._sync(topic, name)

    async def _leave(self, topic: str, name: str) -> None:
        self._group = None
        await self._worker.client.call(calls.leave_group("s", topic, name))
        self._oracle.count("leaves")

    async def _sync(self, topic: str, name: str) -> None:
        since_s = self.ownership.now_s
        found = await self._worker.client.call(calls.sync_group("s", topic, name))
        self._partitions = () if found is None else tuple(found.partitions)
        self._oracle.count("syncs")
        for number in self._partitions:
            if not self.ownership.might(self._session, ("s", topic, number), name, since_s=since_s):
                raise ViolationError(f"group {name}: told to read partition {number} of {topic}")

    def _partition(self) -> int:
        """One of ours; now and then one of somebody else."""
        chance = self._worker.chance
        if not self._partitions or chance.random() < 0.1:
            return chance.randrange(2)
        return chance.choice(self._partitions)

    async def _poll(self, topic: str, name: str) -> None:
        key = ("s", topic, self._partition())
        auto_commit = self._worker.chance.random() < 0.3
        partition = self._oracle.partitions[key]
        end, stored = partition.acked_end, set(partition.stored.of(name))
        begin = self._oracle.committing if auto_commit else self._oracle.reading
        doing, since_s = begin(key, name), self.ownership.now_s
        try:
            polled = await self._worker.client.call(self._wish(key, name, auto_commit))
        except LOST:
            self._oracle.cut_off(key, doing)
            raise
        except ClientError:
            self._oracle.stored(key, doing, None)
            raise
        found = list(messages(bytes(polled.region)))
        is_alone = doing.alone
        self._oracle.stored(key, doing, found[-1].offset if found and auto_commit else None)
        if polled.partition_id == PARTITION_NOT_OWNED:
            self._oracle.count("polls of members, refused")
            return
        if not found:
            if is_alone:
                self._check(key, polled, max(stored) + 1, end)
            return
        self._judge(key, name, since_s=since_s, read=True, what="was handed messages")
        self._oracle.count("polls of members")
        if is_alone:
            self._worker.check_next(partition, found[0].offset, stored)
        self._check(key, polled, found[0].offset, end)
        self._read[key[2]] = found[-1].offset

    def _wish(self, key: Key, name: str, auto_commit: bool) -> Call[Polled]:
        return calls.poll(
            *key,
            consumer=Consumer.group(name),
            strategy=PollingStrategy.next(),
            count=20,
            auto_commit=auto_commit,
        )

    def _check(self, key: Key, polled: Polled, start: int, end: int) -> None:
        needed_end = min(end, start + 20)
        region, current = bytes(polled.region), polled.current_offset
        self._oracle.polled(key, start, region, needed_end=needed_end, current_offset=current)

    async def _commit(self, topic: str, name: str) -> None:
        """Commit what was read; also what somebody else has been given since."""
        if not self._read:
            await self._poll(topic, name)
            return
        number = self._worker.chance.choice(list(self._read))
        if self._worker.chance.random() < 0.08:
            number = 1 - number
        key, offset = ("s", topic, number), self._read.get(number, 0)
        doing, since_s = self._oracle.storing(key, name, offset), self.ownership.now_s
        try:
            await self._worker.client.call(calls.store_offset(Consumer.group(name), *key, offset))
        except LOST:
            self._oracle.cut_off(key, doing)
            raise
        except ClientError:
            self._oracle.stored(key, doing, None)
            self._oracle.count("commits of members, refused")
            raise
        self._judge(key, name, since_s=since_s, read=False, what="committed")
        self._oracle.count("commits of members")
        self._oracle.stored(key, doing, offset)

    async def _peek(self, topic: str, name: str) -> None:
        key = ("s", topic, self._worker.chance.randrange(2))
        await self._worker.read_offset(key, name, Consumer.group(name))

    def _judge(self, key: Key, name: str, *, since_s: float, read: bool, what: str) -> None:
        session = self._session
        if not self.ownership.may(session, key, name, since_s=since_s, read=read):
            raise ViolationError(f"{key}: session {session} {what} in {name}, and was no owner")
