"""Who of a consumer group reads which partition. Pure: no ids of streams, no sockets, no clock.

Iggy protocol 0.11, chapter on the assignment of groups. A join is cooperative: it takes from those
who have too much, from the end of their lists, and moves nothing else. Every other change deals all
partitions anew. A partition whose owner was handed messages that it has not committed waits in a
`Handover`: the owner may commit, nobody may poll, until the commit comes or time is up.

Two things hold after every function here: with members, every partition has exactly one owner; and
when the hand-overs are done, each member owns its fair share, of which the remainder goes to the
lowest slots.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import cycle
from typing import Final

import msgspec

replace = msgspec.structs.replace

MEMBERS_PER_GROUP_MAX: Final = 10_000  # beyond: a join is refused with FEATURE_UNAVAILABLE


class Member(msgspec.Struct, frozen=True, array_like=True):
    """A session in a group."""

    slot: int  # the member id on the wire: the lowest free number at its join
    session: int
    partitions: tuple[int, ...] = ()  # in the order it got them, also those on their way out


class Handover(msgspec.Struct, frozen=True, array_like=True):
    """A partition that waits for its owner's commit before it goes to another member."""

    partition_id: int
    slot: int  # of the member who gets it
    since_us: int


class Assignment(msgspec.Struct, frozen=True, array_like=True):
    """The members of one group and what they own."""

    generation: int = 0  # grows by one with every change
    members: tuple[Member, ...] = ()  # ascending by slot
    handovers: tuple[Handover, ...] = ()

    def member(self, session: int) -> Member | None:
        """The member with this session."""
        return next((member for member in self.members if member.session == session), None)

    def owner(self, partition_id: int) -> Member | None:
        """Who owns the partition, also while it waits to be handed over."""
        return next((m for m in self.members if partition_id in m.partitions), None)

    def owners(self) -> dict[int, int]:
        """The session that owns each partition."""
        return {number: one.session for one in self.members for number in one.partitions}

    def handover(self, partition_id: int) -> Handover | None:
        """The hand-over that this partition waits in."""
        return next((one for one in self.handovers if one.partition_id == partition_id), None)

    def readable(self, member: Member) -> tuple[int, ...]:
        """What the member may poll: its partitions without those on their way out."""
        if not self.handovers:
            return member.partitions
        leaving = {one.partition_id for one in self.handovers}
        return tuple(number for number in member.partitions if number not in leaving)

    def may_read(self, session: int, partition_id: int) -> bool:
        """Whether this session may poll the partition for its group."""
        return self.may_commit(session, partition_id) and self.handover(partition_id) is None

    def may_commit(self, session: int, partition_id: int) -> bool:
        """Whether this session may store the group's offset of the partition."""
        member = self.member(session)
        return member is not None and partition_id in member.partitions


def redistributed(assignment: Assignment, partitions_count: int) -> Assignment:
    """Partitions in ascending order, dealt in turn to the members in ascending order of slots."""
    if not assignment.members:
        return assignment
    return _dealt(assignment.generation + 1, assignment.members, partitions_count)


def left(assignment: Assignment, session: int, partitions_count: int) -> Assignment:
    """Without the member of this session, the rest dealt anew; the same if it is no member."""
    members = tuple(member for member in assignment.members if member.session != session)
    if len(members) == len(assignment.members):
        return assignment
    return _dealt(assignment.generation + 1, members, partitions_count)


def renamed(assignment: Assignment, before: int, after: int) -> Assignment:
    """With another session in the place of a member; who owns what stays."""
    members = tuple(
        replace(member, session=after) if member.session == before else member
        for member in assignment.members
    )
    return replace(assignment, members=members)


