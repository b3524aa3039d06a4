"""A broker in memory behind the seam of `iggy_operator.broker_admin`: it answers real requests.

Requests are those of `iggy_client.calls`, replies are encoded and read back. It knows streams,
topics and groups as metadata; messages are numbers that a test sets.
"""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Callable, Mapping
from typing import Any, TypeVar

import msgspec

import fake_broker_users
from batches import Body, make_batch
from fake_broker_users import Person
from iggy_client import ClientError, LinkError, Tls
from iggy_client.session import Call
from iggy_wire import replies, requests
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Option
from iggy_wire.primitives import Identifier
from planted_faults import Faults

T = TypeVar("T")
ADDRESS, USERNAME, PASSWORD = "iggy.example:8090", "root", "of-the-fake-broker"
FOREVER = (1 << 64) - 1
_COMPRESSIONS = {"none": 1, "gzip": 2}


class FakeBroker:
    """State and counters; `connect` is what a `BrokerAdmin` is given."""

    def __init__(self, faults: Faults | None = None) -> None:
        self.faults = faults or Faults()
        self.streams: dict[str, replies.Stream] = {}
        self.topics: dict[tuple[str, str], replies.TopicHeader] = {}
        self.groups: dict[tuple[str, str], list[str]] = {}
        self.members: dict[str, int] = {}  # of a group
        self.ends: dict[tuple[str, str, int], int] = {}  # messages of a partition
        self.stored: dict[tuple[str, str, str, int], int] = {}  # stream, topic, group, partition
        self.people: dict[str, Person] = {}
        self.caller = USERNAME
        self.is_down = False
        self.password = PASSWORD
        self.address = ADDRESS
        self.username = USERNAME
        self.disk = (0, 0)
        """Bytes of its disk, and how many of them are free."""
        self.attempts = 0
        self.message_time_us: int | None = None
        self.message_times_us: dict[tuple[str, str, int], int] = {}  # where it differs
        self.root_changed: Callable[[str], None] = lambda password: None
        self.tls: Tls | None = None
        """As the last one who connected wanted it."""
        self.cuts = 0
        self._numbers = itertools.count(1)

    async def connect(
        self, address: str, username: str, password: str, *, tls: Tls | None
    ) -> FakeConnection:
        await asyncio.sleep(0)
        self.attempts += 1
        self.tls = tls
        if self.is_down or address != self.address:
            raise LinkError(f"cannot connect to {address}: connection refused")
        found = self.people.get(username)
        right = self.password if username == self.username else found and found.password
        if password != right:
            raise ClientError(ErrorCode.INVALID_CREDENTIALS, f"login of {username}")
        if found is not None and found.user.status != 1:
            raise ClientError(ErrorCode.USER_INACTIVE, f"login of {username}")
        return FakeConnection(self, username)

    def cut(self) -> None:
        """All connections end."""
        self.cuts += 1

    def lose_everything(self) -> None:
        """As a broker on an empty volume."""
        self.streams.clear()
        self.topics.clear()
        self.groups.clear()
        self.people.clear()

    def change_root(self, password: str) -> None:
        """Root has another password; where a volume keeps it, that knows."""
        self.password = password
        self.root_changed(password)

    def fill(self, stream: str, topic: str, *, messages: int) -> None:
        """That many messages in a topic."""
        header = self.topics[stream, topic]
        self.topics[stream, topic] = msgspec.structs.replace(header, messages_count=messages)

    def make_topic(self, stream: str, topic: str, partitions: int = 1, **options: Any) -> None:
        """As somebody else would."""
        if stream not in self.streams:
            self.answer(requests.CreateStream(stream))
        pairs = tuple(Option.of(key, value) for key, value in options.items())
        self.answer(requests.CreateTopic(Identifier(stream), partitions, topic, pairs))

    def drop_topic(self, stream: str, topic: str) -> None:
        """As somebody else would."""
        self.answer(requests.DeleteTopic(Identifier(stream), Identifier(topic)))

    def answer(self, request: Any) -> Any:
        """The reply to a request, or None for an empty one. Raises ClientError."""
        return _HANDLERS[type(request)](self, request)

    def next_number(self) -> int:
        """Never twice: ids and creation times."""
        return next(self._numbers)

    def stream(self, identifier: Identifier) -> str:
        """The name of a stream that is there."""
        if identifier.value not in self.streams:
            raise ClientError(ErrorCode.STREAM_ID_NOT_FOUND, f"stream {identifier.value}")
        return str(identifier.value)

    def topic(self, request: Any) -> tuple[str, str]:
        """Stream and topic that are there."""
        key = self.stream(request.stream), str(request.topic.value)
        if key not in self.topics:
            raise ClientError(ErrorCode.TOPIC_ID_NOT_FOUND, f"topic {key[1]}")
        return key

    def shown(self, name: str) -> replies.Stream:
        """A stream with its counts."""
        headers = [header for (stream, _), header in self.topics.items() if stream == name]
        return msgspec.structs.replace(
            self.streams[name],
            topics_count=len(headers),
            messages_count=sum(header.messages_count for header in headers),
        )


