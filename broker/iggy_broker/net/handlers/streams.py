"""Streams, topics and partitions: reads from this shard's metadata, changes through shard 0."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from iggy_broker.errors import Deny, Reject
from iggy_broker.metadata import catalogue, changes, model
from iggy_broker.metadata import options as topic_options
from iggy_broker.metadata.changes import AnyChange, Result
from iggy_broker.metadata.model import Partition, Stream, Topic
from iggy_broker.net.context import Answer, Context, Row, Services
from iggy_broker.storage.partition_table import Totals
from iggy_wire import replies, requests
from iggy_wire.codes import Command
from iggy_wire.errors import ErrorCode
from iggy_wire.replies_p12 import NODE_ID, PartitionInfo
from iggy_wire.replies_waiting import PartitionRoute
from iggy_wire.requests_waiting import GetPartitionRoute

_VIEW: Final = 0  # of a group of nodes that never changes


async def get_streams(context: Context, request: requests.GetStreams) -> Answer:
    """All streams, ascending by id."""
    del request
    services = context.services
    streams = services.replica.state.streams_by_id()
    return Answer(
        context.dialect.encode(replies.Streams(tuple(_stream(services, one) for one in streams)))
    )


async def get_stream(context: Context, request: requests.GetStream) -> Answer:
    """One stream with its topics; an empty body if there is none."""
    services = context.services
    stream = services.replica.state.find_stream(request.stream.value)
    if stream is None:
        return Answer()
    topics = tuple(_topic(context, one) for one in stream.topics_by_id())
    return Answer(context.dialect.encode(replies.StreamDetails(_stream(services, stream), topics)))


async def create_stream(context: Context, request: requests.CreateStream) -> Answer:
    """Make a stream; the reply describes it."""
    if context.dialect.is_p12:
        catalogue.refuse_key_of_its_own(request.options)
    topic_options.refuse_any(request.options, "stream")
    result = await _submit(context, changes.CreateStream(request.name))
    assert result.stream is not None, "a created stream comes with its result"
    return _answer(result, context.dialect.encode(_stream(context.services, result.stream)))


async def update_stream(context: Context, request: requests.UpdateStream) -> Answer:
    """Rename a stream."""
    topic_options.refuse_any(request.options, "stream")
    return await _change(context, changes.UpdateStream(request.stream.value, request.name))


async def delete_stream(context: Context, request: requests.DeleteStream) -> Answer:
    """Delete a stream with all in it."""
    return await _change(context, changes.DeleteStream(request.stream.value))


async def purge_stream(context: Context, request: requests.PurgeStream) -> Answer:
    """Empty all topics of a stream."""
    return await _change(context, changes.PurgeStream(request.stream.value))


async def get_topics(context: Context, request: requests.GetTopics) -> Answer:
    """The topics of a stream, ascending by id; none if there is no such stream."""
    services = context.services
    stream = services.replica.state.find_stream(request.stream.value)
    topics = () if stream is None else tuple(_topic(context, t) for t in stream.topics_by_id())
    return Answer(context.dialect.encode(replies.Topics(topics)))


async def get_topic(context: Context, request: requests.GetTopic) -> Answer:
    """One topic with its partitions; an empty body if there is none."""
    services = context.services
    found = services.replica.state.find_topic(request.stream.value, request.topic.value)
    return Answer() if found is None else Answer(_details(context, found[1]))


async def get_partition_route(context: Context, request: GetPartitionRoute) -> Answer:
    """Where a partition is: on this node, whichever shard owns it."""
    state = context.services.replica.state
    _, topic = state.topic(request.stream.value, request.topic.value)
    partition = topic.partition(request.partition_id)
    count = len(topic.partitions)
    route = PartitionRoute(partition.incarnation, state.op, _VIEW, count, NODE_ID)
    return Answer(route.encode())


async def create_topic(context: Context, request: requests.CreateTopic) -> Answer:
    """Make a topic; the reply describes it."""
    services = context.services
    _check_partitions_count(request.partitions_count, least=0)
    node = topic_options.node_settings(services.config)
    change = changes.CreateTopic(
        request.stream.value,
        request.name,
        request.partitions_count,
        topic_options.check_create(
            request.options,
            node,
            partitions_count=request.partitions_count,
            catalogue=_catalogue(context),
        ),
        topic_options.defaults_of(node),
    )
    result = await _submit(context, change)
    assert result.topic is not None, "a created topic comes with its result"
    return _answer(result, _details(context, result.topic))


async def update_topic(context: Context, request: requests.UpdateTopic) -> Answer:
    """Rename a topic and change those of its options that may change."""
    services = context.services
    found = services.replica.state.find_topic(request.stream.value, request.topic.value)
    # An absent topic is refused when the change is applied; bad options are refused before that.
    present = () if found is None else found[1].options
    node = topic_options.node_settings(services.config)
    options = topic_options.check_update(request.options, present, node)
    stream, topic = request.stream.value, request.topic.value
    return await _change(context, changes.UpdateTopic(stream, topic, request.name, options))


async def delete_topic(context: Context, request: requests.DeleteTopic) -> Answer:
    """Delete a topic with its partitions and groups."""
    return await _change(context, changes.DeleteTopic(request.stream.value, request.topic.value))


async def purge_topic(context: Context, request: requests.PurgeTopic) -> Answer:
    """Empty a topic: messages and stored offsets go, offsets start at 0."""
    return await _change(context, changes.PurgeTopic(request.stream.value, request.topic.value))


async def create_partitions(context: Context, request: requests.CreatePartitions) -> Answer:
    """Add partitions."""
    count = request.partitions_count
    _check_partitions_count(count, least=1)
    stream, topic = request.stream.value, request.topic.value
    _check_resizable(context, stream, topic)
    return await _change(context, changes.CreatePartitions(stream, topic, count))


async def delete_partitions(context: Context, request: requests.DeletePartitions) -> Answer:
    """Delete the partitions with the highest ids."""
    count = request.partitions_count
    _check_partitions_count(count, least=1)
    stream, topic = request.stream.value, request.topic.value
    _check_resizable(context, stream, topic)
    return await _change(context, changes.DeletePartitions(stream, topic, count))


COMMANDS: Final[dict[int, Row]] = {
    Command.GET_PARTITION_ROUTE: Row(get_partition_route, GetPartitionRoute),
    Command.GET_STREAMS: Row(get_streams, requests.GetStreams),
    Command.GET_STREAM: Row(get_stream, requests.GetStream),
    Command.CREATE_STREAM: Row(create_stream, requests.CreateStream),
    Command.UPDATE_STREAM: Row(update_stream, requests.UpdateStream),
    Command.DELETE_STREAM: Row(delete_stream, requests.DeleteStream),
    Command.PURGE_STREAM: Row(purge_stream, requests.PurgeStream),
    Command.GET_TOPICS: Row(get_topics, requests.GetTopics),
    Command.GET_TOPIC: Row(get_topic, requests.GetTopic),
    Command.CREATE_TOPIC: Row(create_topic, requests.CreateTopic),
    Command.UPDATE_TOPIC: Row(update_topic, requests.UpdateTopic),
    Command.DELETE_TOPIC: Row(delete_topic, requests.DeleteTopic),
    Command.PURGE_TOPIC: Row(purge_topic, requests.PurgeTopic),
    Command.CREATE_PARTITIONS: Row(create_partitions, requests.CreatePartitions),
    Command.DELETE_PARTITIONS: Row(delete_partitions, requests.DeletePartitions),
}


def _check_partitions_count(count: int, *, least: int) -> None:
    if not least <= count <= model.PARTITIONS_PER_REQUEST_MAX:
        detail = f"partitions count {count}: ask for {least} to {model.PARTITIONS_PER_REQUEST_MAX}"
        raise Deny(ErrorCode.TOO_MANY_PARTITIONS, detail)


def _catalogue(context: Context) -> tuple[topic_options.Known, ...]:
    return topic_options.P12_CATALOGUE if context.dialect.is_p12 else topic_options.CATALOGUE


def _check_resizable(context: Context, stream: model.Reference, topic: model.Reference) -> None:
    """Reject where the topic was made to keep its partitions; what is missing is told later."""
    services = context.services
    found = services.replica.state.find_topic(stream, topic)
    node = topic_options.node_settings(services.config)
    if found is None:
        return
    settings = topic_options.settings_of_topic(found[1], node)
    if settings.partition_resize_policy == topic_options.FIXED:
        detail = f"topic {found[1].name!r} keeps its partitions: partition_resize_policy is fixed"
        raise Reject(ErrorCode.PARTITION_RESIZE_DISABLED, detail)


async def _submit(context: Context, change: AnyChange) -> Result:
    return await context.services.replica.submit(change, caller=context.caller)


async def _change(context: Context, change: AnyChange) -> Answer:
    return _answer(await _submit(context, change), b"")


def _answer(result: Result, body: bytes) -> Answer:
    return Answer(body, op=result.op, timestamp_us=result.at_us)


def _totals(services: Services, topics: Iterable[Topic]) -> Totals:
    return services.table.totals(p.slot for topic in topics for p in topic.partitions)


def _stream(services: Services, stream: Stream) -> replies.Stream:
    totals = _totals(services, stream.topics.values())
    return replies.Stream(
        id=stream.id,
        created_at_us=stream.created_at_us,
        topics_count=len(stream.topics),
        size_bytes=totals.size_bytes,
        messages_count=totals.messages_count,
        name=stream.name,
    )


def _topic(context: Context, topic: Topic) -> replies.TopicHeader:
    services = context.services
    node = topic_options.node_settings(services.config)
    settings = topic_options.settings_of_topic(topic, node)
    totals = _totals(services, [topic])
    return replies.TopicHeader(
        id=topic.id,
        created_at_us=topic.created_at_us,
        partitions_count=len(topic.partitions),
        message_expiry_us=settings.message_expiry_us,
        compression=topic_options.COMPRESSION_CODES[settings.compression_algorithm],
        max_topic_size_bytes=settings.max_topic_size_bytes,
        size_bytes=totals.size_bytes,
        messages_count=totals.messages_count,
        name=topic.name,
        options=topic.options,
        derived=topic_options.derived(topic.options, settings, _catalogue(context)),
    )


def _details(context: Context, topic: Topic) -> bytes:
    services = context.services
    partitions = tuple(_partition(services, partition) for partition in topic.partitions)
    return context.dialect.encode(replies.TopicDetails(_topic(context, topic), partitions))


def _partition(services: Services, partition: Partition) -> PartitionInfo:
    figures = services.table.read(partition.slot)
    return PartitionInfo(
        id=partition.id,
        created_at_us=partition.created_at_us,
        segments_count=figures.segments_count,
        current_offset=figures.current_offset,
        size_bytes=figures.size_bytes,
        messages_count=figures.messages_count,
        incarnation=partition.incarnation,
        metadata_op=services.replica.state.op,
    )
