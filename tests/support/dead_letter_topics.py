"""What lies in the topic of dead letters that tests name `dead`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from iggy_spark.messages import read_headers
from iggy_wire import batch
from iggy_wire.batch import Message
from iggy_wire.options import Value
from iggy_wire.primitives import Consumer, PollingStrategy

if TYPE_CHECKING:
    from conftest import Topic


def letters(topic: Topic) -> list[tuple[Message, dict[str, Value]]]:
    polled = topic.client.poll(
        topic.stream,
        "dead",
        0,
        consumer=Consumer.plain("reader"),
        strategy=PollingStrategy.offset(0),
        count=10_000,
        auto_commit=False,
    )
    found = batch.messages(polled.region)
    return [(message, read_headers(memoryview(message.headers))) for message in found]