class FakeConnection:
    """One connection, as `AsyncClient`."""

    def __init__(self, broker: FakeBroker, username: str) -> None:
        self._broker = broker
        self._username = username
        self._cuts = broker.cuts

    async def call(self, call: Call[T]) -> T:
        await asyncio.sleep(0)
        name = type(call.request).__name__
        if self._broker.is_down or self._broker.cuts != self._cuts:
            raise LinkError(f"the connection to {ADDRESS} was closed by the server")
        is_write = not name.startswith("Get")
        made = self._broker.faults.before(name, call.request, is_write=is_write)
        self._broker.caller = self._username
        reply = self._broker.answer(call.request)
        self._broker.faults.after(made)
        return call.read(memoryview(b"" if reply is None else reply.encode()))

    async def close(self) -> None:
        await asyncio.sleep(0)


def _get_streams(broker: FakeBroker, request: requests.GetStreams) -> replies.Streams:
    return replies.Streams(tuple(broker.shown(name) for name in broker.streams))


def _get_stream(broker: FakeBroker, request: requests.GetStream) -> replies.StreamDetails | None:
    name = request.stream.value
    if name not in broker.streams:
        return None
    assert isinstance(name, str)
    headers = [header for (stream, _), header in broker.topics.items() if stream == name]
    return replies.StreamDetails(broker.shown(name), tuple(headers))


def _create_stream(broker: FakeBroker, request: requests.CreateStream) -> replies.Stream:
    if request.name in broker.streams:
        raise ClientError(ErrorCode.STREAM_NAME_ALREADY_EXISTS, f"stream {request.name}")
    number = broker.next_number()
    broker.streams[request.name] = replies.Stream(number, number, 0, 0, 0, request.name)
    return broker.streams[request.name]


def _delete_stream(broker: FakeBroker, request: requests.DeleteStream) -> None:
    name = broker.stream(request.stream)
    del broker.streams[name]
    broker.topics = {key: item for key, item in broker.topics.items() if key[0] != name}


def _get_topics(broker: FakeBroker, request: requests.GetTopics) -> replies.Topics:
    found = [item for key, item in broker.topics.items() if key[0] == request.stream.value]
    return replies.Topics(tuple(found))


def _get_topic(broker: FakeBroker, request: requests.GetTopic) -> replies.TopicDetails | None:
    key = str(request.stream.value), str(request.topic.value)
    header = broker.topics.get(key)
    if header is None:
        return None
    ends = {number: broker.ends.get((*key, number), 0) for number in range(header.partitions_count)}
    return _details(header, ends)


def _details(
    header: replies.TopicHeader, ends: Mapping[int, int] | None = None
) -> replies.TopicDetails:
    ends = ends or dict.fromkeys(range(header.partitions_count), 0)
    partitions = (
        replies.PartitionInfo(number, 0, current_offset=max(0, end - 1), messages_count=end)
        for number, end in ends.items()
    )
    return replies.TopicDetails(header, tuple(partitions))


def _create_topic(broker: FakeBroker, request: requests.CreateTopic) -> replies.TopicDetails:
    key = broker.stream(request.stream), request.name
    if key in broker.topics:
        raise ClientError(ErrorCode.TOPIC_NAME_ALREADY_EXISTS, f"topic {request.name}")
    number = broker.next_number()
    header = replies.TopicHeader(
        number, number, request.partitions_count, FOREVER, 1, FOREVER, 0, 0, request.name
    )
    broker.topics[key] = _with_options(header, request.options)
    return _details(broker.topics[key])


