"""Every command of the clients as a value: the request, and how to read its reply.

`Client` and `AsyncClient` differ in how they move bytes; what the bytes are is here, once.
"""

from collections.abc import Callable, Mapping, Sequence
from secrets import randbits
from struct import Struct
from typing import Final, TypeAlias, TypeVar

from msgspec.structs import replace

from iggy_client.session import Call
from iggy_wire.batch import Message
from iggy_wire.buffer import Buffer
from iggy_wire.errors import ErrorCode, WireError
from iggy_wire.options import Option, Value, make_options
from iggy_wire.primitives import (
    Consumer,
    Identifier,
    IdentifierLike,
    Partitioning,
    PollingStrategy,
)
from iggy_wire.replies import (
    ClientDetails,
    Cluster,
    Confirmation,
    Group,
    GroupAssignment,
    GroupDetails,
    Groups,
    Polled,
    Reply,
    Stats,
    StoredOffset,
    Stream,
    StreamDetails,
    Streams,
    TopicDetails,
    TopicHeader,
    Topics,
    decode_confirmation,
)
from iggy_wire.request_base import Request
from iggy_wire.requests import (
    CreateConsumerGroup,
    CreatePartitions,
    CreateStream,
    CreateTopic,
    DeleteConsumerGroup,
    DeleteConsumerOffset,
    DeletePartitions,
    DeleteSegments,
    DeleteStream,
    DeleteTopic,
    GetClusterMetadata,
    GetConsumerGroup,
    GetConsumerGroups,
    GetConsumerOffset,
    GetMe,
    GetStats,
    GetStream,
    GetStreams,
    GetTopic,
    GetTopics,
    JoinConsumerGroup,
    LeaveConsumerGroup,
    Ping,
    PollMessages,
    PurgeStream,
    PurgeTopic,
    SendMessages,
    StoreConsumerOffset,
    SyncConsumerGroup,
    UpdateStream,
    UpdateTopic,
)

OptionsLike: TypeAlias = Mapping[str, Value] | Sequence[Option]
ConsumerLike: TypeAlias = Consumer | IdentifierLike

R = TypeVar("R", bound=Reply)

_COUNT_AT: Final = 48  # of a batch header: how many messages
_U32: Final = Struct("<I")


def _nothing(payload: memoryview) -> None:
    """Success has nothing to say."""


def _maybe(layout: type[R]) -> Callable[[memoryview], R | None]:
    """An absent single resource is an empty payload."""
    return lambda payload: layout.decode(payload) if len(payload) else None


def _id(value: IdentifierLike) -> Identifier:
    return Identifier.of(value)


def _consumer(value: ConsumerLike) -> Consumer:
    return value if isinstance(value, Consumer) else Consumer.plain(value)


def _done(request: Request) -> Call[None]:
    return Call(request, _nothing)


def ping() -> Call[None]:
    """Is the server there?"""
    return _done(Ping())


def get_stats() -> Call[Stats]:
    """How the server is doing."""
    return Call(GetStats(), Stats.decode)


def get_cluster_metadata() -> Call[Cluster]:
    """Which nodes there are."""
    return Call(GetClusterMetadata(), Cluster.decode)


def get_me() -> Call[ClientDetails]:
    """How the server sees this connection."""
    return Call(GetMe(), ClientDetails.decode)


def get_streams() -> Call[tuple[Stream, ...]]:
    """All streams."""
    return Call(GetStreams(), lambda payload: Streams.decode(payload).streams)


def get_stream(stream: IdentifierLike) -> Call[StreamDetails | None]:
    """One stream with its topics."""
    return Call(GetStream(_id(stream)), _maybe(StreamDetails))


def create_stream(name: str) -> Call[Stream]:
    """A new stream."""
    return Call(CreateStream(name), Stream.decode)


def update_stream(stream: IdentifierLike, name: str) -> Call[None]:
    """A new name for a stream."""
    return _done(UpdateStream(_id(stream), name))


def delete_stream(stream: IdentifierLike) -> Call[None]:
    """Remove a stream."""
    return _done(DeleteStream(_id(stream)))


def purge_stream(stream: IdentifierLike) -> Call[None]:
    """Empty a stream."""
    return _done(PurgeStream(_id(stream)))


def get_topics(stream: IdentifierLike) -> Call[tuple[TopicHeader, ...]]:
    """All topics of a stream."""
    return Call(GetTopics(_id(stream)), lambda payload: Topics.decode(payload).topics)


def get_topic(stream: IdentifierLike, topic: IdentifierLike) -> Call[TopicDetails | None]:
    """One topic with its partitions."""
    return Call(GetTopic(_id(stream), _id(topic)), _maybe(TopicDetails))


def create_topic(
    stream: IdentifierLike, name: str, partitions_count: int, options: OptionsLike
) -> Call[TopicDetails]:
    """A new topic."""
    request = CreateTopic(_id(stream), partitions_count, name, make_options(options))
    return Call(request, TopicDetails.decode)


def update_topic(
    stream: IdentifierLike, topic: IdentifierLike, name: str, options: OptionsLike
) -> Call[None]:
    """A new name and new options for a topic."""
    return _done(UpdateTopic(_id(stream), _id(topic), name, make_options(options)))


