"""Streams, topics and partitions, statement by statement: see docs/semantics.md."""

from __future__ import annotations

import pytest

from broker_process import BrokerProcess
from group_cases import wait_for
from iggy_client import Client
from iggy_wire.codes import Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Identifier
from iggy_wire.replies import Topics
from iggy_wire.request_base import Request
from iggy_wire.requests import (
    CreatePartitions,
    CreateStream,
    CreateTopic,
    DeletePartitions,
    DeleteStream,
    DeleteTopic,
    GetStream,
    GetTopic,
    GetTopics,
    PurgeStream,
    PurgeTopic,
    UpdateStream,
    UpdateTopic,
)
from raw_frames import RawClient
from statement_cases import (
    PARTITIONS,
    TOPIC,
    Outcome,
    asked,
    denied,
    new_name,
    new_stream,
    outcome,
    rejected,
    send,
)

MISSING = (Identifier("no such thing"), Identifier(1_000_000))
T = Identifier(TOPIC)


def test_missing_streams_and_topics_are_told_apart(raw: RawClient, admin: Client) -> None:
    stream = Identifier(new_stream(admin))
    no_stream = rejected(ErrorCode.STREAM_ID_NOT_FOUND)
    no_topic = rejected(ErrorCode.TOPIC_ID_NOT_FOUND)
    for missing in MISSING:
        cases: list[tuple[Request, Outcome]] = [
            (UpdateStream(missing, "new"), no_stream),
            (DeleteStream(missing), no_stream),
            (PurgeStream(missing), no_stream),
            (CreateTopic(missing, 1, "new"), no_stream),
            (UpdateTopic(missing, T, "new"), no_stream),
            (UpdateTopic(stream, missing, "new"), no_topic),
            (DeleteTopic(missing, T), no_stream),
            (DeleteTopic(stream, missing), no_topic),
            (PurgeTopic(missing, T), no_stream),
            (PurgeTopic(stream, missing), no_topic),
            (CreatePartitions(missing, T, 1), no_stream),
            (CreatePartitions(stream, missing, 1), no_topic),
            (DeletePartitions(missing, T, 1), no_stream),
            (DeletePartitions(stream, missing, 1), no_topic),
        ]
        for request, expected in cases:
            assert asked(raw, request) == expected, request
        for read in (GetStream(missing), GetTopic(missing, T), GetTopic(stream, missing)):
            header, body = raw.ask(read)
            assert (outcome(header, body), body) == (Outcome("status", 0), b"")
        _, body = raw.ask(GetTopics(missing))
        assert Topics.decode(body).topics == ()


def test_names_that_are_taken(raw: RawClient, admin: Client) -> None:
    stream, other = new_stream(admin), new_stream(admin)
    admin.create_topic(stream, "u", 1)
    s, o = Identifier(stream), Identifier(other)
    taken = rejected(ErrorCode.STREAM_NAME_ALREADY_EXISTS)
    topic_taken = rejected(ErrorCode.TOPIC_NAME_ALREADY_EXISTS)
    done = rejected(0)

    assert asked(raw, CreateStream(stream)) == taken
    assert asked(raw, UpdateStream(o, stream)) == taken
    assert asked(raw, UpdateStream(o, other)) == done, "its own name"
    assert asked(raw, CreateTopic(s, 1, TOPIC)) == topic_taken
    assert asked(raw, UpdateTopic(s, T, "u")) == topic_taken
    assert asked(raw, UpdateTopic(s, T, TOPIC)) == done
    assert asked(raw, CreateTopic(o, 1, "u")) == done, "another stream's topics do not matter"
    assert {topic.name for topic in admin.get_topics(stream)} == {TOPIC, "u"}


@pytest.mark.parametrize("name", ["x", "x" * 255, "ü" * 127, " a/b\\c \n", "0", "🦆🦆", "Ünïcode"])
def test_names_come_back_as_they_were_given(admin: Client, name: str) -> None:
    made = [admin.create_stream(name)]
    if name.swapcase() != name:
        made.append(admin.create_stream(name.swapcase()))
    try:
        assert [one.name for one in made] == [name, name.swapcase()][: len(made)]
        for one in made:
            found = admin.get_stream(one.name)
            assert found is not None and found.stream.id == one.id
            topic = admin.create_topic(one.id, one.name, 0)
            assert topic.topic.name == one.name
    finally:
        for one in made:
            admin.delete_stream(one.id)


