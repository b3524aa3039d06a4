"""Streams, topics, partitions and segments over HTTP."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final, TypeVar

from iggy_broker.errors import Reject
from iggy_broker.metadata import catalogue
from iggy_broker.metadata import options as topic_options
from iggy_broker.metadata.model import NAME_BYTES_MAX
from iggy_broker.net.http import bodies, shapes
from iggy_broker.net.http.call import Call
from iggy_broker.net.http.problems import PATH_PREFIX, Refusal, unreadable
from iggy_broker.net.http.query import U32_MAX, Kind, Parameter, number
from iggy_broker.net.http.replies import NO_CONTENT, Reply, json_reply
from iggy_broker.net.http.routing import Route, Success
from iggy_wire import replies, requests
from iggy_wire.errors import ErrorCode
from iggy_wire.options import Option, Options
from iggy_wire.requests_p12 import Scope, UpdateResource

_Value = TypeVar("_Value", bool | int | str, int | str | None)

_NONE: Final = "none"
_EXPIRY, _SIZE, _COMPRESSION = "message_expiry", "max_topic_size", "compression_algorithm"


async def get_streams(call: Call) -> Reply:
    """All, ascending by id."""
    found = replies.Streams.decode(await call.run(requests.GetStreams()))
    return json_reply([shapes.stream(one, is_strict=call.is_strict) for one in found.streams])


async def create_stream(call: Call) -> Reply:
    """The new one."""
    name = checked_name(call.body.name, ErrorCode.INVALID_STREAM_NAME)
    given = () if call.is_strict else given_options(call.body.options)
    catalogue.refuse_key_of_its_own(given)
    found = replies.Stream.decode(await call.run(requests.CreateStream(name, given)))
    details = replies.StreamDetails(found)
    return json_reply(shapes.stream_details(details, is_strict=call.is_strict))


async def get_stream(call: Call) -> Reply:
    """One with its topics."""
    found = await call.find(requests.GetStream(call.stream()), replies.StreamDetails)
    return json_reply(shapes.stream_details(found, is_strict=call.is_strict))


async def update_stream(call: Call) -> Reply:
    """Rename."""
    name = checked_name(call.body.name, ErrorCode.INVALID_STREAM_NAME)
    given = _text_options(call.body.options)
    await call.run(requests.UpdateStream(call.stream(), name, given))
    return NO_CONTENT


async def delete_stream(call: Call) -> Reply:
    """With all in it."""
    await call.run(requests.DeleteStream(call.stream()))
    return NO_CONTENT


async def purge_stream(call: Call) -> Reply:
    """Empty all its topics."""
    await call.run(requests.PurgeStream(call.stream()))
    return NO_CONTENT


async def get_topics(call: Call) -> Reply:
    """Of one stream; of a missing one none."""
    found = replies.Topics.decode(await call.run(requests.GetTopics(call.stream())))
    return json_reply([shapes.topic(one, is_strict=call.is_strict) for one in found.topics])


async def create_topic(call: Call) -> Reply:
    """The new one."""
    body: bodies.CreateTopic | bodies.OriginalCreateTopic = call.body
    name = checked_name(body.name, ErrorCode.INVALID_TOPIC_NAME)
    word = _compression(body.compression_algorithm)
    plain = None if word == _NONE else word  # the default, which an option may still change
    given = _options(body.options, plain, body.message_expiry, body.max_topic_size)
    request = requests.CreateTopic(call.stream(), body.partitions_count, name, given)
    return _details(call, replies.TopicDetails.decode(await call.run(request)))


async def get_topic(call: Call) -> Reply:
    """One with its partitions."""
    return _details(call, await call.find(requests.GetTopic(*call.topic()), replies.TopicDetails))


async def update_topic(call: Call) -> Reply:
    """What is given; 0 of an expiry or size goes back to what the server has for new topics."""
    body: bodies.UpdateTopic | bodies.OriginalUpdateTopic = call.body
    if body.name is None or (isinstance(body, bodies.UpdateTopic) and body.reset):
        return await _patch_topic(call, call.body)
    name = checked_name(body.name, ErrorCode.INVALID_TOPIC_NAME)
    expiry_us, size_bytes = _plain(body.message_expiry), _plain(body.max_topic_size)
    if not call.is_strict:
        node = topic_options.node_settings(call.app.commands.services.config)
        expiry_us = node.message_expiry_us if expiry_us == 0 else expiry_us
        size_bytes = node.max_topic_size_bytes if size_bytes == 0 else size_bytes
    word = _compression(body.compression_algorithm)
    given = _options(body.options, word, expiry_us, size_bytes)
    await call.run(requests.UpdateTopic(*call.topic(), name, given))
    return NO_CONTENT


async def _patch_topic(call: Call, body: bodies.UpdateTopic) -> Reply:
    """The one form that only 0.12 has: without a name, or with options to reset."""
    given = _options(
        body.options,
        _compression(body.compression_algorithm),
        _plain(body.message_expiry),
        _plain(body.max_topic_size),
    )
    if body.name is not None:
        name = checked_name(body.name, ErrorCode.INVALID_TOPIC_NAME)
        given = (Option.of("name", name), *given)
    patch = UpdateResource(Scope.TOPIC, call.topic(), tuple(body.reset), given)
    await call.run(UpdateResource.decode(patch.encode()))  # which checks it, too
    return NO_CONTENT


async def delete_topic(call: Call) -> Reply:
    """With all in it."""
    await call.run(requests.DeleteTopic(*call.topic()))
    return NO_CONTENT


async def purge_topic(call: Call) -> Reply:
    """Remove all messages and stored offsets."""
    await call.run(requests.PurgeTopic(*call.topic()))
    return NO_CONTENT


async def create_partitions(call: Call) -> Reply:
    """Behind the highest. The answer is a 200 without a body, as the original's."""
    await call.run(requests.CreatePartitions(*call.topic(), call.body.partitions_count))
    return Reply(200)