def delete_topic(stream: IdentifierLike, topic: IdentifierLike) -> Call[None]:
    """Remove a topic."""
    return _done(DeleteTopic(_id(stream), _id(topic)))


def purge_topic(stream: IdentifierLike, topic: IdentifierLike) -> Call[None]:
    """Empty a topic."""
    return _done(PurgeTopic(_id(stream), _id(topic)))


def create_partitions(stream: IdentifierLike, topic: IdentifierLike, count: int) -> Call[None]:
    """More partitions."""
    return _done(CreatePartitions(_id(stream), _id(topic), count))


def delete_partitions(stream: IdentifierLike, topic: IdentifierLike, count: int) -> Call[None]:
    """Fewer partitions."""
    return _done(DeletePartitions(_id(stream), _id(topic), count))


def send_batch(
    stream: IdentifierLike, topic: IdentifierLike, partitioning: Partitioning, batch: Buffer
) -> Call[Confirmation | None]:
    """A ready batch, as `iggy_wire.batch.build` makes it."""
    if len(batch) < _COUNT_AT + _U32.size:
        detail = f"batch: must start with its header, has {len(batch)} bytes"
        raise WireError(ErrorCode.INVALID_FORMAT, detail)
    count = _U32.unpack_from(batch, _COUNT_AT)[0]
    request = SendMessages(_id(stream), _id(topic), partitioning, count, batch)
    return Call(request, decode_confirmation)


def with_ids(messages: Sequence[Message]) -> list[Message]:
    """The messages, those without an id with a random one, as other Iggy clients do."""
    return [
        message if message.id else replace(message, id=randbits(128) | 1) for message in messages
    ]


def poll(  # noqa: PLR0913 -- one argument per field of the command
    stream: IdentifierLike,
    topic: IdentifierLike,
    partition_id: int | None,
    *,
    consumer: ConsumerLike,
    strategy: PollingStrategy,
    count: int,
    auto_commit: bool,
) -> Call[Polled]:
    """Whole batches, not decoded."""
    request = PollMessages(
        _consumer(consumer), _id(stream), _id(topic), partition_id, strategy, count, auto_commit
    )
    return Call(request, Polled.decode)


def store_offset(
    consumer: ConsumerLike,
    stream: IdentifierLike,
    topic: IdentifierLike,
    partition_id: int,
    offset: int,
) -> Call[None]:
    """The consumer is done with everything up to and including `offset`."""
    target = (_consumer(consumer), _id(stream), _id(topic), partition_id)
    return _done(StoreConsumerOffset(*target, offset))


def get_offset(
    consumer: ConsumerLike, stream: IdentifierLike, topic: IdentifierLike, partition_id: int
) -> Call[StoredOffset | None]:
    """What a consumer has stored."""
    target = (_consumer(consumer), _id(stream), _id(topic), partition_id)
    return Call(GetConsumerOffset(*target), _maybe(StoredOffset))


def delete_offset(
    consumer: ConsumerLike, stream: IdentifierLike, topic: IdentifierLike, partition_id: int
) -> Call[None]:
    """Forget what a consumer has stored."""
    target = (_consumer(consumer), _id(stream), _id(topic), partition_id)
    return _done(DeleteConsumerOffset(*target))


def create_group(stream: IdentifierLike, topic: IdentifierLike, name: str) -> Call[GroupDetails]:
    """A new consumer group."""
    return Call(CreateConsumerGroup(_id(stream), _id(topic), name), GroupDetails.decode)


def get_group(
    stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
) -> Call[GroupDetails | None]:
    """One consumer group with its members."""
    return Call(GetConsumerGroup(_id(stream), _id(topic), _id(group)), _maybe(GroupDetails))


def get_groups(stream: IdentifierLike, topic: IdentifierLike) -> Call[tuple[Group, ...]]:
    """All consumer groups of a topic."""
    request = GetConsumerGroups(_id(stream), _id(topic))
    return Call(request, lambda payload: Groups.decode(payload).groups)


def delete_group(
    stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
) -> Call[None]:
    """Remove a consumer group."""
    return _done(DeleteConsumerGroup(_id(stream), _id(topic), _id(group)))


def join_group(stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike) -> Call[None]:
    """Become a member."""
    return _done(JoinConsumerGroup(_id(stream), _id(topic), _id(group)))


def leave_group(stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike) -> Call[None]:
    """Be no member any more."""
    return _done(LeaveConsumerGroup(_id(stream), _id(topic), _id(group)))


def sync_group(
    stream: IdentifierLike, topic: IdentifierLike, group: IdentifierLike
) -> Call[GroupAssignment | None]:
    """What is this member's; None for those who are not members."""
    request = SyncConsumerGroup(_id(stream), _id(topic), _id(group))
    return Call(request, _maybe(GroupAssignment))


def delete_segments(
    stream: IdentifierLike, topic: IdentifierLike, partition_id: int, count: int
) -> Call[None]:
    """Remove the oldest closed segments."""
    return _done(DeleteSegments(_id(stream), _id(topic), partition_id, count))
