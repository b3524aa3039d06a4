"""Who reads what: the rules of joins, leaves and hand-overs, by example and for any history."""

from __future__ import annotations

from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from iggy_broker.metadata.assignment import (
    Assignment,
    Handover,
    handed_over,
    joined,
    left,
    quotas,
    redistributed,
)


def group_of(partitions: int, sessions: int) -> Assignment:
    """A group that sessions 1, 2, … joined one after the other, with nothing in flight."""
    assignment = Assignment()
    for session in range(1, sessions + 1):
        assignment = joined(assignment, session, partitions)
    return assignment


def lists(assignment: Assignment) -> dict[int, tuple[int, ...]]:
    return {member.slot: member.partitions for member in assignment.members}


def settled_counts(assignment: Assignment) -> list[int]:
    """How many partitions each member owns when all hand-overs are done."""
    while assignment.handovers:
        assignment = handed_over(assignment, assignment.handovers[0].partition_id)
    return [len(member.partitions) for member in assignment.members]


def test_one_member_owns_everything_and_generations_count() -> None:
    alone = group_of(3, 1)
    assert lists(alone) == {0: (0, 1, 2)}
    assert alone.generation == 1
    assert joined(alone, 1, 3) is alone
    assert joined(alone, 2, 3).generation == 2


def test_a_joiner_gets_what_others_have_too_much_from_the_end() -> None:
    assert lists(group_of(3, 2)) == {0: (0, 1), 1: (2,)}
    assert lists(group_of(4, 2)) == {0: (0, 1), 1: (3, 2)}
    assert lists(group_of(10, 3)) == {0: (0, 1, 2, 3), 1: (9, 8, 7), 2: (4, 5, 6)}


@pytest.mark.parametrize(
    ("partitions", "sessions", "counts"),
    [
        (3, 2, [2, 1]),
        (16, 16, [1] * 16),
        (12, 4, [3] * 4),
        (24, 8, [3] * 8),
        (10, 4, [3, 3, 2, 2]),
        (2, 3, [1, 1, 0]),
        (0, 2, [0, 0]),
    ],
)
def test_shares_are_fair(partitions: int, sessions: int, counts: list[int]) -> None:
    assert settled_counts(group_of(partitions, sessions)) == counts


def test_a_leave_deals_anew_and_keeps_the_slots() -> None:
    rest = left(group_of(4, 3), 1, 4)
    assert lists(rest) == {1: (0, 2), 2: (1, 3)}
    assert lists(redistributed(rest, 6)) == {1: (0, 2, 4), 2: (1, 3, 5)}
    assert lists(redistributed(rest, 1)) == {1: (0,), 2: ()}
    again = joined(rest, 4, 4)
    assert [member.slot for member in again.members] == [0, 1, 2]
    assert [len(member.partitions) for member in again.members] == [2, 1, 1]
    assert left(rest, 99, 4) is rest


def test_the_last_leave_empties_the_group_and_a_new_member_gets_all() -> None:
    empty = left(group_of(3, 1), 1, 3)
    assert empty == Assignment(generation=2)
    assert redistributed(empty, 5) is empty
    assert lists(joined(empty, 2, 3)) == {0: (0, 1, 2)}


def test_busy_partitions_wait_with_their_owner() -> None:
    waiting = joined(group_of(4, 1), 2, 4, busy={3}, now_us=70)
    first, second = waiting.members
    assert waiting.handovers == (Handover(3, 1, 70),)
    assert (first.partitions, second.partitions) == ((0, 1, 3), (2,))
    assert waiting.readable(first) == (0, 1)
    assert waiting.may_commit(1, 3)
    assert not waiting.may_read(1, 3)
    assert not waiting.may_commit(2, 3)
    done = handed_over(waiting, 3)
    assert lists(done) == {0: (0, 1), 1: (2, 3)}
    assert done.generation == waiting.generation + 1
    assert done.may_read(2, 3)
    assert not done.may_commit(1, 3)
    assert handed_over(done, 3) is done


def test_a_third_member_may_get_what_is_on_its_way_to_the_second() -> None:
    waiting = joined(group_of(6, 1), 2, 6, busy=range(6), now_us=1)
    assert [one.partition_id for one in waiting.handovers] == [5, 4, 3]
    third = joined(waiting, 3, 6, busy=range(6), now_us=2)
    assert settled_counts(third) == [2, 2, 2]
    assert {(one.partition_id, one.slot, one.since_us) for one in third.handovers} == {
        (5, 1, 1),
        (4, 1, 1),
        (3, 2, 1),
        (2, 2, 2),
    }


def test_a_leave_ends_all_hand_overs() -> None:
    waiting = joined(group_of(4, 2), 3, 4, busy=range(4))
    assert waiting.handovers
    assert left(waiting, 2, 4).handovers == ()
    assert redistributed(waiting, 5).handovers == ()


@given(st.integers(0, 200), st.integers(1, 60))
def test_quotas_add_up_and_differ_by_at_most_one(partitions: int, members: int) -> None:
    shares = quotas(partitions, members)
    assert sum(shares) == partitions
    assert shares[0] - shares[-1] in (0, 1)
    assert all(one >= other for one, other in pairwise(shares))


class AnyHistory(RuleBasedStateMachine):
    """Joins, leaves, hand-overs and new partitions in any order."""

    def __init__(self) -> None:
        super().__init__()
        self.partitions = 5
        self.sessions = 0
        self.group = Assignment()

    @rule(busy=st.sets(st.integers(0, 12)))
    def join(self, busy: set[int]) -> None:
        self.sessions += 1
        before = self.group
        self.group = joined(before, self.sessions, self.partitions, busy=busy, now_us=1)
        assert self.group.generation == before.generation + 1
        for member in before.members:
            after = self.group.member(member.session)
            assert after is not None
            assert set(after.partitions) <= set(member.partitions) or not member.partitions

    @precondition(lambda self: self.group.members)
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        gone = data.draw(st.sampled_from(self.group.members))
        self.group = left(self.group, gone.session, self.partitions)

    @precondition(lambda self: self.group.handovers)
    @rule(data=st.data())
    def hand_over(self, data: st.DataObject) -> None:
        done = data.draw(st.sampled_from(self.group.handovers))
        self.group = handed_over(self.group, done.partition_id)

    @rule(count=st.integers(0, 12))
    def resize(self, count: int) -> None:
        self.partitions = count
        self.group = redistributed(self.group, count)

    @invariant()
    def every_partition_has_one_owner(self) -> None:
        owned = [number for member in self.group.members for number in member.partitions]
        assert sorted(owned) == (list(range(self.partitions)) if self.group.members else [])

    @invariant()
    def shares_become_fair(self) -> None:
        if self.group.members:
            assert settled_counts(self.group) == quotas(self.partitions, len(self.group.members))

    @invariant()
    def hand_overs_go_from_an_owner_to_another_member(self) -> None:
        slots = {member.slot for member in self.group.members}
        for one in self.group.handovers:
            owner = self.group.owner(one.partition_id)
            assert owner is not None
            assert one.slot in slots - {owner.slot}

    @invariant()
    def slots_ascend(self) -> None:
        slots = [member.slot for member in self.group.members]
        assert slots == sorted(set(slots))


AnyHistory.TestCase.settings = settings(max_examples=60, stateful_step_count=25, deadline=None)
TestAnyHistory = AnyHistory.TestCase