def _with_options(header: replies.TopicHeader, options: Any) -> replies.TopicHeader:
    values = {option.key: option.get() for option in options}
    kept = {option.key: option for option in (*header.options, *options)}
    compression = _COMPRESSIONS[values.get("compression_algorithm", "none")]
    return msgspec.structs.replace(
        header,
        message_expiry_us=values.get("message_expiry", header.message_expiry_us),
        max_topic_size_bytes=values.get("max_topic_size", header.max_topic_size_bytes),
        compression=compression if "compression_algorithm" in values else header.compression,
        options=tuple(kept.values()),
    )


def _update_topic(broker: FakeBroker, request: requests.UpdateTopic) -> None:
    key = broker.topic(request)
    broker.topics[key] = _with_options(broker.topics[key], request.options)


def _delete_topic(broker: FakeBroker, request: requests.DeleteTopic) -> None:
    key = broker.topic(request)
    del broker.topics[key]
    broker.groups.pop(key, None)


def _partitions(sign: int) -> Callable[[FakeBroker, Any], None]:
    def change(broker: FakeBroker, request: Any) -> None:
        key = broker.topic(request)
        header = broker.topics[key]
        count = header.partitions_count + sign * request.partitions_count
        broker.topics[key] = msgspec.structs.replace(header, partitions_count=count)

    return change


def _create_group(broker: FakeBroker, request: Any) -> replies.GroupDetails:
    groups = broker.groups.setdefault(broker.topic(request), [])
    if request.name in groups:
        raise ClientError(
            ErrorCode.CONSUMER_GROUP_NAME_ALREADY_EXISTS, f"consumer group {request.name}"
        )
    groups.append(request.name)
    return replies.GroupDetails(replies.Group(len(groups), 1, 0, request.name))


def _get_group(broker: FakeBroker, request: Any) -> replies.GroupDetails | None:
    key, name = broker.topic(request), str(request.group.value)
    if name not in broker.groups.get(key, []):
        return None
    members = tuple(replies.Member(number, ()) for number in range(broker.members.get(name, 0)))
    group = replies.Group(1, 1, len(members), name)
    return replies.GroupDetails(group, members)


def _get_groups(broker: FakeBroker, request: Any) -> replies.Groups:
    key = str(request.stream.value), str(request.topic.value)
    names = broker.groups.get(key, [])
    return replies.Groups(tuple(replies.Group(n, 1, 0, name) for n, name in enumerate(names)))


def _get_offset(broker: FakeBroker, request: Any) -> replies.StoredOffset | None:
    stream, topic = broker.topic(request)
    number = request.partition_id
    stored = broker.stored.get((stream, topic, str(request.consumer.id.value), number))
    if stored is None:
        return None
    end = broker.ends.get((stream, topic, number), 0)
    return replies.StoredOffset(number, max(0, end - 1), stored)


def _poll(broker: FakeBroker, request: Any) -> replies.Polled:
    """Messages are mere numbers here; the first one may have a time."""
    place = *broker.topic(request), request.partition_id
    time_us = broker.message_times_us.get(place, broker.message_time_us)
    if time_us is None:
        return replies.Polled(request.partition_id, 0, 0)
    region = make_batch([Body()], timestamp_us=time_us)
    return replies.Polled(request.partition_id, 0, 1, bytes(region))


def _get_stats(broker: FakeBroker, request: requests.GetStats) -> replies.Stats:
    return replies.Stats(
        streams_count=len(broker.streams),
        topics_count=len(broker.topics),
        server_version="0.0.1",
        total_disk_space=broker.disk[0],
        free_disk_space=broker.disk[1],
    )


_HANDLERS: dict[type[Any], Callable[[FakeBroker, Any], Any]] = {
    requests.GetStreams: _get_streams,
    requests.GetStream: _get_stream,
    requests.CreateStream: _create_stream,
    requests.DeleteStream: _delete_stream,
    requests.GetTopics: _get_topics,
    requests.GetTopic: _get_topic,
    requests.CreateTopic: _create_topic,
    requests.UpdateTopic: _update_topic,
    requests.DeleteTopic: _delete_topic,
    requests.CreatePartitions: _partitions(1),
    requests.DeletePartitions: _partitions(-1),
    requests.CreateConsumerGroup: _create_group,
    requests.GetConsumerGroup: _get_group,
    requests.GetConsumerGroups: _get_groups,
    requests.GetConsumerOffset: _get_offset,
    requests.PollMessages: _poll,
    requests.GetStats: _get_stats,
    **fake_broker_users.HANDLERS,
}
