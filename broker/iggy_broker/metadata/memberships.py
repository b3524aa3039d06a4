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

    def with_groups(self, changed: Mapping[GroupPlace, Assignment]) -> Memberships:
        """With the new assignments of these groups. Many at once cost as much as one."""
        groups = {**self.groups, **changed}
        joined: dict[int, list[GroupPlace]] = {}
        left: dict[int, set[GroupPlace]] = {}
        for place, assignment in changed.items():
            before = _sessions(self.of_group(place))
            after = _sessions(assignment)
            for session in after - before:
                joined.setdefault(session, []).append(place)
            for session in before - after:
                left.setdefault(session, set()).add(place)
        if not joined and not left:
            return Memberships(groups, self.sessions)
        sessions = _without(self.sessions, left)
        for session, places in joined.items():
            sessions[session] = (*sessions.get(session, ()), *places)
        return Memberships(groups, sessions)

    def without(self, places: Iterable[GroupPlace]) -> Memberships:
        """Without these groups, which were deleted."""
        gone = [place for place in places if place in self.groups]
        if not gone:
            return self
        groups = dict(self.groups)
        left: dict[int, set[GroupPlace]] = {}
        for place in gone:
            for session in _sessions(groups.pop(place)):
                left.setdefault(session, set()).add(place)
        return Memberships(groups, _without(self.sessions, left))


def _sessions(assignment: Assignment) -> set[int]:
    return {member.session for member in assignment.members}


def _without(
    sessions: Mapping[int, tuple[GroupPlace, ...]], left: Mapping[int, set[GroupPlace]]
) -> dict[int, tuple[GroupPlace, ...]]:
    rest = dict(sessions)
    for session, places in left.items():
        stays = tuple(place for place in rest.pop(session) if place not in places)
        if stays:
            rest[session] = stays
    return rest
