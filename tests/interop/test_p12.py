"""Clients of protocol 0.12: what they are told beyond P11, and what they may not any more."""

from collections.abc import Iterator
from typing import Any
from uuid import uuid4

import pytest

from broker_process import BrokerProcess
from iggy_broker.errors import Deny, Reject
from iggy_broker.net.p12 import renamed
from iggy_client.client import Client
from iggy_wire import replies_p12, requests
from iggy_wire.batch import Message, build, messages
from iggy_wire.codes import Command
from iggy_wire.dialect import DIALECTS, Dialect, pack_version
from iggy_wire.errors import ErrorCode
from iggy_wire.header import EvictionReason, PartitionContext
from iggy_wire.options import Option, ValueKind
from iggy_wire.primitives import (
    Consumer,
    Identifier,
    Partitioning,
    PollingStrategy,
)
from iggy_wire.replies import LoginReply
from iggy_wire.requests_p12 import Scope, UpdateResource
from p12_client import P12Client

STEPS = [dialect for dialect in DIALECTS if dialect.is_p12]
ROOT = Identifier(0)


def unique(prefix: str) -> str:
    return f"{prefix}-{uuid4().hex[:10]}"


@pytest.fixture
def client(broker: BrokerProcess) -> Iterator[P12Client]:
    with P12Client(broker.tcp_port) as client:
        client.login()
        yield client


def made_topic(client: P12Client, *, partitions: int = 1) -> tuple[Identifier, Identifier]:
    stream, topic = Identifier(unique("stream")), Identifier("topic")
    client.read(requests.CreateStream(str(stream.value)))
    client.read(requests.CreateTopic(stream, partitions, "topic"))
    return stream, topic


def life(client: P12Client, stream: Identifier, topic: Identifier, partition: int = 0) -> int:
    details = client.read(requests.GetTopic(stream, topic))
    placed: replies_p12.PlacedPartition = details.partitions[partition]
    return placed.partition.incarnation


def sent(stream: Identifier, topic: Identifier, partition: int, *texts: bytes) -> Any:
    batch = build([Message(text) for text in texts], origin_timestamp_us=1)
    where = Partitioning.partition(partition)
    return requests.SendMessages(stream, topic, where, len(texts), bytes(batch))


def poll(
    stream: Identifier, topic: Identifier, partition: int, consumer: Consumer | None = None
) -> requests.PollMessages:
    who = consumer or Consumer.plain(7)
    return requests.PollMessages(stream=stream, topic=topic, consumer=who, partition_id=partition,
                                 strategy=PollingStrategy.first(), count=100)  # fmt: skip


@pytest.mark.parametrize("step", STEPS, ids=lambda step: f"{step.version:#x}")
def test_each_step_is_answered_in_its_own_layouts(broker: BrokerProcess, step: Dialect) -> None:
    with P12Client(broker.tcp_port, step) as client:
        login = client.login()
        told = LoginReply.decode(login.payload)
        assert (told.user_id, told.protocol_version) == (0, step.version)
        assert login.committed
        assert login.header.op == login.header.commit > 0
        stream, topic = made_topic(client, partitions=2)

        described = client.ask(requests.GetTopic(stream, topic))
        details = step.replies[requests.GetTopic.command].decode(described.payload)
        assert details.encode() == described.payload, "and not a byte more"
        listed = client.read(requests.GetStream(stream))
        assert listed.topics == (details.topic,)
        assert [option.key for option in listed.stream.derived] == ["encryption_key_source"]
        assert client.read(requests.GetUser(ROOT)).user.derived == ()
        stats = client.read(requests.GetStats())
        assert 0 < stats.open_files <= stats.open_files_max
        (node,) = client.read(requests.GetClusterMetadata()).nodes
        assert (node.node_id, node.tcp_port) == (0, broker.tcp_port)


def test_versions_in_between_are_told_the_window(broker: BrokerProcess) -> None:
    for version in (pack_version(0, 11, 1), pack_version(0, 12, 3)):
        dialect = Dialect("no", version, {}, {})
        with (
            P12Client(broker.tcp_port, dialect) as client,
            pytest.raises(ConnectionRefusedError) as refusal,
        ):
            client.login()
        assert refusal.value.args == (EvictionReason.INCOMPATIBLE_PROTOCOL,)


