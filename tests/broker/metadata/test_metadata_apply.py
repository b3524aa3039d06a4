"""What changes do: ids, names, refusals, and what is shared between states."""

from __future__ import annotations

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from iggy_broker.errors import Reject
from iggy_broker.metadata import changes, model
from iggy_broker.metadata.apply import Applied, apply
from iggy_broker.metadata.changes import AnyChange, Entry, decode_entries, encode_entries
from iggy_broker.metadata.model import IdPool, Placed, State
from iggy_wire.errors import ErrorCode
from iggy_wire.options import make_options
from metadata_cases import HISTORIES, accepted_entries, replayed


def after(*history: AnyChange) -> State:
    entries = accepted_entries(history)
    assert len(entries) == len(history), "every change of this example is accepted"
    return replayed(entries)


def applied_to(state: State, change: AnyChange) -> Applied:
    return apply(state, Entry(state.op + 1, 77, 0, change))


def refusal(state: State, change: AnyChange) -> ErrorCode:
    with pytest.raises(Reject) as caught:
        applied_to(state, change)
    return caught.value.code


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 5)), max_size=60))
def test_a_pool_gives_the_lowest_free_numbers(steps: list[tuple[bool, int]]) -> None:
    pool, out = IdPool(), set[int]()

    for take, count in steps:
        if take:
            numbers, pool = pool.take(count)
            free = [number for number in range(len(out) + count) if number not in out]
            assert list(numbers) == free[:count]
            out |= set(numbers)
        else:
            numbers = tuple(sorted(out)[-count:]) if count else ()
            out -= set(numbers)
            pool = pool.give(numbers)
        assert pool.used == len(out)


@given(HISTORIES)
def test_indexes_ids_and_slots_agree_after_any_history(history: list[AnyChange]) -> None:
    state = replayed(accepted_entries(history))

    assert state.stream_names == {stream.name: n for n, stream in state.streams.items()}
    assert state.stream_ids.used == len(state.streams)
    for number, stream in state.streams.items():
        assert stream.id == number
        assert stream.topic_names == {topic.name: n for n, topic in stream.topics.items()}
        assert stream.topic_ids.used == len(stream.topics)
        for topic in stream.topics.values():
            assert [partition.id for partition in topic.partitions] == list(
                range(len(topic.partitions))
            )
            assert topic.group_names == {group.name: n for n, group in topic.groups.items()}
            assert all(number < topic.next_group_id for number in topic.groups)
    slots = [placed.partition.slot for placed in state.placed()]
    assert len(slots) == len(set(slots)) == state.slots.used


@given(HISTORIES)
def test_what_is_opened_and_removed_adds_up_to_what_is_there(history: list[AnyChange]) -> None:
    state = State()
    there: dict[tuple[int, int, int], Placed] = {}

    for entry in accepted_entries(history):
        applied = apply(state, entry)
        for placed in applied.removed:
            del there[placed.stream_id, placed.topic_id, placed.partition.id]
        for placed in applied.opened:
            key = (placed.stream_id, placed.topic_id, placed.partition.id)
            assert key not in there
            there[key] = placed
        for placed in applied.purged:
            key = (placed.stream_id, placed.topic_id, placed.partition.id)
            assert placed.partition.purges == there[key].partition.purges + 1
            there[key] = placed
        state = applied.state

    assert sorted(there.items()) == [
        ((placed.stream_id, placed.topic_id, placed.partition.id), placed)
        for placed in state.placed()
    ]


@given(HISTORIES)
def test_entries_and_states_survive_encoding(history: list[AnyChange]) -> None:
    entries = accepted_entries(history)

    decoded = decode_entries(encode_entries(entries))
    state = replayed(decoded)

    assert decoded == entries
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(state), type=State) == state


def test_ids_of_deleted_streams_are_given_again_lowest_first() -> None:
    state = after(*(changes.CreateStream(name) for name in "abcd"))

    state = applied_to(state, changes.DeleteStream("c")).state
    state = applied_to(state, changes.DeleteStream(0)).state
    made = [applied_to(state, changes.CreateStream("e"))]
    made.append(applied_to(made[0].state, changes.CreateStream("f")))
    made.append(applied_to(made[1].state, changes.CreateStream("g")))

    assert [one.result.stream.id for one in made if one.result.stream] == [0, 2, 4]


def test_group_ids_are_never_given_again() -> None:
    state = after(
        changes.CreateStream("s"),
        changes.CreateTopic(0, "t", 1),
        changes.CreateGroup(0, 0, "g"),
        changes.DeleteGroup(0, 0, "g"),
    )

    applied = applied_to(state, changes.CreateGroup("s", "t", "g"))

    assert applied.result.group is not None
    assert applied.result.group.id == 1
    assert applied.result.partitions_count == 1


def test_a_name_made_of_digits_is_a_name() -> None:
    state = after(changes.CreateStream("5"), changes.CreateStream("0"))

    assert state.stream("0").id == 1
    assert state.stream(0).name == "5"
    assert state.find_stream("1") is None


