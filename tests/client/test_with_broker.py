"""Both clients against a real broker process with two shards: every method does its work."""

from collections.abc import Iterator
from itertools import count
from typing import Any

import pytest

from both_clients import Clients
from broker_process import PASSWORD, USERNAME, BrokerProcess, running_broker
from iggy_client import Client, ClientError, LinkError, messages
from iggy_wire.batch import Message, build
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.permissions import GlobalPermissions, Permissions
from iggy_wire.primitives import Consumer, Partitioning, PollingStrategy, partition_of_key

STREAMS = count()


@pytest.fixture(scope="module")
def broker(tmp_path_factory: pytest.TempPathFactory) -> Iterator[BrokerProcess]:
    with running_broker(tmp_path_factory.mktemp("broker"), shards=2) as running:
        yield running


@pytest.fixture(params=["blocking", "async"])
def clients(request: pytest.FixtureRequest) -> Iterator[Clients]:
    made = Clients(request.param)
    yield made
    made.close()


@pytest.fixture
def client(broker: BrokerProcess, clients: Clients) -> Any:
    opened = clients.open(broker.address)
    opened.login(USERNAME, PASSWORD)
    return opened


@pytest.fixture
def stream(client: Any) -> str:
    name = f"stream {next(STREAMS)}"
    client.create_stream(name)
    return name


def batch(*payloads: bytes) -> bytes:
    return bytes(build([Message(payload, id=1) for payload in payloads], origin_timestamp_us=1))


def payloads(polled: Any) -> list[bytes]:
    return [message.payload for message in messages(polled)]


def test_the_server_tells_about_itself(client: Any) -> None:
    client.ping()

    assert client.get_stats().process_id > 0
    assert len(client.get_cluster_metadata().nodes) == 1
    assert client.get_me().client.user_id == 0


def test_streams_come_and_go(client: Any, stream: str) -> None:
    created = client.get_stream(stream).stream
    client.update_stream(stream, f"{stream} renamed")

    assert client.get_stream(stream) is None
    assert client.get_stream(created.id).stream.name == f"{stream} renamed"
    assert created.id in [one.id for one in client.get_streams()]
    with pytest.raises(ClientError) as refusal:
        client.create_stream(f"{stream} renamed")
    assert refusal.value.code == ErrorCode.STREAM_NAME_ALREADY_EXISTS
    client.delete_stream(created.id)
    assert client.get_stream(created.id) is None


def test_topics_and_partitions_come_and_go(client: Any, stream: str) -> None:
    options = {"durability": "persisted", "message_expiry": "7 days", "segment_size": 1 << 20}
    created = client.create_topic(stream, "orders", 2, options)

    told = {one.key: one.get() for one in created.topic.options}
    assert told == options | {"message_expiry": 7 * 24 * 3600 * 1_000_000}
    assert created.topic.message_expiry_us == 7 * 24 * 3600 * 1_000_000
    client.create_partitions(stream, "orders", 3)
    client.delete_partitions(stream, created.topic.id, 1)
    assert [one.id for one in client.get_topic(stream, "orders").partitions] == [0, 1, 2, 3]
    client.update_topic(stream, "orders", "invoices", {"max_topic_size": 1 << 30})
    (topic,) = client.get_topics(stream)
    assert (topic.name, topic.max_topic_size_bytes) == ("invoices", 1 << 30)
    client.delete_topic(stream, "invoices")
    assert client.get_topics(stream) == ()


def test_what_is_sent_is_polled(client: Any, stream: str) -> None:
    client.create_topic(stream, "orders", 4)

    for partition_id in range(4):  # some of them are the other shard's
        assert client.send_batch(stream, "orders", partition_id, batch(b"a", b"b")) == 0
        assert client.send_batch(stream, "orders", partition_id, batch(b"c", b"d")) == 2
        first = client.poll(
            stream, "orders", partition_id, strategy=PollingStrategy.offset(1), count=2
        )
        assert (first.partition_id, first.current_offset, first.count) == (partition_id, 3, 2)
        assert payloads(first) == [b"b", b"c"]
        assert [message.offset for message in messages(first)] == [1, 2]
        last = client.poll(stream, "orders", partition_id, strategy=PollingStrategy.last(), count=1)
        assert payloads(last) == [b"d"]


def test_the_server_picks_a_partition(client: Any, stream: str) -> None:
    client.create_topic(stream, "orders", 3)

    balanced = [
        client.send(stream, "orders", Partitioning.balanced(), [Message(b"x")]).partition_id
        for _ in range(3)
    ]
    keyed = client.send(stream, "orders", Partitioning.key("customer"), [Message(b"x")])

    assert sorted(balanced) == [0, 1, 2]
    assert keyed.partition_id == partition_of_key(b"customer", 3)


def test_offsets_are_stored_and_followed(client: Any, stream: str) -> None:
    client.create_topic(stream, "orders", 2)
    client.send_batch(stream, "orders", 1, batch(b"a", b"b", b"c"))
    target = (stream, "orders", 1)

    assert client.get_offset("me", *target) is None
    assert payloads(client.poll(*target, consumer="me", count=2, auto_commit=True)) == [b"a", b"b"]
    assert client.get_offset("me", *target).stored_offset == 1
    assert payloads(client.poll(*target, consumer="me", count=2)) == [b"c"]
    client.store_offset(Consumer.plain("me"), *target, 0)
    assert payloads(client.poll(*target, consumer="me", count=1)) == [b"b"]
    with pytest.raises(ClientError, match="INVALID_OFFSET"):
        client.store_offset("me", *target, 3)
    client.delete_offset("me", *target)
    assert client.get_offset("me", *target) is None


