"""Options, partitions and figures of topics, statement by statement: see docs/semantics.md."""

from __future__ import annotations

import pytest

from broker_process import BrokerProcess
from group_cases import wait_for
from iggy_client import Client
from iggy_wire.codes import Command, Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import ReplyHeader
from iggy_wire.options import Option, ValueKind, make_options
from iggy_wire.primitives import Identifier, PollingStrategy
from iggy_wire.replies import Stats
from iggy_wire.request_base import Request
from iggy_wire.requests import (
    CreatePartitions,
    CreateStream,
    CreateTopic,
    DeletePartitions,
    UpdateStream,
    UpdateTopic,
)
from iggy_wire.results import split_result
from raw_frames import RawClient
from statement_cases import (
    PARTITIONS,
    TOPIC,
    asked,
    denied,
    new_name,
    new_stream,
    rejected,
    send,
)

T = Identifier(TOPIC)
FOREVER = (1 << 64) - 1
SMALLEST = 1 << 20  # of a segment


def topics(stream: str, options: dict[str, int | str]) -> Request:
    return CreateTopic(Identifier(stream), 1, new_name(), make_options(options))


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ({"retention": 1}, ErrorCode.UNSUPPORTED_OPTION_KEY),
        ({"messages_required_to_save": "0"}, ErrorCode.INVALID_OPTION_VALUE),
        ({"segment_size": SMALLEST - 512}, ErrorCode.INVALID_OPTION_VALUE),
        ({"segment_size": SMALLEST + 1}, ErrorCode.INVALID_OPTION_VALUE),
        ({"segment_size": (1 << 30) + 512}, ErrorCode.INVALID_OPTION_VALUE),
        ({"durability": "sometimes"}, ErrorCode.INVALID_OPTION_VALUE),
        ({"compression_algorithm": "zip"}, ErrorCode.INVALID_OPTION_VALUE),
        ({"segment_size": SMALLEST, "max_topic_size": SMALLEST - 1}, ErrorCode.INVALID_TOPIC_SIZE),
        ({"max_topic_size": SMALLEST}, ErrorCode.INVALID_TOPIC_SIZE),
        ({"x" * 200 + str(n): "y" * 255 for n in range(250)}, ErrorCode.OPTIONS_BLOCK_TOO_LARGE),
    ],
    ids=lambda value: None if isinstance(value, dict) else value.name.lower(),
)
def test_options_that_a_topic_cannot_have(
    raw: RawClient, admin: Client, options: dict[str, int | str], code: ErrorCode
) -> None:
    stream = new_stream(admin)

    assert asked(raw, topics(stream, options)) == denied(code)
    assert [topic.name for topic in admin.get_topics(stream)] == [TOPIC], "nothing was made"


def test_neither_streams_nor_too_many_partitions(raw: RawClient, admin: Client) -> None:
    stream = Identifier(new_stream(admin))
    one = (Option("k", ValueKind.STRING, b"v"),)
    too_many, no_key = ErrorCode.TOO_MANY_PARTITIONS, ErrorCode.UNSUPPORTED_OPTION_KEY
    assert asked(raw, CreateStream(new_name(), one)) == denied(no_key)
    assert asked(raw, UpdateStream(stream, new_name(), one)) == denied(no_key)
    assert asked(raw, CreateTopic(stream, 1001, "u")) == denied(too_many)
    for count in (0, 1001, (1 << 32) - 1):
        assert asked(raw, CreatePartitions(stream, T, count)) == denied(too_many)
        assert asked(raw, DeletePartitions(stream, T, count)) == denied(too_many)
    for count in (PARTITIONS + 1, 1000):
        refused = rejected(ErrorCode.INVALID_PARTITIONS_COUNT)
        assert asked(raw, DeletePartitions(stream, T, count)) == refused
    found = admin.get_topic(stream.value, TOPIC)
    assert found is not None and len(found.partitions) == PARTITIONS


