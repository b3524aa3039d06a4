"""Stored offsets, case by case, on a broker with two shards: what is kept, read and refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest

from access_cases import code_of
from broker_process import BrokerProcess
from group_cases import GROUP, TOPIC, fill, make_topic, offset_files, read
from iggy_client import Client
from iggy_wire.codes import Operation
from iggy_wire.errors import ErrorCode
from iggy_wire.header import ReplyHeader
from iggy_wire.permissions import GlobalPermissions, Permissions
from iggy_wire.primitives import AckLevel, Consumer, Identifier
from iggy_wire.replies import StoredOffset
from iggy_wire.requests import DeleteConsumerOffset, GetConsumerOffset, StoreConsumerOffset
from raw_frames import RawClient

PARTITIONS = 4  # both shards own some
ME = Consumer.plain("me")
NOT_FOUND = ErrorCode.RESOURCE_NOT_FOUND
BEYOND = (5, 1 << 63, (1 << 64) - 1)


@pytest.fixture
def root(broker: BrokerProcess) -> Iterator[Client]:
    with broker.client() as client:
        yield client


@pytest.fixture
def stream(root: Client) -> str:
    """Five messages in each partition, group `g`."""
    return make_topic(root, partitions=PARTITIONS, per_partition=5)


def stored(client: Client, stream: str, partition: int, consumer: Consumer = ME) -> int | None:
    found = client.get_offset(consumer, stream, TOPIC, partition)
    return None if found is None else found.stored_offset


@pytest.mark.parametrize("consumer", [ME, GROUP], ids=["consumer", "member"])
@pytest.mark.parametrize("partition", range(PARTITIONS))
def test_what_lies_beyond_the_end_is_refused_and_the_old_value_stays(
    root: Client, consumer: Consumer, partition: int
) -> None:
    stream = make_topic(root, partitions=PARTITIONS)
    root.join_group(stream, TOPIC, "g")

    def store(offset: int) -> ErrorCode | None:
        return code_of(lambda: root.store_offset(consumer, stream, TOPIC, partition, offset))

    for offset in (0, 1):
        assert store(offset) == ErrorCode.INVALID_OFFSET, "the partition is empty"
        assert stored(root, stream, partition, consumer) is None
    fill(root, stream, partition, 5)
    for offset in (2, 4):
        assert store(offset) is None
        assert stored(root, stream, partition, consumer) == offset
        for beyond in BEYOND:
            assert store(beyond) == ErrorCode.INVALID_OFFSET
            assert stored(root, stream, partition, consumer) == offset
    assert store(1) is None, "back is fine"
    assert stored(root, stream, partition, consumer) == 1


def test_missing_things_are_not_found_or_none(root: Client, stream: str) -> None:
    """Of stores and deletes; a read of what is missing finds nothing, but for a partition."""
    cases: list[tuple[Consumer, str | int, str]] = [
        (ME, "nowhere", TOPIC),
        (ME, 4000, TOPIC),
        (ME, stream, "nothing"),
        (Consumer.group("nobody's"), stream, TOPIC),
        (Consumer.group(77), stream, TOPIC),
    ]
    for consumer, at, topic in cases:
        doings: list[Callable[[], object]] = [
            partial(root.store_offset, consumer, at, topic, 0, 0),
            partial(root.delete_offset, consumer, at, topic, 0),
        ]
        assert [code_of(doing) for doing in doings] == [NOT_FOUND, NOT_FOUND]
        assert root.get_offset(consumer, at, topic, 0) is None
    assert code_of(lambda: root.store_offset(ME, stream, TOPIC, 4, 0)) == NOT_FOUND
    assert code_of(lambda: root.delete_offset(ME, stream, TOPIC, 4)) == NOT_FOUND
    missing = code_of(lambda: root.get_offset(ME, stream, TOPIC, 4))
    assert missing == ErrorCode.PARTITION_NOT_FOUND
    assert root.get_offset(ME, stream, TOPIC, 0) is None, "a consumer that is new"


def test_a_partition_that_is_not_named_is_the_first_one_for_reads_only(
    broker: BrokerProcess, root: Client, stream: str
) -> None:
    name, topic = Identifier(stream), Identifier(TOPIC)
    root.store_offset(ME, stream, TOPIC, 0, 3)
    with RawClient(broker.tcp_port) as raw:
        raw.login()
        header, body = raw.ask(GetConsumerOffset(ME, name, topic, None))
        assert isinstance(header, ReplyHeader) and header.status == 0
        assert StoredOffset.decode(body) == StoredOffset(0, 4, 3)
        for request in (
            StoreConsumerOffset(ME, name, topic, None, 1),
            DeleteConsumerOffset(ME, name, topic, None),
        ):
            header, body = raw.ask(request)
            assert isinstance(header, ReplyHeader)
            assert (header.status, body) == (NOT_FOUND, b"")
    assert stored(root, stream, 0) == 3


def test_bytes_outside_their_lists_are_not_found(
    broker: BrokerProcess, root: Client, stream: str
) -> None:
    """The kind of the consumer is the first byte, the ack level of a change the last."""
    right = StoreConsumerOffset(ME, Identifier(stream), Identifier(TOPIC), 1, 2).encode()
    with RawClient(broker.tcp_port) as raw:
        raw.login()
        for operation, body in (
            (Operation.STORE_CONSUMER_OFFSET, bytes((0,)) + right[1:]),
            (Operation.STORE_CONSUMER_OFFSET, bytes((3,)) + right[1:]),
            (Operation.STORE_CONSUMER_OFFSET, right[:-1] + bytes((2,))),
            (Operation.DELETE_CONSUMER_OFFSET, bytes((9,)) + right[1:-9] + right[-1:]),
            (Operation.DELETE_CONSUMER_OFFSET, right[:-9] + bytes((255,))),
        ):
            header, answer = raw.exchange(operation, body)
            assert isinstance(header, ReplyHeader)
            assert (header.status, answer) == (NOT_FOUND, b"")
        for ack in AckLevel:
            request = StoreConsumerOffset(
                ME, Identifier(stream), Identifier(TOPIC), 1, 2 + ack, ack=ack
            )
            assert raw.ask(request)[1] == bytes(4)
            assert stored(root, stream, 1) == 2 + ack, "at once, whatever the level"


def test_each_consumer_has_its_own_offset_in_each_partition(root: Client, stream: str) -> None:
    other = make_topic(root, partitions=PARTITIONS, per_partition=5)
    root.create_topic(stream, "u", 1)
    root.join_group(stream, TOPIC, "g")
    root.store_offset(Consumer.plain(0), stream, TOPIC, 1, 3)
    group_id = root.create_group(stream, TOPIC, "h").group.id

    for consumer, where, partition in (
        (GROUP, (stream, TOPIC), 1),  # its number is 0, too
        (Consumer.group(group_id), (stream, TOPIC), 1),
        (Consumer.plain(1), (stream, TOPIC), 1),
        (Consumer.plain("0"), (stream, TOPIC), 1),  # a name
        (Consumer.plain(0), (stream, TOPIC), 0),
        (Consumer.plain(0), (stream, TOPIC), 2),
        (Consumer.plain(0), (stream, "u"), 0),
        (Consumer.plain(0), (other, TOPIC), 1),
    ):
        assert root.get_offset(consumer, *where, partition) is None
    assert stored(root, stream, 1, Consumer.plain(0)) == 3
    root.store_offset(GROUP, stream, TOPIC, 1, 1)
    assert stored(root, stream, 1, Consumer.plain(0)) == 3
    assert stored(root, stream, 1, GROUP) == 1


@pytest.mark.parametrize("partition", [0, 1, 2, 3])
def test_a_deleted_offset_lets_next_begin_again(root: Client, stream: str, partition: int) -> None:
    root.store_offset("me", stream, TOPIC, partition, 3)
    assert root.poll(stream, TOPIC, partition, consumer="me", count=9).count == 1
    root.delete_offset("me", stream, TOPIC, partition)
    assert stored(root, stream, partition) is None
    assert root.poll(stream, TOPIC, partition, consumer="me", count=9).count == 5
    again = code_of(lambda: root.delete_offset("me", stream, TOPIC, partition))
    assert again == ErrorCode.CONSUMER_OFFSET_NOT_FOUND


def test_the_offset_of_a_group_is_read_by_whoever_may_poll(
    broker: BrokerProcess, root: Client, stream: str
) -> None:
    name, secret = f"reader of {stream}", "of-some-user"
    root.create_user(name, secret, permissions=Permissions(GlobalPermissions(poll_messages=True)))
    root.join_group(stream, TOPIC, "g")
    with Client.connect(broker.address, name, secret) as outsider:
        for partition in range(PARTITIONS):
            root.store_offset(GROUP, stream, TOPIC, partition, partition)
            assert stored(outsider, stream, partition, GROUP) == partition
            write = code_of(partial(outsider.store_offset, GROUP, stream, TOPIC, partition, 0))
            assert write == NOT_FOUND
    root.delete_user(name)


THINGS = ("group", "partitions", "topic", "stream")


def test_what_is_deleted_takes_its_offsets_along_for_good(tmp_path: Path) -> None:
    """The namesake that comes next starts with none; also when a restart lies between."""
    broker = BrokerProcess(tmp_path, shards=2).start()
    try:
        with broker.client() as client:
            for what in THINGS:
                _check_namesake(client, _deleted(client, what), what)
            later = {what: _deleted(client, what) for what in THINGS}
        assert broker.stop() == 0, broker.text()
        broker.start()
        with broker.client() as client:
            for what, stream in later.items():
                _check_namesake(client, stream, what)
        assert offset_files(broker.data) == []
        assert broker.stop() == 0, broker.text()
    finally:
        broker.end()


def _deleted(client: Client, what: str) -> str:
    """A stream of whose topic this was deleted, after a group and a consumer had stored offsets."""
    stream = make_topic(client, partitions=PARTITIONS, per_partition=5)
    client.join_group(stream, TOPIC, "g")
    for partition in range(PARTITIONS):
        read(client, stream, partition, auto_commit=True)
        client.store_offset(ME, stream, TOPIC, partition, 2)
    _delete(client, stream, what)
    return stream


def _check_namesake(client: Client, stream: str, what: str) -> None:
    _make_again(client, stream, what)
    kept = 2 if what == "group" else None  # a consumer's, not the group's
    for partition in range(PARTITIONS):
        assert stored(client, stream, partition, GROUP) is None
        assert stored(client, stream, partition) == kept
    client.delete_stream(stream)


def _delete(client: Client, stream: str, what: str) -> None:
    if what == "group":
        client.delete_group(stream, TOPIC, "g")
    elif what == "partitions":
        client.delete_partitions(stream, TOPIC, PARTITIONS)
    elif what == "topic":
        client.delete_topic(stream, TOPIC)
    else:
        client.delete_stream(stream)


def _make_again(client: Client, stream: str, what: str) -> None:
    if what == "stream":
        client.create_stream(stream)
    if what in ("stream", "topic"):
        client.create_topic(stream, TOPIC, PARTITIONS)
    if what == "partitions":
        client.create_partitions(stream, TOPIC, PARTITIONS)
    else:
        client.create_group(stream, TOPIC, "g")
    for partition in range(PARTITIONS if what != "group" else 0):
        fill(client, stream, partition, 1)
