"""What the released client needs of a broker: producers and consumers of its higher level."""

from __future__ import annotations

import asyncio
import time
import uuid
from collections.abc import Awaitable, Callable, Iterator
from datetime import timedelta
from pathlib import Path

import pytest
from apache_iggy import (
    AutoCommit,
    AutoCommitAfter,
    AutoCommitWhen,
    AutoLogin,
    BackgroundProducerConfig,
    DirectProducerConfig,
    IggyClient,
    IggyConsumer,
    Partitioning,
    PollingStrategy,
    ReceiveMessage,
    SendMessage,
    TcpConfig,
    TcpReconnectionConfig,
)
from apache_iggy import Consumer as OfficialConsumer

from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_client import Client
from iggy_wire.primitives import Consumer
from iggy_wire.primitives import PollingStrategy as Strategy

SOON = timedelta(milliseconds=2)
RETRY = timedelta(milliseconds=20)
WITHIN_S = 30.0
TOPIC = "t"


def with_client(
    broker: BrokerProcess,
    work: Callable[[IggyClient], Awaitable[None]],
    *,
    heartbeat: timedelta = timedelta(seconds=5),
) -> None:
    async def run() -> None:
        client = IggyClient(
            TcpConfig(
                server_address=broker.address,
                auto_login=AutoLogin.username_password(USERNAME, PASSWORD),
                reconnection=TcpReconnectionConfig(interval=RETRY, reestablish_after=timedelta(0)),
                heartbeat_interval=heartbeat,
            )
        )
        await client.connect()
        await asyncio.wait_for(work(client), WITHIN_S)

    asyncio.run(run())


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture
def stream() -> str:
    return f"official-{uuid.uuid4().hex[:8]}"


async def until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + WITHIN_S
    while not condition():
        assert time.monotonic() < deadline, "it never came to hold"
        await asyncio.sleep(0.005)


async def read(consumer: IggyConsumer, count: int) -> list[str]:
    found: list[str] = []
    async for message in consumer.iter_messages():
        found.append(message.payload().decode())
        if len(found) == count:
            return found
    raise AssertionError("a consumer reads for ever")


async def consume(consumer: IggyConsumer, count: int) -> list[str]:
    """Handle so many messages, then end the consumer as it wants to be ended."""
    found: list[str] = []
    over = asyncio.Event()

    async def take(message: ReceiveMessage) -> None:
        found.append(message.payload().decode())
        if len(found) == count:
            over.set()

    await consumer.consume_messages(take, over)
    return found


def stored_offset(root: Client, stream: str) -> int | None:
    found = root.get_offset(Consumer.group("g"), stream, TOPIC, 0)
    return None if found is None else found.stored_offset


async def consumer_of(
    client: IggyClient, stream: str, commit: AutoCommit, *, name: str = "g"
) -> IggyConsumer:
    return await client.consumer_group(
        name,
        stream,
        TOPIC,
        polling_strategy=PollingStrategy.Next(),
        batch_length=10,
        auto_commit=commit,
        poll_interval=SOON,
        polling_retry_interval=RETRY,
        init_retries=3,
        init_retry_interval=RETRY,
    )


def test_a_producer_makes_what_is_missing_and_takes_what_is_there(
    broker: BrokerProcess, root: Client, stream: str
) -> None:
    async def work(client: IggyClient) -> None:
        for round_ in range(2):
            producer = await client.producer(stream, TOPIC, topic_partitions_count=3)
            await producer.send([SendMessage(f"{round_}")])
            await producer.shutdown()

    with_client(broker, work)
    topic = root.get_topic(stream, TOPIC)
    assert topic is not None
    assert (topic.topic.partitions_count, topic.topic.messages_count) == (3, 2)


def test_a_producer_that_may_make_nothing_says_what_is_missing(
    broker: BrokerProcess, root: Client, stream: str
) -> None:
    async def work(client: IggyClient) -> None:
        for made in (False, True):
            if made:
                root.create_stream(stream)
            with pytest.raises(RuntimeError, match="Topic" if made else "Stream"):
                await client.producer(
                    stream,
                    TOPIC,
                    create_stream_if_not_exists=False,
                    create_topic_if_not_exists=False,
                )

    with_client(broker, work)
    assert root.get_topic(stream, TOPIC) is None


@pytest.mark.parametrize("key_bytes", [0, 1, 255, 256])
def test_a_header_has_a_key_of_one_to_255_bytes(
    broker: BrokerProcess, root: Client, stream: str, key_bytes: int
) -> None:
    key = "k" * key_bytes

    async def work(client: IggyClient) -> None:
        producer = await client.producer(stream, TOPIC, topic_partitions_count=1)
        if not 1 <= key_bytes <= 255:
            with pytest.raises(ValueError, match="header"):
                SendMessage("x", {key: "v"})
            return
        await producer.send([SendMessage("x", {key: "v"})])
        (one,) = await client.poll_messages(
            stream,
            TOPIC,
            consumer=OfficialConsumer.Single("c"),
            partition_id=0,
            polling_strategy=PollingStrategy.First(),
            count=10,
            auto_commit=False,
        )
        headers = one.user_headers()
        assert headers is not None and headers.to_scalar_dict() == {key: "v"}

    with_client(broker, work)
    topic = root.get_topic(stream, TOPIC)
    assert topic is not None
    assert topic.topic.messages_count == (1 if 1 <= key_bytes <= 255 else 0)