def test_groups_come_and_go(client: Any, stream: str) -> None:
    client.create_topic(stream, "orders", 2)

    created = client.create_group(stream, "orders", "billing")

    assert client.get_group(stream, "orders", "billing") == created
    assert client.get_groups(stream, "orders") == (created.group,)
    client.delete_group(stream, "orders", created.group.id)
    assert client.get_groups(stream, "orders") == ()


def test_refusals_say_what_to_do(client: Any, stream: str) -> None:
    client.create_topic(stream, "orders", 1)

    with pytest.raises(ClientError, match="create the stream first"):
        client.delete_topic("nowhere", "orders")
    with pytest.raises(ClientError, match="partitions count from 0"):
        client.poll(stream, "orders", 9, count=1)
    with pytest.raises(ClientError, match="check that stream, topic and partition exist"):
        client.send_batch(stream, "orders", 9, batch(b"a"))
    with pytest.raises(ClientError, match="check the spelling of the option"):
        client.create_topic(stream, "other", 1, {"mesage_expiry": "1 h"})
    client.ping()


def test_a_session_ends_and_begins_again(client: Any) -> None:
    client.logout()
    with pytest.raises(ClientError) as refusal:
        client.get_streams()
    assert refusal.value.code == ErrorCode.UNAUTHENTICATED

    with pytest.raises(ClientError, match="check username and password"):
        client.login(USERNAME, "not the password")
    client.login(USERNAME, PASSWORD)
    client.get_streams()

    client.reconnect()
    client.get_streams()


def test_long_listings_come_whole(broker: BrokerProcess) -> None:
    names = [f"{'€' * 82}{number:09d}" for number in range(1000)]  # 255 bytes each
    with Client.connect(broker.address, USERNAME, PASSWORD) as client:
        created = [client.create_stream(name) for name in names]

        listed = {one.id: one.name for one in client.get_streams()}

        assert [listed[one.id] for one in created] == names


def test_users_and_tokens_come_and_go(client: Any, clients: Clients, broker: BrokerProcess) -> None:
    name = f"user {next(STREAMS)}"
    made = client.create_user(name, "some secret", permissions=Permissions())
    assert (made.user.name, made.permissions) == (name, Permissions())
    client.update_permissions(name, Permissions(GlobalPermissions(read_servers=True)))
    client.change_password(name, "some secret", "another")
    client.update_user(name, username=f"{name} renamed")
    assert client.get_user(name) is None
    assert made.user.id in [user.id for user in client.get_users()]

    other = clients.open(broker.address)
    other.login(f"{name} renamed", "another")
    token = other.create_access_token("ci", 3_600_000_000)
    assert [one.name for one in other.get_access_tokens()] == ["ci"]
    me = other.get_me().client
    assert client.get_client(me.client_id).client == me
    assert me in client.get_clients()
    other.logout()
    assert other.login_with_token(token).user_id == made.user.id
    other.delete_access_token("ci")
    assert other.get_snapshot([4], 1).startswith(b"PK")
    assert "durability" in [one.key for one in client.describe_options(1)]

    client.delete_user(made.user.id)
    with pytest.raises(ClientError, match="UNAUTHENTICATED"):
        other.get_me()


def test_limits_hold_at_the_edge(broker: BrokerProcess) -> None:
    with Client.connect(broker.address, USERNAME, PASSWORD) as client:
        client.create_stream("edges")
        client.create_topic("edges", "t", 1)
        target = ("edges", "t", Partitioning.partition(0))
        largest = Message(bytes(64_000_000), id=1)
        headed = Message(b"x", id=2, headers=bytes(100_000))

        client.send(*target, [largest])
        client.send(*target, [headed])
        with pytest.raises(WireError, match="64000001"):
            client.send(*target, [Message(bytes(64_000_001))])
        with pytest.raises(WireError, match="100001"):
            client.send(*target, [Message(b"x", headers=bytes(100_001))])
        with pytest.raises(LinkError, match=r"most servers take 64 MiB|closed"):
            client.send_batch("edges", "t", 0, bytes(65 << 20))
        client.reconnect()

        strategy = PollingStrategy.first()
        first = client.poll("edges", "t", 0, strategy=strategy, count=1)
        second = client.poll("edges", "t", 0, strategy=PollingStrategy.offset(1), count=9)
        assert payloads(first) == [largest.payload]
        assert [one.headers for one in messages(second)] == [headed.headers]


def test_a_broker_that_goes_away_is_a_link_error(tmp_path_factory: pytest.TempPathFactory) -> None:
    broker = BrokerProcess(tmp_path_factory.mktemp("short"), shards=1).start()
    with Client.connect(broker.address, USERNAME, PASSWORD) as client:
        client.create_stream("kept")
        broker.kill()
        with pytest.raises(LinkError):
            client.ping()

        broker.start()
        client.reconnect()
        assert client.get_stream("kept") is not None
    assert broker.stop() == 0
