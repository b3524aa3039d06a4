"""Topics with groups, and what tests of members ask again and again."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from broker_process import BrokerProcess
from iggy_client import ClientError, messages
from iggy_client.client import Client
from iggy_wire.batch import Message
from iggy_wire.errors import ErrorCode
from iggy_wire.primitives import Consumer, Partitioning, PollingStrategy
from iggy_wire.replies import Polled

NOT_OWNED = 0xFFFFFFFF
GROUP = Consumer.group("g")
TOPIC = "t"


def make_topic(
    client: Client, *, partitions: int, groups: Sequence[str] = ("g",), per_partition: int = 0
) -> str:
    """A stream with a topic `t`, its groups, and so many messages in each partition; its name."""
    stream = f"groups-{uuid.uuid4().hex[:8]}"
    client.create_stream(stream)
    client.create_topic(stream, TOPIC, partitions)
    for group in groups:
        client.create_group(stream, TOPIC, group)
    for partition in range(partitions):
        fill(client, stream, partition, per_partition)
    return stream


def fill(client: Client, stream: str, partition: int, count: int) -> None:
    """Send so many messages."""
    if count:
        sent = [Message(f"{partition}/{number}".encode()) for number in range(count)]
        client.send(stream, TOPIC, Partitioning.partition(partition), sent)


def read(
    client: Client,
    stream: str,
    partition: int,
    *,
    count: int = 100,
    auto_commit: bool = False,
    strategy: PollingStrategy | None = None,
) -> Polled:
    """Poll for group `g`."""
    return client.poll(
        stream,
        TOPIC,
        partition,
        consumer=GROUP,
        count=count,
        auto_commit=auto_commit,
        strategy=strategy,
    )


def offsets(polled: Polled) -> list[int]:
    """The offsets of what was polled."""
    return [message.offset for message in messages(polled)]


def owned(client: Client, stream: str) -> tuple[int, ...] | None:
    """What the client may poll for group `g`; None if it is no member."""
    found = client.sync_group(stream, TOPIC, "g")
    return None if found is None else found.partitions


def members(client: Client, stream: str) -> dict[int, tuple[int, ...]]:
    """The members of group `g` by slot."""
    found = client.get_group(stream, TOPIC, "g")
    assert found is not None
    assert found.group.members_count == len(found.members)
    return {member.id: member.partitions for member in found.members}


def wait_for(condition: Callable[[], bool], *, within_s: float = 10.0) -> float:
    """Wait until the condition holds; how long it took."""
    started = time.monotonic()
    while not condition():
        assert time.monotonic() - started < within_s, "it never came to hold"
        time.sleep(0.002)
    return time.monotonic() - started


def offset_files(data: Path) -> list[Path]:
    """Files of stored group offsets in a data directory."""
    return sorted(data.glob("streams/*/topics/*/partitions/*/offsets/groups/*"))


def code_of(error: object) -> int:
    """The number of a refusal that pytest caught."""
    value = getattr(error, "value", error)
    return int(getattr(value, "code", ErrorCode.ERROR))


def clients(broker: BrokerProcess, stack: ExitStack, count: int) -> list[Client]:
    return [stack.enter_context(broker.client()) for _ in range(count)]


def joined(broker: BrokerProcess, stack: ExitStack, stream: str, count: int) -> list[Client]:
    made = clients(broker, stack, count)
    for client in made:
        client.join_group(stream, TOPIC, "g")
    return made


def refusal(work: object, *args: object) -> int:
    assert callable(work)
    with pytest.raises(ClientError) as error:
        work(*args)
    return code_of(error)
