"""Replies as handlers make them, for P11, in the layouts of P12."""

from collections.abc import Callable, Mapping
from typing import Any, Final

import msgspec

from iggy_wire import replies
from iggy_wire.options import Option, ValueKind
from iggy_wire.replies_p12 import (
    Cluster,
    Node,
    PartitionInfo,
    PlacedPartition,
    PlacedTopicDetails,
    Stream,
    StreamDetails,
    Streams,
    TopicDetails,
    TopicHeader,
    Topics,
    User,
    UserDetails,
    Users,
)
from iggy_wire.reply_base import Reply

Converters = Mapping[type[Reply], Callable[[Any], Reply]]

# What a stream without a key of its own says.
STREAM_DERIVED: Final = (Option.of("encryption_key_source", "none", ValueKind.STRING),)


def _stream(stream: replies.Stream) -> Stream:
    return Stream(*(*msgspec.structs.astuple(stream), STREAM_DERIVED))


def _streams(all_of_them: replies.Streams) -> Streams:
    return Streams(tuple(_stream(one) for one in all_of_them.streams))


def _stream_details(details: replies.StreamDetails) -> StreamDetails:
    return StreamDetails(_stream(details.stream), tuple(_topic(one) for one in details.topics))


def _topic(topic: replies.TopicHeader) -> TopicHeader:
    return TopicHeader(
        id=topic.id,
        created_at_us=topic.created_at_us,
        partitions_count=topic.partitions_count,
        size_bytes=topic.size_bytes,
        messages_count=topic.messages_count,
        name=topic.name,
        options=topic.options,
        derived=topic.derived,
    )


def _topics(all_of_them: replies.Topics) -> Topics:
    return Topics(tuple(_topic(one) for one in all_of_them.topics))


def _topic_details(details: replies.TopicDetails) -> TopicDetails:
    partitions = tuple(_partition(one) for one in details.partitions)
    return TopicDetails(_topic(details.topic), partitions)


def _placed_details(details: replies.TopicDetails) -> PlacedTopicDetails:
    partitions = tuple(PlacedPartition(_partition(one)) for one in details.partitions)
    return PlacedTopicDetails(_topic(details.topic), partitions)


def _partition(partition: replies.PartitionInfo) -> PartitionInfo:
    assert isinstance(partition, PartitionInfo), "a partition comes with its context"
    return partition


def _user(user: replies.User) -> User:
    return User(*msgspec.structs.astuple(user))


def _users(all_of_them: replies.Users) -> Users:
    return Users(tuple(_user(one) for one in all_of_them.users))


def _user_details(details: replies.UserDetails) -> UserDetails:
    return UserDetails(_user(details.user), details.permissions)


def _cluster(cluster: replies.Cluster) -> Cluster:
    return Cluster(
        cluster.name, tuple(Node(*msgspec.structs.astuple(one)) for one in cluster.nodes)
    )


IN_P12: Final[Converters] = {
    replies.Stream: _stream,
    replies.Streams: _streams,
    replies.StreamDetails: _stream_details,
    replies.Topics: _topics,
    replies.TopicDetails: _topic_details,
    replies.User: _user,
    replies.Users: _users,
    replies.UserDetails: _user_details,
    replies.Cluster: _cluster,
}
"""What 0.12.0 writes otherwise. Statistics and catalogues say more and are made for P12 only."""

IN_P12_WITH_NODES: Final[Converters] = {**IN_P12, replies.TopicDetails: _placed_details}
"""The same from 0.12.2 on."""