@pytest.mark.parametrize("body", [b"\0", b"\0x", b"\2x", b"\3\xff\xfe\xfd", b"", b"\1x\1\2"])
def test_a_body_that_is_no_name_is_denied(raw: RawClient, body: bytes) -> None:
    answer = outcome(*raw.exchange(Operation.CREATE_STREAM, body))

    assert answer == denied(ErrorCode.INVALID_COMMAND)


def test_numbers_and_names_lead_to_the_same(admin: Client) -> None:
    digits = str(1000 + len(admin.get_streams()))
    made = admin.create_stream(digits)
    admin.create_topic(made.id, "7", 1)

    for stream in (made.id, digits):
        for topic in (0, "7"):
            found = admin.get_topic(stream, topic)
            assert found is not None and found.topic.name == "7"
    assert admin.get_stream(int(digits)) is None, "a number is no name"
    assert admin.get_topic(made.id, 7) is None
    admin.delete_stream(made.id)


def test_an_update_changes_the_name_and_nothing_else(admin: Client) -> None:
    stream, other = new_stream(admin), new_name()
    send(admin, stream, 1, b"a", b"b")
    admin.store_offset("c", stream, TOPIC, 1, 0)
    before, topic_before = admin.get_stream(stream), admin.get_topic(stream, TOPIC)
    assert before is not None and topic_before is not None

    admin.update_stream(stream, other)
    admin.update_topic(other, TOPIC, "renamed")

    after, topic = admin.get_stream(other), admin.get_topic(other, "renamed")
    assert after is not None and topic is not None
    assert admin.get_stream(stream) is None
    assert admin.get_topic(other, TOPIC) is None
    assert (after.stream.id, after.stream.created_at_us) == (
        before.stream.id, before.stream.created_at_us,
    )  # fmt: skip
    assert topic.partitions == topic_before.partitions
    assert (topic.topic.created_at_us, topic.topic.options, topic.topic.derived) == (
        topic_before.topic.created_at_us, topic_before.topic.options, topic_before.topic.derived,
    )  # fmt: skip
    stored = admin.get_offset("c", other, "renamed", 1)
    assert stored is not None and (stored.current_offset, stored.stored_offset) == (1, 0)


def test_lists_are_in_the_order_of_ids(admin: Client) -> None:
    streams = [admin.create_stream(new_name(letter)).id for letter in "zyx"]
    for name in ("c", "b", "a"):
        admin.create_topic(streams[0], name, 3)
    admin.delete_topic(streams[0], "b")
    admin.create_topic(streams[0], "d", 0)

    listed = [one.id for one in admin.get_streams()]
    assert listed == sorted(listed) and set(streams) <= set(listed)
    named = [(one.id, one.name) for one in admin.get_topics(streams[0])]
    assert named == [(0, "c"), (1, "d"), (2, "a")], "the lowest free id is given again"
    found = admin.get_topic(streams[0], 0)
    assert found is not None and [one.id for one in found.partitions] == [0, 1, 2]


def test_a_topic_comes_with_its_empty_partitions(admin: Client) -> None:
    stream = new_name()
    made = admin.create_stream(stream)
    assert (made.topics_count, made.size_bytes, made.messages_count) == (0, 0, 0)
    assert made.created_at_us > 0
    for count in (0, 1, 5, 1000):
        topic = admin.create_topic(stream, f"of {count}", count)
        with_it = admin.get_topic(stream, f"of {count}")
        assert topic == with_it
        assert [one.id for one in topic.partitions] == list(range(count))
        for one in topic.partitions:
            figures = (one.segments_count, one.current_offset, one.size_bytes, one.messages_count)
            assert figures == (1, 0, 0, 0)
    admin.delete_stream(stream)


def test_what_is_deleted_is_gone_with_all_in_it(broker: BrokerProcess, admin: Client) -> None:
    stream = new_stream(admin)
    admin.create_group(stream, TOPIC, "g")
    first = admin.get_stream(stream)
    assert first is not None
    folder = broker.data / "streams" / str(first.stream.id)
    for partition in range(PARTITIONS):
        send(admin, stream, partition, b"old")
        admin.store_offset("c", stream, TOPIC, partition, 0)

    admin.delete_topic(stream, TOPIC)
    admin.create_topic(stream, TOPIC, PARTITIONS)

    assert admin.get_groups(stream, TOPIC) == ()
    for partition in range(PARTITIONS):
        assert admin.get_offset("c", stream, TOPIC, partition) is None
        assert admin.poll(stream, TOPIC, partition, count=10).count == 0
        assert send(admin, stream, partition, b"new") == 0
    admin.delete_stream(stream)
    assert admin.get_stream(stream) is None
    wait_for(lambda: not folder.exists())
