"""What tests of `iggykube consume` do with a topic of two partitions."""

from __future__ import annotations

import subprocess

from cli_program import TopicProgram
from iggy_client.client import Message
from iggy_wire.primitives import Consumer, Partitioning


def fill(topic: TopicProgram, per_partition: int, start: int = 0) -> None:
    """Partition 0 gets a0, a1, …, partition 1 b0, b1, …"""
    numbers = range(start, start + per_partition)
    with topic.client() as client:
        for partition, letter in enumerate("ab"):
            messages = [Message(f"{letter}{number}".encode()) for number in numbers]
            client.send(topic.stream, "orders", Partitioning.partition(partition), messages)


def committed(topic: TopicProgram, group: str, partition: int) -> int | None:
    """The last offset that the group has stored."""
    with topic.client() as client:
        place = (topic.stream, "orders", partition)
        found = client.get_offset(Consumer.group(group), *place)
    return None if found is None else found.stored_offset


def members(topic: TopicProgram, group: str) -> int:
    """How many the group has now."""
    with topic.client() as client:
        found = client.get_group(topic.stream, "orders", group)
    return 0 if found is None else found.group.members_count


def start(topic: TopicProgram, *arguments: str) -> subprocess.Popen[bytes]:
    """Run `consume`, with pipes for what it writes."""
    return subprocess.Popen(
        topic.command("consume", *arguments),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=topic.environment,
    )
