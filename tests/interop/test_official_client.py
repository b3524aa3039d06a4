"""The released client `apache-iggy`, over TCP, against a broker with two shards: every command."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Awaitable, Callable
from datetime import timedelta
from typing import Any

import apache_iggy
import pytest
from apache_iggy import Consumer, IggyClient, Partitioning, PollingStrategy, SendMessage

from broker_process import PASSWORD, USERNAME, BrokerProcess

PARTITIONS = 6  # of a test's topic: both shards own some of them


def name_of(what: str) -> str:
    return f"{what}-{uuid.uuid4().hex[:8]}"


def with_client(
    broker: BrokerProcess, work: Callable[[IggyClient], Awaitable[None]], *, login: bool = True
) -> None:
    async def run() -> None:
        client = IggyClient(broker.address)
        await client.connect()
        if login:
            await client.login_user(USERNAME, PASSWORD)
        await work(client)

    asyncio.run(run())


async def make_topic(client: IggyClient, partitions: int = PARTITIONS, **options: Any) -> str:
    """A stream with one topic `t`; the stream's name."""
    stream = name_of("stream")
    await client.create_stream(stream)
    await client.create_topic(stream, "t", partitions, **options)
    return stream


async def send(client: IggyClient, stream: str, partition: int, texts: list[str]) -> int:
    answer = await client.send_messages(stream, "t", partition, [SendMessage(t) for t in texts])
    (confirmation,) = answer.confirmations
    return int(confirmation.base_offset)


async def poll(  # noqa: PLR0913 -- the official client has as many
    client: IggyClient,
    stream: str,
    partition: int,
    strategy: PollingStrategy,
    *,
    count: int = 100,
    consumer: str | int = "reader",
    auto_commit: bool = False,
) -> list[apache_iggy.ReceiveMessage]:
    return await client.poll_messages(
        stream,
        "t",
        consumer=Consumer.Single(consumer),
        polling_strategy=strategy,
        count=count,
        auto_commit=auto_commit,
        partition_id=partition,
    )