def test_a_change_is_committed_and_a_retry_is_recognised(client: P12Client) -> None:
    name = unique("stream")
    made = client.ask(requests.CreateStream(name))
    again = client.again()
    taken = client.ask(requests.CreateStream(name))

    assert (made.code, made.committed) == (0, True)
    assert again == made
    assert (taken.code, taken.committed) == (ErrorCode.STREAM_NAME_ALREADY_EXISTS, True)
    reused = client.ask(requests.CreateStream(unique("stream")), number=client.number)
    assert (reused.code, reused.committed) == (ErrorCode.REQUEST_ALREADY_APPLIED, False)


@pytest.mark.parametrize("partition", [0, 1], ids=["here or there", "there or here"])
def test_messages_and_offsets_in_their_context(client: P12Client, partition: int) -> None:
    stream, topic = made_topic(client, partitions=2)
    incarnation = life(client, stream, topic, partition)
    now, before = PartitionContext(incarnation), PartitionContext(incarnation - 1)
    send = sent(stream, topic, partition, b"one", b"two")
    read = poll(stream, topic, partition)
    where = (read.consumer, stream, topic, partition)
    store = requests.StoreConsumerOffset(*where, 1)
    get = requests.GetConsumerOffset(*where)

    for request in (send, read, store, get):
        for wrong in (before, PartitionContext()):
            refused = client.ask(request, wrong)
            assert refused.code == ErrorCode.HISTORY_UNAVAILABLE
            assert not refused.committed
    confirmed, stored = client.ask(send, now), client.ask(store, now)
    polled = client.ask(read, now)

    for answer in (confirmed, stored):
        assert (answer.code, answer.committed, answer.incarnation) == (0, True, incarnation)
        assert answer.header.op == answer.header.commit > 0
    assert (polled.committed, polled.incarnation) == (False, incarnation)
    got = replies_p12.Polled.decode(polled.payload)
    assert [one.payload for one in messages(got.region)] == [b"one", b"two"]
    assert (got.incarnation, got.owner_generation) == (incarnation, 0)
    assert got.metadata_op >= incarnation
    assert client.ask(get, now).payload
    owned = PartitionContext(incarnation, owner_generation=1)
    assert client.ask(read, owned).code == ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED


def test_a_send_is_stored_once_however_often_it_comes(
    client: P12Client, broker: BrokerProcess
) -> None:
    stream, topic = made_topic(client, partitions=2)
    now = PartitionContext(life(client, stream, topic, 1))
    first = client.ask(sent(stream, topic, 1, b"once"), now)
    frame = client.sent
    assert client.again().payload == first.payload
    with P12Client(broker.tcp_port, client=client.raw.client, secret=client.secret) as other:
        other.number = client.number
        other.bind(client.raw.session)
        other.sent = frame
        assert other.again().payload == first.payload
        got = other.read(poll(stream, topic, 1), now)
    assert [one.payload for one in messages(got.region)] == [b"once"]


def test_a_group_reads_what_is_its_own(client: P12Client) -> None:
    stream, topic = made_topic(client)
    now = PartitionContext(life(client, stream, topic))
    client.ask(sent(stream, topic, 0, b"for the group"), now)
    client.read(requests.CreateConsumerGroup(stream, topic, "group"))
    read = poll(stream, topic, 0, Consumer.group("group"))

    store = requests.StoreConsumerOffset(Consumer.group("group"), stream, topic, 0, 0)
    for request in (read, store):
        answer = client.ask(request, now)
        assert answer.header.status == ErrorCode.CONSUMER_GROUP_PARTITION_NOT_OWNED
    client.read(requests.JoinConsumerGroup(stream, topic, Identifier("group")))
    got = client.read(read, now)
    assert [one.payload for one in messages(got.region)] == [b"for the group"]
    assert got.owner_generation > 0
    known = PartitionContext(got.incarnation, got.owner_generation, got.metadata_op)
    assert client.ask(store, known).committed