def test_an_update_of_options_is_a_patch(raw: RawClient, admin: Client) -> None:
    own: dict[str, int | str] = {
        "segment_size": SMALLEST, "message_expiry": 5_000_000, "max_topic_size": 2 * SMALLEST,
    }  # fmt: skip
    stream = new_stream(admin, **own)
    s = Identifier(stream)

    def told() -> tuple[int, int, int]:
        (one,) = admin.get_topics(stream)
        return one.message_expiry_us, one.max_topic_size_bytes, one.compression

    assert told() == (5_000_000, 2 * SMALLEST, 1)
    admin.update_topic(stream, TOPIC, TOPIC)
    admin.update_topic(stream, TOPIC, TOPIC, {"message_expiry": 0, "max_topic_size": 0})
    assert told() == (5_000_000, 2 * SMALLEST, 1), "absent or 0 is what it was"
    admin.update_topic(stream, TOPIC, TOPIC, {"compression_algorithm": "gzip"})
    admin.update_topic(stream, TOPIC, TOPIC, {"message_expiry": FOREVER, "max_topic_size": FOREVER})
    assert told() == (FOREVER, FOREVER, 2)
    for key in ("segment_size", "durability", "preallocate_segments", "unknown"):
        change = UpdateTopic(s, T, TOPIC, make_options({key: "1 MiB"}))
        assert asked(raw, change) == denied(ErrorCode.UNSUPPORTED_OPTION_KEY)
    small = UpdateTopic(s, T, TOPIC, make_options({"max_topic_size": SMALLEST - 1}))
    assert asked(raw, small) == denied(ErrorCode.INVALID_TOPIC_SIZE)
    assert told() == (FOREVER, FOREVER, 2)
    sent = b"the server neither packs nor unpacks" * 10
    send(admin, stream, 0, sent)
    assert sent in bytes(admin.poll(stream, TOPIC, 0, count=1).region)


def test_explicit_and_derived_options_are_kept_apart(admin: Client) -> None:
    given: dict[str, int | str] = {
        "durability": "REPLICATED", "consumer_offset_durability": "persisted",
        "max_topic_size": FOREVER,
    }  # fmt: skip
    stream = new_stream(admin, **given)
    admin.create_topic(stream, "bare", 1, {"enforce_fsync": "false"})

    sent, bare = admin.get_topics(stream)
    explicit = {option.key: option.get() for option in sent.options}
    assert explicit == {**given, "durability": "replicated"}
    derived = {option.key: option.get() for option in bare.derived}
    assert derived["durability"] == derived["consumer_offset_durability"] == "replicated"
    assert {option.key for option in bare.options} == {"enforce_fsync"}
    for one in (sent, bare):
        keys = [option.key for option in (*one.options, *one.derived)]
        assert len(keys) == len(set(keys)) == 10
        assert "partitions_count" not in keys


def test_partitions_come_at_the_end_and_go_from_the_end(raw: RawClient, admin: Client) -> None:
    stream = new_stream(admin, partitions=2)
    admin.create_group(stream, TOPIC, "g")
    admin.create_partitions(stream, TOPIC, 3)
    for partition in range(5):
        assert send(admin, stream, partition, b"x") == 0, "usable at once"
        admin.store_offset("c", stream, TOPIC, partition, 0)
    admin.delete_partitions(stream, TOPIC, 2)
    found = admin.get_topic(stream, TOPIC)
    assert found is not None
    assert [(one.id, one.messages_count) for one in found.partitions] == [(0, 1), (1, 1), (2, 1)]
    admin.create_partitions(stream, TOPIC, 2)
    for partition in (3, 4):
        assert admin.get_offset("c", stream, TOPIC, partition) is None
        assert send(admin, stream, partition, b"y") == 0, "another life"
    for change in (CreatePartitions, DeletePartitions):
        header, body = raw.ask(change(Identifier(stream), T, 5))
        assert isinstance(header, ReplyHeader)
        assert split_result(body) == (0, b""), "no payload"
    admin.delete_partitions(stream, TOPIC, 5)
    found = admin.get_topic(stream, TOPIC)
    assert found is not None and found.partitions == ()
    assert [group.partitions_count for group in admin.get_groups(stream, TOPIC)] == [0]


