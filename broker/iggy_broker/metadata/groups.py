"""What changes do to the members of groups. Pure, as `apply`, which calls all of this.

Two kinds of changes end up here: those that are about members (`MEMBER_CHANGES`; they are volatile,
see `changes.Volatile`), and those that take a group, or partitions, away from its members.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

import msgspec

from iggy_broker.errors import Reject
from iggy_broker.metadata import assignment as rules
from iggy_broker.metadata import changes
from iggy_broker.metadata.assignment import Assignment
from iggy_broker.metadata.memberships import GROUPS_PER_SESSION_MAX, GroupPlace
from iggy_wire.errors import ErrorCode

if TYPE_CHECKING:
    from iggy_broker.metadata.model import Group, Reference, State, Stream, Topic

replace = msgspec.structs.replace

IN_FLIGHT_BITS: Final = 64  # of a partition: groups share a bit when their ids differ by this


def found_group(
    state: State, stream: Reference, topic: Reference, group: Reference
) -> tuple[GroupPlace, Topic, Group]:
    """STREAM_ID_, TOPIC_ID_ or CONSUMER_GROUP_ID_NOT_FOUND, in this order."""
    parent, owner = state.topic(stream, topic)
    found = owner.group(group)
    return GroupPlace(parent.id, owner.id, found.id), owner, found


def busy_partitions(
    state: State, change: changes.JoinGroup, in_flight: Callable[[int], int]
) -> tuple[int, ...]:
    """Partitions of the group whose owner was handed messages that it has not committed.

    `in_flight`: by slot in the partition table, a bit for each group (see `IN_FLIGHT_BITS`). One
    bit too many is no harm: its hand-over is found done at once by the shard that knows better.
    """
    owner = state.find_topic(change.stream, change.topic)
    group = None if owner is None else owner[1].find_group(change.group)
    if owner is None or group is None:
        return ()
    bit = 1 << group.id % IN_FLIGHT_BITS
    return tuple(one.id for one in owner[1].partitions if in_flight(one.slot) & bit)


def without_groups(state: State, stream: Stream, topics: Iterable[Topic]) -> State:
    """After the deletion of topics: their groups have no members any more."""
    places = [GroupPlace(stream.id, topic.id, group) for topic in topics for group in topic.groups]
    return replace(state, memberships=state.memberships.without(places))


def without_group(state: State, place: GroupPlace) -> State:
    """After the deletion of one group."""
    return replace(state, memberships=state.memberships.without((place,)))


def redistributed(
    state: State, stream: Stream, topic: Topic
) -> tuple[State, tuple[GroupPlace, ...]]:
    """After a change of the number of partitions: all groups of the topic are dealt anew."""
    changed = {}
    for group in topic.groups:
        place = GroupPlace(stream.id, topic.id, group)
        before = state.memberships.of_group(place)
        after = rules.redistributed(before, len(topic.partitions))
        if after is not before:
            changed[place] = after
    return _put_all(state, changed), tuple(changed)


def waiting_groups(state: State, stream: Stream, topics: Iterable[Topic]) -> tuple[GroupPlace, ...]:
    """Groups in which a hand-over waits: a purge leaves nothing to wait for."""
    places = (GroupPlace(stream.id, topic.id, group) for topic in topics for group in topic.groups)
    return tuple(place for place in places if state.memberships.of_group(place).handovers)


def _join(state: State, at_us: int, change: changes.JoinGroup) -> tuple[State, GroupPlace]:
    place, topic, _ = found_group(state, change.stream, change.topic, change.group)
    before = state.memberships.of_group(place)
    if before.member(change.session) is None:
        if len(before.members) >= rules.MEMBERS_PER_GROUP_MAX:
            detail = f"a group has at most {rules.MEMBERS_PER_GROUP_MAX} members"
            raise Reject(ErrorCode.FEATURE_UNAVAILABLE, detail)
        if len(state.memberships.of_session(change.session)) >= GROUPS_PER_SESSION_MAX:
            detail = f"a client is in at most {GROUPS_PER_SESSION_MAX} groups: leave some"
            raise Reject(ErrorCode.FEATURE_UNAVAILABLE, detail)
    count = len(topic.partitions)
    after = rules.joined(before, change.session, count, busy=frozenset(change.busy), now_us=at_us)
    return _put(state, place, after), place


def _leave(state: State, at_us: int, change: changes.LeaveGroup) -> tuple[State, GroupPlace]:
    del at_us
    place, topic, group = found_group(state, change.stream, change.topic, change.group)
    before = state.memberships.of_group(place)
    after = rules.left(before, change.session, len(topic.partitions))
    if after is before:
        detail = f"not a member of group {group.name!r}"
        raise Reject(ErrorCode.CONSUMER_GROUP_MEMBER_NOT_FOUND, detail)
    return _put(state, place, after), place


def _complete(
    state: State, at_us: int, change: changes.CompleteHandover
) -> tuple[State, GroupPlace]:
    """Does nothing when the hand-over is not there any more, or is another one."""
    del at_us
    place = GroupPlace(change.stream_id, change.topic_id, change.group_id)
    before = state.memberships.of_group(place)
    waiting = before.handover(change.partition_id)
    if waiting is None or waiting.since_us != change.since_us:
        return state, place
    return _put(state, place, rules.handed_over(before, change.partition_id)), place


def _put(state: State, place: GroupPlace, after: Assignment) -> State:
    if after is state.memberships.of_group(place):
        return state
    return _put_all(state, {place: after})


def _put_all(state: State, changed: Mapping[GroupPlace, Assignment]) -> State:
    return replace(state, memberships=state.memberships.with_groups(changed)) if changed else state


def _end_session(state: State, change: changes.EndSession) -> tuple[State, tuple[GroupPlace, ...]]:
    changed = {}
    for place in state.memberships.of_session(change.session):
        count = len(state.streams[place.stream_id].topics[place.topic_id].partitions)
        changed[place] = rules.left(state.memberships.of_group(place), change.session, count)
    return _put_all(state, changed), tuple(changed)


def _move_session(
    state: State, change: changes.MoveSession
) -> tuple[State, tuple[GroupPlace, ...]]:
    """What the old session was handed counts no more: partitions that wait for it need not."""
    changed = {
        place: rules.renamed(state.memberships.of_group(place), change.before, change.after)
        for place in state.memberships.of_session(change.before)
    }
    return _put_all(state, changed), tuple(changed)


def apply_member_change(
    state: State, at_us: int, change: changes.Volatile
) -> tuple[State, tuple[GroupPlace, ...]]:
    """The new state, and the groups that it is about. Reject as the handlers answer it."""
    if isinstance(change, changes.EndSession):
        return _end_session(state, change)
    if isinstance(change, changes.MoveSession):
        return _move_session(state, change)
    changed, place = _CHANGES[type(change)](state, at_us, change)
    return changed, () if changed is state else (place,)


_CHANGES: Final[Mapping[type, Callable[[State, int, Any], tuple[State, GroupPlace]]]] = {
    changes.JoinGroup: _join,
    changes.LeaveGroup: _leave,
    changes.CompleteHandover: _complete,
}
