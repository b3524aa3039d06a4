"""Bodies of answers: what the JSON is, and how it is made from the binary replies.

Iggy 0.9 HTTP API: sizes are text with a unit, times microseconds, values in force instead of
sentinels. Fields stand in the order in which the original writes them.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from msgspec import UNSET, Struct, UnsetType

from iggy_broker.net.http.bodies import PartitionContext, UserHeader
from iggy_broker.net.http.sizes import size_text
from iggy_wire import replies
from iggy_wire.options import Option, Options

_COMPRESSIONS: Final = {1: "none", 2: "gzip"}

# Options that newer protocols than the HTTP API of the original know.
NOT_IN_ORIGINAL: Final = frozenset({"durability", "consumer_offset_durability"})


NO_LIFE: Final = PartitionContext(0, 0, 0)  # of a partition that is gone meanwhile


class AccessToken(Struct, frozen=True):
    """What to send as bearer, and until when: unix seconds."""

    token: str
    expiry: int


class Identity(Struct, frozen=True):
    """Who logged in."""

    user_id: int
    access_token: AccessToken


class OptionValue(Struct, frozen=True):
    """An option in force; `explicit`: a client set it. Clients of 0.12 need `kind`."""

    value: str
    explicit: bool
    kind: str | UnsetType = UNSET


class Stream(Struct, frozen=True):
    """A stream in a list."""

    id: int
    created_at: int
    name: str
    size: str
    messages_count: int
    topics_count: int
    options: dict[str, OptionValue]


class Topic(Struct, frozen=True):
    """A topic in a list. Clients up to 0.8 need `replication_factor`, others leave it out."""

    id: int
    created_at: int
    name: str
    size: str
    message_expiry: int
    compression_algorithm: str
    max_topic_size: int
    messages_count: int
    partitions_count: int
    options: dict[str, OptionValue]
    replication_factor: int | UnsetType = UNSET


class StreamDetails(Struct, frozen=True):
    """One stream with its topics."""

    id: int
    created_at: int
    name: str
    size: str
    messages_count: int
    topics_count: int
    topics: list[Topic]
    options: dict[str, OptionValue]


class Partition(Struct, frozen=True):
    """A partition; `current_offset` is 0 also while it is empty. Clients of 0.12 need `context`."""

    id: int
    created_at: int
    segments_count: int
    current_offset: int
    size: str
    messages_count: int
    context: PartitionContext | UnsetType = UNSET


class TopicDetails(Struct, frozen=True):
    """One topic with its partitions."""

    id: int
    created_at: int
    name: str
    size: str
    message_expiry: int
    compression_algorithm: str
    max_topic_size: int
    messages_count: int
    partitions_count: int
    partitions: list[Partition]
    options: dict[str, OptionValue]
    replication_factor: int | UnsetType = UNSET


class Confirmation(Struct, frozen=True):
    """Where messages are, and the offset of the first."""

    stream_id: int
    topic_id: int
    partition_id: int
    base_offset: int


class Confirmations(Struct, frozen=True):
    """Of one send; none where all messages were there already."""

    confirmations: list[Confirmation]


class MessageHeader(Struct, frozen=True):
    """What stands before a message; `id` up to 2^128-1, times in microseconds."""

    checksum: int
    id: int
    offset: int
    timestamp: int
    origin_timestamp: int
    user_headers_length: int
    payload_length: int
    reserved: int


class PolledMessage(Struct, frozen=True):
    """One message. User headers are base64 where the stored bytes are none."""

    header: MessageHeader
    payload: bytes
    user_headers: list[UserHeader] | bytes


class Polled(Struct, frozen=True):
    """Messages of one partition; `polled.polled_json` writes it. Clients of 0.12 need `context`."""

    partition_id: int
    current_offset: int
    count: int
    messages: list[PolledMessage]
    context: PartitionContext | UnsetType = UNSET


class OffsetInfo(Struct, frozen=True):
    """How far a consumer is."""

    partition_id: int
    current_offset: int
    stored_offset: int


class Group(Struct, frozen=True):
    """A consumer group in a list."""

    id: int
    name: str
    partitions_count: int
    members_count: int


class Member(Struct, frozen=True):
    """A member of a group and what it reads."""

    id: int
    partitions_count: int
    partitions: list[int]


class GroupDetails(Struct, frozen=True):
    """One consumer group."""

    id: int
    name: str
    partitions_count: int
    members_count: int
    members: list[Member]


def options(given: Options, derived: Options, *, is_strict: bool) -> dict[str, OptionValue]:
    """Options in force as texts, ascending by key."""
    found = {one.key: _option(one, explicit=True, is_strict=is_strict) for one in given}
    found |= {one.key: _option(one, explicit=False, is_strict=is_strict) for one in derived}
    hidden = NOT_IN_ORIGINAL if is_strict else frozenset()
    return {key: found[key] for key in sorted(found) if key not in hidden}


def stream(one: replies.Stream, *, is_strict: bool) -> Stream:
    """A stream in a list."""
    return Stream(
        one.id,
        one.created_at_us,
        one.name,
        size_text(one.size_bytes),
        one.messages_count,
        one.topics_count,
        options(one.options, (), is_strict=is_strict),
    )


def stream_details(one: replies.StreamDetails, *, is_strict: bool) -> StreamDetails:
    """One stream."""
    head = stream(one.stream, is_strict=is_strict)
    topics = [topic(each, is_strict=is_strict) for each in one.topics]
    return StreamDetails(**fields_of(head), topics=topics)


def topic(one: replies.TopicHeader, *, is_strict: bool) -> Topic:
    """A topic in a list."""
    return Topic(
        one.id,
        one.created_at_us,
        one.name,
        size_text(one.size_bytes),
        one.message_expiry_us,
        _COMPRESSIONS[one.compression],
        one.max_topic_size_bytes,
        one.messages_count,
        one.partitions_count,
        options(one.options, one.derived, is_strict=is_strict),
        UNSET if is_strict else 1,
    )


def topic_details(
    one: replies.TopicDetails, contexts: Mapping[int, PartitionContext], *, is_strict: bool
) -> TopicDetails:
    """One topic. `contexts` of its partitions, by number."""
    partitions = [
        Partition(
            each.id,
            each.created_at_us,
            each.segments_count,
            each.current_offset,
            size_text(each.size_bytes),
            each.messages_count,
            UNSET if is_strict else contexts.get(each.id, NO_LIFE),
        )
        for each in one.partitions
    ]
    return TopicDetails(**fields_of(topic(one.topic, is_strict=is_strict)), partitions=partitions)


def group(one: replies.Group) -> Group:
    """A consumer group in a list."""
    return Group(one.id, one.name, one.partitions_count, one.members_count)


def group_details(one: replies.GroupDetails) -> GroupDetails:
    """One consumer group."""
    members = [Member(each.id, len(each.partitions), list(each.partitions)) for each in one.members]
    return GroupDetails(**fields_of(group(one.group)), members=members)


KIND_WORDS: Final = (
    "raw", "string", "bool", "int8", "int16", "int32", "int64", "int128",
    "uint8", "uint16", "uint32", "uint64", "uint128", "float32", "float64",
)  # fmt: skip # by kind, from 1


def fields_of(shape: Struct) -> dict[str, Any]:
    """The fields of one shape, for another with more."""
    return {name: getattr(shape, name) for name in shape.__struct_fields__}


def _option(one: Option, *, explicit: bool, is_strict: bool) -> OptionValue:
    return OptionValue(
        _option_text(one), explicit, UNSET if is_strict else KIND_WORDS[one.kind - 1]
    )


def _option_text(one: Option) -> str:
    value = one.get()
    if isinstance(value, bool):
        return str(value).lower()
    return value.hex() if isinstance(value, bytes) else str(value)