async def delete_partitions(call: Call) -> Reply:
    """The highest ones."""
    count = call.query["partitions_count"]
    await call.run(requests.DeletePartitions(*call.topic(), count))
    return NO_CONTENT


async def delete_segments(call: Call) -> Reply:
    """The oldest sealed ones of a partition."""
    partition_id = number(call.values[2], U32_MAX)
    if partition_id is None:
        text = f"{PATH_PREFIX}partition `{call.values[2]}`: write a number, u32"
        raise Refusal(unreadable(400, text, as_json=False))
    count = call.query["segments_count"]
    await call.run(requests.DeleteSegments(*call.topic(), partition_id, count))
    return NO_CONTENT


def checked_name(name: str, code: ErrorCode) -> str:
    """A name of 1 to 255 bytes; Reject with `code`."""
    length = len(name.encode())
    if not 1 <= length <= NAME_BYTES_MAX:
        raise Reject(code, f"write 1 to {NAME_BYTES_MAX} bytes, not {length}")
    return name


def given_options(given: bodies.AnyOptions | None) -> Options:
    """Options in the kind in which they were given; 64-bit numbers as text become numbers."""
    values = {key: _plain(value) for key, value in (given or {}).items()}
    return tuple(Option.of(key, value) for key, value in sorted(values.items()))


def _details(call: Call, found: replies.TopicDetails) -> Reply:
    """A topic, with which lives its partitions have now."""
    state = call.app.commands.services.replica.state
    there = state.find_topic(call.stream().value, found.topic.id)
    contexts = {
        one.id: bodies.PartitionContext(one.incarnation, 0, state.op)
        for one in (() if there is None else there[1].partitions)
    }
    return json_reply(shapes.topic_details(found, contexts, is_strict=call.is_strict))


def _text_options(given: bodies.Options | None) -> Options:
    return tuple(Option.of(key, value) for key, value in sorted((given or {}).items()))


def _compression(word: str | None) -> str | None:
    """In any case; BadBody for an unknown one."""
    lower = None if word is None else word.lower()
    if lower is not None and lower not in topic_options.COMPRESSION_CODES:
        raise bodies.wrong_shape(f"unknown variant `{word}`, expected `none` or `gzip`")
    return lower


def _options(
    given: Mapping[str, str | bool | int] | None,
    compression: str | None,
    expiry_us: str | int | None,
    size_bytes: str | int | None,
) -> Options:
    """All options of a topic: a plain field wins over the option of its name unless it is 0."""
    values: dict[str, str | bool | int] = dict(given or {})
    for key in (_EXPIRY, _SIZE):
        if key in values:
            values[key] = _plain(values[key])
    if compression is not None:
        values[_COMPRESSION] = compression
    for key, value in ((_EXPIRY, expiry_us), (_SIZE, size_bytes)):
        if value:
            values[key] = value
    return tuple(Option.of(key, value) for key, value in sorted(values.items()))


def _plain(value: _Value) -> _Value | int:
    """A number that was written as text, because JSON has none so large in every language."""
    return int(value) if isinstance(value, str) and _DIGITS.fullmatch(value) else value


_DIGITS: Final = re.compile(r"[0-9]{1,20}")
_TOPICS: Final = "/streams/{stream_id}/topics"
_TOPIC: Final = _TOPICS + "/{topic_id}"
_DONE: Final = Success(204)


def _count(name: str, doc: str) -> tuple[Parameter, ...]:
    return (Parameter(name, Kind.U32, doc, is_required=True),)


ROUTES: Final = (
    Route("GET", "/streams", get_streams, "All streams.", Success(200, list[shapes.Stream])),
    Route("POST", "/streams", create_stream, "Create a stream.",
          Success(200, shapes.StreamDetails), bodies.CreateStream),
    Route("GET", "/streams/{stream_id}", get_stream, "One stream with its topics.",
          Success(200, shapes.StreamDetails)),
    Route("PUT", "/streams/{stream_id}", update_stream, "Rename a stream.", _DONE,
          bodies.UpdateStream),
    Route("DELETE", "/streams/{stream_id}", delete_stream, "Delete a stream.", _DONE),
    Route("DELETE", "/streams/{stream_id}/purge", purge_stream, "Empty a stream.", _DONE),
    Route("GET", _TOPICS, get_topics, "The topics of a stream.", Success(200, list[shapes.Topic])),
    Route("POST", _TOPICS, create_topic, "Create a topic.",
          Success(200, shapes.TopicDetails), bodies.CreateTopic,
          original_body=bodies.OriginalCreateTopic),
    Route("GET", _TOPIC, get_topic, "One topic with its partitions.",
          Success(200, shapes.TopicDetails)),
    Route("PUT", _TOPIC, update_topic, "Change a topic.", _DONE, bodies.UpdateTopic,
          original_body=bodies.OriginalUpdateTopic),
    Route("DELETE", _TOPIC, delete_topic, "Delete a topic.", _DONE),
    Route("DELETE", _TOPIC + "/purge", purge_topic, "Empty a topic.", _DONE),
    Route("POST", _TOPIC + "/partitions", create_partitions, "Add partitions.", Success(200),
          bodies.CreatePartitions),
    Route("DELETE", _TOPIC + "/partitions", delete_partitions,
          "Delete the partitions with the highest ids.", _DONE,
          query=_count("partitions_count", "How many.")),
    Route("DELETE", _TOPIC + "/partitions/{partition_id}", delete_segments,
          "Delete the oldest sealed segments of a partition.", _DONE,
          query=_count("segments_count", "How many at most.")),
)  # fmt: skip
