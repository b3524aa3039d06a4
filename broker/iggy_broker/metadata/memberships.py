"""All members of all groups: found by group, and by session. Lives in memory only.

A membership ends with its session, and no session outlives the broker: so nothing here is written
to the journal or to a snapshot, and a start finds every group empty. But it changes through shard 0
and reaches every shard in order with the other changes, as part of the same state.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from iggy_broker.metadata.assignment import Assignment

GROUPS_PER_SESSION_MAX: Final = 4096  # beyond: a join is refused with FEATURE_UNAVAILABLE


class GroupPlace(NamedTuple):
    """A group and where it hangs."""

    stream_id: int
    topic_id: int
    group_id: int


_NOBODY: Final = Assignment()


class Memberships(msgspec.Struct, frozen=True):
    """A value: every change makes a new one."""

    groups: Mapping[GroupPlace, Assignment] = {}  # those that ever had a member
    sessions: Mapping[int, tuple[GroupPlace, ...]] = {}  # session number → groups it is in

    def of_group(self, place: GroupPlace) -> Assignment:
        """The members of a group and what they own."""
        return self.groups.get(place, _NOBODY)

    def of_session(self, session: int) -> tuple[GroupPlace, ...]:
        """The groups that a session is in, in the order it joined them."""
        return self.sessions.get(session, ())

    def with_group(self, place: GroupPlace, assignment: Assignment) -> Memberships:
        """With the new assignment of one group."""
        before = {member.session for member in self.of_group(place).members}
        after = {member.session for member in assignment.members}
        groups = dict(self.groups)
        groups[place] = assignment
        if before == after:
            return Memberships(groups, self.sessions)
        sessions = dict(self.sessions)
        for session in after - before:
            sessions[session] = (*sessions.get(session, ()), place)
        for session in before - after:
            _forget(sessions, session, place)
        return Memberships(groups, sessions)

    def without(self, places: Iterable[GroupPlace]) -> Memberships:
        """Without these groups, which were deleted."""
        gone = [place for place in places if place in self.groups]
        if not gone:
            return self
        groups, sessions = dict(self.groups), dict(self.sessions)
        for place in gone:
            for member in groups.pop(place).members:
                _forget(sessions, member.session, place)
        return Memberships(groups, sessions)


def _forget(sessions: dict[int, tuple[GroupPlace, ...]], session: int, place: GroupPlace) -> None:
    rest = tuple(one for one in sessions[session] if one != place)
    if rest:
        sessions[session] = rest
    else:
        del sessions[session]
