"""Commands of metadata through the dispatch table, on real parts: writer, journal, partitions."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from iggy_broker.config_values import UNLIMITED
from iggy_broker.metadata.options import CATALOGUE
from iggy_broker.net import dispatch
from iggy_wire import batch, replies, requests
from iggy_wire.codes import Command
from iggy_wire.cursor import Reader
from iggy_wire.errors import ErrorCode
from iggy_wire.options import make_options
from iggy_wire.primitives import Identifier
from iggy_wire.request_base import Request
from one_shard import Caller, Refused, with_broker

S, T = Identifier("s"), Identifier("t")


def test_a_stream_is_made_read_renamed_and_deleted(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        made = await caller.stream("s")
        assert (made.id, made.name, made.topics_count, made.size_bytes) == (0, "s", 0, 0)
        assert made.created_at_us > 0
        assert caller.last is not None
        assert caller.last.op == caller.last.commit == 2, "root's entry is the first"

        await caller.body(requests.UpdateStream(S, "renamed"))
        assert await caller.body(requests.GetStream(S)) == b""
        found = replies.StreamDetails.decode(
            await caller.body(requests.GetStream(Identifier("renamed")))
        )
        assert (found.stream.id, found.stream.created_at_us) == (0, made.created_at_us)

        await caller.stream("other")
        listed = replies.Streams.decode(await caller.body(requests.GetStreams()))
        assert [stream.name for stream in listed.streams] == ["renamed", "other"]
        assert await caller.body(requests.DeleteStream(Identifier(0))) == b""
        assert await caller.body(requests.GetStream(Identifier(0))) == b""
        assert (await caller.stream("third")).id == 0

    with_broker(tmp_path, work)


def test_a_topic_comes_back_with_its_partitions_and_both_kinds_of_options(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        await caller.stream("s")
        options = make_options({"durability": "persisted", "message_expiry": "1 h"})

        made = await caller.topic("s", "t", partitions=3, options=options)

        in_microseconds = {"durability": "persisted", "message_expiry": 3_600_000_000}
        assert made.topic.options == make_options(in_microseconds)
        assert {option.key for option in (*options, *made.topic.derived)} == {
            known.key for known in CATALOGUE
        }
        assert made.topic.message_expiry_us == 3_600_000_000
        assert made.topic.max_topic_size_bytes == UNLIMITED
        assert made.topic.compression == 1
        assert [(p.id, p.segments_count, p.current_offset) for p in made.partitions] == [
            (0, 1, 0), (1, 1, 0), (2, 1, 0),
        ]  # fmt: skip
        read = replies.TopicDetails.decode(await caller.body(requests.GetTopic(S, T)))
        assert read == made
        listed = replies.Topics.decode(await caller.body(requests.GetTopics(S)))
        assert listed.topics == (made.topic,)
        in_stream = replies.StreamDetails.decode(await caller.body(requests.GetStream(S)))
        assert in_stream.topics == (made.topic,)

    with_broker(tmp_path, work)


def test_missing_things_are_empty_bodies(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        assert await caller.body(requests.GetStream(S)) == b""
        assert await caller.body(requests.GetTopic(S, T)) == b""
        assert replies.Topics.decode(await caller.body(requests.GetTopics(S))).topics == ()
        assert replies.Streams.decode(await caller.body(requests.GetStreams())).streams == ()
        assert await caller.body(requests.GetUser(Identifier("nobody"))) == b""
        await caller.stream("s")
        await caller.topic("s", "t")
        assert await caller.body(requests.GetConsumerGroup(S, T, Identifier("g"))) == b""

    with_broker(tmp_path, work)


@pytest.mark.parametrize(
    ("request_", "code", "where"),
    [
        (requests.CreateStream("s"), ErrorCode.STREAM_NAME_ALREADY_EXISTS, "result"),
        (requests.CreateStream("x", make_options({"k": 1})), ErrorCode.UNSUPPORTED_OPTION_KEY,
         "status"),
        (requests.DeleteStream(Identifier(9)), ErrorCode.STREAM_ID_NOT_FOUND, "result"),
        (requests.CreateTopic(S, 1, "t"), ErrorCode.TOPIC_NAME_ALREADY_EXISTS, "result"),
        (requests.CreateTopic(Identifier("x"), 1, "t"), ErrorCode.STREAM_ID_NOT_FOUND, "result"),
        (requests.CreateTopic(S, 1001, "u"), ErrorCode.TOO_MANY_PARTITIONS, "status"),
        (requests.CreateTopic(S, 1, "u", make_options({"k": 1})),
         ErrorCode.UNSUPPORTED_OPTION_KEY, "status"),
        (requests.CreateTopic(S, 1, "u", make_options({"segment_size": 5})),
         ErrorCode.INVALID_OPTION_VALUE, "status"),
        (requests.CreateTopic(S, 1, "u", make_options({"max_topic_size": 5})),
         ErrorCode.INVALID_TOPIC_SIZE, "status"),
        (requests.UpdateTopic(S, T, "t", make_options({"segment_size": 1 << 20})),
         ErrorCode.UNSUPPORTED_OPTION_KEY, "status"),
        (requests.UpdateTopic(S, Identifier("x"), "t"), ErrorCode.TOPIC_ID_NOT_FOUND, "result"),
        (requests.CreatePartitions(S, T, 0), ErrorCode.TOO_MANY_PARTITIONS, "status"),
        (requests.DeletePartitions(S, T, 0), ErrorCode.TOO_MANY_PARTITIONS, "status"),
        (requests.DeletePartitions(S, T, 3), ErrorCode.INVALID_PARTITIONS_COUNT, "result"),
        (requests.CreateConsumerGroup(S, T, "g"), ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS,
         "result"),
        (requests.DeleteConsumerGroup(S, T, Identifier("x")),
         ErrorCode.CONSUMER_GROUP_ID_NOT_FOUND, "result"),
        (requests.GetConsumerGroups(S, Identifier("x")), ErrorCode.TOPIC_ID_NOT_FOUND, "status"),
        (requests.GetConsumerGroup(Identifier("x"), T, Identifier("g")),
         ErrorCode.STREAM_ID_NOT_FOUND, "status"),
        (requests.DescribeOptions(4), ErrorCode.INVALID_COMMAND, "status"),
    ],
    ids=lambda value: type(value).__name__ if isinstance(value, Request) else None,
)  # fmt: skip
def test_refusals_travel_where_clients_expect_them(
    tmp_path: Path, request_: Request, code: ErrorCode, where: str
) -> None:
    async def work(caller: Caller) -> None:
        await caller.stream("s")
        await caller.topic("s", "t", partitions=2)
        await caller.body(requests.CreateConsumerGroup(S, T, "g"))

        with pytest.raises(Refused) as caught:
            await caller.body(request_)

        assert caught.value.args == (code.name, where)

    with_broker(tmp_path, work)


def test_partitions_are_added_and_the_highest_are_removed(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        await caller.stream("s")
        await caller.topic("s", "t", partitions=0)

        await caller.body(requests.CreatePartitions(S, T, 3))
        await caller.body(requests.DeletePartitions(S, T, 2))

        topic = replies.TopicDetails.decode(await caller.body(requests.GetTopic(S, T)))
        assert [partition.id for partition in topic.partitions] == [0]
        assert len(caller.services.partitions) == 1

    with_broker(tmp_path, work)


def sealed(*payloads: bytes) -> memoryview:
    messages = [batch.Message(payload=payload) for payload in payloads]
    return memoryview(batch.build(messages, origin_timestamp_us=1))


def test_sizes_add_up_and_a_purge_empties(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        await caller.stream("s")
        await caller.topic("s", "t", partitions=2)
        await caller.topic("s", "u", partitions=1)
        for partition in caller.services.partitions.values():
            partition.append(sealed(b"12345", b"1234567"))
        each_bytes = 256 + 2 * 48 + 12

        topic = replies.TopicDetails.decode(await caller.body(requests.GetTopic(S, T)))
        assert (topic.topic.size_bytes, topic.topic.messages_count) == (2 * each_bytes, 4)
        assert [(p.current_offset, p.messages_count) for p in topic.partitions] == [(1, 2), (1, 2)]
        await caller.body(requests.PurgeTopic(S, T))
        stream = replies.StreamDetails.decode(await caller.body(requests.GetStream(S)))
        assert (stream.stream.size_bytes, stream.stream.messages_count) == (each_bytes, 2)
        assert [(t.name, t.messages_count) for t in stream.topics] == [("t", 0), ("u", 2)]
        stats = replies.Stats.decode(await caller.body(requests.GetStats()))
        assert (stats.messages_count, stats.messages_size_bytes) == (2, each_bytes)
        await caller.body(requests.PurgeStream(S))
        stats = replies.Stats.decode(await caller.body(requests.GetStats()))
        assert (stats.messages_count, stats.messages_size_bytes) == (0, 0)
        await caller.body(requests.DeleteStream(S))
        assert not caller.services.partitions

    with_broker(tmp_path, work)


def test_a_purge_that_a_crash_interrupted_is_finished_at_the_next_start(tmp_path: Path) -> None:
    async def fill(caller: Caller) -> None:
        await caller.stream("s")
        await caller.topic("s", "t")
        for partition in caller.services.partitions.values():
            partition.append(sealed(b"old"))

    async def purge_on_paper(caller: Caller) -> None:
        # The change is durable, and the process dies before it touched the partition.
        caller.services.partitions.clear()
        with pytest.raises(asyncio.CancelledError):
            await caller.body(requests.PurgeTopic(S, T))

    async def look(caller: Caller) -> None:
        topic = replies.TopicDetails.decode(await caller.body(requests.GetTopic(S, T)))
        assert topic.topic.messages_count == 0

    with_broker(tmp_path, fill)
    with_broker(tmp_path, purge_on_paper)
    with_broker(tmp_path, look)


def test_groups_are_made_listed_and_deleted(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        await caller.stream("s")
        await caller.topic("s", "t", partitions=4)

        made = replies.GroupDetails.decode(
            await caller.body(requests.CreateConsumerGroup(S, T, "g"))
        )
        await caller.body(requests.CreateConsumerGroup(S, T, "h"))

        assert made.group == replies.Group(0, 4, 0, "g")
        listed = replies.Groups.decode(await caller.body(requests.GetConsumerGroups(S, T)))
        assert [(group.id, group.name) for group in listed.groups] == [(0, "g"), (1, "h")]
        await caller.body(requests.DeleteConsumerGroup(S, T, Identifier("g")))
        read = await caller.body(requests.GetConsumerGroup(S, T, Identifier(1)))
        assert replies.GroupDetails.decode(read).group.name == "h"

    with_broker(tmp_path, work)


def test_all_of_it_survives_a_restart(tmp_path: Path) -> None:
    seen: list[bytes] = []

    async def make(caller: Caller) -> None:
        await caller.stream("s")
        await caller.topic("s", "t", partitions=2, options=make_options({"segment_size": "1 MiB"}))
        await caller.body(requests.CreateConsumerGroup(S, T, "g"))
        await look(caller)

    async def look(caller: Caller) -> None:
        seen.append(await caller.body(requests.GetTopic(S, T)))
        seen.append(await caller.body(requests.GetConsumerGroups(S, T)))

    with_broker(tmp_path, make)
    with_broker(tmp_path, look)

    assert seen[:2] == seen[2:]


def test_defaults_of_expiry_and_size_are_those_of_the_moment_of_creation(tmp_path: Path) -> None:
    async def make(caller: Caller) -> None:
        await caller.stream("s")
        await caller.topic("s", "absent")
        zeros = make_options({"message_expiry": 0, "max_topic_size": 0})
        await caller.topic("s", "zero", options=zeros)
        await caller.topic("s", "own", options=make_options({"message_expiry": "3 h"}))

    async def look(caller: Caller) -> None:
        for name in ("absent", "zero", "own"):
            await caller.body(requests.UpdateTopic(S, Identifier(name), name))  # changes nothing
        await caller.topic("s", "late")
        listed = replies.Topics.decode(await caller.body(requests.GetTopics(S))).topics
        hour, tib = 3_600_000_000, 1 << 40
        assert [(one.message_expiry_us, one.max_topic_size_bytes) for one in listed] == [
            (hour, tib), (hour, tib), (3 * hour, tib), (2 * hour, UNLIMITED),
        ]  # fmt: skip
        for one in listed[:2]:
            assert one.options == ()
            derived = {option.key: option.get() for option in one.derived}
            assert (derived["message_expiry"], derived["max_topic_size"]) == (hour, tib)

    expiry, size = "IGGY_SYSTEM_SEGMENT_MESSAGE_EXPIRY", "IGGY_SYSTEM_TOPIC_MAX_SIZE"
    with_broker(tmp_path, make, **{expiry: "1 h", size: "1 TiB"})
    with_broker(tmp_path, look, **{expiry: "2 h"})


def test_the_node_describes_itself(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        cluster = replies.Cluster.decode(await caller.body(requests.GetClusterMetadata()))
        assert cluster == replies.Cluster(
            "single-node", (replies.Node("iggy-node", "127.0.0.1", tcp_port=8090),)
        )
        me = replies.ClientDetails.decode(await caller.body(requests.GetMe()))
        assert me.client == replies.ClientInfo(7, 0, 1, "127.0.0.1:5", 0)
        assert await caller.body(requests.Ping()) == b""
        await caller.stream("s")
        await caller.topic("s", "t", partitions=3)
        stats = replies.Stats.decode(await caller.body(requests.GetStats()))
        assert (stats.streams_count, stats.topics_count, stats.partitions_count) == (1, 1, 3)
        assert stats.segments_count == 3
        assert stats.server_semver > 0
        assert 0 < stats.free_disk_space <= stats.total_disk_space
        assert 0 < stats.memory_usage < stats.total_memory
        assert stats.hostname

    with_broker(tmp_path, work)


def test_root_is_the_first_user(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        users = replies.Users.decode(await caller.body(requests.GetUsers()))
        assert users.users == (replies.User(0, 1, 1, "root"),)
        details = await caller.body(requests.GetUser(Identifier("root")))
        assert replies.UserDetails.decode(details).user == users.users[0]
        made = await caller.body(requests.CreateUser("somebody", "secret"))
        assert replies.UserDetails.decode(made).user.id == 1

    with_broker(tmp_path, work, IGGY_ROOT_USERNAME="root", IGGY_ROOT_PASSWORD="secret")


def test_the_catalogue_of_topic_options(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        reader = Reader(await caller.body(requests.DescribeOptions(1)))
        count = reader.u32("count")
        described = {}
        for _ in range(count):
            key, kind = reader.name("key"), reader.u8("kind")
            default = bytes(reader.take(reader.u32("length"), "default"))
            described[key] = (kind, default, reader.text32("description"))

        assert not reader.remaining
        assert described.keys() == {known.key for known in CATALOGUE}
        assert described["durability"][:2] == (2, b"replicated")
        assert described["segment_size"][:2] == (12, (1 << 30).to_bytes(8, "little"))
        for scope in (2, 3):
            assert await caller.body(requests.DescribeOptions(scope)) == bytes(4)

    with_broker(tmp_path, work)


def test_every_command_here_has_its_own_request(tmp_path: Path) -> None:
    del tmp_path
    for command, row in dispatch.COMMANDS.items():
        assert row.request is None or row.request.command == command
    assert dispatch.COMMANDS.keys() <= set(Command)


def test_a_snapshot_beyond_a_frame_is_refused(tmp_path: Path) -> None:
    async def work(caller: Caller) -> None:
        assert len(await caller.body(requests.GetSnapshot(1, (4,)))) > 100
        caller.services.poll_bytes_max = 100
        with pytest.raises(Refused) as refused:
            await caller.body(requests.GetSnapshot(1, (4,)))
        assert refused.value.args == ("SNAPSHOT_FILE_COMPLETION_FAILED", "status")

    with_broker(tmp_path, work)
