"""What lies in a topic, and in that of dead letters, which tests name `dead`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iggy_client import Client
from iggy_spark.messages import read_headers
from iggy_wire import batch
from iggy_wire.batch import Message
from iggy_wire.options import Value
from iggy_wire.primitives import Consumer, PollingStrategy

if TYPE_CHECKING:
    from conftest import Topic

CONTEXT = {
    *("stream", "topic", "partition", "offset", "incarnation"),
    *("timestamp", "origin_timestamp", "id", "sink", "batch", "job_version"),
    *("stage", "error_class", "error", "attempt"),
}
"""What each letter tells of its message; of a sink with a uid also `sink_uid`, of a transform
`transform_index`.
"""


def told_of(headers: dict[str, Value]) -> dict[str, Value]:
    """What a letter's headers tell of the message, without its own."""
    return {
        name.removeprefix("iggy.dlq."): value
        for name, value in headers.items()
        if name.startswith("iggy.dlq.")
    }


def messages_in(client: Client, stream: str, topic: str, partition: int = 0) -> list[Message]:
    """The first 10,000 of a partition."""
    polled = client.poll(
        stream,
        topic,
        partition,
        consumer=Consumer.plain("reader"),
        strategy=PollingStrategy.offset(0),
        count=10_000,
        auto_commit=False,
    )
    return list(batch.messages(polled.region))


def letters(topic: Topic) -> list[tuple[Message, dict[str, Value]]]:
    """Each dead letter, and its headers."""
    found = messages_in(topic.client, topic.stream, "dead")
    return [(message, read_headers(memoryview(message.headers))) for message in found]
