"""Members as part of the metadata: applied in order with all else, never written."""

from __future__ import annotations

import asyncio
from pathlib import Path

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_broker.clock import SystemClock
from iggy_broker.errors import Reject
from iggy_broker.metadata import changes, journal
from iggy_broker.metadata.applied import Applied
from iggy_broker.metadata.apply import apply
from iggy_broker.metadata.assignment import MEMBERS_PER_GROUP_MAX, Assignment, Member, quotas
from iggy_broker.metadata.changes import AnyChange, Entry, Volatile
from iggy_broker.metadata.groups import busy_partitions
from iggy_broker.metadata.memberships import GROUPS_PER_SESSION_MAX, GroupPlace
from iggy_broker.metadata.model import State
from iggy_broker.metadata.replica import Writer
from iggy_wire.errors import ErrorCode
from metadata_cases import QuickDisk

G = GroupPlace(0, 0, 0)
MADE: list[AnyChange] = [
    changes.CreateStream("s"),
    changes.CreateTopic("s", "t", 4),
    changes.CreateGroup("s", "t", "g"),
]


def step(state: State, change: AnyChange, at_us: int = 5) -> Applied:
    op = state.op + (not isinstance(change, Volatile))
    return apply(state, Entry(op, at_us, 0, change))


def after(*history: AnyChange, state: State | None = None) -> State:
    state = state or State()
    for change in history:
        state = step(state, change).state
    return state


def join(session: int, *busy: int, group: int | str = "g") -> changes.JoinGroup:
    return changes.JoinGroup("s", "t", group, session, busy)


def lists(state: State, place: GroupPlace = G) -> dict[int, tuple[int, ...]]:
    return {member.slot: member.partitions for member in state.memberships.of_group(place).members}


def test_members_take_no_place_in_the_journal() -> None:
    made = after(*MADE)
    joined = step(made, join(7))
    assert joined.state.op == made.op == joined.result.op
    assert joined.regrouped == (G,)
    again = step(joined.state, join(7, group=0))
    assert again.state is joined.state
    assert again.regrouped == ()


@pytest.mark.parametrize("change", [changes.JoinGroup, changes.LeaveGroup])
def test_missing_things_are_named_in_order(change: type) -> None:
    made = after(*MADE)
    for target, code in (
        (("x", "t", "g"), ErrorCode.STREAM_ID_NOT_FOUND),
        (("s", 9, "g"), ErrorCode.TOPIC_ID_NOT_FOUND),
        (("s", "t", 9), ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND),
    ):
        with pytest.raises(Reject) as refused:
            step(made, change(*target, 7))
        assert refused.value.code == code
    with pytest.raises(Reject) as refused:
        step(made, changes.LeaveGroup("s", "t", "g", 7))
    assert refused.value.code == ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND


def test_what_takes_partitions_away_takes_them_from_members() -> None:
    state = after(*MADE, join(7), join(8, 3))
    assert state.memberships.of_group(G).handover(3) is not None
    grown = step(state, changes.CreatePartitions("s", "t", 2))
    assert lists(grown.state) == {0: (0, 2, 4), 1: (1, 3, 5)}
    assert grown.regrouped == (G,)
    shrunk = step(grown.state, changes.DeletePartitions("s", "t", 5))
    assert lists(shrunk.state) == {0: (0,), 1: ()}
    assert step(state, changes.PurgeTopic("s", "t")).regrouped == (G,)
    assert step(state, changes.PurgeStream("s")).regrouped == (G,)
    assert step(shrunk.state, changes.PurgeTopic("s", "t")).regrouped == (), "nothing waits"


@pytest.mark.parametrize(
    "deleted",
    [
        changes.DeleteGroup("s", "t", "g"),
        changes.DeleteTopic("s", "t"),
        changes.DeleteStream("s"),
    ],
)
def test_deletions_end_memberships(deleted: AnyChange) -> None:
    gone = step(after(*MADE, join(7)), deleted)
    assert gone.state.memberships.of_session(7) == ()
    assert gone.state.memberships.groups == {}
    assert gone.dissolved == (G if isinstance(deleted, changes.DeleteGroup) else None)
    assert step(gone.state, changes.EndSession(7)).state == gone.state