def figures(client: Client, stream: str) -> tuple[int, int, int, int, int, int]:
    """Bytes and messages of the stream's topics, of the stream, and of the broker."""
    found, stats = client.get_stream(stream), client.get_stats()
    assert found is not None
    return (
        sum(topic.size_bytes for topic in found.topics),
        sum(topic.messages_count for topic in found.topics),
        found.stream.size_bytes,
        found.stream.messages_count,
        stats.messages_size_bytes,
        stats.messages_count,
    )


def test_totals_fall_by_the_share_of_what_goes(admin: Client) -> None:
    stream = new_stream(admin, segment_size=SMALLEST)
    admin.create_topic(stream, "u", 2)
    stats = admin.get_stats()
    size_bytes = messages = 0

    def agrees() -> bool:
        total = (stats.messages_size_bytes + size_bytes, stats.messages_count + messages)
        return figures(admin, stream) == (size_bytes, messages) * 2 + total

    batch_bytes = 256 + 3 * 48 + 5 + 6 + 7
    for partition in range(PARTITIONS):
        send(admin, stream, partition, b"x" * 5, b"x" * 6, b"x" * 7)
        size_bytes, messages = size_bytes + batch_bytes, messages + 3
    for partition in range(2):
        send(admin, stream, partition, b"x" * 11, topic="u")
        size_bytes, messages = size_bytes + 256 + 48 + 11, messages + 1
    assert agrees()
    admin.delete_partitions(stream, TOPIC, 2)
    size_bytes, messages = size_bytes - 2 * batch_bytes, messages - 6
    assert agrees()
    admin.purge_topic(stream, "u")
    size_bytes, messages = size_bytes - 2 * (256 + 48 + 11), messages - 2
    assert agrees()
    for _ in range(3):  # two fill a segment, the third begins one
        send(admin, stream, 0, bytes(600_000))
    size_bytes, messages = size_bytes + 3 * (256 + 48 + 600_000), messages + 3
    assert agrees()
    admin.delete_segments(stream, TOPIC, 0, 1)
    size_bytes -= batch_bytes + 2 * (256 + 48 + 600_000)
    messages -= 5
    wait_for(agrees)
    admin.delete_topic(stream, TOPIC)
    size_bytes = messages = 0
    assert agrees()
    admin.delete_stream(stream)
    after: Stats = admin.get_stats()
    assert after.streams_count == stats.streams_count - 1


def test_segments_carry_the_offset_of_their_first_message(
    broker: BrokerProcess, admin: Client
) -> None:
    stream = new_stream(admin, partitions=1, segment_size=SMALLEST)
    for _ in range(5):
        send(admin, stream, 0, bytes(300_000), bytes(300_000))

    found = admin.get_stream(stream)
    assert found is not None
    folder = broker.data / f"streams/{found.stream.id}/topics/0/partitions/0"
    logs = sorted(folder.glob("*.log"))
    assert [log.name for log in logs] == [f"{first:020d}.log" for first in (0, 4, 8)]
    assert [log.with_suffix(".index").exists() for log in logs] == [True] * 3
    sizes = [log.stat().st_size for log in logs]
    assert sizes[0] > SMALLEST, "a batch is never split"
    topic = admin.get_topic(stream, TOPIC)
    assert topic is not None and topic.partitions[0].segments_count == 3
    last = admin.poll(stream, TOPIC, 0, strategy=PollingStrategy.last(), count=1)
    assert last.current_offset == 9


def test_the_catalogue_says_what_may_be_changed(raw: RawClient) -> None:
    _, body = raw.exchange(Operation.NON_REPLICATED, b"\1", code=Command.DESCRIBE_OPTIONS)
    for key in ("compression_algorithm", "message_expiry", "max_topic_size"):
        at = body.index(key.encode())
        assert b"Can be changed." in body[at : at + 200], key
    assert body.count(b"Can be changed.") == 3
    for scope, code in ((2, 0), (3, 0), (0, ErrorCode.INVALID_COMMAND), (4, 3)):
        header, body = raw.exchange(
            Operation.NON_REPLICATED, bytes((scope,)), code=Command.DESCRIBE_OPTIONS
        )
        assert isinstance(header, ReplyHeader)
        assert (header.status, body) == (code, b"" if code else bytes(4))