@pytest.mark.parametrize("mode", ["direct", "background"])
def test_a_producer_sends_all_in_batches(
    broker: BrokerProcess, root: Client, stream: str, mode: str
) -> None:
    count = 2_500

    async def work(client: IggyClient) -> None:
        config: DirectProducerConfig | BackgroundProducerConfig = DirectProducerConfig()
        if mode == "background":
            config = BackgroundProducerConfig(linger_time=timedelta(milliseconds=5))
        producer = await client.producer(
            stream, TOPIC, mode=config, partitioning=Partitioning.partition_id(0)
        )
        await producer.send([SendMessage(str(number)) for number in range(count)])
        await producer.shutdown()

    with_client(broker, work)
    topic = root.get_topic(stream, TOPIC)
    assert topic is not None and topic.topic.messages_count == count
    polled = root.poll(stream, TOPIC, 0, strategy=Strategy.first(), count=count)
    assert polled.count == count


# What of the ten messages that the consumer took is stored while it goes on: at least, at most.
COMMITS = {
    "disabled": (AutoCommit.Disabled(), None, None),
    "polling": (AutoCommit.When(AutoCommitWhen.PollingMessages()), 9, 9),
    "each": (AutoCommit.When(AutoCommitWhen.ConsumingEachMessage()), 8, 9),
    "every 4th": (AutoCommit.When(AutoCommitWhen.ConsumingEveryNthMessage(4)), 3, 9),
    "interval": (AutoCommit.Interval(timedelta(milliseconds=20)), 9, 9),
}


@pytest.mark.parametrize(("commit", "least", "most"), COMMITS.values(), ids=COMMITS)
def test_a_consumer_commits_as_it_was_told(
    broker: BrokerProcess,
    root: Client,
    stream: str,
    commit: AutoCommit,
    least: int | None,
    most: int | None,
) -> None:
    root.create_stream(stream)
    root.create_topic(stream, TOPIC, 1)

    async def work(client: IggyClient) -> None:
        producer = await client.producer(stream, TOPIC)
        await producer.send([SendMessage(str(number)) for number in range(10)])
        consumer = await consumer_of(client, stream, commit)
        assert await read(consumer, 10) == [str(number) for number in range(10)]
        if least is None:
            await client.get_streams()  # nothing of it is on its way any more
            assert stored_offset(root, stream) is None
        else:
            await until(lambda: (stored_offset(root, stream) or 0) >= least)
            assert (stored_offset(root, stream) or 0) <= (most or 0)
        await producer.shutdown()

    with_client(broker, work)


def test_a_consumer_goes_on_where_the_group_stands(
    broker: BrokerProcess, root: Client, stream: str
) -> None:
    """Also when group, stream and topic are there already; and the end of a consumer is a leave."""
    commit = AutoCommit.After(AutoCommitAfter.ConsumingEachMessage())

    async def work(client: IggyClient) -> None:
        producer = await client.producer(stream, TOPIC)
        for first in (0, 10):
            sent = [str(number) for number in range(first, first + 10)]
            await producer.send([SendMessage(text) for text in sent])
            consumer = await consumer_of(client, stream, commit)
            assert await consume(consumer, 10) == sent
            await until(lambda at=first + 9: stored_offset(root, stream) == at)  # type: ignore[misc]
        await producer.shutdown()

    with_client(broker, work)


def test_a_consumer_without_a_topic_says_so(broker: BrokerProcess, stream: str) -> None:
    async def work(client: IggyClient) -> None:
        with pytest.raises(RuntimeError):
            await consumer_of(client, stream, AutoCommit.Disabled())

    with_client(broker, work)


def test_a_member_that_lost_its_group_joins_it_again(
    broker: BrokerProcess, root: Client, stream: str
) -> None:
    async def work(client: IggyClient) -> None:
        producer = await client.producer(stream, TOPIC)
        consumer = await consumer_of(client, stream, AutoCommit.Disabled())
        await producer.send([SendMessage("before")])
        assert await read(consumer, 1) == ["before"]
        root.delete_group(stream, TOPIC, "g")
        root.create_group(stream, TOPIC, "g")
        await producer.send([SendMessage("after")])
        assert (await read(consumer, 1))[-1] == "after"
        group = root.get_group(stream, TOPIC, "g")
        assert group is not None and len(group.members) == 1
        await producer.shutdown()

    with_client(broker, work)


def test_balanced_sends_of_a_client_keep_to_the_partitions_it_knows(
    broker: BrokerProcess, root: Client, stream: str
) -> None:
    def counts() -> list[int]:
        topic = root.get_topic(stream, TOPIC)
        assert topic is not None
        return [partition.messages_count for partition in topic.partitions]

    async def work(client: IggyClient) -> None:
        producer = await client.producer(stream, TOPIC, topic_partitions_count=2, send_retries=None)
        await producer.send_with_partitioning([SendMessage("1")], Partitioning.balanced())
        root.create_partitions(stream, TOPIC, 2)
        for _ in range(8):
            await producer.send_with_partitioning([SendMessage("2")], Partitioning.balanced())
        assert sum(counts()) == 9
        await producer.shutdown()

    with_client(broker, work)


def test_pings_keep_an_idle_member_in_its_group(tmp_path: Path, stream: str) -> None:
    settings = {"IGGY_HEARTBEAT_INTERVAL": "250ms"}
    with running_broker(tmp_path, settings=settings) as broker, broker.client() as root:
        root.create_stream(stream)
        root.create_topic(stream, TOPIC, 1)
        root.create_group(stream, TOPIC, "g")

        async def work(client: IggyClient) -> None:
            await client.join_consumer_group(stream, TOPIC, "g")
            deadline = time.monotonic() + 1.5  # five times as long as silence is borne
            while time.monotonic() < deadline:
                group = root.get_group(stream, TOPIC, "g")
                assert group is not None and len(group.members) == 1
                await asyncio.sleep(0.01)

        with_client(broker, work, heartbeat=timedelta(milliseconds=50))
