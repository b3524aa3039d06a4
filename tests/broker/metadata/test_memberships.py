"""The members of all groups: found by group and by session."""

from __future__ import annotations

from iggy_broker.metadata.assignment import Assignment, joined, left
from iggy_broker.metadata.memberships import GroupPlace, Memberships

ONE, OTHER = GroupPlace(0, 0, 0), GroupPlace(3, 1, 0)


def test_sessions_are_found_in_the_order_they_joined() -> None:
    both = joined(joined(Assignment(), 7, 2), 8, 2)
    table = Memberships().with_groups({OTHER: both})
    table = table.with_groups({ONE: joined(Assignment(), 7, 1)})
    assert table.of_session(7) == (OTHER, ONE)
    assert table.of_session(8) == (OTHER,)
    assert table.of_session(9) == ()
    assert table.of_group(OTHER) is both
    assert table.of_group(GroupPlace(9, 9, 9)) == Assignment()


def test_who_leaves_is_not_found_and_the_generation_stays() -> None:
    alone = joined(Assignment(), 7, 2)
    table = Memberships().with_groups({ONE: alone})
    emptied = table.with_groups({ONE: left(alone, 7, 2)})
    assert emptied.sessions == {}
    assert emptied.of_group(ONE).generation == 2
    assert table.of_session(7) == (ONE,), "values do not change"


def test_deleted_groups_are_forgotten() -> None:
    table = Memberships().with_groups({ONE: joined(Assignment(), 7, 1)})
    table = table.with_groups({OTHER: joined(Assignment(), 7, 1)})
    assert table.without([ONE, GroupPlace(9, 9, 9)]).of_session(7) == (OTHER,)
    assert table.without([ONE, OTHER]) == Memberships()
    assert table.without([]) is table


def test_many_groups_change_at_once() -> None:
    places = [GroupPlace(0, 0, number) for number in range(50)]
    alone = joined(Assignment(), 7, 1)
    table = Memberships().with_groups(dict.fromkeys(places, joined(alone, 8, 1)))
    assert table.of_session(7) == table.of_session(8) == tuple(places)
    rest = table.with_groups(dict.fromkeys(places[5:], alone))
    assert (rest.of_session(7), rest.of_session(8)) == (tuple(places), tuple(places[:5]))
    assert rest.with_groups({}).groups == rest.groups
