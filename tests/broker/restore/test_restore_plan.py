"""What a restored data directory is to have, from metadata and from what else the archive has."""

from __future__ import annotations

from iggy_broker.metadata import changes
from iggy_broker.metadata.model import State
from iggy_broker.restore.plan import Plan, make_plan
from iggy_broker.restore.survey import Held
from iggy_wire.archive import Life
from iggy_wire.archive_listing import Listing, Partition
from iggy_wire.options import make_options
from metadata_cases import accepted_entries, replayed

NOW_US = 9


def state(*more: changes.AnyChange) -> State:
    """Changes 1 to 3, and what follows."""
    made = [
        changes.CreateStream("s"),
        changes.CreateTopic("s", "t", 2, make_options({"segment_size": 1 << 20})),
        changes.CreateGroup("s", "t", "g"),
        *more,
    ]
    return replayed(accepted_entries(made, State()), State())


def held(
    partition: int = 0, *, topic: int = 0, life: tuple[int, int] = (2, 0), end: int = 5,
    names: str = "s/t", at_us: int = 1,
) -> Held:  # fmt: skip
    stream_name, _, topic_name = names.partition("/")
    return Held(
        f"streams/0/topics/{topic}/partitions/{partition}",
        Partition(0, topic, partition),
        Life(*life),
        stream_name,
        topic_name,
        named_at_us=at_us,
        first_offset=0,
        next_offset=end,
        last_timestamp_us=1,
        listing=Listing(),
        is_all=False,
        offsets=None,
    )


def ends(plan: Plan) -> list[tuple[str, int, int]]:
    """Topic, partition, and where it goes on."""
    found = []
    for target in plan.targets:
        placed = target.placed
        topic = plan.state.streams[placed.stream_id].topics[placed.topic_id]
        end = target.held.next_offset if target.held else 0
        found.append((topic.name, placed.partition.id, end))
    return found


def planned(known: State | None, *found: Held, recreate: bool = False) -> Plan:
    return make_plan(known, found, recreate=recreate, now_us=NOW_US)


def test_each_partition_goes_on_where_its_life_ends_in_the_archive() -> None:
    known = state()
    plan = planned(known, held(0, end=7), held(0, life=(1, 0), end=99))
    assert ends(plan) == [("t", 0, 7), ("t", 1, 0)]
    assert plan.state == known
    assert (plan.unknown, plan.earlier) == ([], 1)


def test_a_partition_that_was_emptied_later_is_empty_or_has_what_came_then() -> None:
    plan = planned(state(changes.PurgeTopic("s", "t")), held(0, end=7))
    assert ends(plan)[0] == ("t", 0, 0)
    plan = planned(state(), held(0, end=7), held(0, life=(2, 2), end=3))
    assert ends(plan)[0] == ("t", 0, 3)
    assert plan.state.streams[0].topics[0].partitions[0].purges == 2


def test_what_is_younger_than_the_metadata_is_told_or_adopted() -> None:
    known, young = state(), held(1, topic=1, life=(8, 0), end=4, names="s/new")
    plan = planned(known, young)
    assert plan.unknown == [young]
    assert len(plan.state.streams[0].topics) == 1
    assert plan.state.op == 8, "the next change must not get its number"

    plan = planned(known, young, recreate=True)
    assert (plan.unknown, plan.adopted) == ([], [young])
    assert ends(plan)[2:] == [("new", 0, 0), ("new", 1, 4)]
    assert plan.state.op > 8
    assert plan.state.streams[0].topics[0].groups, "what was known stays"


def test_a_topic_that_was_made_anew_under_the_same_number_is_left_out() -> None:
    again = held(0, life=(7, 0), names="s/other")
    plan = planned(state(), held(0), again, recreate=True)
    assert ends(plan)[0] == ("t", 0, 5)
    assert plan.unknown == [again]
    assert plan.state.op == 7


def test_a_partition_that_was_added_later_is_adopted_with_the_topic_it_belongs_to() -> None:
    plan = planned(state(), held(0), held(3, life=(6, 0), end=2), recreate=True)
    assert ends(plan) == [("t", 0, 5), ("t", 1, 0), ("t", 2, 0), ("t", 3, 2)]
    assert plan.state.streams[0].topics[0].options, "they stay"


def test_without_metadata_names_come_from_the_latest_manifests() -> None:
    plan = planned(
        None,
        held(0, names="s/renamed", at_us=5),
        held(1, names="s/t", at_us=4, end=6),
        held(0, topic=2, life=(9, 1), names="s/u", end=8),
    )
    assert ends(plan) == [("renamed", 0, 5), ("renamed", 1, 6), ("u", 0, 8)]
    assert plan.state.users == {}
    assert plan.state.streams[0].topics[2].partitions[0].incarnation == 9
    assert plan.state.op > 9


def test_without_metadata_partitions_of_an_earlier_topic_of_that_number_stay_away() -> None:
    plan = planned(None, held(0), held(1), held(0, life=(7, 0), names="s/again", end=3))
    assert ends(plan) == [("again", 0, 3)]
    assert plan.earlier == 2