def test_names_in_their_own_parent_only_must_differ() -> None:
    state = after(
        changes.CreateStream("s"),
        changes.CreateStream("S"),
        changes.CreateTopic("s", "t", 0),
        changes.CreateTopic("S", "t", 0),
    )

    assert refusal(state, changes.CreateStream("s")) is ErrorCode.STREAM_NAME_ALREADY_EXISTS
    assert refusal(state, changes.UpdateStream("S", "s")) is ErrorCode.STREAM_NAME_ALREADY_EXISTS
    assert refusal(state, changes.CreateTopic(0, "t", 1)) is ErrorCode.TOPIC_NAME_ALREADY_EXISTS
    assert applied_to(state, changes.UpdateStream("s", "s")).state.stream("s").id == 0


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (changes.DeleteStream("x"), ErrorCode.STREAM_ID_NOT_FOUND),
        (changes.UpdateStream(9, "n"), ErrorCode.STREAM_ID_NOT_FOUND),
        (changes.PurgeStream(9), ErrorCode.STREAM_ID_NOT_FOUND),
        (changes.CreateTopic(9, "n", 1), ErrorCode.STREAM_ID_NOT_FOUND),
        (changes.DeleteTopic("s", 9), ErrorCode.TOPIC_ID_NOT_FOUND),
        (changes.UpdateTopic("s", "x", "n"), ErrorCode.TOPIC_ID_NOT_FOUND),
        (changes.PurgeTopic("s", "x"), ErrorCode.TOPIC_ID_NOT_FOUND),
        (changes.CreatePartitions("x", "t", 1), ErrorCode.STREAM_ID_NOT_FOUND),
        (changes.DeletePartitions("s", "x", 1), ErrorCode.TOPIC_ID_NOT_FOUND),
        (changes.DeletePartitions("s", "t", 3), ErrorCode.INVALID_PARTITIONS_COUNT),
        (changes.CreateGroup("s", "x", "g"), ErrorCode.TOPIC_ID_NOT_FOUND),
        (changes.CreateGroup("s", "t", "g"), ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS),
        (changes.DeleteGroup("s", "t", "x"), ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND),
    ],
)
def test_refusals(change: AnyChange, code: ErrorCode) -> None:
    state = after(
        changes.CreateStream("s"),
        changes.CreateTopic("s", "t", 2),
        changes.CreateGroup("s", "t", "g"),
    )

    assert refusal(state, change) is code


def test_limits_refuse_and_change_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "STREAMS_MAX", 1)
    monkeypatch.setattr(model, "TOPICS_PER_STREAM_MAX", 1)
    monkeypatch.setattr(model, "PARTITIONS_PER_TOPIC_MAX", 3)
    monkeypatch.setattr(model, "SLOTS_MAX", 2)
    monkeypatch.setattr(model, "GROUPS_PER_TOPIC_MAX", 0)
    state = after(changes.CreateStream("s"), changes.CreateTopic("s", "t", 2))

    assert refusal(state, changes.CreateStream("x")) is ErrorCode.TOO_MANY_STREAMS
    assert refusal(state, changes.CreateTopic("s", "x", 0)) is ErrorCode.TOO_MANY_TOPICS
    assert refusal(state, changes.CreateGroup(0, 0, "x")) is ErrorCode.FEATURE_UNAVAILABLE
    too_many = changes.CreatePartitions(0, 0, 2)
    assert refusal(state, too_many) is ErrorCode.PARTITION_ID_SPACE_EXHAUSTED
    assert refusal(state, changes.CreatePartitions(0, 0, 1)) is ErrorCode.TOO_MANY_PARTITIONS


def test_refusals_of_a_new_topic_come_in_order(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(model, "TOPICS_PER_STREAM_MAX", 1)
    state = after(changes.CreateStream("s"), changes.CreateTopic("s", "t", 1))

    assert refusal(state, changes.CreateTopic("x", "t", 1)) is ErrorCode.STREAM_ID_NOT_FOUND
    assert refusal(state, changes.CreateTopic("s", "t", 1)) is ErrorCode.TOPIC_NAME_ALREADY_EXISTS
    assert refusal(state, changes.CreateTopic("s", "u", 1)) is ErrorCode.TOO_MANY_TOPICS


def test_deleted_partitions_come_back_as_another_life() -> None:
    state = after(changes.CreateStream("s"), changes.CreateTopic("s", "t", 3))

    shrunk = applied_to(state, changes.DeletePartitions(0, 0, 2))
    grown = applied_to(shrunk.state, changes.CreatePartitions(0, 0, 1))

    assert [placed.partition.id for placed in shrunk.removed] == [1, 2]
    (again,) = grown.opened
    assert (again.partition.id, again.partition.slot) == (1, 1)
    assert again.partition.incarnation == grown.state.op != state.stream(0).topic(0).created_at_us
    assert again.partition.incarnation > shrunk.removed[0].partition.incarnation


def test_an_update_lays_options_over_those_that_are_there() -> None:
    first = make_options({"durability": "persisted", "message_expiry": "1 h"})
    state = after(changes.CreateStream("s"), changes.CreateTopic("s", "t", 1, first))

    second = make_options({"message_expiry": "2 h"})
    changed = applied_to(state, changes.UpdateTopic("s", "t", "u", second)).state

    topic = changed.stream("s").topic("u")
    assert topic.options == make_options({"durability": "persisted", "message_expiry": "2 h"})
    assert topic.partitions is state.stream("s").topic("t").partitions
    assert topic.created_at_us == state.stream("s").topic("t").created_at_us
    assert changed.stream("s").find_topic("t") is None


def test_untouched_parts_are_shared_with_the_state_before() -> None:
    state = after(
        changes.CreateStream("s"),
        changes.CreateStream("other"),
        changes.CreateTopic("s", "t", 1),
        changes.CreateTopic("s", "u", 1),
    )

    changed = applied_to(state, changes.CreateGroup("s", "t", "g")).state

    assert changed.streams[1] is state.streams[1]
    assert changed.stream("s").topics[1] is state.stream("s").topics[1]
    assert not state.stream("s").topic("t").groups, "the old state is as it was"


def test_root_is_user_0_and_of_time_1() -> None:
    state = after(changes.CreateRoot("boss", "hash"))

    assert state.find_user("boss") == model.User(0, "boss", "hash", created_at_us=1)
    assert state.find_user(0) is state.find_user("boss")