def test_one_update_for_streams_topics_and_users(client: P12Client, admin: Client) -> None:
    stream, topic = made_topic(client)
    admin.create_user(name := unique("user"), "password")
    expiry = Option.of("message_expiry", 60_000_000)
    text = {key: Option.of(key, key + name) for key in ("name", "username")}
    inactive = Option.of("status", "inactive")

    user = UpdateResource(Scope.USER, (Identifier(name),), (), (inactive, text["username"]))
    for change in (
        UpdateResource(Scope.TOPIC, (stream, topic), (), (expiry,)),
        user,
        UpdateResource(Scope.STREAM, (stream,), (), (text["name"],)),
    ):
        answer = client.ask(change)
        assert (answer.code, answer.committed, answer.payload) == (0, True, b"")

    stream = Identifier("name" + name)
    assert client.read(requests.GetTopic(stream, topic)).topic.options == (expiry,)
    changed = client.read(requests.GetUser(Identifier("username" + name))).user
    assert changed.status == 2
    reset = UpdateResource(Scope.TOPIC, (stream, topic), ("message_expiry",))
    client.read(reset)
    header = client.read(requests.GetTopic(stream, topic)).topic
    assert header.options == ()
    assert "message_expiry" in {option.key for option in header.derived}


def _option(key: str, value: str | int | bytes) -> tuple[Option, ...]:
    return (Option.of(key, value),)


T, S, U = Scope.TOPIC, Scope.STREAM, Scope.USER


@pytest.mark.parametrize(
    ("scope", "resets", "options", "code"),
    [
        (T, ("nothing",), _option("message_expiry", 5), "UNSUPPORTED_OPTION_KEY"),
        (S, (), _option("encryption_key_source", "server"), "READ_ONLY_OPTION"),
        (U, ("critical_keys",), (), "READ_ONLY_OPTION"),
        (S, (), _option("encryption_key", bytes(32)), "OPTION_NOT_UPDATABLE"),
        (T, (), _option("compression_algorithm", "gzip"), "OPTION_NOT_UPDATABLE"),
        (T, ("segment_size",), (), "OPTION_NOT_UPDATABLE"),
        (T, ("name",), (), "OPTION_NOT_RESETTABLE"),
        (S, (), (Option("name", ValueKind.RAW, b"raw"),), "INVALID_STREAM_NAME"),
        (T, (), (Option("name", ValueKind.STRING, b"\xff"),), "INVALID_TOPIC_NAME"),
        (U, (), _option("username", "ab"), "INVALID_USERNAME"),
        (U, (), _option("status", "asleep"), "INVALID_USER_STATUS"),
        (T, (), _option("message_expiry", "soon"), "INVALID_OPTION_VALUE"),
        (T, (), _option("message_expiry", 0), "INVALID_COMMAND"),
        (U, (), _option("username", "somebody"), "CANNOT_MODIFY_ROOT_USER"),
    ],
    ids=lambda value: None,
)
def test_updates_that_cannot_be_are_refused(
    client: P12Client, scope: Scope, resets: tuple[str, ...], options: Any, code: str
) -> None:
    stream, topic = made_topic(client)
    target = {T: (stream, topic), S: (stream,), U: (ROOT,)}[scope]

    answer = client.ask(UpdateResource(scope, target, resets, options))

    assert ErrorCode(answer.code).name == code
    assert answer.committed == (code == "CANNOT_MODIFY_ROOT_USER")


def test_the_catalogue_has_flags(client: P12Client) -> None:
    described = [
        {one.key: one.flags for one in client.read(requests.DescribeOptions(scope)).options}
        for scope in Scope
    ]

    assert described[0]["message_expiry"] == 3
    assert described[0]["compression_algorithm"] == 0
    assert described[1] == {"name": 1, "encryption_key_source": 8}
    assert described[2] == {"username": 1, "status": 1}


def test_what_p12_has_retired_is_unknown_there(client: P12Client) -> None:
    stream, topic = made_topic(client)
    for request in (
        requests.UpdateStream(stream, "other"),
        requests.UpdateTopic(stream, topic, "other"),
        requests.UpdateUser(ROOT, "other"),
        requests.PurgeStream(stream),
        requests.PurgeTopic(stream, topic),
        requests.FlushUnsavedBuffer(stream, topic, 0),
    ):
        assert client.ask(request).header.status == ErrorCode.INVALID_COMMAND


def test_an_update_needs_the_permission_of_what_it_changes(
    client: P12Client, broker: BrokerProcess, admin: Client
) -> None:
    stream, _ = made_topic(client)
    admin.create_user(name := unique("user"), "password")
    with P12Client(broker.tcp_port) as other:
        other.login(name, "password")
        update = UpdateResource(Scope.STREAM, (stream,), (), _option("name", "mine"))
        answer = other.ask(update)
    assert (answer.code, answer.committed) == (ErrorCode.UNAUTHORIZED, True)


