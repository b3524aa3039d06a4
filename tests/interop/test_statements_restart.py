"""Stops, kills, starts and purges, statement by statement: see docs/semantics.md."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from apache_iggy import AutoLogin, IggyClient, TcpConfig, TcpReconnectionConfig
from apache_iggy import Consumer as OfficialConsumer
from apache_iggy import PollingStrategy as OfficialStrategy

from broker_process import PASSWORD, START_S, USERNAME, BrokerProcess, running_broker
from iggy_client import Client, ClientError
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer, Partitioning, PollingStrategy
from statement_cases import PARTITIONS, TOPIC, new_stream, send

GROUP = Consumer.group("g")
FIRST = PollingStrategy.first()


@pytest.fixture
def own(tmp_path: Path) -> Iterator[BrokerProcess]:
    """A broker that the test may end."""
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        yield broker
    finally:
        broker.end()


def end(broker: BrokerProcess, how: str) -> None:
    if how == "stop":
        assert broker.stop() == 0, broker.text()
    else:
        broker.kill()


def stored(client: Client, stream: str) -> list[bytes]:
    """Every byte that polls give: times, ids, checksums and payloads."""
    return [
        bytes(client.poll(stream, TOPIC, partition, strategy=FIRST, count=1000).region)
        for partition in range(PARTITIONS)
    ]


def everything(client: Client, streams: list[str]) -> dict[str, Any]:
    """All that a client can see of what should last."""
    stats = client.get_stats()
    seen: dict[str, Any] = {
        "streams": client.get_streams(),
        "users": client.get_users(),
        "tokens": client.get_access_tokens(),
        "user": client.get_user("alice"),
        "totals": (
            stats.streams_count, stats.topics_count, stats.partitions_count,
            stats.segments_count, stats.messages_count, stats.messages_size_bytes,
            stats.consumer_groups_count,
        ),
    }  # fmt: skip
    for stream in streams:
        seen[stream] = (
            client.get_stream(stream),
            client.get_topic(stream, TOPIC),
            client.get_groups(stream, TOPIC),
            [client.get_offset("c", stream, TOPIC, one) for one in range(PARTITIONS)],
            [client.get_offset(GROUP, stream, TOPIC, one) for one in range(PARTITIONS)],
            stored(client, stream),
        )
    return seen


@pytest.mark.parametrize("how", ["stop", "kill"])
def test_everything_is_as_before(own: BrokerProcess, how: str) -> None:
    with own.client() as admin:
        streams = [new_stream(admin) for _ in range(4)]
        for stream in streams:
            admin.create_group(stream, TOPIC, "gone")
            admin.delete_group(stream, TOPIC, "gone")
            admin.create_group(stream, TOPIC, "g")
            admin.join_group(stream, TOPIC, "g")
            for partition in range(PARTITIONS):
                send(admin, stream, partition, b"one", b"two")
                send(admin, stream, partition, b"three")
                admin.store_offset(GROUP, stream, TOPIC, partition, 1)
                admin.poll(stream, TOPIC, partition, consumer="c", count=2, auto_commit=True)
            admin.leave_group(stream, TOPIC, "g")
        admin.create_user("alice", "a good secret")
        admin.create_access_token("ci")
        admin.delete_stream(streams.pop(1))
        before = everything(admin, streams)

    end(own, how)
    own.start()

    with own.client() as admin:
        assert everything(admin, streams) == before
        assert admin.create_stream("again").id == 1, "the id that was free"
        for stream in streams:
            assert admin.create_group(stream, TOPIC, "h").group.id == 2
            for partition in range(PARTITIONS):
                assert send(admin, stream, partition, b"four") == 3, "neither a gap nor a reuse"
    assert own.stop() == 0, own.text()


def test_one_message_is_followed_by_offset_1(own: BrokerProcess) -> None:
    with own.client() as admin:
        stream = new_stream(admin)
        assert [send(admin, stream, one, b"first") for one in range(PARTITIONS)] == [0] * 4
    for life, how in ((1, "stop"), (2, "kill")):
        end(own, how)
        own.start()
        with own.client() as admin:
            found = [send(admin, stream, one, b"next") for one in range(PARTITIONS)]
            assert found == [life] * PARTITIONS
    assert own.stop() == 0, own.text()


def test_a_purge_is_for_good_and_takes_nothing_that_came_after(own: BrokerProcess) -> None:
    with own.client() as admin:
        stream, untouched = new_stream(admin), new_stream(admin)
        for name in (stream, untouched):
            for partition in range(PARTITIONS):
                send(admin, name, partition, b"old", b"old")
                admin.store_offset("c", name, TOPIC, partition, 1)
        admin.purge_topic(stream, TOPIC)
        for partition in range(2):
            assert send(admin, stream, partition, b"new") == 0
    for how in ("kill", "stop"):
        end(own, how)
        own.start()
        with own.client() as admin:
            for partition in range(PARTITIONS):
                polled = admin.poll(stream, TOPIC, partition, strategy=FIRST, count=10)
                assert polled.count == (1 if partition < 2 else 0)
                assert admin.get_offset("c", stream, TOPIC, partition) is None
                other = admin.poll(untouched, TOPIC, partition, strategy=FIRST, count=10)
                assert other.count == 2
            assert b"old" not in b"".join(stored(admin, stream))
    assert own.stop() == 0, own.text()


def test_a_purge_leaves_partitions_groups_and_members(broker: BrokerProcess) -> None:
    with broker.client() as admin:
        stream = new_stream(admin)
        admin.create_topic(stream, "u", 1)
        send(admin, stream, 0, b"other", topic="u")
        admin.create_group(stream, TOPIC, "g")
        admin.join_group(stream, TOPIC, "g")
        for purge in (
            lambda: admin.purge_topic(stream, TOPIC),
            lambda: admin.purge_stream(stream),
            lambda: admin.purge_topic(stream, TOPIC),  # of an empty one
        ):
            for partition in range(PARTITIONS):
                assert send(admin, stream, partition, b"a", b"b") == 0, "it begins at 0 again"
                admin.store_offset(GROUP, stream, TOPIC, partition, 1)
                admin.store_offset("c", stream, TOPIC, partition, 0)
            before = admin.get_group(stream, TOPIC, "g")
            for _ in range(2):
                purge()
            found = admin.get_stream(stream)
            assert found is not None
            topic = admin.get_topic(stream, TOPIC)
            assert topic is not None and topic.topic.messages_count == topic.topic.size_bytes == 0
            for one in topic.partitions:
                figures = (one.current_offset, one.size_bytes, one.messages_count)
                assert figures == (0, 0, 0) and one.segments_count == 1
                for consumer in (GROUP, Consumer.plain("c")):
                    assert admin.get_offset(consumer, stream, TOPIC, one.id) is None
                    polled = admin.poll(stream, TOPIC, one.id, consumer=consumer, count=9)
                    told = (polled.partition_id, polled.current_offset, polled.count)
                    assert told == (one.id, 0, 0)
            assert admin.get_group(stream, TOPIC, "g") == before, "group and members stay"
        for missing in (("nothing", TOPIC), (stream, "nothing")):
            with pytest.raises(ClientError):
                admin.purge_topic(*missing)
        admin.create_topic(stream, "v", 1)
        send(admin, stream, 0, b"other", topic="v")
        admin.purge_topic(stream, TOPIC)
        found = admin.get_stream(stream)
        assert found is not None and found.stream.messages_count == 1, "others are left alone"


def test_the_official_client_comes_back_by_itself(own: BrokerProcess) -> None:
    async def read(client: IggyClient, stream: str) -> list[str]:
        found = await client.poll_messages(
            stream,
            TOPIC,
            consumer=OfficialConsumer.Single("reader"),
            polling_strategy=OfficialStrategy.Next(),
            count=2,
            auto_commit=True,
            partition_id=1,
        )
        return [message.payload().decode() for message in found]

    async def back(client: IggyClient, stream: str) -> None:
        """Ask until it has noticed and is there again; it logs in by itself."""
        deadline = time.monotonic() + START_S
        while True:
            try:
                assert await client.get_stream(stream) is not None
                return
            except RuntimeError:  # one call at most is told that the connection is lost
                assert time.monotonic() < deadline, "it does not come back"

    async def work(stream: str) -> None:
        again = TcpReconnectionConfig(
            interval=timedelta(milliseconds=20), reestablish_after=timedelta(0)
        )
        login = AutoLogin.username_password(USERNAME, PASSWORD)
        config = TcpConfig(server_address=own.address, auto_login=login, reconnection=again)
        client = IggyClient(config)
        await client.connect()
        assert await read(client, stream) == ["0", "1"]
        for how in ("stop", "kill"):
            end(own, how)
            own.start()  # at the same address
            await back(client, stream)
        assert await read(client, stream) == ["2", "3"]

    with own.client() as admin:
        stream = new_stream(admin)
        send(admin, stream, 1, *(str(number).encode() for number in range(4)))
    asyncio.run(work(stream))
    assert own.stop() == 0, own.text()


def test_a_fresh_start_finds_nothing(tmp_path: Path) -> None:
    with running_broker(tmp_path) as broker, broker.client() as admin:
        stream = new_stream(admin)
        send(admin, stream, 0, b"old")
    broker = BrokerProcess(tmp_path, settings={"IGGY_ROOT_USERNAME": "", "IGGY_ROOT_PASSWORD": ""})
    broker.arguments = ["--fresh", "--with-default-root-credentials"]
    broker.start()
    try:
        with Client.connect(broker.address, "iggy", "iggy") as admin:
            assert admin.get_streams() == ()
            assert [user.name for user in admin.get_users()] == ["iggy"]
            assert admin.create_stream(stream).id == 0
            admin.create_topic(stream, TOPIC, 1)
            with pytest.raises(ClientError) as refused:
                send(admin, stream, 1, b"x")
            assert refused.value.code == ErrorCode.RESOURCE_NOT_FOUND
            sent = admin.send(stream, TOPIC, Partitioning.partition(0), [Message(b"new")])
            assert sent.base_offset == 0
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


class AsOthersStartIt(BrokerProcess):
    """With the variables and the flag that tests of the released client use."""

    def environment(self) -> dict[str, str]:
        ours = {name: value for name, value in os.environ.items() if not name.startswith("IGGY_")}
        return ours | {
            "IGGY_PATH": str(self.data),
            "IGGY_LOGGING_LEVEL": "info",
            "IGGY_TCP_ADDRESS": "127.0.0.1:0",
            "IGGY_HTTP_ENABLED": "false",
            "IGGY_QUIC_ENABLED": "false",
            "IGGY_WEBSOCKET_ENABLED": "false",
            "IGGY_MONITORING_ADDRESS": "127.0.0.1:0",  # ours; two brokers may run here
        }


def test_it_starts_as_tests_of_the_released_client_start_a_server(tmp_path: Path) -> None:
    broker = AsOthersStartIt(tmp_path)
    broker.arguments = ["--with-default-root-credentials"]
    broker.start()  # which finds the address in runtime/current_config.toml
    try:
        with Client.connect(broker.address, "iggy", "iggy") as admin:
            admin.ping()
        assert broker.stop() == 0, broker.text()
        assert "warning" not in {record["level"] for record in broker.records()}
    finally:
        broker.end()
