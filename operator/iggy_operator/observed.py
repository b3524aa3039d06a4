"""What a broker replies, as the values that decisions are made on. Pure."""

from typing import Final

from iggy_operator.decide.streams import ObservedStream
from iggy_operator.decide.topics import ObservedTopic
from iggy_operator.resources import OptionValue
from iggy_wire.replies import Stream, TopicHeader

_COMPRESSIONS: Final = {1: "none", 2: "gzip"}  # Iggy protocol 0.11


def observed_stream(stream: Stream) -> ObservedStream:
    """A stream of a listing or by itself."""
    return ObservedStream(stream.id, stream.created_at_us)


def incarnation_of(entity: Stream | TopicHeader) -> str:
    """Its identity beyond the name, as `ObservedStream` and `ObservedTopic` have it."""
    return ObservedStream(entity.id, entity.created_at_us).incarnation


def observed_topic(topic: TopicHeader, groups: frozenset[str]) -> ObservedTopic:
    """A topic of a listing or by itself, and the consumer groups that it has."""
    return ObservedTopic(
        topic_id=topic.id,
        created_at_us=topic.created_at_us,
        partitions_count=topic.partitions_count,
        options=options_of(topic),
        groups=groups,
    )


def options_of(topic: TopicHeader) -> dict[str, OptionValue]:
    """The option values that a broker reports, given ones before derived ones."""
    options: dict[str, OptionValue] = {}
    for option in (*topic.derived, *topic.options):
        value = option.get()
        if isinstance(value, bool | int | str):
            options[option.key] = value
    return options | {
        "compression_algorithm": _COMPRESSIONS.get(topic.compression, str(topic.compression)),
        "message_expiry": topic.message_expiry_us,
        "max_topic_size": topic.max_topic_size_bytes,
    }