def test_pings_before_login_and_logs_out(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        await client.ping()
        with pytest.raises(RuntimeError):
            await client.get_streams()
        await client.login_user(USERNAME, PASSWORD)
        await client.get_streams()
        await client.logout_user()
        with pytest.raises(RuntimeError):
            await client.get_streams()

    with_client(broker, work, login=False)


def test_a_wrong_password_is_refused_and_the_right_one_taken_after(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        with pytest.raises(RuntimeError, match="redentials"):
            await client.login_user(USERNAME, "not-the-password")
        await client.login_user(USERNAME, PASSWORD)
        await client.ping()

    with_client(broker, work, login=False)


def test_streams_are_made_renamed_listed_and_deleted(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        name, other = name_of("stream"), name_of("renamed")
        await client.create_stream(name)
        with pytest.raises(RuntimeError, match="already exists"):
            await client.create_stream(name)
        found = await client.get_stream(name)
        assert found is not None and found.name == name and found.topics_count == 0
        await client.update_stream(name, other)
        assert await client.get_stream(name) is None
        assert other in [stream.name for stream in await client.get_streams()]
        by_id = await client.get_stream(found.id)
        assert by_id is not None and by_id.name == other
        await client.delete_stream(other)
        assert await client.get_stream(other) is None
        with pytest.raises(RuntimeError):
            await client.delete_stream(other)

    with_client(broker, work)


def test_topics_take_every_option(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = name_of("stream")
        await client.create_stream(stream)
        await client.create_topic(
            stream,
            "t",
            3,
            compression_algorithm="gzip",
            message_expiry=apache_iggy.IggyExpiry.ExpireDuration(timedelta(days=7)),
            max_topic_size=apache_iggy.MaxTopicSize.Custom(2 << 30),
            segment_size=1 << 20,
            durability=apache_iggy.Durability.PERSISTED,
            consumer_offset_durability=apache_iggy.Durability.REPLICATED,
            messages_required_to_save=100,
            size_of_messages_required_to_save=1 << 16,
            preallocate_segments=False,
        )
        topic = await client.get_topic(stream, "t")
        assert topic is not None and topic.partitions_count == 3
        await client.update_topic(stream, "t", "u")
        assert await client.get_topic(stream, "t") is None
        assert [topic.name for topic in await client.get_topics(stream)] == ["u"]
        with pytest.raises(RuntimeError):
            await client.create_topic(stream, "v", 1, options={"no_such_key": "1"})
        await client.delete_topic(stream, "u")
        assert await client.get_topics(stream) == []

    with_client(broker, work)


def test_options_are_described(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        keys = {option.key for option in await client.describe_options("topic")}
        assert {"durability", "consumer_offset_durability", "segment_size"} <= keys

    with_client(broker, work)


def test_partitions_are_added_and_the_highest_removed(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client, partitions=2)
        await client.create_partitions(stream, "t", 3)
        assert await send(client, stream, 4, ["a"]) == 0
        await client.delete_partitions(stream, "t", 3)
        with pytest.raises(RuntimeError):
            await send(client, stream, 4, ["b"])
        with pytest.raises(RuntimeError):
            await client.delete_partitions(stream, "t", 3)
        await client.create_partitions(stream, "t", 3)
        assert await poll(client, stream, 4, PollingStrategy.First()) == []

    with_client(broker, work)


def test_what_is_sent_is_polled_on_every_partition(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        for partition in range(PARTITIONS):
            texts = [f"message {partition}/{number}" for number in range(25)]
            assert await send(client, stream, partition, texts[:10]) == 0
            assert await send(client, stream, partition, texts[10:]) == 10
            found = await poll(client, stream, partition, PollingStrategy.First())
            assert [message.payload().decode() for message in found] == texts
            assert [message.offset() for message in found] == list(range(25))
            assert {message.partition_id() for message in found} == {partition}

    with_client(broker, work)


def test_every_strategy_starts_where_it_says(broker: BrokerProcess) -> None:
    async def offsets(
        client: IggyClient, stream: str, strategy: PollingStrategy, count: int = 100
    ) -> list[int]:
        found = await poll(client, stream, 1, strategy, count=count)
        return [message.offset() for message in found]

    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        for start in range(0, 40, 10):
            await send(client, stream, 1, [str(number) for number in range(start, start + 10)])
        everything = await poll(client, stream, 1, PollingStrategy.First())
        third_batch = everything[20].timestamp()

        assert await offsets(client, stream, PollingStrategy.First(), count=3) == [0, 1, 2]
        assert await offsets(client, stream, PollingStrategy.Last(), count=3) == [37, 38, 39]
        inside = await offsets(client, stream, PollingStrategy.Offset(8), count=4)
        assert inside == [8, 9, 10, 11]
        assert await offsets(client, stream, PollingStrategy.Offset(40), count=4) == []
        at_time = await offsets(client, stream, PollingStrategy.Timestamp(third_batch), count=2)
        assert at_time == [20, 21]
        assert await offsets(client, stream, PollingStrategy.Next(), count=2) == [0, 1]

    with_client(broker, work)


def test_auto_commit_moves_next_and_never_back(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        for partition in (0, 2):  # one on each shard
            await send(client, stream, partition, [str(number) for number in range(10)])
            first = await poll(
                client, stream, partition, PollingStrategy.Next(), count=4, auto_commit=True
            )
            assert [message.offset() for message in first] == [0, 1, 2, 3]
            await poll(
                client, stream, partition, PollingStrategy.First(), count=1, auto_commit=True
            )
            rest = await poll(
                client, stream, partition, PollingStrategy.Next(), count=4, auto_commit=True
            )
            assert [message.offset() for message in rest] == [4, 5, 6, 7]
            other = await poll(
                client, stream, partition, PollingStrategy.Next(), count=1, consumer=7
            )
            assert [message.offset() for message in other] == [0]

    with_client(broker, work)


def test_keys_and_balance_spread_messages(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        for number in range(PARTITIONS):
            await client.send_messages(
                stream, "t", Partitioning.balanced(), [SendMessage(str(number))]
            )
        counts = [
            len(await poll(client, stream, partition, PollingStrategy.First()))
            for partition in range(PARTITIONS)
        ]
        assert counts == [1] * PARTITIONS
        for _ in range(3):
            await client.send_messages(
                stream, "t", Partitioning.messages_key("user_123"), [SendMessage("keyed")]
            )
        # XXH32 of this key is 0xfd6bedc2: partition 3 of 6.
        keyed = await poll(client, stream, 0xFD6BEDC2 % PARTITIONS, PollingStrategy.First())
        assert [message.payload() for message in keyed[1:]] == [b"keyed"] * 3

    with_client(broker, work)


def test_headers_and_ids_come_back_as_sent(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        headers = {"kind": "order", "count": "12"}
        sent = SendMessage("with headers", user_headers=headers)
        await client.send_messages(stream, "t", 3, [sent])
        (found,) = await poll(client, stream, 3, PollingStrategy.First())
        assert found.payload() == b"with headers"
        returned = found.user_headers()
        assert returned is not None and len(returned) == len(headers)

    with_client(broker, work)


def test_purge_empties_and_starts_again_at_0(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        for partition in range(PARTITIONS):
            await send(client, stream, partition, ["a", "b"])
        await client.purge_topic(stream, "t")
        for partition in range(PARTITIONS):
            assert await poll(client, stream, partition, PollingStrategy.First()) == []
            assert await send(client, stream, partition, ["c"]) == 0
        await client.purge_stream(stream)
        assert await poll(client, stream, 0, PollingStrategy.First()) == []

    with_client(broker, work)


def test_groups_are_made_listed_and_deleted(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        await client.create_consumer_group(stream, "t", "g")
        with pytest.raises(RuntimeError, match="already exists"):
            await client.create_consumer_group(stream, "t", "g")
        group = await client.get_consumer_group(stream, "t", "g")
        assert group is not None
        assert (group.name, group.partitions_count, group.members_count) == ("g", PARTITIONS, 0)
        assert [group.name for group in await client.get_consumer_groups(stream, "t")] == ["g"]
        await client.delete_consumer_group(stream, "t", "g")
        assert await client.get_consumer_group(stream, "t", "g") is None
        with pytest.raises(RuntimeError):
            await client.delete_consumer_group(stream, "t", "g")

    with_client(broker, work)


def test_a_group_is_joined_read_and_left(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        await client.create_consumer_group(stream, "t", "g")
        await client.join_consumer_group(stream, "t", "g")
        for partition in range(PARTITIONS):
            await send(client, stream, partition, [f"message {partition}"])
        texts = set()
        for _ in range(PARTITIONS):  # the only member's partitions, one after the other
            found = await client.poll_messages(
                stream,
                "t",
                consumer=Consumer.Group("g"),
                polling_strategy=PollingStrategy.Next(),
                count=10,
                auto_commit=True,
            )
            texts |= {message.payload().decode() for message in found}
        assert texts == {f"message {partition}" for partition in range(PARTITIONS)}
        await client.leave_consumer_group(stream, "t", "g")
        group = await client.get_consumer_group(stream, "t", "g")
        assert group is not None and group.members_count == 0

    with_client(broker, work)


def test_stats_count_what_is_there(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        before = await client.get_stats()
        stream = await make_topic(client)
        for partition in range(PARTITIONS):
            await send(client, stream, partition, ["a", "b", "c"])
        after = await client.get_stats()
        assert after.streams_count == before.streams_count + 1
        assert after.topics_count == before.topics_count + 1
        assert after.partitions_count == before.partitions_count + PARTITIONS
        assert after.messages_count == before.messages_count + 3 * PARTITIONS
        topic = await client.get_topic(stream, "t")
        assert topic is not None and topic.messages_count == 3 * PARTITIONS

    with_client(broker, work)


def test_persisted_topics_answer_sends_and_polls(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(
            client,
            durability=apache_iggy.Durability.PERSISTED,
            consumer_offset_durability=apache_iggy.Durability.PERSISTED,
        )
        for partition in range(PARTITIONS):
            assert await send(client, stream, partition, ["a", "b"]) == 0
            found = await poll(client, stream, partition, PollingStrategy.Next(), auto_commit=True)
            assert [message.payload() for message in found] == [b"a", b"b"]

    with_client(broker, work)


def test_large_messages_come_back_byte_for_byte(broker: BrokerProcess) -> None:
    async def work(client: IggyClient) -> None:
        stream = await make_topic(client)
        payload = bytes(range(256)) * 20_000  # 5 MB: several reads, sendfile, both shards
        for partition in (0, 2):
            await client.send_messages(stream, "t", partition, [SendMessage(payload)])
            (found,) = await poll(client, stream, partition, PollingStrategy.First())
            assert found.payload() == payload

    with_client(broker, work)


def test_many_clients_at_once_make_one_of_each_name(broker: BrokerProcess) -> None:
    async def attempt(name: str) -> bool:
        client = IggyClient(broker.address)
        await client.connect()
        await client.login_user(USERNAME, PASSWORD)
        try:
            await client.create_stream(name)
        except RuntimeError:
            return False
        return True

    async def run() -> list[bool]:
        name = name_of("race")
        return await asyncio.gather(*(attempt(name) for _ in range(20)))

    assert sorted(asyncio.run(run())) == [False] * 19 + [True]