def joined(
    assignment: Assignment,
    session: int,
    partitions_count: int,
    *,
    busy: Collection[int] = (),
    now_us: int = 0,
) -> Assignment:
    """With a member for this session; the same if it is one already.

    `busy`: partitions whose owner was handed messages that it has not committed.
    """
    if assignment.member(session) is not None:
        return assignment
    taken = {member.slot for member in assignment.members}
    slot = next(number for number in range(len(taken) + 1) if number not in taken)
    members = sorted((*assignment.members, Member(slot, session)), key=_slot)
    draft = _Draft(members, assignment.handovers)
    draft.deal_free(partitions_count)
    for giver, partition_id in draft.excess(partitions_count):
        draft.move(giver, partition_id, busy=partition_id in busy, now_us=now_us)
    return draft.result(assignment.generation + 1)


def handed_over(assignment: Assignment, partition_id: int) -> Assignment:
    """With this hand-over done; the same if there is none."""
    done = assignment.handover(partition_id)
    if done is None:
        return assignment
    members = tuple(_after_handover(member, done) for member in assignment.members)
    rest = tuple(one for one in assignment.handovers if one is not done)
    return Assignment(assignment.generation + 1, members, rest)


def quotas(partitions_count: int, members_count: int) -> list[int]:
    """The fair shares by place in the order of slots: the first ones get the remainder."""
    share, more = divmod(partitions_count, members_count)
    return [share + (place < more) for place in range(members_count)]


class _Draft:
    """A join in the making."""

    def __init__(self, members: Iterable[Member], handovers: Iterable[Handover]) -> None:
        self._members = list(members)
        self._owned = {member.slot: list(member.partitions) for member in self._members}
        self._handovers = {one.partition_id: one for one in handovers}
        idle = [slot for slot, numbers in self._settled().items() if not numbers]
        self._receivers = cycle(idle)  # at least the joiner

    def deal_free(self, partitions_count: int) -> None:
        """Partitions without an owner go to those who own none."""
        taken = {number for owned in self._owned.values() for number in owned}
        for number in range(partitions_count):
            if number not in taken:
                self._owned[next(self._receivers)].append(number)

    def excess(self, partitions_count: int) -> list[tuple[int, int]]:
        """Which slots give up which partitions."""
        shares = quotas(partitions_count, len(self._members))
        given = []
        for (slot, numbers), share in zip(self._settled().items(), shares, strict=True):
            given += [(slot, number) for number in reversed(numbers[share:])]
        return given

    def move(self, giver: int, partition_id: int, *, busy: bool, now_us: int) -> None:
        """One partition goes to the next receiver, at once or when its owner is done with it."""
        receiver = next(self._receivers)
        waiting = self._handovers.get(partition_id)
        if waiting is not None:  # it was on its way to the giver
            self._handovers[partition_id] = replace(waiting, slot=receiver)
        elif busy:
            self._handovers[partition_id] = Handover(partition_id, receiver, now_us)
        else:
            self._owned[giver].remove(partition_id)
            self._owned[receiver].append(partition_id)

    def result(self, generation: int) -> Assignment:
        """The new assignment."""
        members = tuple(
            replace(member, partitions=tuple(self._owned[member.slot])) for member in self._members
        )
        return Assignment(generation, members, tuple(self._handovers.values()))

    def _settled(self) -> dict[int, list[int]]:
        """What each will own when all hand-overs are done, in order of acquisition, by slot."""
        settled = {
            slot: [number for number in owned if number not in self._handovers]
            for slot, owned in self._owned.items()
        }
        for one in self._handovers.values():
            settled[one.slot].append(one.partition_id)
        return settled


def _dealt(generation: int, members: tuple[Member, ...], partitions_count: int) -> Assignment:
    count = len(members)
    dealt = tuple(
        replace(member, partitions=tuple(range(place, partitions_count, count)))
        for place, member in enumerate(members)
    )
    return Assignment(generation, dealt)


def _after_handover(member: Member, done: Handover) -> Member:
    number = done.partition_id
    if number in member.partitions:
        return replace(member, partitions=tuple(p for p in member.partitions if p != number))
    if member.slot == done.slot:
        return replace(member, partitions=(*member.partitions, number))
    return member


def _slot(member: Member) -> int:
    return member.slot