def test_the_end_of_a_session_leaves_all_groups() -> None:
    state = after(*MADE, changes.CreateGroup("s", "t", "h"), join(7), join(8), join(7, group="h"))
    ended = step(state, changes.EndSession(7))
    assert set(ended.regrouped) == {G, GroupPlace(0, 0, 1)}
    assert lists(ended.state) == {1: (0, 1, 2, 3)}
    assert ended.state.memberships.of_session(7) == ()


def test_a_session_that_goes_on_as_another_one_stays_in_its_groups() -> None:
    state = after(
        *MADE, changes.CreateGroup("s", "t", "h"), join(7), join(8, 3), join(7, group="h")
    )
    moved = step(state, changes.MoveSession(7, 9))
    places = (G, GroupPlace(0, 0, 1))
    assert moved.regrouped == places == moved.state.memberships.of_session(9)
    assert moved.state.memberships.of_session(7) == ()
    for place in places:
        before, now = state.memberships.of_group(place), moved.state.memberships.of_group(place)
        assert lists(moved.state, place) == lists(state, place)
        assert (now.generation, now.handovers) == (before.generation, before.handovers)
    assert moved.state.memberships.of_group(G).may_commit(9, 3)
    assert not moved.state.memberships.of_group(G).may_commit(7, 3)
    nobody = step(state, changes.MoveSession(77, 9))
    assert nobody.state is state
    assert nobody.regrouped == ()


def test_only_the_hand_over_that_is_meant_is_completed() -> None:
    state = after(*MADE, join(7))
    state = step(state, join(8, 3), at_us=70).state
    for stale in ((0, 0, 0, 3, 69), (0, 0, 0, 2, 70), (9, 9, 9, 3, 70)):
        assert step(state, changes.CompleteHandover(*stale)).state is state
    done = step(state, changes.CompleteHandover(0, 0, 0, 3, 70))
    assert lists(done.state) == {0: (0, 1), 1: (2, 3)}
    assert step(done.state, changes.CompleteHandover(0, 0, 0, 3, 70)).state is done.state


def test_memberships_are_limited() -> None:
    state = after(*MADE)
    places = {GroupPlace(1, 0, number): None for number in range(GROUPS_PER_SESSION_MAX)}
    full = state.memberships.__class__({}, {7: tuple(places)})
    crowded = msgspec.structs.replace(state, memberships=full)
    with pytest.raises(Reject) as refused:
        step(crowded, join(7))
    assert refused.value.code == ErrorCode.FEATURE_UNAVAILABLE


def test_members_of_a_group_are_limited() -> None:
    many = tuple(Member(slot, 100 + slot) for slot in range(MEMBERS_PER_GROUP_MAX))
    state = after(*MADE)
    crowd = state.memberships.with_groups({G: Assignment(1, many)})
    crowded = msgspec.structs.replace(state, memberships=crowd)
    with pytest.raises(Reject) as refused:
        step(crowded, join(7))
    assert refused.value.code == ErrorCode.FEATURE_UNAVAILABLE
    assert step(crowded, join(100)).state is crowded, "who is in already, stays in"


def test_partitions_are_busy_by_the_bit_of_the_group() -> None:
    state = after(*MADE)
    slots = [one.slot for one in state.topic("s", "t")[1].partitions]
    bits = {slots[1]: 1, slots[2]: 2, slots[3]: 3}
    assert busy_partitions(state, join(7), lambda slot: bits.get(slot, 0)) == (1, 3)
    assert busy_partitions(state, join(7, group="x"), lambda slot: 1) == ()


CHANGES: st.SearchStrategy[AnyChange] = st.one_of(
    st.builds(join, st.integers(1, 6)),
    st.builds(
        lambda session, busy: join(session, *busy), st.integers(1, 6), st.sets(st.integers(0, 5))
    ),
    st.builds(changes.LeaveGroup, st.just("s"), st.just("t"), st.just("g"), st.integers(1, 6)),
    st.builds(changes.EndSession, st.integers(1, 6)),
    st.builds(changes.MoveSession, st.integers(1, 6), st.integers(7, 9)),
    st.builds(changes.EndSession, st.integers(7, 9)),
    st.builds(changes.CreatePartitions, st.just("s"), st.just("t"), st.integers(1, 3)),
    st.builds(changes.DeletePartitions, st.just("s"), st.just("t"), st.integers(1, 3)),
    st.builds(changes.DeleteGroup, st.just("s"), st.just("t"), st.just("g")),
    st.builds(changes.CreateGroup, st.just("s"), st.just("t"), st.just("g")),
    st.builds(changes.PurgeTopic, st.just("s"), st.just("t")),
)