def test_a_session_goes_on_on_another_connection(broker: BrokerProcess, admin: Client) -> None:
    with P12Client(broker.tcp_port) as client:
        session = LoginReply.decode(client.login().payload).session
        stream, topic = made_topic(client)
        client.read(requests.CreateConsumerGroup(stream, topic, "group"))
        client.read(requests.JoinConsumerGroup(stream, topic, Identifier("group")))
        made = client.ask(requests.CreateStream(unique("stream")))
        numbers, secret, mine = client.number, client.secret, client.raw.client
        last = client.sent

    sync = requests.SyncConsumerGroup(stream, topic, Identifier("group"))
    for known in (session, 0):
        with P12Client(broker.tcp_port, client=mine, secret=secret) as client:
            client.number = numbers
            assert client.bind(session, secret=bytes(32)).code == ErrorCode.UNAUTHENTICATED
            assert client.bind(session + 1).code == ErrorCode.UNAUTHENTICATED
            bound = LoginReply.decode(client.bind(known).payload)
            assert (bound.user_id, bound.session) == (0, session)
            client.raw.session = session
            assert client.read(sync).partitions == (0,)
            client.sent = last
            assert client.again() == made
            numbers = client.number
    with P12Client(broker.tcp_port, client=mine, secret=secret) as other:
        other.login()
        other.read(sync)
        other.read(requests.Logout())
    with P12Client(broker.tcp_port, client=mine, secret=secret) as other:
        assert other.bind(session).code == ErrorCode.UNAUTHENTICATED
    group = admin.get_group(stream, topic, "group")
    assert group is not None
    assert group.group.members_count == 0


def test_a_session_ends_with_its_user(broker: BrokerProcess, admin: Client) -> None:
    admin.create_user(name := unique("user"), "password")
    with P12Client(broker.tcp_port) as client:
        session = LoginReply.decode(client.login(name, "password").payload).session
        secret, mine = client.secret, client.raw.client
    admin.delete_user(name)
    with P12Client(broker.tcp_port, client=mine, secret=secret) as client:
        assert client.bind(session).code == ErrorCode.UNAUTHENTICATED


def test_a_topic_may_keep_its_partitions(client: P12Client) -> None:
    stream, _ = made_topic(client)
    fixed = _option("partition_resize_policy", "fixed")
    made = client.read(requests.CreateTopic(stream, 2, "fixed", fixed))
    assert made.topic.options == fixed
    for name, code in (("fixed", ErrorCode.PARTITION_RESIZE_DISABLED), ("topic", 0)):
        topic = Identifier(name)
        for request in (
            requests.CreatePartitions(stream, topic, 1),
            requests.DeletePartitions(stream, topic, 1),
        ):
            answer = client.ask(request)
            assert (answer.code, answer.committed) == (code, True)
    derived = {one.key for one in client.read(requests.GetTopic(stream, topic)).topic.derived}
    described = {one.key for one in client.read(requests.DescribeOptions(Scope.TOPIC)).options}
    assert derived == described - {"name"}


def test_a_stream_has_no_key_of_its_own(client: P12Client) -> None:
    for key, code in (
        (bytes(32), ErrorCode.STREAM_ENCRYPTION_UNAVAILABLE),
        ("A" * 43 + "=", ErrorCode.STREAM_ENCRYPTION_UNAVAILABLE),
        (bytes(31), ErrorCode.INVALID_ENCRYPTION_KEY),
        ("A" * 43, ErrorCode.INVALID_ENCRYPTION_KEY),
    ):
        request = requests.CreateStream(unique("stream"), _option("encryption_key", key))
        assert client.ask(request).header.status == code


def test_p12_has_numbers_for_what_p11_refuses_in_general() -> None:
    many = Reject(ErrorCode.FEATURE_UNAVAILABLE, "limit")
    assert renamed(many, Command.CREATE_CONSUMER_GROUP).code == ErrorCode.TOO_MANY_CONSUMER_GROUPS
    assert renamed(many, Command.JOIN_CONSUMER_GROUP) is many
    asked = Deny(ErrorCode.TOO_MANY_PARTITIONS, "ask for 1 to 1000")
    assert renamed(asked, Command.CREATE_PARTITIONS) is asked