@given(st.lists(CHANGES, max_size=30))
def test_after_any_history_every_partition_has_one_owner(history: list[AnyChange]) -> None:
    state = after(*MADE)
    for change in history:
        if isinstance(change, changes.MoveSession) and state.memberships.of_session(change.after):
            continue  # numbers of sessions are new
        try:
            state = step(state, change).state
        except Reject:
            continue
        count = len(state.topic("s", "t")[1].partitions)
        found: dict[int, list[GroupPlace]] = {}
        for place, assignment in state.memberships.groups.items():
            assert state.streams[0].topics[0].groups[place.group_id]
            owned = [number for one in assignment.members for number in one.partitions]
            assert sorted(owned) == (list(range(count)) if assignment.members else [])
            for member in assignment.members:
                found.setdefault(member.session, []).append(place)
            if assignment.members and not assignment.handovers:
                shares = [len(member.partitions) for member in assignment.members]
                assert shares == quotas(count, len(shares))
        indexed = {one: sorted(at) for one, at in state.memberships.sessions.items()}
        assert indexed == {one: sorted(at) for one, at in found.items()}


class NoHost:
    """Partitions are no matter here; what is told of groups is kept."""

    def __init__(self) -> None:
        self.told: list[object] = []

    async def open_partitions(self, *told: object) -> None: ...

    async def purge_partitions(self, *told: object) -> None: ...

    async def remove_partitions(self, *told: object) -> None: ...

    def regroup(self, state: State, places: object) -> None:
        self.told.append(places)

    async def dissolve_group(self, state: State, place: GroupPlace) -> None:
        self.told.append(place)


class NoLinks:
    def __init__(self) -> None:
        self.records: list[list[Entry]] = []

    async def broadcast_metadata(self, record: bytes) -> None:
        self.records.append(changes.decode_entries(record))

    async def request_metadata(self, request: bytes) -> bytes:
        raise AssertionError("shard 0 asks nobody")


def test_the_writer_tells_all_shards_of_members_and_writes_nothing(tmp_path: Path) -> None:
    async def main() -> None:
        disk, links, host = QuickDisk(), NoLinks(), NoHost()
        loaded = journal.load(str(tmp_path), disk=disk, entries_max=1000)
        writer = Writer(
            loaded.state,
            host=host,
            journal=loaded.journal,
            links=links,
            clock=SystemClock(),
            in_flight=lambda slot: 1 if slot == 3 else 0,
        )
        running = asyncio.create_task(writer.run())
        for change in MADE:
            await writer.submit(change)
        size = (tmp_path / "metadata" / "journal.wal").stat().st_size
        await writer.submit(join(7))
        await asyncio.gather(writer.submit(join(8)), writer.submit(changes.CreateStream("x")))
        assert writer.state.memberships.of_group(G).handover(3) is not None, "it is in flight"
        assert host.told == [(G,), (G,)]
        (last,) = links.records[-1:]
        assert [entry.op for entry in last] == [3, 4]
        assert isinstance(last[0].change, changes.JoinGroup)
        assert last[0].change.busy == (3,)
        await writer.submit(changes.EndSession(7))
        await writer.submit(changes.DeleteGroup("s", "t", "g"))
        assert host.told[-1] == G
        running.cancel()
        await asyncio.gather(running, return_exceptions=True)
        loaded.journal.close()
        grown = (tmp_path / "metadata" / "journal.wal").read_bytes()[size:]
        assert grown.count(b"create_stream") == grown.count(b"delete_group") == 1
        assert b"join" not in grown
        assert b"end_session" not in grown
        again = journal.load(str(tmp_path), disk=disk, entries_max=1000)
        assert again.state == writer.state
        snapshot = journal.encode_snapshot(after(*MADE, join(7)))
        assert snapshot == journal.encode_snapshot(after(*MADE))

    asyncio.run(main())
